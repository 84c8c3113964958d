/** The compiled step of the phase that a run is in, and its telemetry: those of one phase at a time, compiled where it begins. */
import type { Dataset } from "../data/index.ts";
import { type Compiled, jit } from "../jit/index.ts";
import type { RunEvent } from "../metrics/index.ts";
import type { Client } from "../pjrt/index.ts";
import { type StateHolder, stepBatch, stepScalars } from "./loop.ts";
import { makeNumerics, type Numerics } from "./numerics.ts";
import { refuseStepBeyondMemory, refuseTelemetryBeyondMemory, type StepMemory } from "./outOfMemory.ts";
import { type PrecisionPhase, phaseAt, planAt } from "./phases.ts";
import type { RunPlan } from "./plan.ts";
import { makeTrainStep, stepOptions, type TrainStep } from "./step.ts";
import { stateSpecs } from "./stepProgram.ts";

export type CompiledStep = Compiled<Parameters<TrainStep>, ReturnType<TrainStep>>;

/** Owns compiled programs: `dispose` it. */
export interface PhaseStep {
  /** Whether a step needs another program than the one that is there. */
  isOther(step: number): boolean;
  /**
   * Compiles the program of a step's phase. @param state resolves when the state is there, where it is still being made
   * @throws TooLargeError where it won't fit
   */
  enter(step: number, state?: Promise<unknown>): Promise<void>;
  /** The program of the phase that was entered. */
  readonly compiled: CompiledStep;
  /** Measures the numbers as this phase computes them; absent: they are not measured. */
  readonly numerics: Numerics | undefined;
  dispose(): void;
}

export interface PhaseStepInput {
  readonly plan: RunPlan;
  readonly data: Dataset;
  readonly client: Client;
  readonly holder: StateHolder;
  /** Filled in once a step is compiled. */
  readonly memory: { step?: StepMemory };
  readonly emit: (event: RunEvent) => void;
}

export function phaseStep(input: PhaseStepInput): PhaseStep {
  const { plan, client } = input;
  let current: { phase: PrecisionPhase; compiled: CompiledStep; numerics: Numerics | undefined } | undefined;
  const isOther = (step: number) => current?.phase.firstStep !== phaseAt(plan, step).firstStep;
  const dispose = () => {
    current?.compiled.dispose();
    current?.numerics?.dispose();
  };
  return {
    isOther,
    async enter(step, state) {
      dispose();
      const now = planAt(plan, step);
      const compiled = jit(makeTrainStep(stepOptions(now)), { donate: [0], name: "train_step", client });
      current = { phase: phaseAt(plan, step), compiled, numerics: makeNumerics(now, client) };
      await compileStep(compiled, now, input);
      await state;
      if (client.platformName === "cpu") await refuseStepBeyondMemory(now, input.memory.step!);
      if (current.numerics) await compileNumerics(current.numerics, input);
    },
    get compiled() {
      if (current === undefined) throw new Error("no phase was entered");
      return current.compiled;
    },
    get numerics() {
      return current?.numerics;
    },
    dispose,
  };
}

/** Before the phase's first step, so that its time is told apart. */
async function compileStep(
  step: Pick<Compiled<never[], unknown>, "compile" | "lower">,
  plan: RunPlan,
  { plan: whole, data, memory, emit }: PhaseStepInput,
): Promise<void> {
  const begin = performance.now();
  const given = [stateSpecs(whole), stepBatch(data.train.batchAt(1)), stepScalars(plan, 1)];
  const executable = await step.compile(...given);
  const seconds = (performance.now() - begin) / 1000;
  const cached = executable.origin.deserialized;
  emit({ type: "compile", program: "train_step", seconds, cached, memory: { ...executable.memoryStats() } });
  memory.step = { stats: executable.memoryStats(), program: async () => (await step.lower(...given)).program };
}

/** Before the first step, so that what does not fit is refused before it. @throws TooLargeError */
async function compileNumerics(numerics: Numerics, { data, client, holder, emit }: PhaseStepInput): Promise<void> {
  for (const { name, program } of numerics.programs) {
    const begin = performance.now();
    const executable = await program.compile(...numerics.arguments(holder.state, data.train.batchAt(1), 1));
    const seconds = (performance.now() - begin) / 1000;
    const memory = executable.memoryStats();
    emit({ type: "compile", program: name, seconds, cached: executable.origin.deserialized, memory: { ...memory } });
    if (client.platformName === "cpu") refuseTelemetryBeyondMemory(memory, name);
  }
}
