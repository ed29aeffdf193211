"""Averaging checkpoints

The paper's scores are those of a model whose weights are the mean of the last checkpoints (5 for base, 20 for big):

    average[name] = (checkpoint_1[name] + … + checkpoint_k[name]) / k

Weights are float32 numbers; the sum is computed in float64 and the mean is rounded once, to the weights' own dtype. The
checkpoints themselves are not changed.

Shapes: checkpoints, a list of dicts from name to array -> one such dict
Source: section 6.1
"""

import numpy as np

from minitf.learn.expect import Wrong, equal, true


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


def _checkpoints(count, dtype=np.float32):
    rng = np.random.default_rng(8)
    return [
        {"weight": rng.standard_normal((2, 3)).astype(dtype), "bias": rng.standard_normal(3).astype(dtype)}
        for _ in range(count)
    ]


def check_mean(answer):
    """the mean of three checkpoints"""
    given = _checkpoints(3, np.float64)
    before = [{name: a.copy() for name, a in each.items()} for each in given]
    found = answer.average(given)
    if not isinstance(found, dict) or {*found} != {"weight", "bias"}:
        raise Wrong("the result is a dict with the names of the checkpoints: weight and bias")
    for name in found:
        a, b, c = (each[name] for each in before)
        mistakes = {
            "a sum where a mean is meant": a + b + c,
            "the average of averages ((a + b) / 2 + c) / 2 gives the last checkpoint half of the weight": (
                (a + b) / 2 + c
            )
            / 2,
            "the mean of all elements; it is that of each element over the checkpoints (axis=0)": np.mean([a, b, c]),
            "the last checkpoint alone": c,
            "the first checkpoint is left out": (b + c) / 3,
        }
        equal(name, found[name], (a + b + c) / 3, mistakes)
    same = all(np.array_equal(x[name], y[name]) for x, y in zip(given, before, strict=True) for name in x)
    true(same, "a checkpoint is changed: its array is used as the sum; begin with a copy")


def check_dtype(answer):
    """float32 weights stay float32"""
    found = answer.average(_checkpoints(2))["weight"]
    true(
        found.dtype == np.float32, f"the average has the dtype {found.dtype}; round it to that of the weights, float32"
    )


def check_precision(answer):
    """the sum is in float64: 2²⁴ and four times 1"""
    given = [{"w": np.array([value], np.float32)} for value in (2.0**24, 1.0, 1.0, 1.0, 1.0)]
    right = np.float32((2.0**24 + 4) / 5)
    message = "the sum is computed in float32, where 2²⁴ + 1 is 2²⁴: convert to float64 first"
    equal("the mean", answer.average(given)["w"], [right], {message: [np.float32(2.0**24) / 5]}, tolerance=1e-8)
