/** JSON of files that may come from anywhere. */

/** Far beyond what any format here needs, and far from where code that follows the nesting would run out of stack. */
const deepest = 256;

/** @throws SyntaxError where it is no JSON, or nested deeper than 256 */
export function parseJson(text: string): unknown {
  const value: unknown = JSON.parse(text);
  if (isDeeper(value, deepest)) throw new SyntaxError(`it is nested deeper than ${deepest}`);
  return value;
}

function isDeeper(value: unknown, than: number): boolean {
  if (typeof value !== "object" || value === null) return false;
  if (than === 0) return true;
  return (Array.isArray(value) ? value : Object.values(value)).some((inner) => isDeeper(inner, than - 1));
}
