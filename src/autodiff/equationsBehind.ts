import type { Tensor } from "../core/index.ts";
import type { Eqn } from "../core/op.ts";

/** The equations that `outputs` come from, oldest first, back to `stops`. */
export function equationsBehind(outputs: readonly Tensor[], stops: ReadonlySet<Tensor>): Eqn[] {
  const seen = new Set<Eqn>();
  const todo = [...outputs];
  for (let t = todo.pop(); t !== undefined; t = todo.pop()) {
    if (stops.has(t) || t.eqn === undefined || seen.has(t.eqn)) continue;
    seen.add(t.eqn);
    todo.push(...t.eqn.inputs);
  }
  return [...seen].sort((a, b) => a.id - b.id);
}
