/**
 * Where tracing meets the runtime. In: functions of Tensors, arrays. Out: arrays. The reference evaluator of the same
 * functions is `interpret` of the core.
 */
export { clearCompiled, compiledCache, compiledFolder } from "./compileCache.ts";
export { type Argument, type Compiled, type JitOptions, jit, type Lowered, type OnDevice } from "./jit.ts";
export { reshard } from "./reshard.ts";
export { disposeTree, fetchTree, type Placing, putTree } from "./trees.ts";
