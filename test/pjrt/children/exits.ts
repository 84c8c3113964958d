/**
 * Reaches a stage with the plugin at argv[2], then ends in a way: argv[3] is the stage, argv[4] the ending.
 * Prints "ready" where the ending is a signal from outside.
 */
import { hostArray } from "../../../src/core/hostArray.ts";
import { Client, exitNow, loadPlugin, put } from "../../../src/pjrt/index.ts";

const [, , path, stage, ending] = process.argv as string[];

/** Half a minute of work, unless `steps` is small. */
const work = (steps: number) => `module { func.func public @main(%a: tensor<256x256xf32>) -> tensor<256x256xf32> {
  %n = stablehlo.constant dense<${steps}> : tensor<i32>
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %r:2 = stablehlo.while(%i = %zero, %x = %a) : tensor<i32>, tensor<256x256xf32> cond {
    %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    %d = stablehlo.dot_general %x, %x, contracting_dims = [1] x [0] : (tensor<256x256xf32>, tensor<256x256xf32>) -> tensor<256x256xf32>
    %j = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %j, %d : tensor<i32>, tensor<256x256xf32>
  }
  return %r#1 : tensor<256x256xf32> } }`;

let client: Client | undefined;
if (stage === "loaded") loadPlugin({ path: path! });
else client = new Client({ plugin: path! });
if (client !== undefined && stage !== "client") {
  const steps = { ran: 2, inFlight: 600, endless: 1_000_000 }[stage as "ran" | "inFlight" | "endless"];
  const program = await client.compile(work(steps));
  const input = put(hostArray([256, 256], "float32", new Float32Array(256 * 256)), client);
  const { outputs, done } = await program.execute([input]);
  if (stage === "ran") {
    await done;
    await outputs[0]!.toHost();
  }
}

// Something still runs, as in a program that waits for its user.
const idle = () => setInterval(() => {}, 1000);
const endings: Record<string, () => void | Promise<void>> = {
  normal: () => {},
  destroy: () => client?.destroy(),
  throw: () => {
    setImmediate(() => {
      throw new Error("thrown on purpose");
    });
  },
  reject: () => {
    void Promise.reject(new Error("rejected on purpose"));
  },
  exit3: () => process.exit(3),
  exitNow: () => exitNow(5),
  signal: () => {
    idle();
    console.log("ready");
  },
  handled: () => {
    for (const [signal, code] of [
      ["SIGINT", 130],
      ["SIGTERM", 143],
    ] as const)
      process.on(signal, () => process.exit(code));
    idle();
    console.log("ready");
  },
  handledNow: () => {
    for (const [signal, code] of [
      ["SIGINT", 130],
      ["SIGTERM", 143],
    ] as const)
      process.on(signal, () => exitNow(code));
    idle();
    console.log("ready");
  },
};
await endings[ending!]!();
