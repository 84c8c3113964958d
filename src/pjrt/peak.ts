/** How fast BF16 products are here: the peak that model FLOP utilisation is measured against. */
import { hostArray } from "../core/hostArray.ts";
import type { Client } from "./client.ts";
import type { DeviceArray } from "./deviceArray.ts";
import { dotProgram, oneDnnProgram, type Product } from "./matrixProduct.ts";
import { probeOneDnn } from "./oneDnn.ts";
import { put } from "./transfers.ts";

export interface MatrixPeak {
  /** Of one BF16 × BF16 → F32 product on one device, two operations per multiply-add. */
  readonly flopsPerSecond: number;
  /** The form that reached it: oneDNN's custom call or XLA's own dot. */
  readonly form: "onednn" | "dot";
}

/** Edges of the square products that are timed; each form runs at least twice, then until its time is up. */
const edges = [1024, 2048] as const;
const secondsPerForm = 0.4;

/** The best rate of square BF16 products on the client's first device. Takes a second or two. @throws PjrtError */
export async function measureMatrixPeak(client: Client): Promise<MatrixPeak> {
  const forms: readonly MatrixPeak["form"][] = (await probeOneDnn(client)).bfloat16 ? ["onednn", "dot"] : ["dot"];
  let best: MatrixPeak = { flopsPerSecond: 0, form: "dot" };
  for (const edge of edges) {
    const product: Product = { m: edge, k: edge, n: edge, dtype: "bf16", out: "f32" };
    const array = patternMatrix(client, edge);
    for (const form of forms) {
      const compiled = await client.compile(form === "onednn" ? oneDnnProgram(product) : dotProgram(product));
      let spent = 0;
      for (let run = 0; run < 2 || spent < secondsPerForm; run++) {
        const started = performance.now();
        const { outputs, done } = await compiled.execute([array, array]);
        await done;
        const seconds = (performance.now() - started) / 1000;
        outputs[0]!.dispose();
        spent += seconds;
        const flopsPerSecond = (2 * edge ** 3) / seconds;
        if (flopsPerSecond > best.flopsPerSecond) best = { flopsPerSecond, form };
      }
      compiled.dispose();
    }
    array.dispose();
  }
  return best;
}

/** A square matrix of ordinary values: their size does not matter to the speed, that none is zero or tiny may. */
function patternMatrix(client: Client, edge: number): DeviceArray {
  const data = new Uint16Array(edge * edge);
  for (let i = 0; i < data.length; i++) data[i] = 0x3f80 + (i % 61);
  return put(hostArray([edge, edge], "bfloat16", data), client);
}
