/**
 * What turns gradients into new parameters. In: trees of Tensors. Out: trees of Tensors; schedules are numbers on the host.
 * A new optimiser is a file here with `init` and `update`; a new decay of the learning rate is a line in `schedule.ts`.
 */
export { type AdamW, type AdamWSettings, type AdamWState, type AdamWUpdate, adamw } from "./adamw.ts";
export { type ClippedGradient, clipByGlobalNorm } from "./clip.ts";
export { type LossScaleSettings, type LossScaleState, nextLossScale } from "./lossScale.ts";
export {
  afterSchedule,
  type DecayStyle,
  decayStyles,
  learningRate,
  makeSchedule,
  type Schedule,
  type ScheduleKind,
  type ScheduleSettings,
  scheduleKinds,
} from "./schedule.ts";
