/** Whether oneDNN's products may be used, as the environment says. */
import { UserError } from "../base/errors.ts";

const [on, off] = [
  ["1", "on", "true", "auto"],
  ["0", "off", "false"],
];

/** HALFBYTE_ONEDNN; without it they are used where they are there and right. @throws UserError for any other word */
export function oneDnnWanted(): boolean {
  const chosen = process.env.HALFBYTE_ONEDNN;
  if (!chosen || on!.includes(chosen)) return true;
  if (off!.includes(chosen)) return false;
  throw new UserError(
    "E_ONEDNN",
    `HALFBYTE_ONEDNN is "${chosen}"; it may be ${off!.join(", ")} (without oneDNN's products) or ${on!.join(", ")}`,
  );
}
