"""Averaging checkpoints

The paper's scores are those of a model whose weights are the mean of the last checkpoints (5 for base, 20 for big):

    average[name] = (checkpoint_1[name] + … + checkpoint_k[name]) / k

Weights are float32 numbers; the sum is computed in float64 and the mean is rounded once, to the weights' own dtype. The
checkpoints themselves are not changed.

Shapes: checkpoints, a list of dicts from name to array -> one such dict
Source: section 6.1
"""

import numpy as np

from additions.course.expect import true


def average(checkpoints):
    """The mean of the arrays of each name."""
    # solution
    result = {}
    for name, first in checkpoints[0].items():
        total = sum(checkpoint[name].astype(np.float64) for checkpoint in checkpoints)
        result[name] = (total / len(checkpoints)).astype(first.dtype)
    return result
    # end


HINTS = (
    "Loop over the names of the first checkpoint, and in each over the checkpoints.",
    "total = checkpoints[0][name]; total += … would change the first checkpoint: astype(np.float64) makes a copy, "
    "which is what the sum needs anyway.",
    "Divide once, by the number of checkpoints; (a + b) / 2, then (… + c) / 2 gives the last one half of the weight. "
    "astype(first.dtype) rounds at the end.",
)

MEAN = "(total / len(checkpoints))"
MISTAKES = (
    ("the average of averages ((a + b) / 2 + c) / 2 gives the last checkpoint half of the weight",
     MEAN, "((total + checkpoints[-1][name]) / 4)"),
    ("the mean of all elements; it is that of each element over the checkpoints (axis=0)",
     f"{MEAN}.astype(first.dtype)", "total.mean() / len(checkpoints)"),
    ("the last checkpoint alone", MEAN, "checkpoints[-1][name]"),
    ("the first checkpoint is left out", MEAN, "((total - first) / len(checkpoints))"),
)  # fmt: skip

RNG = np.random.default_rng(0)


def _checkpoints(count, dtype=np.float32):
    return [
        {"weight": RNG.standard_normal((2, 3)).astype(dtype), "bias": RNG.standard_normal(3).astype(dtype)}
        for _ in range(count)
    ]


def check_mean(answer):
    """the mean of three checkpoints"""
    given = _checkpoints(3, np.float64)
    before = [{name: a.copy() for name, a in each.items()} for each in given]
    found = answer.average(given)
    true(
        isinstance(found, dict) and {*found} == {"weight", "bias"},
        "the result is a dict with the names of the checkpoints: weight and bias",
    )
    same = all(np.array_equal(x[name], y[name]) for x, y in zip(given, before, strict=True) for name in x)
    true(same, "a checkpoint is changed: its array is used as the sum; begin with a copy")
    yield from ((name, found[name]) for name in ("weight", "bias"))


def check_dtype(answer):
    """float32 weights stay float32"""
    dtype = answer.average(_checkpoints(2))["weight"].dtype
    true(dtype == np.float32, f"the average has the dtype {dtype}; round it to that of the weights, float32")


def check_precision(answer):
    """the sum is in float64: 2²⁴ and four times 1"""
    given = [{"w": np.array([value], np.float32)} for value in (2.0**24, 1.0, 1.0, 1.0, 1.0)]
    yield "the mean", answer.average(given)["w"]
