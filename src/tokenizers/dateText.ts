/** Dates as Python's strftime writes them in the C locale, whatever this machine's. */

const months = "January February March April May June July August September October November December".split(" ");
const days = "Sunday Monday Tuesday Wednesday Thursday Friday Saturday".split(" ");
const two = (value: number) => String(value).padStart(2, "0");

const directives: Readonly<Record<string, (date: Date) => string>> = {
  "%": () => "%",
  A: (date) => days[date.getDay()]!,
  a: (date) => days[date.getDay()]!.slice(0, 3),
  B: (date) => months[date.getMonth()]!,
  b: (date) => months[date.getMonth()]!.slice(0, 3),
  d: (date) => two(date.getDate()),
  e: (date) => String(date.getDate()).padStart(2),
  F: (date) => dateText(date, "%Y-%m-%d"),
  H: (date) => two(date.getHours()),
  I: (date) => two(date.getHours() % 12 || 12),
  j: (date) => String(dayOfYear(date)).padStart(3, "0"),
  M: (date) => two(date.getMinutes()),
  m: (date) => two(date.getMonth() + 1),
  p: (date) => (date.getHours() < 12 ? "AM" : "PM"),
  S: (date) => two(date.getSeconds()),
  T: (date) => dateText(date, "%H:%M:%S"),
  Y: (date) => String(date.getFullYear()),
  y: (date) => two(date.getFullYear() % 100),
};

const dayOfYear = (date: Date) =>
  (Date.UTC(date.getFullYear(), date.getMonth(), date.getDate()) - Date.UTC(date.getFullYear(), 0, 0)) / 86_400_000;

/** `date` in local time by a strftime format; `%-d` is %d without its zeros. @throws Error for a directive it does not know */
export function dateText(date: Date, format: string): string {
  return format.replace(/%(-?)(.?)/gs, (whole, bare: string, letter: string) => {
    const text = directives[letter]?.(date);
    if (text === undefined) throw new Error(`strftime_now: ${JSON.stringify(whole)} is not supported`);
    return bare === "" ? text : text.replace(/^[0 ]+(?=.)/, "");
  });
}
