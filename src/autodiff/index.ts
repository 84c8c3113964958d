/**
 * Derivatives and structured control. In: functions of Tensors. Out: functions of Tensors whose graphs hold the reverse
 * computation. A new transform is a file here; a new operation's reverse rule belongs to the operation.
 */
export { backward } from "./backward.ts";
export { composite, withKernel } from "./composite.ts";
export { cond } from "./cond.ts";
export { type CustomVjp, customVjp } from "./customVjp.ts";
export { grad, type Vjp, valueAndGrad, vjp } from "./grad.ts";
export { type RematPolicy, remat } from "./remat.ts";
export { type ScanOptions, scan } from "./scan.ts";
export { whileLoop } from "./whileLoop.ts";
