/** Whether oneDNN's products may be used, as the environment says. */
import { environmentSwitch, switchWords } from "../base/environmentSwitch.ts";
import { UserError } from "../base/errors.ts";

/** HALFBYTE_ONEDNN; without it they are used where they are there and right. @throws UserError for any other word */
export function oneDnnWanted(): boolean {
  const { on, off } = switchWords;
  return environmentSwitch("HALFBYTE_ONEDNN", (given) => {
    const words = `${off.join(", ")} (without oneDNN's products) or ${on.join(", ")}`;
    return new UserError("E_ONEDNN", `HALFBYTE_ONEDNN is "${given}"; it may be ${words}`);
  });
}
