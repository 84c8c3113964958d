/** Environment variables that turn something on or off: all take the same words. */

/** The words, as messages list them. */
export const switchWords = { on: ["1", "on", "true", "auto"], off: ["0", "off", "false"] } as const;

/** Whether the variable is on; so it is where it is not set. @throws what `refuse` makes of any other word */
export function environmentSwitch(name: string, refuse: (given: string) => Error): boolean {
  const given = process.env[name];
  const isOneOf = (words: readonly string[]) => words.includes(given ?? "");
  if (!given || isOneOf(switchWords.on)) return true;
  if (isOneOf(switchWords.off)) return false;
  throw refuse(given);
}
