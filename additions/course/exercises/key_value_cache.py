"""A key/value cache: decode a position at a time

While a sentence is decoded, each step has one new query; keys and values of earlier positions are the same as in the
step before, and are kept. A step appends its key and its value, then attends to all positions up to its own:

    cache.k, cache.v  grow by one row       y = softmax(q · cache.kᵀ / √K) cache.v

In beam search, hypotheses change places: new row i continues old row rows[i], and so must its keys and values.

Shapes: cache, a dict with "k" [R, t, K] and "v" [R, t, M]; q and k [R, K], v [R, M]; rows int [R'] -> y [R, M]; None
Source: section 3.1 (auto-regressive decoding); `minitf/fast/inference.py`
"""

import math

import numpy as np

from additions.course.expect import equal, true


def attention_step(q, k, v, cache):
    """y of the newest position; its key and value join the cache."""
    # solution
    cache["k"] = np.concatenate([cache["k"], k[:, None]], axis=1)  # [R, t + 1, K]
    cache["v"] = np.concatenate([cache["v"], v[:, None]], axis=1)  # [R, t + 1, M]
    scores = (cache["k"] @ q[:, :, None])[:, :, 0] / math.sqrt(q.shape[1])  # [R, t + 1]
    p = np.exp(scores - scores.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    return (p[:, None] @ cache["v"])[:, 0]
    # end


def reorder(cache, rows):
    """Make row i of the cache the former row rows[i]."""
    # solution
    for name in ("k", "v"):
        cache[name] = cache[name][rows]
    # end


HINTS = (
    "First append: np.concatenate([cache['k'], k[:, None]], axis=1). A position attends to itself, so its own key "
    "must be there before the scores are computed.",
    "scores [R, t + 1] are products of each row's keys with its query: (cache['k'] @ q[:, :, None])[:, :, 0] / √K. "
    "No mask is needed: there is nothing later yet.",
    "cache['k'][rows] is a new array with those rows; both keys and values must move.",
)

ATTENDS = (
    'scores = (cache["k"] @', 'scores = (cache["k"][:, :-1] @',
    "scores.max(axis=1, keepdims=True)", "scores.max(axis=1, keepdims=True, initial=-1e30)",
    'cache["v"])[:, 0]', 'cache["v"][:, :-1])[:, 0]',
)  # fmt: skip
MOVED = "cache[name] = cache[name][rows]"
MISTAKES = (
    ("the position does not see itself: append its key and value before attending", *ATTENDS,
     "    p /= p.sum(axis=1, keepdims=True)\n", "", "[:, 0]\n\n\n", "[:, 0] / p.sum(axis=1, keepdims=True)\n\n\n"),
    ("only the newest position is seen: the cache does not keep earlier ones",
     'scores = (cache["k"]', 'scores = (cache["k"][:, -1:]', '@ cache["v"]', '@ cache["v"][:, -1:]'),
    ("no position is seen: append key and value before attending", *ATTENDS),
    ("the weights do not add up to 1: divide by their sum", "    p /= p.sum(axis=1, keepdims=True)\n", "",
     " - scores.max(axis=1, keepdims=True)", ""),
    ("the weights do not add up to 1: divide by their sum", "    p /= p.sum(axis=1, keepdims=True)\n", ""),
    ("keys and values are in different orders: append both at the end",
     '[cache["k"], k[:, None]]', '[k[:, None], cache["k"]]'),
    ("the rows keep their places: a hypothesis goes on with the past of another", MOVED, "pass"),
    ("the inverse order: row i is to become the former row rows[i]",
     MOVED, "cache[name] = cache[name][np.argsort(rows)]"),
    ("the values keep their places, only the keys have moved", '("k", "v")', '("k",)'),
)  # fmt: skip

RNG = np.random.default_rng(9)
Q, K, V = RNG.standard_normal((3, 4, 3)), RNG.standard_normal((3, 4, 3)), RNG.standard_normal((3, 4, 5))


def _empty():
    return {"k": np.zeros((3, 0, 3)), "v": np.zeros((3, 0, 5))}


def _full():
    """y of all positions at once, with a causal mask."""
    e = np.exp(np.where(np.tri(4, dtype=bool), Q @ K.swapaxes(-1, -2) / math.sqrt(3), -np.inf))
    return e / e.sum(-1, keepdims=True) @ V


def check_steps(answer):
    """four steps, compared with attention to all positions at once"""
    cache = _empty()
    for t in range(4):
        equal(f"y of step {t}", answer.attention_step(Q[:, t], K[:, t], V[:, t], cache), _full()[:, t])
        true(
            cache["k"].shape == (3, t + 1, 3) and cache["v"].shape == (3, t + 1, 5),
            f"after {t + 1} steps, the cache holds keys {cache['k'].shape} and values {cache['v'].shape}, expected "
            f"{(3, t + 1, 3)} and {(3, t + 1, 5)}",
        )


def check_reorder(answer):
    """beams that change places: rows [2, 0, 1] after two steps"""
    cache = {"k": K[:, :2].copy(), "v": V[:, :2].copy()}
    answer.reorder(cache, np.array([2, 0, 1]))
    yield "cache['k']", cache["k"]
    yield "cache['v']", cache["v"]


def check_after_reorder(answer):
    """a row that goes on twice, and one that ends"""
    cache = _empty()
    answer.attention_step(Q[:, 0], K[:, 0], V[:, 0], cache)
    answer.reorder(cache, np.array([0, 1, 0, 2]))
    true(len(cache["k"]) == 4, f"four rows are asked for, and the cache has {len(cache['k'])}: a row may go on twice")
    answer.reorder(cache, np.array([2, 1, 3]))
    y = answer.attention_step(Q[:, 1], K[:, 1], V[:, 1], cache)
    equal("y after two reorderings", y, _full()[:, 1])
