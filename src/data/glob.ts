/** File patterns: `*` and `?` within a name, `**` for any folders, `{a,b}` for alternatives. */
import { lstatSync, readdirSync, type Stats, statSync } from "node:fs";
import { join } from "node:path";
import { UserError } from "../base/errors.ts";

/** Patterns that braces may stand for: ten pairs that follow each other are 1024. */
const mostAlternatives = 10_000;

export function isGlob(path: string): boolean {
  return /[*?{]/.test(path);
}

/**
 * Paths of the files a pattern matches, unsorted. Hidden names match only where the pattern spells the dot; `**` goes into no link,
 * so there are no circles.
 * @throws UserError where its braces stand for too many patterns
 */
export function expandGlob(pattern: string): string[] {
  const normal = pattern.replaceAll("\\", "/");
  const patterns: string[] = [];
  for (const one of expandBraces(normal)) {
    patterns.push(one);
    if (patterns.length > mostAlternatives) throw tooMany(pattern);
  }
  const found = new Set<string>();
  for (const one of patterns) for (const path of expandStars(one)) found.add(path);
  return [...found];
}

const tooMany = (pattern: string) =>
  new UserError(
    "E_DATASET_PATH",
    `the braces of ${pattern.length > 200 ? `${pattern.slice(0, 200)}…` : pattern} stand for more than ${mostAlternatives.toLocaleString("en")} patterns: use * for names that are alike, or name the folder`,
  );

/** The patterns that alternatives stand for, in order. They may lie in each other; a brace without its other one is itself. */
export function* expandBraces(pattern: string): Generator<string, void> {
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
    for (const [i, end] of ends.entries()) {
      const begin = (ends[i - 1] ?? open) + 1;
      yield* expandBraces(before + pattern.slice(begin, end) + after);
    }
    return;
  }
  yield pattern;
}

function expandStars(normal: string): Iterable<string> {
  const parts = normal.split("/").filter((part, i) => part !== "" || i === 0);
  const wild = parts.findIndex((part) => /[*?]/.test(part));
  const fixed = wild < 0 ? parts.length - 1 : wild;
  const root = normal.startsWith("/") ? "/" : "";
  const base = parts.slice(0, fixed).filter((part) => part !== "");
  return walk(root + base.join("/"), parts.slice(fixed), new Set());
}

/** @param seen folders with what is left to match there, which several ways may lead to */
function* walk(folder: string, parts: readonly string[], seen: Set<string>): Generator<string, void> {
  const [part, ...rest] = parts;
  const state = JSON.stringify([folder, parts]);
  if (part === undefined || seen.has(state)) return;
  seen.add(state);
  if (part === "**") {
    yield* walk(folder, rest.length > 0 ? rest : ["*"], seen);
    for (const name of namesIn(folder)) {
      const path = join(folder, name);
      const isLink = () => lstatSync(path, { throwIfNoEntry: false })?.isSymbolicLink();
      if (!name.startsWith(".") && isFolder(path) && !isLink()) yield* walk(path, parts, seen);
    }
    return;
  }
  const matches = nameMatcher(part);
  for (const name of namesIn(folder)) {
    if (!matches(name)) continue;
    const path = join(folder, name);
    if (rest.length > 0) {
      if (isFolder(path)) yield* walk(path, rest, seen);
    } else if (statIfThere(path)?.isFile()) yield path;
  }
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

const isFolder = (path: string): boolean => statIfThere(path)?.isDirectory() ?? false;

/** What a path is; undefined where nothing is there, as behind a broken link. @throws the system's error where it can't tell */
export function statIfThere(path: string): Stats | undefined {
  try {
    return statSync(path, { throwIfNoEntry: false });
  } catch (error) {
    if (/^(ELOOP|ENAMETOOLONG)$/.test((error as NodeJS.ErrnoException).code ?? "")) return undefined;
    throw error;
  }
}
