/**
 * Chat templates run as Python's Jinja runs them, over Python's values: text of a parsed template and its variables. The library's own
 * interpreter compares, prints and scopes as JavaScript does, which no rewriting of its tree mends.
 */
export type { Node } from "./nodes.ts";
export { runTemplate } from "./runTemplate.ts";
export { stripEnd } from "./text.ts";
export { toValue, UnwrittenNone } from "./values.ts";
