/** How much longer the steps of a tokenizer.json may make a text: a few hundred bytes of such a file could fill all memory. */
import { isObject, type Json, type Refuse, show, stepsOf } from "./tokenizerParts.ts";

/** Characters for one, of all steps together. Those in use make 1 of 1. */
const mostGrowth = 64;
/** Of what is put before a text. */
const longestPrepend = 1024;

/** @throws UserError through `refuse` where a normalizer or decoder makes much of little */
export function refuseGrowth(file: Json, refuse: Refuse): void {
  for (const part of ["normalizer", "decoder"] as const) {
    let growth = 1;
    for (const step of stepsOf(file[part], `${part}s`)) {
      growth *= growthOf(step);
      if (growth > mostGrowth)
        refuse(
          `${part} ${show(step)} makes a text up to ${Math.ceil(growth)} times as long; ${mostGrowth} times is the most`,
        );
      if (typeof step.prepend === "string" && step.prepend.length > longestPrepend)
        refuse(`${part} ${show(step)} puts more than ${longestPrepend} characters before a text`);
    }
  }
}

function growthOf({ type, pattern, content, replacement }: Json): number {
  if (type === "Metaspace") return Math.max(1, typeof replacement === "string" ? replacement.length : 1);
  if (type !== "Replace" || typeof content !== "string" || !isObject(pattern)) return 1;
  const { String: text, Regex: expression } = pattern;
  if (typeof text === "string" && text !== "") return Math.max(1, content.length / text.length);
  if (typeof expression === "string" && !mayMatchNothing(expression)) return Math.max(1, content.length);
  return 1 + content.length; // between all characters
}

function mayMatchNothing(expression: string): boolean {
  if (/\\[bBGAzZ]|\(\?[=!<]|[\^$]/.test(expression.replace(/\[\^/g, "["))) return true;
  try {
    return new RegExp(expression, "u").test("");
  } catch {
    return true;
  }
}
