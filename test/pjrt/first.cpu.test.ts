import { describe, expect, it } from "vitest";
import { hostArray } from "../../src/core/hostArray.ts";
import { defaultClient, put } from "../../src/pjrt/index.ts";

describe("a program on the default client", () => {
  it("adds two arrays", async () => {
    const client = defaultClient();
    const program =
      await client.compile(`module { func.func public @main(%a: tensor<3xf32>, %b: tensor<3xf32>) -> tensor<3xf32> {
      %0 = stablehlo.add %a, %b : tensor<3xf32>
      return %0 : tensor<3xf32> } }`);
    const a = put(hostArray([3], "float32", Float32Array.of(1, 2, 3)));
    const b = put(hostArray([3], "float32", Float32Array.of(10, 20, 30)));
    const { outputs, done } = await program.execute([a, b]);
    await done;
    expect((await outputs[0]!.toHost()).data).toEqual(Float32Array.of(11, 22, 33));
    expect(program.outputs).toEqual([{ shape: [3], dtype: "float32" }]);
    for (const x of [a, b, ...outputs]) x.dispose();
    program.dispose();
    expect(client.liveBuffers).toEqual({ arrays: 0, bytes: 0 });
  });
});
