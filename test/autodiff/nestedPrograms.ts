/** Random functions of nested conds, scans, remats, composites, rules of their own and inner gradients, for float64. */
import { composite, cond, customVjp, grad, type RematPolicy, remat, scan } from "../../src/autodiff/index.ts";
import { checkpointName, cumsum, dot, iota, type Tensor } from "../../src/core/index.ts";

/** A function of the vectors of three elements in scope, which gives another one. */
type Node = (scope: readonly Tensor[]) => Tensor;

export interface NestedProgram {
  readonly f: (x: Tensor) => Tensor;
  /** Its structure, for the message of a failure. */
  readonly text: string;
}

/** Whole numbers from 0 to below a limit, from a seed. */
function choices(seed: number): (limit: number) => number {
  let state = Math.imul(seed, 0x9e3779b1) >>> 0;
  return (limit) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 2 ** 32) * limit);
  };
}

const policies: readonly RematPolicy[] = [{}, { names: ["kept"] }, { dots: true }, { names: ["kept"], dots: true }];

const sinOfProduct = customVjp({
  fwd: (x: Tensor, y: Tensor) => ({ out: x.mul(y).sin(), residuals: { x, y } }),
  bwd: ({ x, y }, ct) => {
    const d = ct.mul(x.mul(y).cos());
    return [d.mul(y), d.mul(x)];
  },
});

const weighted = (y: Tensor): Tensor => y.mul(iota([3], 0, "float64").add(0.5)).sum();
/** y, with a contraction for policies to keep. */
const scaledByNorm = (y: Tensor): Tensor =>
  dot(y.reshape([1, 3]), y.reshape([3, 1]))
    .reshape([1])
    .broadcastTo([3])
    .tanh()
    .mul(0.3)
    .add(y);

/** A scalar function of six elements; `depth` bounds how deep functions nest. */
export function nestedProgram(seed: number, depth: number): NestedProgram {
  const choose = choices(seed);
  const text: string[] = [];
  /** `size` is the number of vectors in scope, of which any may be read: from how many functions outside it comes is chance. */
  const grow = (depth: number, size: number): Node => {
    const pick = (): Node => {
      const place = choose(size);
      return (scope) => scope[place]!;
    };
    const inside = (name: string, ...added: number[]): Node[] => {
      text.push(`${name}(`);
      const nodes = added.map((n) => grow(depth - 1, size + n));
      text.push(")");
      return nodes;
    };
    const [a, b] = [pick(), pick()];
    const leaves: readonly (() => Node)[] = [
      () => (s) => a(s).mul(b(s)).sin(),
      () => (s) => a(s).mul(0.5).add(b(s).tanh()),
      () => (s) => cumsum(a(s), 0).mul(0.3).add(a(s).sin().exp().mul(0.1)),
      () => (s) => sinOfProduct(a(s), b(s)),
    ];
    const branches: readonly (() => Node)[] = [
      () => {
        const [first, then] = inside("let", 0, 1);
        return (s) => then!([...s, first!(s)]);
      },
      () => {
        const [onTrue, onFalse] = inside("cond", 1, 1);
        const pred = (s: readonly Tensor[]) => b(s).sum().gt(0.1);
        return (s) =>
          cond(
            pred(s),
            (q: Tensor) => onTrue!([...s, q]),
            (q: Tensor) => onFalse!([...s, q]),
            a(s).cos(),
          );
      },
      () => {
        const options = { reverse: choose(2) === 1, unroll: 1 + choose(2) };
        const [carry, y] = inside(`scan${JSON.stringify(options)}`, 2, 2);
        return (s) => {
          const step = (c: Tensor, x: Tensor) => {
            const all = [...s, c, x.broadcastTo([3])];
            return { carry: carry!(all).mul(0.8), y: y!(all).sum() };
          };
          const found = scan(step, a(s), b(s), options);
          return found.ys.sub(found.carry.mul(0.3));
        };
      },
      () => {
        const policy = policies[choose(policies.length)]!;
        const [kept, then] = inside(`remat${JSON.stringify(policy)}`, 1, 2);
        const body = (s: readonly Tensor[], q: Tensor) => {
          const k = checkpointName(kept!([...s, q]), "kept");
          return then!([...s, q, scaledByNorm(k)]);
        };
        return (s) => remat((q: Tensor) => body(s, q), policy)(a(s).cos());
      },
      () => {
        const [body] = inside("composite", 1);
        return (s) => composite("test.nested", (q: Tensor) => body!([...s, q]))(a(s));
      },
      () => {
        const [body] = inside("grad", 1);
        return (s) =>
          grad((q: Tensor) => weighted(body!([...s, q])))(a(s))
            .mul(0.3)
            .tanh();
      },
    ];
    const kinds = depth <= 0 ? leaves : choose(8) === 0 ? leaves : branches;
    return kinds[choose(kinds.length)]!();
  };
  const node = grow(depth, 2);
  return { f: (x) => weighted(node([x.narrow(0, 0, 3), x.narrow(0, 3, 3)])), text: text.join("") };
}
