import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { parseArguments } from "../../src/cli/arguments.ts";

describe("parseArguments", () => {
  it("reads settings, switches and words in any order", () => {
    const { settings, flags, words } = parseArguments(["--json", "steps=10", "file.txt", "run_name=a=b", "note="], {
      maxWords: 1,
    });
    expect({ ...settings }).toEqual({ steps: "10", run_name: "a=b", note: "" });
    expect([...flags]).toEqual(["json"]);
    expect(words).toEqual(["file.txt"]);
  });

  it("keeps every value as it was written", () => {
    fc.assert(
      fc.property(fc.stringMatching(/^[a-z_][a-z0-9_.]{0,20}$/), fc.string(), (key, value) => {
        expect(parseArguments([`${key}=${value}`]).settings[key]).toBe(value);
      }),
    );
  });

  it.each([
    [["steps=1", "steps=2"], {}, "E_KEY", "steps is set twice (steps=1 and steps=2): keep one"],
    [["--steps=10"], {}, "E_OPTION", 'unknown option "--steps=10"; settings are written without dashes: steps=10'],
    [
      ["--run-name", "x"],
      {},
      "E_OPTION",
      'unknown option "--run-name"; settings are written without dashes: run_name=x',
    ],
    [
      ["--batch-size", "3"],
      {},
      "E_OPTION",
      'unknown option "--batch-size"; settings are written without dashes; did you mean per_device_batch_size=3?',
    ],
    [["--lr=0.1"], {}, "E_OPTION", "did you mean learning_rate=0.1?"],
    [["--steps", "--json"], {}, "E_OPTION", "without dashes: steps=VALUE"],
    [["--qwertyuiop"], {}, "E_OPTION", "without dashes, and `halfbyte explain` lists them"],
    [["--stage", "grad"], { ownKeys: ["stage"] }, "E_OPTION", "without dashes: stage=grad"],
    [["--vocab-sise=5"], { keys: ["vocab_size"] }, "E_OPTION", "did you mean vocab_size=5?"],
    [["--batch-size"], { keys: [] }, "E_OPTION", 'unknown option "--batch-size"; known are --json, --help'],
    [["--jsn"], {}, "E_OPTION", 'unknown option "--jsn"; did you mean --json?'],
    [["--fst"], { flags: ["fast"] }, "E_OPTION", 'unknown option "--fst"; did you mean --fast?'],
    [["ten"], {}, "E_ARGUMENT", 'unexpected argument "ten": settings are written key=value'],
    [["stps=1"], { keys: ["steps", "seed"] }, "E_KEY", 'unknown key "stps"; did you mean "steps"?'],
    [["x_y_z=1"], { keys: ["steps"] }, "E_KEY", 'unknown key "x_y_z"; known are steps'],
    [["x=1"], { keys: [] }, "E_ARGUMENT", 'unexpected argument "x=1": this command takes no settings'],
  ])("%j with %j is the user's mistake", (args, rules, code, message) => {
    expect(() => parseArguments(args, rules)).toThrow(
      expect.objectContaining({ code, message: expect.stringContaining(message) }),
    );
  });

  it("is not fooled by names that objects have", () => {
    expect(parseArguments(["constructor=1", "toString=2"]).settings.constructor).toBe("1");
  });
});
