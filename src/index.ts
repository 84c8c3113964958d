/** The public names of Halfbyte. */
export {
  type CustomVjp,
  composite,
  cond,
  customVjp,
  grad,
  type RematPolicy,
  remat,
  type ScanOptions,
  scan,
  type Vjp,
  valueAndGrad,
  vjp,
  whileLoop,
} from "./autodiff/index.ts";
export type { CacheLimit } from "./base/cacheLimit.ts";
export { HalfbyteError, PjrtError, ShapeError, UserError } from "./base/errors.ts";
export {
  type WeightFormat,
  type WeightFormatName,
  weightFormats,
} from "./checkpoint/compressedTensors.ts";
export { type DecompressedModel, decompressModel } from "./checkpoint/decompressModel.ts";
export type { HfLlama } from "./checkpoint/hfLlama.ts";
export { loadHfLlama } from "./checkpoint/hfLlama.ts";
export type { QuantizedModel, QuantizeModelOptions, TensorError } from "./checkpoint/quantizeModel.ts";
export type { ArrayToWrite, LazyArray, SafetensorsFile, StreamedArray } from "./checkpoint/safetensors.ts";
export { openSafetensors, writeSafetensors } from "./checkpoint/safetensors.ts";
export type { StartingParameters } from "./checkpoint/startingCheckpoint.ts";
export type { WrittenModel } from "./checkpoint/writeModelFiles.ts";
export { type Config, type PartialSettings, resolve, type Settings } from "./config/index.ts";
export type { ResolveOptions } from "./config/resolve.ts";
export type {
  ConversionProgress,
  ConvertedModel,
  ConvertModelOptions,
  SourceKind,
  Verification,
} from "./convert/index.ts";
export { convertModel, loadParameters, quantizeModel } from "./convert/onDemand.ts";
export {
  type Attributes,
  argMax,
  argMin,
  argsort,
  type CumulativeOptions,
  type CustomCallOptions,
  checkpointName,
  clamp,
  concat,
  constant,
  cummax,
  cumprod,
  cumsum,
  customCall,
  type DotOptions,
  type DType,
  dot,
  dtypes,
  dynamicSlice,
  dynamicUpdateSlice,
  type EinsumOptions,
  type Eqn,
  einsum,
  foldIn,
  full,
  type GatherOptions,
  gather,
  type HostArray,
  hostArray,
  type Indices,
  interpret,
  iota,
  type Key,
  type MapTree,
  type Mesh,
  type NormalOptions,
  namedScope,
  normal,
  type Operand,
  oneHot,
  optimizationBarrier,
  type Precision,
  type Program,
  pad,
  randomBits,
  randomKey,
  reducePrecision,
  repeat,
  roll,
  type Shape,
  type SortOptions,
  type Spec,
  scatterAdd,
  scatterUpdate,
  showProgram,
  sort,
  sortPairs,
  spec,
  split,
  stack,
  stopGradient,
  Tensor,
  type TypedArray,
  take,
  takeAlong,
  tile,
  topK,
  trace,
  treeLeaves,
  treeMap,
  treePaths,
  type UniformOptions,
  uniform,
  where,
  zeros,
} from "./core/index.ts";
export type { AnyOp, VjpArguments } from "./core/op.ts";
export type { DotParams } from "./core/ops/dot.ts";
export type { ReduceOptions } from "./core/ops/reduce.ts";
export type { PadOptions } from "./core/ops/shape.ts";
export type { DrawStream, Word } from "./core/random.ts";
export type { Scope } from "./core/scope.ts";
export type { BatchShape, TrainingBatches } from "./data/batches.ts";
export type { Batch } from "./data/index.ts";
export type { PackingReport } from "./data/packingReport.ts";
export type { Packing, PackingStrategy } from "./data/packingSettings.ts";
export type { ProcessPart } from "./data/processPart.ts";
export { syntheticBatches } from "./data/synthetic.ts";
export type { ValidationBatch, ValidationBatches } from "./data/validationBatches.ts";
export {
  type GgufFile,
  type GgufHeader,
  type GgufNumbers,
  type GgufTensor,
  type GgufTensorType,
  type GgufValue,
  openGguf,
} from "./gguf/index.ts";
export {
  type Argument,
  type Compiled,
  clearCompiled,
  compiledCache,
  disposeTree,
  fetchTree,
  type JitOptions,
  jit,
  type OnDevice,
  type Placing,
  putTree,
  reshard,
} from "./jit/index.ts";
export type { Lowered } from "./jit/jit.ts";
export type { ListedOperation } from "./lower/listing.ts";
export type { StoredDType } from "./models/hfConfig.ts";
export type { LlamaBlock, LlamaTree } from "./models/llama.ts";
export {
  type LayerTaps,
  type LlamaBatch,
  type LlamaConfig,
  type LlamaLoss,
  type LlamaOptions,
  type LlamaParams,
  llamaHidden,
  llamaLogits,
  llamaLoss,
} from "./models/llama.ts";
export type { AttentionInputs } from "./nn/attention.ts";
export type { AttentionTiles } from "./nn/attentionHeads.ts";
export type { CrossEntropy, CrossEntropyInputs } from "./nn/crossEntropy.ts";
export {
  causalAttention,
  crossEntropy,
  dropout,
  gelu,
  geluTanh,
  logSoftmax,
  logSumExp,
  rmsNorm,
  rope,
  ropeTables,
  segmentPositions,
  segmentStarts,
  silu,
  softmax,
  swiglu,
} from "./nn/index.ts";
export type { Llama3RopeScaling, RopeOptions, RopeTables } from "./nn/rope.ts";
export type { AdamW, AdamWUpdate } from "./optim/adamw.ts";
export type { ClippedGradient } from "./optim/clip.ts";
export {
  type AdamWSettings,
  type AdamWState,
  adamw,
  clipByGlobalNorm,
  learningRate,
  makeSchedule,
} from "./optim/index.ts";
export type { LossScaleSettings, LossScaleState } from "./optim/lossScale.ts";
export type { Schedule, ScheduleSettings } from "./optim/schedule.ts";
export type { ClientOptions, Device } from "./pjrt/client.ts";
export type { CompileOptions } from "./pjrt/compileOptions.ts";
export type { Executable, ExecutableOrigin, ExecuteOptions, Execution, MemoryStats } from "./pjrt/executable.ts";
export { Client, configureDefaultClient, DeviceArray, defaultClient, put } from "./pjrt/index.ts";
export type { NamedValue } from "./pjrt/namedValues.ts";
export type { InstallRecord, Plugin } from "./pjrt/plugin.ts";
export type { PresetName } from "./presets/index.ts";
export { type Preset, presets, type UserPreset } from "./presets/index.ts";
export type { BlockSize } from "./quant/blocks.ts";
export { checkPrecision } from "./quant/checkPrecision.ts";
export { fromCodes, fromExponents, packPairs, toCodes, toExponents, unpackPairs } from "./quant/codes.ts";
export {
  type DelayedScaling,
  type DelayedScalingState,
  delayedScalingOf,
  initialDelayedScaling,
  nextDelayedScaling,
  type ScaleRule,
  type SeenMagnitudes,
  tapsOfScales,
} from "./quant/delayedScaling.ts";
export { type ElementName, e2m1, e4m3, e5m2, type NarrowFormat } from "./quant/formats.ts";
export type {
  GemmName,
  GemmSpec,
  Nvfp4Switches,
  PolicyOptions,
  PrecisionOverride,
  PrecisionPlan,
  Quantized,
  QuantizedOperand,
  QuantizeOptions,
  Recipe,
} from "./quant/index.ts";
export {
  bf16,
  type Fp4Switches,
  type Fp8Switches,
  fp8BlockScaling,
  fp8CurrentScaling,
  type LinearPrecision,
  type LinearTaps,
  linear,
  type Mxfp4Switches,
  type Mxfp8Switches,
  mxfp4,
  mxfp8,
  nvfp4,
  quantize,
  type RandomKey,
  recipeByName,
  resolvePrecision,
  type Site,
} from "./quant/index.ts";
export type {
  DelayedScale,
  E4m3Scale,
  E8m0Scale,
  EdenGemm,
  EdenOperand,
  Estimator,
  FixedRotation,
  Fp32Scale,
  FreshRotation,
  NarrowElements,
  OperandSpec,
  Operands,
  PlainOperand,
  RotatableOperand,
  RotatedGemm,
  Rotation,
  RotationSize,
  RoundedOperand,
  Rounding,
  RowBlock,
  SizesOf,
  SpreadScale,
  TileBlock,
  UnrotatedGemm,
} from "./quant/precision.ts";
export {
  type GradientSwitch,
  type LlmFp4Switches,
  llmFp4,
  type Mxfp4RhtSrSwitches,
  mxfp4RhtSr,
  type Nvfp4FourOverSixSwitches,
  nvfp4FourOverSix,
  type Quartet2Switches,
  quartet,
  quartet2,
  tetrajet2,
  ufp4,
} from "./quant/publishedRecipes.ts";
export type { PartScales } from "./quant/quantize.ts";
export { dequantize } from "./quant/quantize.ts";
export { type RandomPlace, streamAt } from "./quant/random.ts";
export { recipeNames } from "./quant/recipeNames.ts";
export { type Fp8DelayedSwitches, fp8DelayedScaling } from "./quant/recipes.ts";
export type { RotationMatrix } from "./quant/rotation.ts";
export { rotationMatrix } from "./quant/rotation.ts";
export type { QuantizationError, WeightStorage } from "./quant/storedWeights.ts";
export {
  swizzleBytes,
  swizzledOffset,
  swizzledSize,
  swizzleScales,
  unswizzleBytes,
  unswizzleScales,
} from "./quant/swizzle.ts";
export type { Pairs } from "./sharding/collectives.ts";
export {
  allGather,
  allReduce,
  allToAll,
  axisIndex,
  collectivePermute,
  mesh,
  type Partition,
  type PartitionTree,
  partition,
  type ReduceKind,
  reduceScatter,
  replicated,
  type Sharding,
  type ShardMapOptions,
  shardMap,
  splitLargestDim,
  withSharding,
} from "./sharding/index.ts";
// From their files: data/index.ts would load the readers of all forms of data with every import of the package.
export { assistantSpans, chatExample, exampleDate } from "./tokenizers/chatExample.ts";
export { loadChatTemplate } from "./tokenizers/chatFiles.ts";
export { compileChatTemplate, renderChat } from "./tokenizers/chatTemplate.ts";
export type {
  ChatExample,
  ChatExampleOptions,
  ChatMessage,
  ChatTemplate,
  ChatTemplateChoice,
  DecodeOptions,
  EncodeOptions,
  Frame,
  RenderOptions,
  TextSpan,
  Tokenizer,
} from "./tokenizers/index.ts";
export type { ByteSource } from "./tokenizers/tokenizer.ts";
export { streamDecoder } from "./tokenizers/tokenizer.ts";
export { loadTokenizer } from "./tokenizers/tokenizerFiles.ts";
export { type GradientOptions, lossAndGradients, type StepGradients } from "./train/gradients.ts";
export type { BufferUse, MemoryUse } from "./train/outOfMemory.ts";
export { OutOfMemoryError, TooLargeError } from "./train/outOfMemory.ts";
export type { OptimizerState, StateExtras } from "./train/state.ts";
export { initialState, type TrainState } from "./train/state.ts";
