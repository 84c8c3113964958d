/** Patterns of dotted names, as people write them: `*` is any text, dots included, `?` any one character. */
export function namePattern(pattern: string): RegExp {
  const source = pattern.replaceAll(/[.*+?^${}()|[\]\\]/g, (char) =>
    char === "*" ? ".*" : char === "?" ? "." : `\\${char}`,
  );
  return new RegExp(`^${source}$`, "s");
}
