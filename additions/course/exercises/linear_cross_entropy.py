"""A fused op: the loss without the logits in memory

The logits of a training step, logits = x Wᵀ of N rows and V classes, are its largest array, and the loss needs them a
row at a time only. A fused op computes them in blocks of rows, and in each block right away

    loss += Σ -log softmax(logits)[target] / N

and the gradients of x and W that belong to it, so that no array of N · V elements ever exists.

Shapes: x [N, n], weight [V, n], targets int [N]; block, rows at a time -> loss, g_x [N, n], g_weight [V, n]
Source: `autograd.linear_cross_entropy`
"""

import tracemalloc

import numpy as np

from additions.course.expect import true


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

SCALE = "divided by the rows of the block where N, of all blocks, is meant"
MISTAKES = (
    ("the loss of the last block alone: the blocks add up", "loss += (", "loss = ("),
    ("the last rows are not computed: the last block may be shorter than the others",
     "range(0, n, block)", "range(0, n - block + 1, block)"),
    (SCALE, "chosen).sum() / n", "chosen).sum() / len(logits)"),
    (SCALE, "p @ weight / n", "p @ weight / len(logits)"),
)  # fmt: skip

RNG = np.random.default_rng(0)


def _check(answer, n, block):
    x, weight = RNG.standard_normal((n, 3)), RNG.standard_normal((5, 3))
    found = answer.linear_cross_entropy(x, weight, RNG.integers(0, 5, n), block)
    true(isinstance(found, tuple) and len(found) == 3, "return three things: loss, g_x, g_weight")
    yield from zip(("the loss", "g_x", "g_weight"), found, strict=True)


def check_one_block(answer):
    """one block"""
    yield from _check(answer, 4, 8)


def check_blocks(answer):
    """three blocks of rows"""
    yield from _check(answer, 12, 4)


def check_ragged(answer):
    """a last block that is shorter"""
    yield from _check(answer, 7, 3)


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
