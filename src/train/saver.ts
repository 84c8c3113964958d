/** Saving a run's checkpoints, one at a time: a copy of the state is written while training goes on. */
import { machineMemory } from "../base/machineMemory.ts";
import { type BestCheckpoint, type CheckpointArrays, type CheckpointPlace, StateCopy } from "../checkpoint/index.ts";
import type { HostArray } from "../core/index.ts";
import type { RunEvent } from "../metrics/index.ts";
import type { DeviceArray } from "../pjrt/index.ts";
import type { Done } from "./loop.ts";
import type { TrainState } from "./state.ts";

export interface Saver {
  /** Saves a state that stays as it is; on disk when this resolves. @throws HalfbyteError where this one or the one before fails */
  save(state: TrainState<DeviceArray>, done: Done): Promise<CheckpointPlace>;
  /**
   * Copies the state and resolves, while the copy is written; where memory for a copy is not free it is `save`. A save under
   * way is waited for first. @throws HalfbyteError where that one failed
   */
  saveCopy(state: TrainState<DeviceArray>, done: Done): Promise<CheckpointPlace>;
  /** To be called between steps. @throws HalfbyteError where the save under way has failed */
  afterStep(state: TrainState<DeviceArray>, done: Done): void;
  /** Tells of a step's validation: its checkpoint is offered as the best one when it is on disk. A failure is one of that save. */
  validated(evaluated: BestCheckpoint): void;
  /** Waits for the save under way. @throws HalfbyteError where it fails, or has failed and nobody knows yet */
  finish(): Promise<void>;
}

export interface SaverInput {
  /** Writes a checkpoint whole, or throws and leaves what was there. */
  readonly write: (state: CheckpointArrays<DeviceArray | HostArray>, done: Done) => Promise<CheckpointPlace>;
  /** Makes a step's checkpoint the best one where it is; absent: none is. */
  readonly offerBest?: (evaluated: BestCheckpoint) => Promise<void>;
  /** Where the checkpoint of a step will be. */
  readonly placeOf: (step: number) => CheckpointPlace;
  readonly emit: (event: RunEvent) => void;
  /** Whether there will be copies, so that memory for them is worth taking early. */
  readonly copies: boolean;
  /** Bytes that a step takes beside its state. */
  readonly stepBytes: () => number;
}

export function makeSaver({ write, offerBest, placeOf, emit, copies, stepBytes }: SaverInput): Saver {
  let copy: StateCopy | "does not fit" | undefined;
  let underWay: Promise<void> | undefined;
  let failure: { readonly error: unknown } | undefined;
  let lastValidated: BestCheckpoint | undefined;

  const copyFor = (state: TrainState<DeviceArray>) => {
    if (copy === undefined) {
      const wanted = new StateCopy(state);
      copy = wanted.bytes + stepBytes() <= machineMemory().available ? wanted : "does not fit";
    }
    return copy === "does not fit" ? undefined : copy;
  };
  const throwFailure = () => {
    if (failure === undefined) return;
    const { error } = failure;
    failure = undefined;
    throw error;
  };
  const finish = async () => {
    await underWay;
    throwFailure();
  };
  /** @param blocked seconds that training waits; undefined for all */
  const start = (state: CheckpointArrays<DeviceArray | HostArray>, done: Done, begin: number, blocked?: number) => {
    underWay = write(state, done)
      .then(async (place) => {
        const seconds = (performance.now() - begin) / 1000;
        emit({ type: "checkpoint", ...place, seconds, blockedSeconds: blocked ?? seconds });
        // Where a run stops, its last validation came before its last save.
        if (lastValidated?.step === place.step) await offerBest?.(lastValidated);
      })
      .catch((error: unknown) => {
        failure = { error };
      });
  };
  const validated: Saver["validated"] = (evaluated) => {
    if (offerBest === undefined) return;
    lastValidated = evaluated;
    underWay = Promise.resolve(underWay)
      .then(() => (failure === undefined ? offerBest(evaluated) : undefined))
      .catch((error: unknown) => {
        failure = { error };
      });
  };
  const save: Saver["save"] = async (state, done) => {
    await finish();
    start(state, done, performance.now());
    await finish();
    return placeOf(done.step);
  };
  return {
    save,
    async saveCopy(state, done) {
      const begin = performance.now();
      await finish();
      const memory = copyFor(state);
      if (memory === undefined) return save(state, done);
      const copied = await memory.take(state);
      start(copied, done, begin, (performance.now() - begin) / 1000);
      return placeOf(done.step);
    },
    afterStep(state, { step }) {
      throwFailure();
      // With the first steps done, what they take is taken.
      if (!copies || step === 0 || copy !== undefined) return;
      copyFor(state)
        ?.prepare()
        .catch(() => {
          copy = "does not fit";
        });
    },
    validated,
    finish,
  };
}
