/** The end of a run's report where its last steps quantized nothing. */
import { mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it } from "vitest";
import { drawNumerics } from "../../src/cli/reportNumerics.ts";

const site = { layer: 0, module: "attn.q", tensor: "x", amax: 2 };

/** The report of a run with one measured site at steps 1, 2, …, each with these statistics. */
function reportOf(...statistics: object[]): string {
  const folder = mkdtempSync(join(tmpdir(), "halfbyte-numerics-"));
  const events = join(folder, "events.jsonl");
  const lines = statistics.map((own, i) =>
    JSON.stringify({
      ...{ type: "numerics", time: "2026-01-01T00:00:00.000Z", step: i + 1, seconds: 0 },
      sites: [{ ...site, ...own }],
    }),
  );
  writeFileSync(events, `${lines.join("\n")}\n`);
  return drawNumerics(events, folder, process.stdout);
}

it("shows the last step that quantized, after a switch to BF16 too", () => {
  const report = reportOf({ format: "nvfp4", snrDb: 18 }, { format: "nvfp4", snrDb: 19 }, {});
  expect(report).toContain("step 2: the worst SNR of 1 tensors");
  expect(report).toContain("numerics.svg");
  expect(report).not.toContain("nothing is quantized");
});

it("draws no map where no step quantized", () => {
  const report = reportOf({}, {});
  expect(report).toContain("step 2: no SNR of any tensor\nnothing is quantized");
  expect(report).not.toContain("numerics.svg");
});
