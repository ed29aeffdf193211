"""Gradient accumulation: k small batches for a large one

A batch that does not fit into memory is split into micro-batches; their gradients are summed before the optimizer's
step. The loss of the whole batch is the mean over all its tokens,

    loss = Σ_k (sum of the losses of micro-batch k) / (tokens of all micro-batches)

so each micro-batch counts by its number of tokens: a mean of means would give a short micro-batch the same weight as a
long one.

Shapes: micro_batches, a list; mean_gradient(batch) -> (gradient of the mean loss over the batch's tokens, tokens)
    -> the gradient of the mean loss over all tokens
Source: section 5.1 (batches of about 25,000 tokens); `accumulate` of `minitf train`
"""

import numpy as np

from additions.course.expect import true


def accumulated_gradient(micro_batches, mean_gradient):
    """The gradient of the mean loss over the tokens of all micro-batches."""
    # solution
    total, tokens = 0.0, 0
    for batch in micro_batches:
        g, count = mean_gradient(batch)
        total = total + count * g
        tokens += count
    return total / max(tokens, 1)
    # end


HINTS = (
    "The gradient of a mean times the number of tokens is the gradient of the sum; sums of micro-batches add up.",
    "Keep two running sums, of count * g and of count, and divide once at the end.",
    "Do not use += on the first gradient: it may be an array of the model's. total = total + count * g makes another.",
)

SUM, MEAN = "total + count * g", "return total / max(tokens, 1)"
MISTAKES = (
    ("a mean of means: each micro-batch has the same weight, however many tokens it has",
     SUM, "total + g", "tokens += count", "tokens += 1"),
    ("the gradients of the means are added up and not divided", SUM, "total + g", MEAN, "return total"),
    ("a sum over all tokens where a mean is meant: divide by the tokens of all micro-batches", MEAN, "return total"),
    ("divided by the number of micro-batches; divide by that of tokens", "tokens += count", "tokens += 1"),
    ("only the last micro-batch is in the sum: total is overwritten", SUM, "count * g"),
    ("the last micro-batch's tokens are the divisor; it is those of all", "tokens += count", "tokens = count"),
)  # fmt: skip

BATCHES = [np.array([[1.0, 2.0]]), np.array([[4.0, 0.0], [2.0, 2.0], [3.0, 1.0]]), np.array([[0.0, 8.0], [1.0, 1.0]])]


def _mean_gradient(batch):
    return (batch.mean(axis=0) if len(batch) else np.zeros(2)), len(batch)


def check_tokens(answer):
    """micro-batches of 1, 3 and 2 tokens"""
    yield "the gradient", answer.accumulated_gradient(BATCHES, _mean_gradient)


def check_one_buffer(answer):
    """a model that keeps its gradient and uses the array again"""
    buffer = np.zeros(2)

    def reused(batch):
        buffer[...] = batch.mean(axis=0)
        return buffer, len(batch)

    found = answer.accumulated_gradient(BATCHES, reused)
    message = (
        "the gradient array of a micro-batch is kept or changed in place, and the model uses it again for the next "
        "one; the running sum needs an array of its own"
    )
    true(np.allclose(found, np.concatenate(BATCHES).mean(axis=0)), message)


def check_empty(answer):
    """a micro-batch without tokens"""
    empty = np.zeros((0, 2))
    yield "the gradient", np.asarray(answer.accumulated_gradient([empty, *BATCHES], _mean_gradient))
    nothing = np.asarray(answer.accumulated_gradient([empty], _mean_gradient))
    true(np.isfinite(nothing).all(), "without any token, the gradient is 0, not NaN: divide by at least 1")
