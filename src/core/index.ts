/**
 * The core: tensors, the operations on them, the programs they form, and the reference evaluator.
 * In: functions of Tensors. Out: Programs. A new operation goes into the file of its family under `ops/`.
 */
export {
  type DType,
  dtypeInfo,
  dtypeOfSafetensors,
  dtypes,
  isFloat,
  isInteger,
  parseDType,
  type TypedArray,
} from "./dtype.ts";
export {
  byteLength,
  type HostArray,
  hostArray,
  isHostArray,
  type Shape,
  type Spec,
  sameShape,
  showSpec,
  sizeOf,
  spec,
} from "./hostArray.ts";
export type { Emitted, Emitter, Eqn, Mesh, Op, Region, VjpRule } from "./op.ts";
export { repeat, roll, split, tile } from "./ops/arrange.ts";
export type { Attributes } from "./ops/attributes.ts";
export { constant, full, iota, zeros } from "./ops/constant.ts";
export { type Precision, reducePrecision } from "./ops/convert.ts";
export { type CumulativeOptions, cummax, cumprod, cumsum } from "./ops/cumulative.ts";
export { type CustomCallOptions, customCall } from "./ops/customCall.ts";
export { type DotOptions, dot } from "./ops/dot.ts";
export { dynamicSlice, dynamicUpdateSlice } from "./ops/dynamicSlice.ts";
export { type EinsumOptions, einsum } from "./ops/einsum.ts";
export {
  type GatherOptions,
  gather,
  type Indices,
  oneHot,
  scatterAdd,
  scatterUpdate,
  take,
  takeAlong,
} from "./ops/gather.ts";
export { checkpointName, optimizationBarrier, stopGradient } from "./ops/identity.ts";
export { argMax, argMin } from "./ops/reduce.ts";
export { clamp, where } from "./ops/select.ts";
export { concat, pad, stack } from "./ops/shape.ts";
export { argsort, type SortOptions, sort, sortPairs, topK } from "./ops/sort.ts";
export { inputNames, makeProgram, type Program, type ProgramLine, programLines, showProgram } from "./program.ts";
export {
  foldIn,
  type Key,
  type NormalOptions,
  normal,
  randomBits,
  randomKey,
  type UniformOptions,
  uniform,
  type Word,
} from "./random.ts";
export { atScope, currentScope, inPass, namedScope, parseScope, type Scope, showScope } from "./scope.ts";
export { apply, applyOne, type Operand, parameter, Tensor } from "./tensor.ts";
export { interpret, interpretProgram, trace, traceFunction } from "./trace.ts";
export { type MapTree, showTree, treeLeaves, treeLeavesLike, treeMap, treePaths, treeUnflatten } from "./tree.ts";
export { toHostArray, toValues, type Values } from "./values.ts";
