"""A key/value cache: decode a position at a time

While a sentence is decoded, each step has one new query; keys and values of earlier positions are the same as in the
step before, and are kept. A step appends its key and its value, then attends to all positions up to its own:

    cache.k, cache.v  grow by one row       y = softmax(q · cache.kᵀ / √K) cache.v

In beam search, hypotheses change places: new row i continues old row rows[i], and so must its keys and values.

Shapes: cache, a dict with "k" [R, t, K] and "v" [R, t, M]; q and k [R, K], v [R, M]; rows int [R'] -> y [R, M]; None
Source: section 3.1 (auto-regressive decoding); `minitf/decoding/state.py`
"""

import math

import numpy as np

from minitf.learn.expect import equal, true


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

RNG = np.random.default_rng(9)
Q, K, V = RNG.standard_normal((3, 4, 3)), RNG.standard_normal((3, 4, 3)), RNG.standard_normal((3, 4, 5))


def _empty():
    return {"k": np.zeros((3, 0, 3)), "v": np.zeros((3, 0, 5))}


def _full(q, k, v, mask=None, scale=None):
    scores = q @ k.swapaxes(-1, -2) * (1 / math.sqrt(3) if scale is None else scale)
    scores = np.where(np.tri(q.shape[1], k.shape[1], dtype=bool) if mask is None else mask, scores, -np.inf)
    with np.errstate(invalid="ignore"):
        e = np.exp(scores - scores.max(-1, keepdims=True))
        return e / e.sum(-1, keepdims=True) @ v


def _raw(t):
    """Step t without the division of the softmax."""
    e = np.exp(Q[:, t : t + 1] @ K[:, : t + 1].swapaxes(-1, -2) / math.sqrt(3))
    return (e @ V[:, : t + 1])[:, 0]


def check_steps(answer):
    """four steps, compared with attention to all positions at once"""
    cache = _empty()
    full = _full(Q, K, V)
    without_itself = _full(Q, K, V, np.tri(4, k=-1, dtype=bool))
    for t in range(4):
        y = answer.attention_step(Q[:, t], K[:, t], V[:, t], cache)
        mistakes = {
            "the position does not see itself: append its key and value before attending": without_itself[:, t],
            "only the newest position is seen: the cache does not keep earlier ones": V[:, t],
            "no position is seen: append key and value before attending": np.zeros((3, 5)),
            "the weights do not add up to 1: divide by their sum": _raw(t),
            "keys and values are in different orders: append both at the end": (
                _full(Q[:, t : t + 1], K[:, t::-1], V[:, : t + 1], True)[:, 0]
            ),
            "the factor 1/√K is missing": _full(Q, K, V, scale=1.0)[:, t],
        }
        equal(f"y of step {t}", y, full[:, t], mistakes)
        true(
            cache["k"].shape == (3, t + 1, 3) and cache["v"].shape == (3, t + 1, 5),
            f"after {t + 1} steps, the cache holds keys {cache['k'].shape} and values {cache['v'].shape}, expected "
            f"{(3, t + 1, 3)} and {(3, t + 1, 5)}",
        )


def check_reorder(answer):
    """beams that change places: rows [2, 0, 1] after two steps"""
    cache, rows = _empty(), np.array([2, 0, 1])
    cache["k"], cache["v"] = K[:, :2].copy(), V[:, :2].copy()
    answer.reorder(cache, rows)
    mistakes = {
        "the rows keep their places: a hypothesis goes on with the past of another": K[:, :2],
        "the inverse order: row i is to become the former row rows[i]": lambda: K[:, :2][np.argsort(rows)],
    }
    equal("cache['k']", cache["k"], K[rows, :2], mistakes)
    equal("cache['v']", cache["v"], V[rows, :2], {"the values keep their places, only the keys have moved": V[:, :2]})


def check_after_reorder(answer):
    """a row that goes on twice, and one that ends"""
    cache = _empty()
    answer.attention_step(Q[:, 0], K[:, 0], V[:, 0], cache)
    answer.reorder(cache, np.array([0, 1, 0, 2]))
    true(len(cache["k"]) == 4, f"four rows are asked for, and the cache has {len(cache['k'])}: a row may go on twice")
    answer.reorder(cache, np.array([2, 1, 3]))
    y = answer.attention_step(Q[:, 1], K[:, 1], V[:, 1], cache)
    equal("y after two reorderings", y, _full(Q, K, V)[:, 1])
