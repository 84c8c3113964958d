/**
 * Checkpoints: arrays in, folders that are whole or absent out, and back to the bit.
 * Another thing to save with a run is a field of `Progress` or an entry of the optimizer's file (trainingCheckpoint.ts).
 */
export {
  type BestCheckpoint,
  bestCheckpoint,
  bestRecordFault,
  offerBestCheckpoint,
  refuseBestPlace,
  settleBest,
} from "./bestCheckpoint.ts";
export { type CheckedCheckpoint, checkCheckpoints } from "./checkCheckpoints.ts";
export { type WeightFormatName, weightFormats } from "./compressedTensors.ts";
export { decompressModel } from "./decompressModel.ts";
export { type HfLlama, loadHfLlama } from "./hfLlama.ts";
export {
  checkpointsFolder,
  hasModelFiles,
  type ModelFiles,
  openModelFiles,
  readJson,
  readJsonObject,
} from "./modelFiles.ts";
export { notFiniteAt } from "./notFinite.ts";
export { hasShards, openShards, type Writer } from "./processShards.ts";
export { type Progress, provenanceKey } from "./progress.ts";
export type { TensorError } from "./quantizeModel.ts";
export type { Retention } from "./retention.ts";
export {
  lockRun,
  makeFolders,
  makeRunFolder,
  notWritable,
  type RunFolder,
  refuseRunFolder,
  releaseRunLocks,
  runFolder,
  runOwner,
  writing,
} from "./runFolder.ts";
export { openSafetensors, type SafetensorsFile, writeSafetensors } from "./safetensors.ts";
export {
  loadCheckpointWeights,
  loadFullState,
  type StartingParameters,
  type StartingState,
} from "./startingCheckpoint.ts";
export { StateCopy } from "./stateCopy.ts";
export {
  type CheckpointPlace,
  checkpointPath,
  chooseCheckpoint,
  listCheckpoints,
  newestCheckpoint,
} from "./stepFolders.ts";
export {
  type CheckpointArrays,
  type LoadedCheckpoint,
  loadCheckpoint,
  saveCheckpoint,
  writeCheckpointFiles,
} from "./trainingCheckpoint.ts";
export { unfinishedFolders, writeWholeFolder } from "./wholeFolder.ts";
