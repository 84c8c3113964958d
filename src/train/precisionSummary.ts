/** What runs in which precision, in few lines: modules and blocks that compute alike share one. */
import { type PrecisionRow, precisionTable } from "../quant/index.ts";
import { linearShapesOf, type RunPlan } from "./plan.ts";

export interface PrecisionLine {
  /** "0–2" */
  readonly blocks: string;
  /** "attn.q k v o, mlp.gate up down" */
  readonly modules: string;
  readonly fprop: string;
  readonly dgrad: string;
  readonly wgrad: string;
  readonly runs: "native" | "emulated";
  /** Why it computes otherwise than the recipe says; and what is padded. */
  readonly remarks: string;
}

export function precisionLines({ precision, model, batchSize, sequenceLength }: RunPlan): PrecisionLine[] {
  const options = { modules: linearShapesOf(model), tokens: batchSize * sequenceLength, dtype: model.dtype };
  const rows = precisionTable(precision, options);
  const lines = new Map<string, { line: Omit<PrecisionLine, "modules">; modules: string[] }>();
  for (const { module } of options.modules) {
    for (const firstLayer of new Set(rows.map((row) => row.firstLayer))) {
      const gemms = rows.filter((row) => row.module === module && row.firstLayer === firstLayer);
      const line = lineOf(gemms);
      const key = JSON.stringify(line);
      const known = lines.get(key);
      if (known) known.modules.push(module);
      else lines.set(key, { line, modules: [module] });
    }
  }
  return [...lines.values()].map(({ line, modules }) => ({ ...line, modules: shortModules(modules) }));
}

function lineOf(gemms: readonly PrecisionRow[]): Omit<PrecisionLine, "modules"> {
  const first = gemms[0]!;
  const format = (gemm: PrecisionRow["gemm"]) => gemms.find((row) => row.gemm === gemm)!.format;
  const padding = gemms.filter((row) => row.padding !== "").map((row) => `${row.gemm} pads ${row.padding}`);
  return {
    blocks: first.firstLayer === first.lastLayer ? `${first.firstLayer}` : `${first.firstLayer}–${first.lastLayer}`,
    fprop: format("fprop"),
    dgrad: format("dgrad"),
    wgrad: format("wgrad"),
    runs: gemms.some((row) => row.runs === "emulated") ? "emulated" : "native",
    remarks: [...reasonsOf(gemms), ...padding].join("; "),
  };
}

/** Why GEMMs compute otherwise than the recipe says: once where all three have one reason, else by GEMM. */
function reasonsOf(gemms: readonly PrecisionRow[]): string[] {
  const reasons = [...new Set(gemms.map(({ reason }) => reason))].filter((reason) => reason !== "");
  const those = (reason: string) => gemms.filter((row) => row.reason === reason).map(({ gemm }) => gemm);
  return reasons.map((reason) => {
    const names = those(reason);
    return names.length === gemms.length ? reason : `${names.join(" and ")} by ${reason}`;
  });
}

/** "attn.q", "attn.k", "mlp.up" → "attn.q k, mlp.up" */
export function shortModules(modules: readonly string[]): string {
  const groups = new Map<string, string[]>();
  for (const module of modules) {
    const [group = "", name = ""] = module.split(".");
    groups.set(group, [...(groups.get(group) ?? []), name]);
  }
  return [...groups].map(([group, names]) => `${group}.${names.join(" ")}`).join(", ");
}
