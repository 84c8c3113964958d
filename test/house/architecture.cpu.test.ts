/** The tutorial of docs/architecture.md: its commands are run, and what it quotes of their output must still be in it. */
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { beforeAll, describe, expect, it } from "vitest";
import { ensureBuilt, halfbyte } from "../train/halfbyte.ts";

const text = readFileSync(fileURLToPath(new URL("../../docs/architecture.md", import.meta.url)), "utf8");
const sessions = [...text.matchAll(/```console\n\$ halfbyte ([^\n]*)\n([^`]*)```/g)].map((match) => ({
  args: match[1]!.split(" "),
  quoted: match[2]!.trimEnd().split("\n"),
}));

/** Without the numbers of values and the widths of columns, which change with every operation that is added elsewhere. */
const normal = (line: string) =>
  line
    .trim()
    .replace(/%\d+|\.\d+(?=[ ),])/g, "%")
    .replace(/ +/g, " ");

beforeAll(ensureBuilt);

describe("the tutorial of docs/architecture.md", () => {
  it("goes through every stage", () => {
    const stages = sessions.map(({ args }) => args.find((arg) => arg.startsWith("stage=")));
    expect(stages).toEqual(["stage=trace", "stage=grad", "stage=stablehlo", "stage=hlo"]);
  });

  it.each(sessions)("quotes halfbyte $args", async ({ args, quoted }) => {
    const { exitCode, stdout } = await halfbyte(args);
    expect(exitCode).toBe(0);
    const lines = stdout.split("\n").map(normal);
    for (const line of quoted) {
      const [begin = ""] = normal(line).split("…");
      const found = line.endsWith("…") ? lines.some((x) => x.startsWith(begin)) : lines.includes(begin);
      expect(found, `${line}\nin\n${stdout}`).toBe(true);
    }
  });
});
