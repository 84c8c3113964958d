import { expect, it } from "vitest";
import { defaultClient, measureMatrixPeak, probeOneDnn } from "../../src/pjrt/index.ts";

it("measures a plausible BF16 peak and frees what it used", async () => {
  const client = defaultClient();
  const before = client.liveBuffers;
  const peak = await measureMatrixPeak(client);
  expect(peak.flopsPerSecond).toBeGreaterThan(1e9);
  expect(peak.flopsPerSecond).toBeLessThan(1e15);
  expect(client.liveBuffers).toEqual(before);
  if (peak.form === "onednn") expect((await probeOneDnn(client)).bfloat16).toBe(true);
});
