import { defineConfig } from "vitest/config";

// One worker, no isolation: the PJRT plugin is loaded once per process and its client serves every test file.
export default defineConfig({
  test: {
    include: ["test/**/*.test.ts"],
    pool: "forks",
    maxWorkers: 1,
    isolate: false,
    fileParallelism: false,
    testTimeout: 120_000,
    hookTimeout: 120_000,
    env: { TF_CPP_MIN_LOG_LEVEL: "3" },
  },
});
