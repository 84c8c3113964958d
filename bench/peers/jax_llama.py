"""JAX peer: the Llama training step in BF16 or FP32 on XLA's CPU backend, as a JAX user writes it. Protocol and workload: workload.py.

FP32 master weights, cast to the compute type where they are used; RMSNorm, RoPE, softmax and loss in FP32; the whole step in one
jit with the state donated.
"""

from __future__ import annotations

import time

import workload as wl


def add_more(parser):
    parser.add_argument("--blocks", choices=["unrolled", "scan"], default="unrolled", help="how the layers are repeated")
    parser.add_argument("--attention", choices=["einsum", "library"], default="einsum", help="einsums or jax.nn.dot_product_attention")
    parser.add_argument("--products", choices=["compute", "wide"], default="compute", help="what a linear layer's product gives: the compute type, or FP32 that is then cast")


arguments, w = wl.parse_arguments("jax_llama.py", add_more)
wl.prepare_process(arguments, {"JAX_PLATFORMS": "cpu"})

import jax  # noqa: E402  (after the process has its environment)
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402

DTYPE = {"bfloat16": jnp.bfloat16, "float32": jnp.float32}[arguments.dtype]
COS, SIN = wl.rope_tables(w)
if arguments.dtype == "float32":
    jax.config.update("jax_default_matmul_precision", "highest")  # true FP32 wherever a faster form exists


def linear(x, weight):
    """x [..., in] times a weight [out, in], in the compute type."""
    if arguments.products == "wide":
        return jnp.matmul(x, weight.astype(DTYPE).T, preferred_element_type=jnp.float32).astype(DTYPE)
    return x @ weight.astype(DTYPE).T


def rms_norm(x, weight):
    wide = x.astype(jnp.float32)
    scale = jax.lax.rsqrt(jnp.mean(jnp.square(wide), axis=-1, keepdims=True) + wl.NORM_EPSILON)
    return (wide * scale * weight).astype(DTYPE)


def rotate(x):
    """RoPE on [batch, seq, heads, head_dim], half-split, in FP32."""
    wide = x.astype(jnp.float32)
    low, high = jnp.split(wide, 2, axis=-1)
    turned = jnp.concatenate([-high, low], axis=-1)
    return (wide * COS[:, None, :] + turned * SIN[:, None, :]).astype(DTYPE)


def attend(q, k, v):
    """Causal grouped-query attention, [batch, seq, heads, head_dim]; softmax in FP32."""
    if arguments.attention == "library":
        return jax.nn.dot_product_attention(q, k, v, is_causal=True)
    batch, seq = q.shape[:2]
    grouped = q.reshape(batch, seq, w.kv, w.heads // w.kv, w.head_dim)
    scores = jnp.einsum("bqkgd,bskd->bkgqs", grouped, k, preferred_element_type=jnp.float32) * w.head_dim**-0.5
    scores = jnp.where(jnp.tril(jnp.ones((seq, seq), bool)), scores, -jnp.inf)
    weights = jax.nn.softmax(scores, axis=-1).astype(DTYPE)
    return jnp.einsum("bkgqs,bskd->bqkgd", weights, v).reshape(q.shape)


def block(x, p):
    batch, seq, _ = x.shape
    y = rms_norm(x, p["input_layernorm"])
    q, k, v = (linear(y, p[f"self_attn.{name}_proj"]).reshape(batch, seq, -1, w.head_dim) for name in "qkv")
    x = x + linear(attend(rotate(q), rotate(k), v).reshape(batch, seq, -1), p["self_attn.o_proj"])
    y = rms_norm(x, p["post_attention_layernorm"])
    return x + linear(jax.nn.silu(linear(y, p["mlp.gate_proj"])) * linear(y, p["mlp.up_proj"]), p["mlp.down_proj"])


def loss_of(params, ids, targets):
    """Token ids and targets [batch, seq] -> mean cross-entropy (FP32)."""
    x = params["embed_tokens"][ids].astype(DTYPE)
    if arguments.blocks == "scan":
        x, _ = jax.lax.scan(lambda carry, p: (block(carry, p), None), x, params["layers"])
    else:
        for p in params["layers"]:
            x = block(x, p)
    x = rms_norm(x, params["norm"])
    head = params["embed_tokens" if arguments.tied else "lm_head"]
    logits = jnp.matmul(x, head.astype(DTYPE).T, preferred_element_type=jnp.float32)
    chosen = jnp.take_along_axis(logits, targets[..., None], axis=-1)[..., 0]
    return jnp.mean(jax.nn.logsumexp(logits, axis=-1) - chosen)


def train_step(state, ids, targets):
    """One AdamW step with a global-norm clip. state = {params, m, v, count}."""
    loss, grads = jax.value_and_grad(loss_of)(state["params"], ids, targets)
    norm = jnp.sqrt(sum(jnp.sum(jnp.square(g)) for g in jax.tree.leaves(grads)))
    scale = jnp.minimum(1.0, wl.CLIP_NORM / (norm + 1e-6))
    count = state["count"] + 1
    time_step = count.astype(jnp.float32)
    correction1, correction2 = 1 - wl.BETA1**time_step, 1 - wl.BETA2**time_step
    grads = jax.tree.map(lambda g: g * scale, grads)
    m = jax.tree.map(lambda m, g: wl.BETA1 * m + (1 - wl.BETA1) * g, state["m"], grads)
    v = jax.tree.map(lambda v, g: wl.BETA2 * v + (1 - wl.BETA2) * g * g, state["v"], grads)

    def update(p, m, v):
        direction = (m / correction1) / (jnp.sqrt(v / correction2) + wl.EPSILON)
        return p - wl.LEARNING_RATE * (direction + wl.WEIGHT_DECAY * p)

    return {"params": jax.tree.map(update, state["params"], m, v), "m": m, "v": v, "count": count}, loss


def as_tree(weights):
    """Hugging Face names -> {embed_tokens, layers, norm, lm_head unless tied}; layers is a list, or stacked arrays for scan."""
    layers = []
    for index in range(w.layers):
        prefix = f"model.layers.{index}."
        layers.append({name.removeprefix(prefix).removesuffix(".weight"): array for name, array in weights.items() if name.startswith(prefix)})
    if arguments.blocks == "scan":
        layers = {name: np.stack([layer[name] for layer in layers]) for name in layers[0]}
    return {
        "embed_tokens": weights["model.embed_tokens.weight"],
        "layers": layers,
        "norm": weights["model.norm.weight"],
        **({} if arguments.tied else {"lm_head": weights["lm_head.weight"]}),
    }


def main() -> None:
    tree = as_tree(wl.initial_weights(arguments, w))
    batches = [(jnp.array(batch[:, :-1]), jnp.array(batch[:, 1:])) for batch in wl.token_batches(arguments, w)]

    def fresh_params():
        # copied: the step donates its state, and a CPU array may alias the numpy one it was made from
        return jax.tree.map(lambda array: jnp.array(array, copy=True), tree)

    def fresh_state():
        if arguments.forward:
            return jax.tree.map(lambda array: array.astype(DTYPE) if array.ndim > 1 else array, fresh_params())
        params = fresh_params()
        return {
            "params": params,
            "m": jax.tree.map(jnp.zeros_like, params),
            "v": jax.tree.map(jnp.zeros_like, params),
            "count": jnp.zeros((), jnp.int32),
        }

    state = fresh_state()
    done = 0
    start = time.perf_counter()
    program = jax.jit(loss_of) if arguments.forward else jax.jit(train_step, donate_argnums=0)
    compiled = program.lower(state, *batches[0]).compile()
    compile_seconds = time.perf_counter() - start

    def step() -> float:
        nonlocal state, done
        batch = batches[done % len(batches)]
        done += 1
        if arguments.forward:
            return float(compiled(state, *batch))
        state, loss = compiled(state, *batch)
        loss = float(loss)
        jax.block_until_ready(state)
        return loss

    def reset() -> None:
        nonlocal state, done
        if not arguments.forward:
            state = None  # before the new one is made: both would not fit beside another peer
            state = fresh_state()
        done = 0

    losses = [step() for _ in range(arguments.warmup)]
    reset()
    ready = {
        "compileSeconds": compile_seconds,
        "warmupLosses": losses,
        "versions": wl.versions("jax", "jaxlib", "numpy"),
        "settings": wl.settings(arguments, "blocks", "attention", "products"),
    }
    wl.serve("jax", w, step, reset, ready)


main()
