"""The workload both Python peers train or evaluate, and the line protocol they speak.

A workload is a Llama (Hugging Face tensor names, weights [out, in]), one fixed list of token batches and one optimizer:
AdamW with a global-norm clip; or its forward pass and loss alone. Both peers get bit-equal FP32 weights and token ids, either from files or drawn here from one seed,
so their losses can be compared step by step.

Protocol, one line each way:
    -> {"peer": ..., "ready": true, "compileSeconds": ..., "warmupLosses": [...], "versions": {...}, ...}   once
    <- run N          -> {"peer": ..., "steps": N, "seconds": [...], "cpuSeconds": [...], "losses": [...], "tokensPerSecond": ...}
    <- reset          -> {"peer": ..., "reset": true}       back to step 0 and the first batch
    <- quit           ends the process (so does the end of stdin)
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

# Huge pages kept by the allocator: without them each step faults its temporaries in anew. Read at a process's start only.
ALLOCATORS = {
    "system": {},
    "glibc": {"GLIBC_TUNABLES": (Path(__file__).parents[2] / "bin" / "glibc-tunables").read_text().strip()},
    "jemalloc": {"LD_PRELOAD": "libjemalloc.so.2", "MALLOC_CONF": "thp:always,dirty_decay_ms:-1,muzzy_decay_ms:-1"},
    "tcmalloc": {"LD_PRELOAD": "libtcmalloc_minimal.so.4"},
}

LEARNING_RATE = 1e-3
BETA1, BETA2, EPSILON, WEIGHT_DECAY = 0.9, 0.95, 1e-8, 0.1
CLIP_NORM = 1.0
NORM_EPSILON = 1e-5
ROPE_THETA = 10000.0
INIT_STDDEV = 0.02


@dataclass(frozen=True)
class Workload:
    """Sizes of one step; the defaults are workload L8 (32.0 M parameters, 4096 tokens a step)."""

    layers: int = 8
    hidden: int = 512
    heads: int = 8
    kv: int = 4
    ffn: int = 1408
    vocab: int = 8192
    batch: int = 8
    seq: int = 512

    @property
    def head_dim(self) -> int:
        return self.hidden // self.heads


def parse_arguments(peer: str, add_more=lambda parser: None) -> tuple[argparse.Namespace, Workload]:
    """Reads the command line of script `peer`: sizes, files, threads and whatever `add_more` adds to the parser."""
    parser = argparse.ArgumentParser(prog=peer, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    for name, default in asdict(Workload()).items():
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--init", help="safetensors file with FP32 tensors under Hugging Face names; default: drawn from --seed")
    parser.add_argument("--tokens", help="raw little-endian int32 file [batches, batch, seq + 1]; default: drawn from --seed")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--batches", type=int, default=1, help="batches to draw without --tokens; the steps cycle over them")
    parser.add_argument("--threads", type=int, default=len(physical_cores()), help="one for each core")
    parser.add_argument("--dtype", choices=["bfloat16", "float32"], default="bfloat16", help="compute type; masters are FP32")
    parser.add_argument("--warmup", type=int, default=2, help="steps before `ready`; the state is reset after them")
    parser.add_argument("--tied", action="store_true", help="the embedding is the head")
    parser.add_argument("--forward", action="store_true", help="the forward pass and its loss alone; matrices are held in the compute type")
    parser.add_argument("--allocator", choices=ALLOCATORS, default="glibc", help="glibc: with tunables that keep huge pages")
    add_more(parser)
    arguments = parser.parse_args()
    workload = Workload(**{name: getattr(arguments, name) for name in asdict(Workload())})
    if workload.hidden % workload.heads or workload.heads % workload.kv:
        parser.error("hidden must be a multiple of heads, and heads of kv")
    return arguments, workload


def prepare_process(arguments: argparse.Namespace, environment: dict[str, str]) -> None:
    """Restarts this script once with the allocator settings and `environment`, then pins it to `--threads` cores.

    Call before the framework is imported. A variable the caller has set already is left alone.
    """
    wanted = {**environment, **ALLOCATORS[arguments.allocator]}
    missing = {name: value for name, value in wanted.items() if name not in os.environ}
    if missing and "HALFBYTE_PEER_STARTED" not in os.environ:
        os.environ.update(missing, HALFBYTE_PEER_STARTED="1")
        os.execv(sys.executable, [sys.executable, *sys.argv])
    os.sched_setaffinity(0, physical_cores()[: arguments.threads])


def physical_cores() -> list[int]:
    """One of the logical CPUs of each core that this process may use: PyTorch's advice is a thread a core."""
    first_of_core = {}
    for cpu in sorted(os.sched_getaffinity(0)):
        siblings = Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list")
        first_of_core.setdefault(siblings.read_text() if siblings.exists() else cpu, cpu)
    return list(first_of_core.values())


def parameter_shapes(w: Workload, tied: bool) -> dict[str, tuple[int, ...]]:
    """Hugging Face name -> shape, in file order. Linear weights are [out, in]; a tied head is the embedding."""
    shapes: dict[str, tuple[int, ...]] = {"model.embed_tokens.weight": (w.vocab, w.hidden)}
    for layer in range(w.layers):
        prefix = f"model.layers.{layer}."
        shapes |= {
            prefix + "input_layernorm.weight": (w.hidden,),
            prefix + "self_attn.q_proj.weight": (w.heads * w.head_dim, w.hidden),
            prefix + "self_attn.k_proj.weight": (w.kv * w.head_dim, w.hidden),
            prefix + "self_attn.v_proj.weight": (w.kv * w.head_dim, w.hidden),
            prefix + "self_attn.o_proj.weight": (w.hidden, w.heads * w.head_dim),
            prefix + "post_attention_layernorm.weight": (w.hidden,),
            prefix + "mlp.gate_proj.weight": (w.ffn, w.hidden),
            prefix + "mlp.up_proj.weight": (w.ffn, w.hidden),
            prefix + "mlp.down_proj.weight": (w.hidden, w.ffn),
        }
    shapes["model.norm.weight"] = (w.hidden,)
    return shapes if tied else {**shapes, "lm_head.weight": (w.vocab, w.hidden)}


def initial_weights(arguments: argparse.Namespace, w: Workload) -> dict:
    """FP32 numpy arrays by Hugging Face name, from --init or N(0, 0.02) with norms at 1."""
    import numpy as np

    shapes = parameter_shapes(w, arguments.tied)
    if arguments.init:
        from safetensors.numpy import load_file

        loaded = load_file(arguments.init)
        wrong = [name for name, shape in shapes.items() if name not in loaded or loaded[name].shape != shape or loaded[name].dtype != np.float32]
        if wrong:
            got = f"{loaded[wrong[0]].dtype} {loaded[wrong[0]].shape}" if wrong[0] in loaded else "nothing"
            sys.exit(f"--init {arguments.init}: {wrong[0]} must be float32 {shapes[wrong[0]]}, got {got}")
        return {name: loaded[name] for name in shapes}
    random = np.random.default_rng(arguments.seed)
    return {
        name: np.ones(shape, np.float32) if len(shape) == 1 else random.standard_normal(shape, np.float32) * np.float32(INIT_STDDEV)
        for name, shape in shapes.items()
    }


def token_batches(arguments: argparse.Namespace, w: Workload):
    """int32 numpy array [batches, batch, seq + 1]: inputs are [..., :-1], targets [..., 1:]."""
    import numpy as np

    per_batch = w.batch * (w.seq + 1)
    if arguments.tokens:
        flat = np.fromfile(arguments.tokens, dtype="<i4")
        if flat.size == 0 or flat.size % per_batch:
            sys.exit(f"--tokens {arguments.tokens}: got {flat.size} int32, must be a multiple of batch x (seq + 1) = {per_batch}")
        if flat.min() < 0 or flat.max() >= w.vocab:
            sys.exit(f"--tokens {arguments.tokens}: ids must lie in [0, {w.vocab}), got {flat.min()}..{flat.max()}")
        return flat.reshape(-1, w.batch, w.seq + 1)
    random = np.random.default_rng(arguments.seed + 1)
    return random.integers(0, w.vocab, (arguments.batches, w.batch, w.seq + 1), dtype=np.int32)


def rope_tables(w: Workload):
    """cos and sin, FP32 numpy [seq, head_dim], half-split layout: entry i and i + head_dim/2 turn together."""
    import numpy as np

    half = w.head_dim // 2
    frequency = ROPE_THETA ** (-np.arange(half, dtype=np.float64) / half)
    angle = np.arange(w.seq)[:, None] * frequency[None, :]
    angle = np.concatenate([angle, angle], axis=1)
    return np.cos(angle).astype(np.float32), np.sin(angle).astype(np.float32)


def versions(*packages: str) -> dict[str, str]:
    """Versions of Python and of installed packages."""
    from importlib.metadata import version

    return {"python": sys.version.split()[0], **{package: version(package) for package in packages}}


def settings(arguments: argparse.Namespace, *names: str) -> dict:
    """What was chosen on the command line, and what of the allocator is really in force."""
    shared = {name: getattr(arguments, name) for name in ("dtype", "threads", "allocator", *names)}
    return {**shared, "glibcTunables": os.environ.get("GLIBC_TUNABLES"), "preload": os.environ.get("LD_PRELOAD")}


def say(record: dict) -> None:
    """Writes one protocol line. Standard output carries nothing else."""
    print(json.dumps(record), flush=True)


def serve(peer: str, w: Workload, step, reset, ready: dict) -> None:
    """Announces readiness, then answers `run N`, `reset` and `quit` until told to stop.

    `step()` trains (or evaluates) one step and returns its loss as a float, which makes it wait for the result, so a step's time is whole.
    """
    say({"peer": peer, "ready": True, "workload": asdict(w), **ready})
    for line in sys.stdin:
        words = line.split()
        if not words:
            continue
        if words == ["quit"]:
            return
        if words == ["reset"]:
            reset()
            say({"peer": peer, "reset": True})
        elif len(words) == 2 and words[0] == "run" and words[1].isdigit() and int(words[1]) > 0:
            seconds, cpu_seconds, losses = [], [], []
            for _ in range(int(words[1])):
                start, cpu_start = time.perf_counter(), time.process_time()
                loss = step()
                seconds.append(time.perf_counter() - start)
                cpu_seconds.append(time.process_time() - cpu_start)  # of all threads, spinning included
                losses.append(loss if math.isfinite(loss) else None)  # JSON has no NaN
            rate = w.batch * w.seq / min(seconds)
            times = {"steps": len(seconds), "seconds": seconds, "cpuSeconds": cpu_seconds}
            say({"peer": peer, **times, "losses": losses, "tokensPerSecond": rate})
        else:
            say({"peer": peer, "error": f"got {line.strip()!r}; say `run N`, `reset` or `quit`"})


def cache_folder(*names: str) -> str:
    """A folder in the project's cache, made if absent."""
    base = os.environ.get("HALFBYTE_CACHE") or os.path.join(os.path.expanduser("~"), ".cache", "halfbyte")
    folder = os.path.join(base, "peers", *names)
    os.makedirs(folder, exist_ok=True)
    return folder
