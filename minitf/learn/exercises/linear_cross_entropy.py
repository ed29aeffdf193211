"""A fused op: the loss without the logits in memory

The logits of a training step, logits = x Wᵀ of N rows and V classes, are its largest array, and the loss needs them a
row at a time only. A fused op computes them in blocks of rows, and in each block right away

    loss += Σ -log softmax(logits)[target] / N
    g_logits = (softmax(logits) - one-hot(target)) / N
    g_x = g_logits W   (rows of the block)        g_weight += g_logitsᵀ x   (all blocks add up)

so that no array of N · V elements ever exists.

Shapes: x [N, n], weight [V, n], targets int [N]; block, rows at a time -> loss, g_x [N, n], g_weight [V, n]
Source: `autograd.linear_cross_entropy`
"""

import tracemalloc

import numpy as np

from minitf.learn.expect import equal, true


def linear_cross_entropy(x, weight, targets, block=64):
    """(loss, g_x, g_weight): the mean of -log softmax(x Wᵀ)[target], and its gradients."""
    # solution
    n = len(x)
    loss, g_x, g_weight = 0.0, np.empty_like(x), np.zeros_like(weight)
    for start in range(0, n, block):
        rows = slice(start, start + block)
        logits = x[rows] @ weight.T
        logits -= logits.max(axis=1, keepdims=True)
        here = np.arange(len(logits))
        chosen = logits[here, targets[rows]]
        p = np.exp(logits, out=logits)
        total = p.sum(axis=1, keepdims=True)
        loss += (np.log(total[:, 0]) - chosen).sum() / n
        p /= total
        p[here, targets[rows]] -= 1
        g_x[rows] = p @ weight / n
        g_weight += p.T @ x[rows] / n
    return loss, g_x, g_weight
    # end


HINTS = (
    "Loop over range(0, N, block) with rows = slice(start, start + block). The last block may be shorter.",
    "In a block it is exercise 10 with a matrix product before and two after; what differs is that loss and g_weight "
    "add up over the blocks, while each block fills its own rows of g_x.",
    "Divide by N, the rows of all blocks, not by the rows of the block.",
)

RNG = np.random.default_rng(6)


def _plain(x, weight, targets):
    logits = x @ weight.T
    logits -= logits.max(axis=1, keepdims=True)
    p = np.exp(logits)
    p /= p.sum(axis=1, keepdims=True)
    loss = -np.log(p[np.arange(len(x)), targets]).mean()
    p[np.arange(len(x)), targets] -= 1
    return loss, p @ weight / len(x), p.T @ x / len(x)


def _compare(answer, n, block):
    x, weight = RNG.standard_normal((n, 3)), RNG.standard_normal((5, 3))
    targets = RNG.integers(0, 5, n)
    found = answer.linear_cross_entropy(x, weight, targets, block)
    true(isinstance(found, tuple) and len(found) == 3, "return three things: loss, g_x, g_weight")
    loss, g_x, g_weight = _plain(x, weight, targets)
    last = slice((n - 1) // block * block, n)
    complete = n // block * block
    alone = _plain(x[last], weight, targets[last])
    share = len(x[last]) / n
    scale = "divided by the rows of the block where N, of all blocks, is meant"
    equal(
        "the loss", found[0], loss,
        {
            "the loss of the last block alone: the blocks add up": alone[0] * share,
            "the last rows are not computed: the last block may be shorter than the others": (
                _plain(x[:complete], weight, targets[:complete])[0] * complete / n if complete else 0.0
            ),
            "a sum where a mean is meant": loss * n,
            scale: lambda: sum(_plain(x[s : s + block], weight, targets[s : s + block])[0] for s in range(0, n, block)),
        },
    )  # fmt: skip
    equal("g_x", found[1], g_x, {scale: lambda: _by_block(x, weight, targets, block), "N times too large": g_x * n})
    equal(
        "g_weight", found[2], g_weight,
        {
            "the gradient of the last block alone: weight is used in every block, so the gradients add up": (
                alone[2] * share
            ),
            "N times too large": g_weight * n,
        },
    )  # fmt: skip


def _by_block(x, weight, targets, block):
    parts = [_plain(x[s : s + block], weight, targets[s : s + block])[1] for s in range(0, len(x), block)]
    return np.concatenate(parts)


def check_one_block(answer):
    """one block"""
    _compare(answer, 4, 8)


def check_blocks(answer):
    """three blocks of rows"""
    _compare(answer, 12, 4)


def check_ragged(answer):
    """a last block that is shorter"""
    _compare(answer, 7, 3)


def check_memory(answer):
    """the peak of memory"""
    n, classes, width, block = 512, 600, 8, 32
    x, weight = RNG.standard_normal((n, width)), RNG.standard_normal((classes, width))
    tracemalloc.start()
    answer.linear_cross_entropy(x, weight, RNG.integers(0, classes, n), block)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    logits = n * classes * 8
    true(
        peak < logits // 2,
        f"the peak of memory is {peak / 1e6:.1f} MB; the logits of all rows are {logits / 1e6:.1f} MB, those of a "
        f"block {logits * block / n / 1e6:.2f} MB: compute one block of rows at a time",
    )
