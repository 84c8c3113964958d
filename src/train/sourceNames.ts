/** What a run's events call the sources of its mixture: their paths, which may be others after it was resumed. */
import { parseMixture } from "../data/mixture.ts";
import type { RunEvent, Timed } from "../metrics/index.ts";

/** Names of all sources, in the mixture's order. */
export interface SourceNames {
  readonly training: readonly string[];
  readonly validation: readonly string[];
}

/** @param config the resolved keys, as a "start" event has them */
export function sourceNames({ dataset_path: training, eval_dataset_path: own }: Readonly<Record<string, unknown>>) {
  const names = (text: unknown) =>
    typeof text === "string" && text !== "" ? parseMixture(text).map(({ path }) => path) : [];
  return { training: names(training), validation: names(own || training) } satisfies SourceNames;
}

/** Those of the last time the run was started. */
export function newestSourceNames(events: readonly RunEvent[]): SourceNames {
  const start = events.findLast(({ type }) => type === "start");
  return start?.type === "start" ? sourceNames(start.config) : { training: [], validation: [] };
}

/** The events with each source by its newest name, in the mixture's order: a source is told by its place there, wherever it lay. */
export function withNewestNames(events: readonly Timed<RunEvent>[]): Timed<RunEvent>[] {
  const newest = newestSourceNames(events);
  let now = newest;
  const renamed = <S extends { readonly source: string }>(sources: readonly S[], split: keyof SourceNames): S[] =>
    sources
      .map((one) => ({ one, place: now[split].indexOf(one.source) }))
      .sort((a, b) => a.place - b.place)
      .map(({ one, place }) => ({ ...one, source: newest[split][place] ?? one.source }));
  return events.map((event) => {
    if (event.type === "start") now = sourceNames(event.config);
    if (event.type === "step" && event.sources) return { ...event, sources: renamed(event.sources, "training") };
    if (event.type !== "eval" || !event.sources) return event;
    return {
      ...event,
      sources: renamed(event.sources, "validation"),
      ...(event.epochs && { epochs: renamed(event.epochs, "training") }),
    };
  });
}
