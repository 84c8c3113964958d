/**
 * NVFP4 of matrices whose rows or columns lie on several devices: one scale for the tensor, the same blocks, codes and
 * stochastic bits as on one device, also where blocks and rotated groups lie across two devices.
 */
import { describe, expect, it } from "vitest";
import { encodeArray } from "../../src/core/codecs.ts";
import { type HostArray, hostArray, type Tensor } from "../../src/core/index.ts";
import { jit } from "../../src/jit/index.ts";
import { nvfp4, type Quantized, type QuantizedOperand, quantize, streamAt } from "../../src/quant/index.ts";
import { rotationMatrix } from "../../src/quant/rotation.ts";
import { mesh, type Partition, partition, replicated } from "../../src/sharding/index.ts";
import { fetchAndFree } from "../fetchAndFree.ts";
import { clientOf } from "./devices.ts";

/** The last rows are ten thousand times as large as the first, so that the shards' own scales would differ. */
function matrix(rows: number, columns: number, dtype: "bfloat16" | "float32"): HostArray {
  const values = Float32Array.from({ length: rows * columns }, (_, i) => {
    const place = Math.floor(i / columns) / rows;
    return Math.sin(12.9898 * (i + 1)) * (place < 0.5 ? 1e-3 : 10) * (1 + (i % columns) / columns);
  });
  return hostArray([rows, columns], dtype, encodeArray(dtype, values));
}

const inputs = [matrix(64, 48, "bfloat16"), matrix(64, 48, "float32"), matrix(40, 32, "float32")];

const { fprop, wgrad } = nvfp4();
const [rowBlocks, tiles, drawn] = [fprop.left, fprop.right, wgrad.left] as QuantizedOperand[];

function f(xs: Tensor[]) {
  const random = { seed: 3, step: 7, microBatch: 0 };
  const draws = streamAt(random, { module: "mlp.up", layer: 2, gemm: "wgrad", operand: "left" });
  const rotation = rotationMatrix({ size: 16, signs: "fixed" });
  const parts = ({ values, amax, elements, scales }: Quantized) => ({ values, amax: amax!, elements, scales });
  return xs.map((x) => ({
    rows: parts(quantize(x, rowBlocks!, { axis: "row" })),
    tiles: parts(quantize(x, tiles!, { axis: "row" })),
    drawn: parts(quantize(x, drawn!, { axis: "row", draws })),
    rotated: parts(quantize(x, drawn!, { axis: "col", draws, rotation })),
  }));
}
type Codes = Record<"values" | "amax" | "elements" | "scales", HostArray>;
type Result = readonly Record<"rows" | "tiles" | "drawn" | "rotated", Codes>[];

async function quantizeOn(devices: number, how?: Partition): Promise<Result> {
  const compiled = jit(f, {
    client: clientOf(devices),
    ...(how && { mesh: mesh({ data: devices }), inShardings: [how], outShardings: replicated }),
  });
  const result = await fetchAndFree<Result>(compiled(inputs));
  compiled.dispose();
  return result;
}

describe("quantized shards", async () => {
  const one = await quantizeOn(1);

  it.each([
    ["rows on 2 devices", 2, partition("data")],
    ["rows on 4 devices", 4, partition("data")],
    ["columns on 4 devices", 4, partition(null, "data")],
  ] as const)("%s: every code, scale and draw is that of one device", async (_, devices, how) => {
    const many = await quantizeOn(devices, how);
    inputs.forEach((x, i) => {
      for (const name of ["rows", "tiles", "drawn", "rotated"] as const) {
        // The rotation's float32 sums are taken in an order that depends on the width of a piece; bfloat16 is rounded.
        if (name === "rotated" && x.dtype === "float32" && how.splits.length > 1) continue;
        for (const part of ["amax", "scales", "elements", "values"] as const)
          expect(many[i]![name][part].data, `${name}.${part} of ${x.dtype}[${x.shape}]`).toEqual(
            one[i]![name][part].data,
          );
      }
    });
  });

  it("has a scale for the tensor, by its largest value", () => {
    const largest = Math.max(...(inputs[1]!.data as Float32Array).map(Math.abs));
    expect(one[1]!.rows.amax.data[0]).toBe(largest);
  });
});
