/** Where settings come from, through the commands that show them, as processes: presets, files, runs, the command line. */
import { join } from "node:path";
import fc from "fast-check";
import { beforeAll, describe, expect, it } from "vitest";
import { parseStrictly } from "../../src/cli/settingsFile.ts";
import { temporaryFolder } from "../data/temporaryFiles.ts";
import { ensureBuilt, halfbyte } from "../train/halfbyte.ts";

beforeAll(ensureBuilt);

const shown = async (...args: readonly string[]): Promise<Record<string, unknown>> => {
  const { exitCode, stdout, stderr } = await halfbyte(["config", "show", ...args, "--json"]);
  expect({ exitCode, stderr }).toEqual({ exitCode: 0, stderr: "" });
  return JSON.parse(stdout);
};
const refused = async (args: readonly string[]): Promise<string> => {
  const { exitCode, stdout, stderr } = await halfbyte(args);
  expect({ exitCode, stdout }).toEqual({ exitCode: 2, stdout: "" });
  return stderr;
};
const jsonFile = (settings: unknown) => join(temporaryFolder({ "mine.json": JSON.stringify(settings) }), "mine.json");

describe("a user's own preset", () => {
  it("is a module of one short function", async () => {
    const path = join(
      temporaryFolder({
        "mine.mjs": 'export default (presets) => ({ ...presets["llama-tiny"](), steps: 50, quantization: "nvfp4" });\n',
      }),
      "mine.mjs",
    );
    expect(await shown(path, "learning_rate=1e-4")).toMatchObject({
      emb_dim: 64,
      steps: 50,
      quantization: "nvfp4",
      learning_rate: 1e-4,
    });
  });

  it("is refused with what is wrong with it", async () => {
    const folder = temporaryFolder({
      "typo.mjs": 'export default () => ({ stps: 50, lr_schedule_type: "cosin" });',
      "none.mjs": "export const steps = 5;",
      "broken.mjs": "export default (",
      "number.js": "export default () => 5;",
      "typed.ts": "export default (): object => ({});",
    });
    const said = (file: string) => refused(["train", join(folder, file), "dataset_type=synthetic"]);
    expect(await said("typo.mjs")).toMatch(
      /2 things are wrong:\n {2}in .*typo\.mjs: unknown key "stps"; did you mean steps\?.*\n {2}in .*typo\.mjs: lr_schedule/,
    );
    expect(await said("none.mjs")).toContain("its default export must be a function that returns settings");
    expect(await said("broken.mjs")).toContain("broken.mjs: can't be loaded (");
    expect(await said("number.js")).toContain("must return an object of settings");
    if (!(process.features as { typescript?: unknown }).typescript) {
      expect(await said("typed.ts")).toContain("loads no TypeScript: write it as .mjs, or compile it");
    }
    expect(await said("missing.mjs")).toContain("missing.mjs: there is no such file");
  });

  it("may fail, or ask for presets that do not exist: a mistake of its own, told with its name", async () => {
    const folder = temporaryFolder({
      "throws.mjs": 'export default () => { throw new Error("boom"); };',
      "throwsText.mjs": 'export default () => { throw "boom"; };',
      "rejects.mjs": 'export default async () => { throw new Error("boom"); };',
      "top.mjs": 'throw new Error("boom"); export default () => ({});',
      "unknown.mjs": 'export default (presets) => presets["llama3-9b"]();',
      "spread.mjs": "export default ({ ...all }) => ({ steps: Object.keys(all).length });",
    });
    const said = async (file: string) =>
      (await refused(["config", "show", join(folder, file)])).replace(`${folder}/`, "");
    expect(await said("throws.mjs")).toBe("halfbyte: throws.mjs: boom\n");
    expect(await said("throwsText.mjs")).toBe("halfbyte: throwsText.mjs: boom\n");
    expect(await said("rejects.mjs")).toBe("halfbyte: rejects.mjs: boom\n");
    expect(await said("top.mjs")).toBe("halfbyte: top.mjs: can't be loaded (boom)\n");
    expect(await said("unknown.mjs")).toBe(
      'halfbyte: unknown.mjs: unknown preset "llama3-9b"; did you mean "llama3-8b"?\n',
    );
    expect(await shown(join(folder, "spread.mjs"))).toMatchObject({ steps: 5 });
    const { stdout, exitCode } = await halfbyte(["train", join(folder, "throws.mjs"), "--json"]);
    expect([exitCode, JSON.parse(stdout).error.code]).toEqual([2, "E_PRESET"]);
  });
});

describe("a file of settings", () => {
  it("lies between the preset and the command line, with the same forms of numbers", async () => {
    const path = jsonFile({ learning_rate: "5e-5", adam_eps: 1e-9, steps: "1_000", warmup_steps_fraction: "0.001" });
    const numbers = { learning_rate: 5e-5, adam_eps: 1e-9, warmup_steps_fraction: 0.001 };
    expect(await shown("llama-tiny", `config=${path}`)).toMatchObject({ ...numbers, steps: 1000, emb_dim: 64 });
    expect(await shown(path, "steps=7")).toMatchObject({ ...numbers, steps: 7, emb_dim: 256 });
  });

  it("is checked like the command line: names, sections, types, values", async () => {
    const path = jsonFile({
      learningrate: 1e-4,
      optimizer: { steps: 5 },
      "num-epochs": 3,
      max_target_length: "long",
      per_device_batch_size: true,
      lr_schedule_type: "cosin",
    });
    const said = await refused(["train", "llama-tiny", `config=${path}`, "dataset_type=synthetic", "adam_b1=1.5"]);
    expect(said.replaceAll(path, "FILE").trimEnd().split("\n")).toEqual([
      "halfbyte: 7 things are wrong:",
      '  in FILE: unknown key "learningrate"; did you mean learning_rate? (optimizer: Peak learning rate of AdamW)',
      '  in FILE: unknown key "optimizer.steps"; did you mean steps? (run: Training steps) Keys are written without a section',
      '  in FILE: unknown key "num-epochs"; did you mean steps? (run: Training steps; the text is read again as often as steps needs)',
      "  in FILE: max_target_length=long: must be an integer at least 1 (data: Tokens in a training sequence)",
      expect.stringMatching(/^ {2}in FILE: per_device_batch_size=true: must be an integer at least 1 \(data: /),
      expect.stringMatching(
        /^ {2}in FILE: lr_schedule_type=cosin: must be one of .*; did you mean cosine\? \(optimizer: /,
      ),
      expect.stringMatching(/^ {2}adam_b1=1\.5: must be a number at least 0 and below 1 \(optimizer: /),
    ]);
  });

  it("is refused where it is none", async () => {
    const folder = temporaryFolder({ "text.json": "steps: 5", "list.json": "[1]" });
    const said = (file: string) => refused(["config", "show", `config=${join(folder, file)}`]);
    expect(await said("text.json")).toContain("text.json: line 1, column 1: expected a value");
    expect(await said("list.json")).toContain("list.json: must be a JSON object of settings");
    expect(await said("none.json")).toContain("none.json: there is no such file");
    const list = join(folder, "list.json");
    expect(await refused(["config", "show", jsonFile({}), `config=${list}`])).toContain("are two files of settings");
  });

  it("may be what config show --json printed", async () => {
    const keys = await shown("llama3-8b", "quantization=te_nvfp4", "lr_warmup_iters=5");
    expect(await shown(jsonFile(keys))).toEqual(keys);
  });
});

describe("what a file of settings may hold", () => {
  const parse = (text: string) => () => parseStrictly(text, "FILE");

  it("is JSON as JSON.parse reads it", () => {
    fc.assert(
      fc.property(
        fc.json(),
        fc.nat(),
        fc.constantFrom("", ",", "}", "]", '"', ":", "0", "e", "x", "\n", "\\"),
        (json, at, more) => {
          const place = at % (json.length + 1);
          const text = json.slice(0, place) + more + json.slice(place + (at % 2));
          let wanted: unknown;
          try {
            wanted = JSON.parse(text);
          } catch {
            expect(parse(text), text).toThrow(/^FILE: line \d+, column \d+: (expected |".*" is set twice)/);
            return;
          }
          try {
            expect(parseStrictly(text, "FILE")).toEqual(wanted);
          } catch (error) {
            expect((error as Error).message, text).toContain("is set twice");
          }
        },
      ),
      { numRuns: 1000 },
    );
  });

  it("is told with the place of a mistake", () => {
    expect(parse('{\n  "steps": 5,\n}\n')).toThrow(
      'FILE: line 3, column 1: expected a key in double quotes, "steps", got }',
    );
    expect(parse('{\n  "steps": 5\n  "x": 1}')).toThrow('line 3, column 3: expected , or }, got "x"');
    expect(parse('{"steps": True}')).toThrow("column 11: expected a value");
    expect(parse('{"steps": 05}')).toThrow("column 11: expected a value");
    expect(parse('{"steps": 5')).toThrow("got the end of the file");
    expect(parse('{"a": 1, "b": [{"a": 1}], "a": 2}')).toThrow('column 27: "a" is set twice: keep one');
    expect(parse("{} {}")).toThrow("column 4: expected the end of the file, got {");
  });

  it("may begin with a byte order mark", async () => {
    const path = join(temporaryFolder({ "mine.json": '\uFEFF{"steps": 5}' }), "mine.json");
    expect(await shown(path)).toMatchObject({ steps: 5 });
  });
});

describe("halfbyte config", () => {
  it("prints what two sets of settings differ in, aligned", async () => {
    const { exitCode, stdout } = await halfbyte([
      "config",
      "diff",
      "llama-tiny",
      "llama-tiny quantization=nvfp4 steps=5",
    ]);
    expect(exitCode).toBe(0);
    expect(stdout).toBe(
      [
        "                              llama-tiny  llama-tiny quantization=nvfp4 steps=5",
        "# optimizer",
        "learning_rate_schedule_steps  200         5",
        "# run",
        "steps                         200         5",
        "rounding_seed                 –           0",
        "# compute",
        "quantization                  none        nvfp4",
        "rht                           –           true",
        "stochastic_rounding           –           true",
        "weight_scaling                –           2d",
        "scale_gain                    –           1",
        "scale_bound                   –           448",
        "row_scaled_activation         –           false",
        "four_over_six                 –           none",
        "precision_policy              –           all_linear",
        "first_layers_bf16             –           0",
        "last_layers_bf16              –           1",
        "precision_switch_step         –           never",
        "packed_residuals              –           false",
        "",
      ].join("\n"),
    );
  });

  it("compares runs by their folders, and gives JSON", async () => {
    const folder = temporaryFolder({ "runs/a/config.json": JSON.stringify(await shown("llama-tiny", "mock=true")) });
    const run = join(folder, "runs", "a");
    const compare = (b: string) => halfbyte(["config", "diff", run, b, "--json"]);
    expect(JSON.parse((await compare("llama-tiny dataset_type=synthetic learning_rate=1")).stdout)).toEqual([
      { key: "learning_rate", group: "optimizer", a: 0.003, b: 1 },
    ]);
    expect((await halfbyte(["config", "diff", run, run])).stdout).toBe("no difference\n");
  });

  it("names what it does not understand", async () => {
    expect(await refused(["config", "dif", "a", "b"])).toContain('unknown action "dif"; did you mean "diff"?');
    expect(await refused(["config", "diff", "demo"])).toContain("diff compares two sets of settings; got 1: demo");
    expect(await refused(["config", "diff", "demo", "demmo"])).toContain(
      'unknown preset "demmo"; did you mean "demo"?',
    );
    expect(await refused(["config"])).toContain("known are show and diff");
    expect(await refused(["train", "configs/base.yml"])).toContain("YAML is not read; leave out MaxText's base.yml");
    expect(await refused(["train", "runs/none"])).toContain("runs/none is no folder of a run: it has no config.json");
  });
});

describe("halfbyte explain", () => {
  it("knows keys, other spellings, keys of MaxText, presets, models and recipes", async () => {
    const { exitCode, stdout } = await halfbyte([
      ...["explain", "wsd_decay_steps_fraction", "train_iters", "mock", "ici_fsdp_parallelism"],
      ...["llama3-8b", "te_nvfp4_no_rht"],
    ]);
    expect(exitCode).toBe(0);
    expect(stdout).toContain("wsd_decay_steps_fraction (optimizer; read by src/optim)\n");
    expect(stdout).toContain("Has an effect only with lr_schedule_type=wsd.");
    expect(stdout).toMatch(/^steps \(run; read by src\/train\)\n(.*\n)*? {2}Also written train_iters\.$/m);
    expect(stdout).toContain("mock (another spelling)\n  Megatron Bridge's: true is dataset_type=synthetic");
    expect(stdout).toContain("ici_fsdp_parallelism (a key of MaxText)\n  Accepted where it asks for nothing: 1, -1.");
    expect(stdout).toContain("llama3-8b (preset)\n  dataset_type=synthetic\n");
    expect(stdout).toContain("llama3-8b (model_name)\n  8,030,261,248 parameters;");
    expect(stdout).toMatch(
      /^te_nvfp4_no_rht \(quantization\)\n {2}fprop: .*\n.*\n {2}wgrad: e2m1 1x16 stochastic \(biased\) × e2m1 1x16\n {2}precision_policy=mlp_only; no block/m,
    );
  });

  it("lists everything, and names the nearest to a mistake", async () => {
    const { stdout } = await halfbyte(["explain"]);
    expect(stdout).toMatch(/^learning_rate +Peak learning rate/m);
    expect(stdout).toMatch(/^# presets .*\nllama-tiny, llama3-8b, /m);
    expect(await refused(["explain", "lama3-8b"])).toContain("did you mean llama3-8b?");
    expect(await refused(["explain", "learning-rate"])).toContain("did you mean learning_rate?");
    const rows = JSON.parse((await halfbyte(["explain", "llama3-8b", "steps", "--json"])).stdout);
    expect(rows.map(({ kind }: { kind: string }) => kind)).toEqual(["preset", "model", "key"]);
    expect(rows[2]).toMatchObject({ key: "steps", readBy: "src/train", aliases: ["train_iters"], hasEffectOnly: [] });
    const [decay] = JSON.parse((await halfbyte(["explain", "wsd_decay_steps_fraction", "--json"])).stdout);
    expect(decay).toMatchObject({ hasEffectOnly: ["with lr_schedule_type=wsd"], aliases: [] });
  });
});
