/**
 * Lowering. In: a Program. Out: StableHLO text. A platform's better form of an operation goes into its table
 * (`cpu.ts`); what holds everywhere stays with the operation.
 */

export {
  type Counts,
  countOperations,
  type GemmTally,
  largeCopyBytes,
  type Tally,
} from "./countOperations.ts";
export { cpuLowering } from "./cpu.ts";
export { listHlo } from "./listHlo.ts";
export {
  bytesOf,
  filterOperations,
  flopsOf,
  type ListedOperation,
  type ListingFilter,
  layerNames,
} from "./listing.ts";
export { listProgram } from "./listProgram.ts";
export { type LoweringOptions, type LoweringTable, lowerToStableHlo, mlirType } from "./stablehlo.ts";
