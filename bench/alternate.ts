/**
 * Peers measured side by side: each alternates with the one it is compared with, so that both meet the same machine. Only these two
 * processes live at a time, which bounds memory.
 */
import { median } from "./command.ts";
import type { Peer, Ready } from "./peer.ts";
import type { PeerChoice } from "./peerNames.ts";

/** A peer's steps, and those of the base that alternated with them. */
export interface Row extends Steps {
  readonly ready: Ready;
  readonly base: Steps;
  /** Its median step over the base's: how many times as fast the base is. */
  readonly ratio: number;
  /** The least and the greatest ratio of a round's medians. */
  readonly ratioRange: readonly [number, number];
  /** The largest relative difference from the base's losses of the same steps. */
  readonly lossDifference: number;
}

export interface Steps {
  readonly peer: string;
  readonly medianSeconds: number;
  /** How much of the best time the worst lies above it. */
  readonly spread: number;
  /** Median process CPU time of a step, all threads. */
  readonly cpuSeconds: number;
  readonly seconds: readonly number[];
  readonly losses: readonly number[];
}

export interface Skipped {
  readonly peer: string;
  readonly reason: string;
}

export interface Family {
  /** The base's own row, of all its steps. */
  readonly base: Row;
  readonly rows: readonly Row[];
  /** Peers that ended, and why. */
  readonly skipped: readonly Skipped[];
}

export interface Schedule {
  readonly rounds: number;
  /** Steps of a peer in a round. */
  readonly steps: number;
}

/** A peer's process, or what a test puts in its place. */
export type TimedPeer = Pick<Peer, "name" | "seconds" | "cpuSeconds" | "losses" | "ready" | "run" | "reset" | "stop">;

/** Measures each of `others` in alternation with the base, which stays alive. @throws Error where the base fails */
export async function measureFamily(
  start: (choice: PeerChoice) => TimedPeer,
  baseChoice: PeerChoice,
  others: readonly PeerChoice[],
  schedule: Schedule,
): Promise<Family> {
  const [rows, skipped]: [Row[], Skipped[]] = [[], []];
  const base = await startReady(start, baseChoice);
  try {
    const seconds: Steps[] = [];
    for (const choice of others) {
      let other: ReadyPeer | undefined;
      try {
        other = await startReady(start, choice);
        await base.peer.reset();
        await alternate([base.peer, other.peer], schedule);
        rows.push(rowOf(other, stepsOf(base.peer), schedule));
        seconds.push(stepsOf(base.peer));
      } catch (error) {
        const reason = error instanceof Error ? error.message : String(error);
        process.stderr.write(`${choice.name}: skipped: ${reason}\n`);
        skipped.push({ peer: choice.name, reason });
      } finally {
        other?.peer.stop();
      }
    }
    if (seconds.length === 0) {
      await base.peer.reset();
      await alternate([base.peer], schedule);
      seconds.push(stepsOf(base.peer));
    }
    return { base: baseRow(base, seconds), rows, skipped };
  } finally {
    base.peer.stop();
  }
}

interface ReadyPeer {
  readonly peer: TimedPeer;
  readonly ready: Ready;
}

async function startReady(start: (choice: PeerChoice) => TimedPeer, choice: PeerChoice): Promise<ReadyPeer> {
  const peer = start(choice);
  process.stderr.write(`${peer.name}: compiling …\n`);
  try {
    return { peer, ready: await peer.ready() };
  } catch (error) {
    peer.stop();
    throw error;
  }
}

/** The order turns every round, so that neither always follows the other. */
async function alternate(peers: readonly TimedPeer[], { rounds, steps }: Schedule): Promise<void> {
  for (let round = 1; round <= rounds; round++) {
    for (const peer of round % 2 === 1 ? peers : [...peers].reverse()) await peer.run(steps);
    const times = peers.map(
      ({ name, seconds }) =>
        `${name} ${seconds
          .slice(-steps)
          .map((s) => s.toFixed(3))
          .join(" ")} s`,
    );
    process.stderr.write(`round ${round}/${rounds}: ${times.join(", ")}\n`);
  }
}

/** @throws Error where a loss is not finite */
function stepsOf({
  name,
  seconds,
  cpuSeconds,
  losses,
}: Pick<TimedPeer, "name" | "seconds" | "cpuSeconds" | "losses">): Steps {
  if (!losses.every((loss) => loss !== null)) throw new Error(`${name}: a loss is not finite`);
  return {
    peer: name,
    medianSeconds: median(seconds),
    spread: Math.max(...seconds) / Math.min(...seconds) - 1,
    cpuSeconds: median(cpuSeconds),
    seconds: [...seconds],
    losses: [...losses],
  };
}

function rowOf({ peer, ready }: ReadyPeer, base: Steps, { rounds, steps }: Schedule): Row {
  const own = stepsOf(peer);
  const roundMedian = (list: readonly number[], round: number) =>
    median(list.slice(round * steps, (round + 1) * steps));
  const ratios = Array.from(
    { length: rounds },
    (_, round) => roundMedian(own.seconds, round) / roundMedian(base.seconds, round),
  );
  return {
    ready,
    ...own,
    base,
    ratio: own.medianSeconds / base.medianSeconds,
    ratioRange: [Math.min(...ratios), Math.max(...ratios)],
    lossDifference: Math.max(...own.losses.map((loss, i) => Math.abs(loss / base.losses[i]! - 1))),
  };
}

function baseRow({ peer, ready }: ReadyPeer, all: readonly Steps[]): Row {
  const steps = stepsOf({
    name: peer.name,
    seconds: all.flatMap(({ seconds }) => seconds),
    cpuSeconds: all.map(({ cpuSeconds }) => cpuSeconds),
    losses: all.flatMap(({ losses }) => losses),
  });
  return { ready, ...steps, base: steps, ratio: 1, ratioRange: [1, 1], lossDifference: 0 };
}
