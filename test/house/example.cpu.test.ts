import { execFileSync } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";

const root = fileURLToPath(new URL("../..", import.meta.url));

describe("examples", () => {
  it("are in the README as they are in the files", () => {
    const readme = readFileSync(`${root}/README.md`, "utf8");
    const shown = readFileSync(`${root}/examples/linearNvfp4.ts`, "utf8");
    expect(readme).toContain(`\`\`\`ts\n${shown}\`\`\``);
  });

  it.each(readdirSync(`${root}/examples`))("%s runs, and its loss falls", (file) => {
    const output = execFileSync(process.execPath, ["--import", "tsx", `${root}/examples/${file}`], {
      cwd: root,
      encoding: "utf8",
      env: { ...process.env, TF_CPP_MIN_LOG_LEVEL: "3" },
    });
    const losses = [...output.matchAll(/loss ([\d.e-]+)/g)].map((match) => Number(match[1]));
    expect(losses.length).toBeGreaterThan(2);
    expect(losses.at(-1)).toBeLessThan(0.5 * losses[0]!);
  });
});
