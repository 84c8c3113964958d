"""PyTorch peer: the Llama training step in BF16 or FP32, or with the blocks' linear layers in emulated low precision, by torch.compile
or eager. Protocol and workload: workload.py.

FP32 master weights, cast to the compute type where they are used (measured faster than autocast); residual stream in the compute type;
RMSNorm, RoPE and loss in FP32; fused AdamW. The defaults are the fastest of what was measured, see README.md.
"""

from __future__ import annotations

import logging
import sys
import time

import workload as wl


def add_more(parser):
    parser.add_argument(
        "--mode",
        choices=["compile", "max-autotune", "blocks", "eager"],
        help="blocks: each block and the head compiled by themselves; default: compile, with --quantized blocks",
    )
    parser.add_argument("--quantized", help="emulate low precision in the blocks' linear layers, by a name of quantized_linears.py")
    parser.add_argument(
        "--attention",
        choices=["sdpa", "softmax", "rows"],
        default="softmax",
        help="sdpa: F.scaled_dot_product_attention; softmax: written out; rows: written out, causal blocks of 128 rows",
    )
    parser.add_argument("--fresh", action="store_true", help="compile without inductor's cache, for a true compile time")


arguments, w = wl.parse_arguments("torch_llama.py", add_more)
# One block compiles in a minute where quantizers are in it, and serves all.
arguments.mode = arguments.mode or ("blocks" if arguments.quantized else "compile")
environment = {
    "CUDA_VISIBLE_DEVICES": "",
    "OMP_NUM_THREADS": str(arguments.threads),
    "OMP_PROC_BIND": "close",
    "TORCHINDUCTOR_CACHE_DIR": wl.cache_folder("inductor"),
}
if arguments.fresh:
    environment["TORCHINDUCTOR_FORCE_DISABLE_CACHES"] = "1"
wl.prepare_process(arguments, environment)

import torch  # noqa: E402  (after the process has its environment)
import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402

torch.set_flush_denormal(True)  # as XLA; before threads exist, which inherit it
torch.set_num_threads(arguments.threads)
torch.set_float32_matmul_precision("highest")  # FP32 is true FP32
logging.getLogger("torch.utils.flop_counter").setLevel(logging.ERROR)  # it misses triton, which only a GPU needs
DTYPE = {"bfloat16": torch.bfloat16, "float32": torch.float32}[arguments.dtype]
BLOCK_ROWS = 128


def cast_linear(x, weight):
    """x [..., in] times an FP32 master [out, in], in the compute type."""
    return F.linear(x, weight.to(DTYPE))


def block_linear():
    """The function of the blocks' linear layers."""
    if arguments.quantized is None:
        return cast_linear
    import quantized_linears

    if arguments.quantized not in quantized_linears.QUANTIZATIONS:
        sys.exit(f"--quantized {arguments.quantized}: known are {', '.join(quantized_linears.QUANTIZATIONS)}")
    return quantized_linears.build(arguments.quantized)


BLOCK_LINEAR = block_linear()
RUNS_EAGERLY = getattr(BLOCK_LINEAR, "runs_eagerly", False)


class CastLinear(nn.Linear):
    """A bias-free linear layer: FP32 master, multiplied in the compute type."""

    def __init__(self, inputs: int, outputs: int):
        super().__init__(inputs, outputs, bias=False)

    def forward(self, x):
        return cast_linear(x, self.weight)


class BlockLinear(CastLinear):
    """A linear layer of a block, quantized where that was asked for."""

    def forward(self, x):
        return BLOCK_LINEAR(x, self.weight)


class RmsNorm(nn.Module):
    """RMSNorm in FP32, output in the compute type."""

    def __init__(self, size: int):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))

    def forward(self, x):
        wide = x.float()
        scale = torch.rsqrt(wide.square().mean(-1, keepdim=True) + wl.NORM_EPSILON)
        return (wide * scale * self.weight).to(DTYPE)


def rotate(x, cos, sin):
    """RoPE on [batch, heads, seq, head_dim], half-split, in FP32."""
    wide = x.float()
    low, high = wide.chunk(2, dim=-1)
    return (wide * cos + torch.cat([-high, low], dim=-1) * sin).to(DTYPE)


def attend(q, k, v):
    """Causal grouped-query attention on [batch, heads, seq, head_dim]; softmax in FP32."""
    if arguments.attention == "sdpa":
        return F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=w.heads != w.kv)
    k = k.repeat_interleave(w.heads // w.kv, dim=1)
    v = v.repeat_interleave(w.heads // w.kv, dim=1)
    seq = q.shape[2]
    rows = BLOCK_ROWS if arguments.attention == "rows" else seq
    mask = torch.ones(seq, seq, dtype=torch.bool).tril()
    outputs = []
    for start in range(0, seq, rows):
        end = min(start + rows, seq)
        scores = (q[:, :, start:end] @ k[:, :, :end].transpose(-1, -2)).float() * w.head_dim**-0.5
        scores = scores.masked_fill(~mask[start:end, :end], float("-inf"))
        outputs.append(torch.softmax(scores, dim=-1).to(DTYPE) @ v[:, :, :end])
    return torch.cat(outputs, dim=2)


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.q_proj = BlockLinear(w.hidden, w.heads * w.head_dim)
        self.k_proj = BlockLinear(w.hidden, w.kv * w.head_dim)
        self.v_proj = BlockLinear(w.hidden, w.kv * w.head_dim)
        self.o_proj = BlockLinear(w.heads * w.head_dim, w.hidden)

    def forward(self, x, cos, sin):
        batch, seq, _ = x.shape

        def split(y):
            return y.view(batch, seq, -1, w.head_dim).transpose(1, 2)

        q = rotate(split(self.q_proj(x)), cos, sin)
        k = rotate(split(self.k_proj(x)), cos, sin)
        y = attend(q, k, split(self.v_proj(x)))
        return self.o_proj(y.transpose(1, 2).reshape(batch, seq, -1))


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate_proj = BlockLinear(w.hidden, w.ffn)
        self.up_proj = BlockLinear(w.hidden, w.ffn)
        self.down_proj = BlockLinear(w.ffn, w.hidden)

    def forward(self, x):
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.input_layernorm = RmsNorm(w.hidden)
        self.self_attn = Attention()
        self.post_attention_layernorm = RmsNorm(w.hidden)
        self.mlp = Mlp()

    def forward(self, x, cos, sin):
        x = x + self.self_attn(self.input_layernorm(x), cos, sin)
        return x + self.mlp(self.post_attention_layernorm(x))


class Body(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed_tokens = nn.Embedding(w.vocab, w.hidden)
        self.layers = nn.ModuleList(Block() for _ in range(w.layers))
        self.norm = RmsNorm(w.hidden)


class Llama(nn.Module):
    """Token ids and targets [batch, seq] -> mean cross-entropy (FP32). Module names are the Hugging Face tensor names."""

    def __init__(self):
        super().__init__()
        self.model = Body()
        if not arguments.tied:
            self.lm_head = CastLinear(w.hidden, w.vocab)
        cos, sin = wl.rope_tables(w)
        self.register_buffer("cos", torch.from_numpy(cos), persistent=False)
        self.register_buffer("sin", torch.from_numpy(sin), persistent=False)

    def forward(self, ids, targets):
        x = self.model.embed_tokens(ids).to(DTYPE)
        for block in self.model.layers:
            x = block(x, self.cos, self.sin)
        return self.loss(x, targets)

    def loss(self, x, targets):
        head = self.model.embed_tokens if arguments.tied else self.lm_head
        logits = cast_linear(self.model.norm(x), head.weight).float()
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def main() -> None:
    weights = {name: torch.from_numpy(array) for name, array in wl.initial_weights(arguments, w).items()}
    tokens = torch.from_numpy(wl.token_batches(arguments, w)).long()
    batches = [(batch[:, :-1].contiguous(), batch[:, 1:].contiguous()) for batch in tokens]
    model = Llama()
    model.load_state_dict(weights)
    if arguments.forward:
        for parameter in model.parameters():
            parameter.requires_grad_(False)
            if parameter.dim() > 1:
                parameter.data = parameter.data.to(DTYPE)
    parameters = list(model.parameters())
    optimizer = torch.optim.AdamW(
        parameters,
        lr=wl.LEARNING_RATE,
        betas=(wl.BETA1, wl.BETA2),
        eps=wl.EPSILON,
        weight_decay=wl.WEIGHT_DECAY,
        fused=True,
    )
    loss_of = model
    if arguments.mode == "blocks":
        for block in model.model.layers:
            block.compile(fullgraph=not RUNS_EAGERLY)
        model.loss = torch.compile(model.loss)
    elif arguments.mode != "eager":
        loss_of = torch.compile(model, fullgraph=True, mode="default" if arguments.mode == "compile" else arguments.mode)
    done = 0

    def step() -> float:
        nonlocal done
        batch = batches[done % len(batches)]
        done += 1
        if arguments.forward:
            with torch.no_grad():
                return loss_of(*batch).item()
        loss = loss_of(*batch)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, wl.CLIP_NORM)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss.item()

    def reset() -> None:
        nonlocal done
        done = 0
        if arguments.forward:
            return
        torch.manual_seed(arguments.seed)  # for stochastic rounding
        model.load_state_dict(weights)
        for state in optimizer.state.values():
            for value in state.values():
                value.zero_()

    start = time.perf_counter()
    losses = [step()]
    compile_seconds = time.perf_counter() - start
    losses += [step() for _ in range(arguments.warmup - 1)]
    reset()
    ready = {
        "compileSeconds": compile_seconds,  # the first step, which compiles; with inductor's cache unless --fresh
        "warmupLosses": losses,
        "versions": wl.versions("torch", "numpy"),
        "settings": wl.settings(arguments, "mode", "attention", "fresh", "quantized"),
    }
    wl.serve(f"torch-{arguments.quantized}" if arguments.quantized else "torch", w, step, reset, ready)


main()
