/** All of a source's weights at once, for a model to compute with. */
import { type HostArray, hostArray, sizeOf } from "../core/index.ts";
import { llamaFromHf } from "../models/hfMapping.ts";
import type { LlamaTree } from "../models/llama.ts";
import { castParts } from "./castPart.ts";
import { type ModelSource, modelValues } from "./source.ts";

/** Float32, without rows of padding. @throws UserError at a value that is not finite */
export function readParameters({ config: { config }, tensors }: ModelSource): Promise<LlamaTree<HostArray>> {
  const { paddedVocabSize: _, ...whole } = config;
  return llamaFromHf(whole, async (name) => {
    const tensor = tensors.get(name)!;
    const values = modelValues(name, tensor.shape, config);
    const [, ...inner] = tensor.shape;
    const data = new Float32Array(values);
    let at = 0;
    for await (const part of castParts(name, tensor, { dtype: "float32", values })) {
      data.set(part.data as Float32Array, at);
      at += part.data.length;
    }
    return hostArray([values / sizeOf(inner), ...inner], "float32", data);
  });
}
