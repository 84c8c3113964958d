/**
 * Where in a model an operation stands. It is for people, who read a program by its layers, and has no effect on what is
 * computed. Operations take the scope in which they are traced; those of a backward pass belong to the layer of the
 * operation they are the derivative of.
 */
export interface Scope {
  /** Names of the enclosing scopes: "layers.3.mlp.gate"; empty outside of all. */
  readonly path: string;
  /**
   * "backward", "recompute", or a linear layer's GEMM: "fprop", "dgrad", "wgrad", and what quantizes its operands:
   * "wgrad.quantize". Empty for what was written itself.
   */
  readonly pass: string;
  /** Of a linear layer's product: what its operands are quantized to: "nvfp4"; empty where they are not. */
  readonly format: string;
}

let current: Scope = { path: "", pass: "", format: "" };

export const currentScope = (): Scope => current;

/** f's result, its operations traced in `scope`. */
export function atScope<T>(scope: Scope, f: () => T): T {
  const outer = current;
  current = scope;
  try {
    return f();
  } finally {
    current = outer;
  }
}

/** f's result, its operations traced in the scope `name` (dots separate levels) inside the current one. */
export function namedScope<T>(name: string, f: () => T): T {
  const path = current.path === "" ? name : `${current.path}.${name}`;
  return atScope({ ...current, path }, f);
}

/** f's result, its operations traced in a pass of the current scope. */
export const inPass = <T>(pass: string, f: () => T, format = ""): T => atScope({ ...current, pass, format }, f);

/** "layers.3.mlp.gate:wgrad:nvfp4"; an empty part at the end is left out. `parseScope` reads it. */
export const showScope = ({ path, pass, format }: Scope): string => [path, pass, format].join(":").replace(/:+$/, "");

export function parseScope(text: string): Scope {
  const [path = "", pass = "", format = ""] = text.split(":");
  return { path, pass, format };
}
