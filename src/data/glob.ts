/** File patterns: `*` and `?` within a name, `**` for any folders, `{a,b}` for alternatives. */
import { readdirSync, statSync } from "node:fs";
import { join } from "node:path";

export function isGlob(path: string): boolean {
  return /[*?{]/.test(path);
}

/** Paths of the files a pattern matches, unsorted. Hidden names match only where the pattern spells the dot. */
export function expandGlob(pattern: string): string[] {
  const normal = pattern.replaceAll("\\", "/");
  const parts = normal.split("/").filter((part, i) => part !== "" || i === 0);
  const fixed = parts.findIndex(isGlob);
  const root = normal.startsWith("/") ? "/" : "";
  const base = parts.slice(0, fixed).filter((part) => part !== "");
  return walk(root + base.join("/"), parts.slice(fixed));
}

function walk(folder: string, parts: readonly string[]): string[] {
  const [part, ...rest] = parts;
  if (part === undefined) return [];
  const found: string[] = [];
  if (part === "**") {
    found.push(...walk(folder, rest.length > 0 ? rest : ["*"]));
    for (const name of namesIn(folder)) {
      const path = join(folder, name);
      if (!name.startsWith(".") && isFolder(path)) found.push(...walk(path, parts));
    }
    return [...new Set(found)];
  }
  const matches = nameMatcher(part);
  for (const name of namesIn(folder)) {
    if (!matches(name)) continue;
    const path = join(folder, name);
    if (rest.length > 0) {
      if (isFolder(path)) found.push(...walk(path, rest));
    } else if (!isFolder(path)) found.push(path);
  }
  return found;
}

/** Tests one name against one part of a pattern. */
export function nameMatcher(part: string): (name: string) => boolean {
  const body = part.replace(/[\\^$.+()[\]|*?{},]/g, (char) => {
    if (char === "*") return ".*";
    if (char === "?") return ".";
    if (char === "{") return "(?:";
    if (char === "}") return ")";
    if (char === ",") return "|";
    return `\\${char}`;
  });
  const regex = new RegExp(`^(?:${body})$`, "su");
  return (name) => regex.test(name) && (!name.startsWith(".") || part.startsWith("."));
}

function namesIn(folder: string): string[] {
  try {
    return readdirSync(folder === "" ? "." : folder);
  } catch {
    return []; // no such folder, or not readable: nothing there matches
  }
}

function isFolder(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isDirectory() ?? false;
}
