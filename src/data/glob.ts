/** File patterns: `*` and `?` within a name, `**` for any folders, `{a,b}` for alternatives. */
import { readdirSync, statSync } from "node:fs";
import { join } from "node:path";

export function isGlob(path: string): boolean {
  return /[*?{]/.test(path);
}

/** Paths of the files a pattern matches, unsorted. Hidden names match only where the pattern spells the dot. */
export function expandGlob(pattern: string): string[] {
  const normal = pattern.replaceAll("\\", "/");
  return [...new Set(expandBraces(normal).flatMap(expandStars))];
}

/** The patterns that alternatives stand for, in order. They may lie in each other; a brace without its other one is itself. */
export function expandBraces(pattern: string): string[] {
  for (let open = pattern.indexOf("{"); open >= 0; open = pattern.indexOf("{", open + 1)) {
    // Of each alternative the end: a comma, or the brace that closes.
    const ends: number[] = [];
    let depth = 1;
    let at = open + 1;
    for (; at < pattern.length && depth > 0; at++) {
      if (pattern[at] === "{") depth++;
      else if (pattern[at] === "}") depth--;
      if (depth === 0 || (depth === 1 && pattern[at] === ",")) ends.push(at);
    }
    if (depth > 0) continue;
    const [before, after] = [pattern.slice(0, open), pattern.slice(at)];
    return ends.flatMap((end, i) => {
      const begin = (ends[i - 1] ?? open) + 1;
      return expandBraces(before + pattern.slice(begin, end) + after);
    });
  }
  return [pattern];
}

function expandStars(normal: string): string[] {
  const parts = normal.split("/").filter((part, i) => part !== "" || i === 0);
  const wild = parts.findIndex((part) => /[*?]/.test(part));
  const fixed = wild < 0 ? parts.length - 1 : wild;
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

/** Tests one name against one part of a pattern, in which `*` and `?` have a meaning. */
export function nameMatcher(part: string): (name: string) => boolean {
  const body = part.replace(/[\\^$.+()[\]|*?{}]/g, (char) => (char === "*" ? ".*" : char === "?" ? "." : `\\${char}`));
  const regex = new RegExp(`^${body}$`, "su");
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
