import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { measureFamily, type TimedPeer } from "../../bench/alternate.ts";
import { type PeerChoice, peerByName } from "../../bench/peerNames.ts";
import { bestPeer, failuresOf, reportText, shareOfPeak } from "../../bench/peersReport.ts";
import { workloadByName } from "../../bench/workload.ts";

const workload = workloadByName("tiny");
const choice = (name: string): PeerChoice => peerByName(name, workload);

/** What a peer of the tests does: a time for every step, the losses of its steps, or a failure. */
interface Behaviour {
  readonly seconds: number;
  readonly losses: readonly (number | null)[];
  readonly fails?: boolean;
}

function fakes(behaviours: Readonly<Record<string, Behaviour>>) {
  const log: string[] = [];
  const start = ({ name }: PeerChoice): TimedPeer => {
    const { seconds, losses, fails } = behaviours[name]!;
    const peer: TimedPeer = {
      ...{ name, seconds: [], cpuSeconds: [], losses: [] },
      async ready() {
        log.push(`start ${name}`);
        if (fails) throw new Error(`${name} ended without an answer`);
        const speeds = name.startsWith("halfbyte") ? { peakFlopsPerSecond: 1e12 } : {};
        return { compileSeconds: 1, versions: {}, settings: { attention: "sdpa" }, ...speeds };
      },
      async run(steps) {
        log.push(`run ${name}`);
        for (let i = 0; i < steps; i++) {
          peer.losses.push(losses[peer.losses.length % losses.length]!);
          // A step later is a little slower.
          peer.seconds.push(seconds * (1 + peer.seconds.length / 100));
          peer.cpuSeconds.push(2 * seconds);
        }
      },
      async reset() {
        for (const list of [peer.seconds, peer.cpuSeconds, peer.losses]) list.length = 0;
      },
      stop: () => log.push(`stop ${name}`),
    };
    return peer;
  };
  return { log, start };
}

beforeEach(() => {
  vi.spyOn(process.stderr, "write").mockReturnValue(true);
});
afterEach(() => {
  vi.restoreAllMocks();
});

const losses = [5, 4.9];
const measure = (start: (choice: PeerChoice) => TimedPeer, ...names: string[]) => {
  const [base, ...others] = names.map(choice);
  return measureFamily(start, base!, others, { rounds: 2, steps: 1 });
};

describe("peers side by side", () => {
  it("alternate with the base, in turning order, two alive at a time", async () => {
    const { log, start } = fakes({
      "halfbyte-bf16": { seconds: 1, losses },
      jax: { seconds: 3, losses },
      "torch-eager": { seconds: 2, losses: [5.01, 4.9] },
    });
    const family = await measure(start, "halfbyte", "jax", "torch-eager");
    expect(log.slice(1, 7)).toEqual([
      "start jax",
      "run halfbyte-bf16",
      "run jax",
      "run jax",
      "run halfbyte-bf16",
      "stop jax",
    ]);
    expect(log.at(-1)).toBe("stop halfbyte-bf16");
    const [jax, torch] = family.rows;
    expect(jax!.ratio).toBeCloseTo(3);
    expect(torch!.ratioRange).toEqual([2, 2]);
    expect(torch!.lossDifference).toBeCloseTo(0.002);
    expect(family.base.seconds).toHaveLength(4);
    expect(bestPeer(family)?.peer).toBe("torch-eager");
    expect(failuresOf({ workload, family }, ["halfbyte", "jax", "torch-eager"].map(choice))).toEqual([]);
    const share = shareOfPeak({ workload, family }, family.base)!;
    expect(shareOfPeak({ workload, family }, torch!)! / share).toBeCloseTo(0.5, 1);
    expect(reportText([{ workload, family }])).toMatch(/torch-eager .* 2\.00 × +2\.00–2\.00 +0\.20 %/);
  });

  it("fail where a peer computes something else, but not where it quantizes", async () => {
    const { start } = fakes({
      "halfbyte-bf16": { seconds: 1, losses },
      jax: { seconds: 1, losses: [5, 5] },
      "halfbyte-nvfp4": { seconds: 1, losses: [5, 5] },
    });
    const names = ["halfbyte", "halfbyte-nvfp4", "jax"];
    const failures = failuresOf({ workload, family: await measure(start, ...names) }, names.map(choice));
    expect(failures).toEqual([expect.stringMatching(/losses of jax differ by 2\.04 %/)]);
  });

  it("go on without a peer that fails or whose loss is not finite, and tell so", async () => {
    const { start, log } = fakes({
      "halfbyte-bf16": { seconds: 1, losses },
      jax: { seconds: 1, losses, fails: true },
      "torch-eager": { seconds: 1, losses: [null] },
    });
    const names = ["halfbyte", "jax", "torch-eager"];
    const family = await measure(start, ...names);
    expect(family.rows).toEqual([]);
    expect(family.base.seconds).toHaveLength(2);
    expect(failuresOf({ workload, family }, names.map(choice))).toEqual([
      expect.stringMatching(/jax could not be measured: jax ended/),
      expect.stringMatching(/torch-eager could not be measured: .*not finite/),
    ]);
    expect(log).toEqual(expect.arrayContaining(["stop jax", "stop torch-eager", "stop halfbyte-bf16"]));
  });
});
