/**
 * Lowering. In: a Program. Out: StableHLO text. A platform's better form of an operation goes into its table
 * (`cpu.ts`); what holds everywhere stays with the operation.
 */
export { cpuLowering } from "./cpu.ts";
export { type LoweringOptions, type LoweringTable, lowerToStableHlo, mlirType } from "./stablehlo.ts";
