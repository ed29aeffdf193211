"""The paper's Transformer in JAX, compiled whole with XLA, as a yardstick for speed.

A peer, not a dependency: run it from an environment of its own (`pip install jax jaxlib optax`).

    python jax_transformer.py --config base --batch 64 --length 32

Prints one JSON line: median seconds of a training step, target tokens per second, peak memory in MiB.
"""

import argparse
import functools
import itertools
import math
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import optax

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from workload import add_arguments, chosen, median_seconds, report


def linear(key, n, m):
    bound = math.sqrt(6 / (n + m))
    return {"w": jax.random.uniform(key, (n, m), minval=-bound, maxval=bound), "b": jnp.zeros(m)}


def init(key, layers, d_model, d_ff, vocabulary):
    keys = iter(jax.random.split(key, 32 * layers + 8))
    norm = lambda: {"g": jnp.ones(d_model), "b": jnp.zeros(d_model)}
    attention = lambda: {name: linear(next(keys), d_model, d_model) for name in "qkvo"}

    def layer(cross):
        block = {
            "self": attention(),
            "norm1": norm(),
            "up": linear(next(keys), d_model, d_ff),
            "down": linear(next(keys), d_ff, d_model),
            "norm3": norm(),
        }
        if cross:
            block |= {"cross": attention(), "norm2": norm()}
        return block

    return {
        "embedding": jax.random.normal(next(keys), (vocabulary, d_model)) * d_model**-0.5,
        "encoder": [layer(False) for _ in range(layers)],
        "decoder": [layer(True) for _ in range(layers)],
    }


def apply_linear(p, x):
    return x @ p["w"] + p["b"]


def apply_norm(p, x):
    centred = x - x.mean(-1, keepdims=True)
    return centred * jax.lax.rsqrt((centred**2).mean(-1, keepdims=True) + 1e-5) * p["g"] + p["b"]


def attend(p, x, memory, heads, causal):
    split = lambda t: t.reshape(*t.shape[:2], heads, -1)
    q, k, v = split(apply_linear(p["q"], x)), split(apply_linear(p["k"], memory)), split(apply_linear(p["v"], memory))
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / math.sqrt(q.shape[-1])
    if causal:
        scores = jnp.where(jnp.tril(jnp.ones(scores.shape[-2:], bool)), scores, -1e9)
    out = jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores), v)
    return apply_linear(p["o"], out.reshape(x.shape))


def forward(params, source, target, key, heads, rate):
    d_model = params["embedding"].shape[1]
    keys = iter(jax.random.split(key, 200))
    drop = lambda x: jnp.where(jax.random.bernoulli(next(keys), 1 - rate, x.shape), x / (1 - rate), 0)
    angle = jnp.arange(2048)[:, None] * jnp.exp(jnp.arange(0, d_model, 2) * (-math.log(10000.0) / d_model))
    positions = jnp.stack([jnp.sin(angle), jnp.cos(angle)], -1).reshape(2048, d_model)
    embed = lambda t: drop(params["embedding"][t] * math.sqrt(d_model) + positions[: t.shape[1]])
    feed = lambda p, x: apply_linear(p["down"], jax.nn.relu(apply_linear(p["up"], x)))
    x = embed(source)
    for p in params["encoder"]:
        x = apply_norm(p["norm1"], x + drop(attend(p["self"], x, x, heads, False)))
        x = apply_norm(p["norm3"], x + drop(feed(p, x)))
    y = embed(target)
    for p in params["decoder"]:
        y = apply_norm(p["norm1"], y + drop(attend(p["self"], y, y, heads, True)))
        y = apply_norm(p["norm2"], y + drop(attend(p["cross"], y, x, heads, False)))
        y = apply_norm(p["norm3"], y + drop(feed(p, y)))
    return y @ params["embedding"].T


def main():
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    parser.add_argument("--runs", type=int, default=5)
    args = parser.parse_args()
    sizes = chosen(args)
    heads, rate, vocabulary = sizes["heads"], sizes["dropout"], sizes["vocab_size"]
    params = init(jax.random.key(0), sizes["layers"], sizes["d_model"], sizes["d_ff"], vocabulary)
    optimizer = optax.adam(1e-4, 0.9, 0.98, 1e-9)
    state = optimizer.init(params)

    def loss(params, source, target, key):
        logits = forward(params, source, target[:, :-1], key, heads, rate)
        logp = jax.nn.log_softmax(logits)
        nll = -jnp.take_along_axis(logp, target[:, 1:, None], -1)[..., 0]
        return (0.9 * nll - 0.1 * logp.mean(-1)).mean()

    @functools.partial(jax.jit, donate_argnums=(0, 1))
    def step(params, state, source, target, key):
        value, grads = jax.value_and_grad(loss)(params, source, target, key)
        updates, state = optimizer.update(grads, state)
        return optax.apply_updates(params, updates), state, value

    source = jax.random.randint(jax.random.key(1), (args.batch, args.length), 4, vocabulary)
    target = jax.random.randint(jax.random.key(2), (args.batch, args.length + 1), 4, vocabulary)
    keys = map(jax.random.key, itertools.count())

    def one_step():
        nonlocal params, state
        params, state, value = step(params, state, source, target, next(keys))
        jax.block_until_ready((params, value))

    seconds = median_seconds(one_step, args.runs, warmup=2)
    report("jax " + jax.__version__, "train", seconds, args.batch * args.length, config=args.config)


if __name__ == "__main__":
    main()
