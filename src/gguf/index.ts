/** GGUF: the container of llama.cpp's models, read with its metadata and its tensors, plain or in blocks. */
export type { GgufFile } from "./ggufFile.ts";
export { readGgufHeader } from "./head.ts";
export { type GgufHeader, type GgufTensor, parseGgufHeader } from "./header.ts";
export { type GgufNumbers, type GgufValue, MoreBytes } from "./metadata.ts";
export { openGguf, readGgufMetadata } from "./openGguf.ts";
export type { GgufTensorType } from "./tensorTypes.ts";
