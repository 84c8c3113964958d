/** Which of a run's checkpoints stay when another one is saved. */

export interface Retention {
  /** How many of the newest stay; absent: all. */
  readonly last?: number;
  /** Those of steps that it divides stay for good; absent: none. */
  readonly period?: number;
  /** The step of one that stays in any case. */
  readonly best?: number;
  /** Steps of checkpoints that are known to be damaged: they count as nothing and stay. */
  readonly damaged?: ReadonlySet<number>;
}

/** Of the steps of whole checkpoints, in their order, those that go. */
export function expendableSteps(steps: readonly number[], { last, period, best }: Retention): number[] {
  if (last === undefined) return [];
  return steps.slice(0, -last).filter((step) => step !== best && (period === undefined || step % period !== 0));
}
