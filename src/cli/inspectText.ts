/** What `halfbyte inspect` prints: operations line by line with their scopes, then what they amount to. */
import { showScope } from "../core/index.ts";
import { type Counts, type ListedOperation, largeCopyBytes, type Tally } from "../lower/index.ts";
import type { MemoryStats } from "../pjrt/index.ts";

const widestScope = 36;
/** Longer lines are cut: a call's attributes, a constant's values. */
const widestText = 160;

/** The first `most` operations, scopes in a column of their own, and how many are not shown. */
export function showOperations(operations: readonly ListedOperation[], most: number): string[] {
  const shown = operations.slice(0, most);
  const scopes = shown.map(({ scope, repeats }) => `${showScope(scope) || "-"}${repeats === 1 ? "" : ` ×${repeats}`}`);
  const width = Math.min(widestScope, Math.max(0, ...scopes.map((scope) => scope.length)));
  const lines = shown.map(({ text }, i) => `${scopes[i]!.padEnd(width)}  ${cut(text)}`);
  const hidden = operations.length - shown.length;
  if (hidden === 0) return lines;
  return [...lines, `… ${grouped(hidden)} more lines: narrow them by op=… and layer=…, or set lines=all`];
}

/** The counts of `what`, a table a kind. */
export function showCounts(counts: Counts, what: string): string[] {
  const copies = `copies of more than ${quantity(largeCopyBytes, "B")}`;
  return [
    `${what}: ${grouped(counts.operations)}`,
    `FLOPs of contractions: ${quantity(counts.flops, "FLOP")}`,
    `bytes read and written, each operation by itself: ${quantity(counts.bytes, "B")}`,
    ...table(
      "contractions",
      ["format", "pass", "calls", "FLOPs", "share"],
      counts.gemms.map((x) => [
        x.format,
        x.pass,
        grouped(x.calls),
        quantity(x.flops, "FLOP"),
        `${((100 * x.flops) / (counts.flops || 1)).toFixed(1)} %`,
      ]),
    ),
    ...tallies("converts", counts.converts),
    ...tallies(copies, counts.copies),
    ...tallies("custom calls", counts.customCalls),
    ...tallies("most bytes", counts.topByBytes),
  ];
}

export function showMemory(memory: MemoryStats): string {
  const parts = [
    `${quantity(memory.argumentBytes, "B")} of state and batch`,
    `${quantity(memory.aliasBytes, "B")} of it updated in place`,
    `${quantity(memory.temporaryBytes, "B")} temporary`,
  ];
  return `memory of the compiled step: ${parts.join(", ")}`;
}

function tallies(title: string, list: readonly Tally[]): string[] {
  const rows = list.map(({ name, calls, bytes }) => [name, grouped(calls), bytes > 0 ? quantity(bytes, "B") : ""]);
  return table(title, ["", "calls", "bytes"], rows);
}

/** A title and aligned rows under it; numbers to the right. */
export function table(title: string, header: readonly string[], rows: readonly (readonly string[])[]): string[] {
  if (rows.length === 0) return [`${title}: none`];
  const all = [header, ...rows];
  const widths = header.map((_, i) => Math.max(...all.map((cells) => cells[i]!.length)));
  const isNumber = (i: number) => rows.every((cells) => /^[\d.,]+( |$)|^$/.test(cells[i]!));
  const line = (cells: readonly string[]) =>
    cells.map((cell, i) => (isNumber(i) ? cell.padStart(widths[i]!) : cell.padEnd(widths[i]!))).join("  ");
  return [`${title}:`, ...all.map((cells) => `  ${line(cells)}`.trimEnd())];
}

/** 1234567 B → "1.235 MB". */
export function quantity(value: number, unit: string): string {
  const prefixes = ["", "k", "M", "G", "T", "P"];
  const power = value < 1000 ? 0 : Math.min(prefixes.length - 1, Math.floor(Math.log10(value) / 3));
  const scaled = value / 1000 ** power;
  return `${power === 0 ? scaled : scaled.toPrecision(4)} ${prefixes[power]}${unit}`;
}

export const grouped = (value: number): string => value.toLocaleString("en");

const cut = (text: string): string => (text.length <= widestText ? text : `${text.slice(0, widestText - 1)}…`);
