/**
 * shardMap: one function, run by every device of a mesh on its own pieces, with collectives where devices meet. XLA's
 * partitioner leaves it alone. Its reverse rule runs the function's reverse in a second shardMap; values of the forward
 * pass that this reads become further outputs, stacked along a new dim 0 that has an entry for each device.
 */
import { backward } from "../autodiff/backward.ts";
import { asGiven, type Captures, capturesOf, residualsOf } from "../autodiff/bodies.ts";
import { HalfbyteError, ShapeError } from "../base/errors.ts";
import {
  apply,
  type Emitted,
  type Emitter,
  type Eqn,
  type Mesh,
  makeProgram,
  type Op,
  type Program,
  parameter,
  type Shape,
  type Spec,
  sameShape,
  sizeOf,
  Tensor,
  treeLeaves,
  treePaths,
  treeUnflatten,
  type Values,
  type VjpRule,
  where,
  zeros,
} from "../core/index.ts";
import { evaluateProgram } from "../core/trace.ts";
import { allocate } from "../core/values.ts";
import { allReduceOn, axisIndexOn } from "./collectives.ts";
import { checkMesh } from "./constraint.ts";
import { perDeviceMesh, runOnDevices, tracePerDevice } from "./exchange.ts";
import { meshSize, showMesh } from "./mesh.ts";
import {
  type Partition,
  partition,
  replicated,
  type Sharding,
  shardyText,
  showPartition,
  tracedPieceShape,
  wholeShape,
} from "./partition.ts";
import { placePiece, splitArray } from "./pieces.ts";
import { type PartitionTree, partitionsFor } from "./prefix.ts";

/** How a value outside stands to the devices' values inside. */
interface Lane {
  readonly partition: Partition;
  /** Outside there is a dim 0 more, with the value of each device. */
  readonly stacked: boolean;
}

interface ShardMapParams {
  readonly mesh: Mesh;
  /** Inputs: captured tensors, then pieces. Outputs: pieces. */
  readonly body: Program;
  /** The body's outputs as traced, where they may be markers. */
  readonly results: readonly Tensor[];
  readonly numCaptures: number;
  /** Of the inputs, captures among them, and of the outputs. */
  readonly ins: readonly Lane[];
  readonly outs: readonly Lane[];
}

const whole: Lane = { partition: replicated, stacked: false };
const stackedLane = ({ axes }: Mesh): Lane => ({ partition: partition(axes.map(({ name }) => name)), stacked: true });

/** The spec outside of one device's value. */
function outside({ shape, dtype }: Spec, mesh: Mesh, { partition, stacked }: Lane): Spec {
  return { shape: wholeShape(stacked ? [1, ...shape] : shape, { mesh, partition }), dtype };
}

const shardMapOp: Op<ShardMapParams> = {
  name: "shard_map",
  shape: (_, { mesh, results, outs }) => results.map((t, i) => outside(t, mesh, outs[i]!)),
  vjp: (args) => reverseShardMap(args),
  lower: (e, inputs, params, outputs) => emitShardMap(e, inputs, params, outputs),
  interpret: (inputs, params, outputs) => interpretShardMap(inputs, params, outputs),
  show: ({ mesh, ins, outs }) => {
    const list = (lanes: readonly Lane[]) => lanes.map((lane) => showPartition(lane.partition)).join(", ");
    return `${showMesh(mesh)}: ${list(ins)} → ${list(outs)}`;
  },
  programs: ({ body }) => ({ body }),
};

/** The mesh, and how arguments and results lie on it. */
export interface ShardMapOptions {
  readonly mesh: Mesh;
  /** How each argument is cut: a Partition, a tree of them, or a prefix of one. */
  readonly in: readonly PartitionTree[];
  /** How the pieces of the result are put together. Over axes that it does not name, all devices must give the same. */
  readonly out: PartitionTree;
}

/**
 * The function of whole Tensors that lets each device run f on its pieces. Inside, shapes are those of pieces; Tensors
 * from outside may be used and are whole. Compile it by `jit` with the same mesh. @throws ShapeError
 */
export function shardMap<A extends readonly unknown[], R>(
  f: (...args: A) => R,
  { mesh, in: inPartitions, out: outPartitions }: ShardMapOptions,
): (...args: A) => R {
  return (...args) => {
    if (perDeviceMesh() !== undefined) throw new ShapeError("shardMap: one can't stand inside another");
    const leaves = treeLeaves<Tensor>(args);
    const paths = treePaths(args);
    const cut = partitionsFor(inPartitions, args, "shardMap: in");
    const pieces = leaves.map(({ shape, dtype }, i) => {
      const sharding: Sharding = { mesh, partition: cut[i]! };
      const what = `shardMap: argument ${paths[i]!.path}`;
      return parameter({ shape: tracedPieceShape({ shape, dtype }, sharding, what), dtype });
    });
    const out = tracePerDevice(mesh, () => f(...treeUnflatten<A>([...args], pieces)));
    const results = treeLeaves<Tensor>(out);
    const joined = partitionsFor(outPartitions, out, "shardMap: out");
    results.forEach((t, i) => {
      if (!(t instanceof Tensor)) throw new ShapeError(`shardMap: the function must return Tensors; got ${typeof t}`);
      // The whole shape always fits; the partition may name too many dims or unknown axes.
      tracedPieceShape(
        outside(t, mesh, { partition: joined[i]!, stacked: false }),
        { mesh, partition: joined[i]! },
        "shardMap: result",
      );
    });
    const lanes = (list: readonly Partition[]) => list.map((partition): Lane => ({ partition, stacked: false }));
    const outputs = applyShardMap({ mesh, pieces, results, inputs: leaves, ins: lanes(cut), outs: lanes(joined) });
    return treeUnflatten<R>(out, outputs);
  };
}

interface ShardMapParts {
  readonly mesh: Mesh;
  /** The body's own parameters, and what they are cut from. */
  readonly pieces: readonly Tensor[];
  readonly inputs: readonly Tensor[];
  readonly ins: readonly Lane[];
  readonly results: readonly Tensor[];
  readonly outs: readonly Lane[];
  /** Those of the shardMap whose reverse this is. */
  readonly forward?: Captures;
}

function applyShardMap({ mesh, pieces, inputs, ins, results, outs, forward }: ShardMapParts): readonly Tensor[] {
  const captures = capturesOf(results, pieces);
  const params: ShardMapParams = {
    mesh,
    body: makeProgram([...captures, ...pieces], results),
    results,
    numCaptures: captures.length,
    ins: [...captures.map(() => whole), ...ins],
    outs,
  };
  const given = forward === undefined ? captures : asGiven(captures, forward);
  return apply(shardMapOp, [...given, ...inputs], params);
}

/** Axes over which the values of a lane are copies of each other. */
function copyAxes({ axes }: Mesh, { partition }: Lane): string[] {
  const used = partition.splits.flat();
  return axes.map(({ name }) => name).filter((name) => !used.includes(name));
}

/** A copied output's cotangent belongs to one of the copies: the first device's. */
function onFirstCopy(ct: Tensor, mesh: Mesh, lane: Lane): Tensor {
  return copyAxes(mesh, lane).reduce((t, axis) => where(axisIndexOn(mesh, axis).eq(0), t, zeros(t.shape, t.dtype)), ct);
}

const reverseShardMap: VjpRule<ShardMapParams> = ({ inputs, params, cts, needs, eqn }) => {
  const { mesh, body, results, outs } = params;
  const withCt = results.map((_, i) => i).filter((i) => cts[i] !== undefined);
  const ctPieces = withCt.map((i) => parameter(results[i]!));
  const innerCts = results.map((_, i) => {
    const piece = ctPieces[withCt.indexOf(i)];
    return piece && onFirstCopy(piece, mesh, outs[i]!);
  });
  const wanted = inputs.map((_, i) => i).filter((i) => needs[i]);
  const found = backward(
    results,
    innerCts,
    wanted.map((i) => body.inputs[i]!),
  );
  const reached = wanted.flatMap((i, k) => (found[k] === undefined ? [] : [{ input: i, ct: found[k]! }]));
  // Each copy of an input has a cotangent of its own; the input's is their sum.
  const sums = reached.map(({ input, ct }) =>
    copyAxes(mesh, params.ins[input]!).reduce((t, axis) => allReduceOn(t, { mesh, axis, kind: "sum" }), ct),
  );
  const pieces = body.inputs.slice(params.numCaptures);
  const forward = capturesOfShardMap(eqn);
  const residuals = residualsOf(sums, eqn, pieces);
  growOutputs(
    eqn,
    residuals.filter((t) => !pieces.includes(t)),
  );
  const grown = eqn.params as ShardMapParams;
  const sources = residuals.map((t) => {
    const piece = pieces.indexOf(t);
    const at = piece >= 0 ? params.numCaptures + piece : grown.results.indexOf(t);
    return piece >= 0
      ? { outer: inputs[at]!, lane: params.ins[at]! }
      : { outer: eqn.outputs[at]!, lane: grown.outs[at]! };
  });
  const outputs = applyShardMap({
    mesh,
    pieces: [...ctPieces, ...residuals],
    inputs: [...withCt.map((i) => cts[i]!), ...sources.map(({ outer }) => outer)],
    ins: [...withCt.map((i) => outs[i]!), ...sources.map(({ lane }) => lane)],
    results: sums,
    outs: reached.map(({ input }) => params.ins[input]!),
    forward,
  });
  const all: (Tensor | undefined)[] = inputs.map(() => undefined);
  reached.forEach(({ input }, i) => {
    all[input] = outputs[i];
  });
  return all;
};

function capturesOfShardMap({ inputs, params }: Eqn): Captures {
  const { body, numCaptures } = params as ShardMapParams;
  return { named: body.inputs.slice(0, numCaptures), given: inputs.slice(0, numCaptures) };
}

/** Makes the forward shardMap also give `extra` values of each device, stacked. */
function growOutputs(eqn: Eqn, extra: readonly Tensor[]): void {
  const params = eqn.params as ShardMapParams;
  const { mesh, body, numCaptures } = params;
  const added = extra.filter((t) => !params.results.includes(t));
  if (added.length === 0) return;
  const results = [...params.results, ...added];
  const pieces = body.inputs.slice(numCaptures);
  const captures = capturesOf(results, pieces);
  const lane = stackedLane(mesh);
  const forward = capturesOfShardMap(eqn);
  eqn.params = {
    mesh,
    body: makeProgram([...captures, ...pieces], results),
    results,
    numCaptures: captures.length,
    ins: [...captures.map(() => whole), ...params.ins.slice(numCaptures)],
    outs: [...params.outs, ...added.map(() => lane)],
  } satisfies ShardMapParams;
  eqn.inputs = [...asGiven(captures, forward), ...eqn.inputs.slice(numCaptures)];
  eqn.outputs = [...eqn.outputs, ...added.map((t) => new Tensor(outside(t, mesh, lane), eqn))];
}

function emitShardMap(
  e: Emitter,
  inputs: readonly Emitted[],
  { mesh, body, ins, outs }: ShardMapParams,
  outputs: readonly Spec[],
): readonly Emitted[] {
  checkMesh(e, mesh, "shardMap");
  const perValue = (lanes: readonly Lane[], specs: readonly Spec[]) =>
    `#sdy.sharding_per_value<[${lanes.map((lane, i) => shardyText(lane.partition, specs[i]!.shape.length)).join(", ")}]>`;
  const attributes = {
    in_shardings: perValue(ins, inputs),
    out_shardings: perValue(outs, outputs),
    manual_axes: `#sdy<manual_axes{${mesh.axes.map(({ name }) => `"${name}"`).join(", ")}}>`,
  };
  const reshaped = (x: Emitted, shape: Shape): Emitted =>
    sameShape(x.shape, shape) ? x : e.op("stablehlo.reshape", [x], [{ shape, dtype: x.dtype }])[0]!;
  const piece = ({ shape, dtype }: Spec, { stacked }: Lane): Spec => ({
    shape: stacked ? [1, ...shape] : shape,
    dtype,
  });
  return e.op("sdy.manual_computation", inputs, outputs, attributes, [
    {
      perDevice: true,
      inputs: body.inputs.map((t, i) => piece(t, ins[i]!)),
      body: (...args) => {
        const results = e.inline(
          body,
          args.map((arg, i) => reshaped(arg, body.inputs[i]!.shape)),
        );
        return results.map((x, i) => reshaped(x, piece(x, outs[i]!).shape));
      },
    },
  ]);
}

function interpretShardMap(
  inputs: readonly Values[],
  { mesh, body, ins, outs }: ShardMapParams,
  outputs: readonly Spec[],
): Values[] {
  const numDevices = meshSize(mesh);
  const sharding = ({ partition }: Lane): Sharding => ({ mesh, partition });
  const cut = inputs.map((x, i) =>
    splitArray(x, sharding(ins[i]!)).map((piece): Values => ({ ...piece, shape: body.inputs[i]!.shape })),
  );
  const results = evaluateProgram<readonly Values[]>(body, cut, ({ op, params, outputs: specs }, operands) => {
    const byDevice = runOnDevices(numDevices, (device) =>
      op.interpret(
        operands.map((pieces) => pieces[device]!),
        params,
        specs,
      ),
    );
    return specs.map((_, i) => byDevice.map((list) => list[i]!));
  });
  return outputs.map((spec, i) => {
    const lane = outs[i]!;
    const joined: Values = { ...spec, data: allocate(spec.dtype, sizeOf(spec.shape)) };
    results[i]!.forEach((piece, device) => {
      placePiece(joined, lane.stacked ? { ...piece, shape: [1, ...piece.shape] } : piece, sharding(lane), device);
    });
    checkCopies(joined, results[i]!, sharding(lane), i);
    return { shape: spec.shape, dtype: spec.dtype, data: joined.data };
  });
}

/** @throws HalfbyteError where devices whose results should be copies gave different ones. */
function checkCopies(joined: Values, pieces: readonly Values[], sharding: Sharding, output: number): void {
  splitArray(joined, sharding).forEach(({ data }, device) => {
    const at = data.findIndex((x: number, i: number) => !Object.is(x, pieces[device]!.data[i]));
    if (at < 0) return;
    throw new HalfbyteError(
      "E_SHARDING",
      `shardMap: result ${output} is ${pieces[device]!.data[at]} on device ${device} and ${data[at]} on another, but its partition ${showPartition(sharding.partition)} says they are copies; reduce it over the mesh, or name the axis`,
    );
  });
}
