/** The public names of Halfbyte. */
export {
  type CustomVjp,
  customVjp,
  grad,
  type RematPolicy,
  remat,
  type ScanOptions,
  scan,
  valueAndGrad,
  vjp,
} from "./autodiff/index.ts";
export { HalfbyteError, PjrtError, ShapeError, UserError } from "./base/errors.ts";
export { loadHfLlama } from "./checkpoint/hfLlama.ts";
export { openSafetensors, writeSafetensors } from "./checkpoint/safetensors.ts";
export {
  argMax,
  checkpointName,
  clamp,
  concat,
  constant,
  type DotOptions,
  type DType,
  dot,
  dtypes,
  full,
  type HostArray,
  hostArray,
  interpret,
  iota,
  namedScope,
  type Operand,
  oneHot,
  optimizationBarrier,
  type Program,
  pad,
  type Shape,
  type Spec,
  scatterAdd,
  showProgram,
  spec,
  stack,
  stopGradient,
  Tensor,
  take,
  takeAlong,
  trace,
  treeLeaves,
  treeMap,
  treePaths,
  where,
  zeros,
} from "./core/index.ts";
export {
  type Argument,
  type Compiled,
  disposeTree,
  fetchTree,
  type JitOptions,
  jit,
  type OnDevice,
  putTree,
} from "./jit/index.ts";
export {
  type LlamaBatch,
  type LlamaConfig,
  type LlamaLoss,
  type LlamaOptions,
  type LlamaParams,
  llamaHidden,
  llamaLogits,
  llamaLoss,
} from "./models/llama.ts";
export { causalAttention, crossEntropy, rmsNorm, rope, ropeTables, swiglu } from "./nn/index.ts";
export { type AdamWSettings, adamw, clipByGlobalNorm, learningRate, makeSchedule } from "./optim/index.ts";
export { Client, configureDefaultClient, DeviceArray, defaultClient, put } from "./pjrt/index.ts";
export {
  bf16,
  type LinearPrecision,
  linear,
  nvfp4,
  quantizeNvfp4,
  type RandomKey,
  recipeByName,
  resolvePrecision,
  type Site,
} from "./quant/index.ts";
