"""A slow start

Symptom: the first step moves the weights by a seventh of the learning rate, the tenth by less than half of it, where a
constant gradient should move them by the whole; the loss lags behind that of every other program. After some 300 steps,
the steps have the right size. The gradients are right.
"""

import math

import numpy as np


class Adam:
    """Adam with bias-corrected moments (Kingma & Ba 2015)."""

    def __init__(self, parameters, beta1=0.9, beta2=0.98, eps=1e-9):
        self.parameters, self.beta1, self.beta2, self.eps = parameters, beta1, beta2, eps
        self.m = [np.zeros_like(p) for p in parameters]
        self.v = [np.zeros_like(p) for p in parameters]
        self.steps = 0

    def step(self, gradients, rate):
        self.steps += 1
        correction1 = 1 - self.beta1**self.steps
        root_correction2 = math.sqrt(1 - self.beta2**self.steps)
        for p, g, m, v in zip(self.parameters, gradients, self.m, self.v, strict=True):
            m += (1 - self.beta1) * (g - m)
            v += (1 - self.beta2) * (g * g - v)
            p -= rate / correction1 * m / (np.sqrt(v) / root_correction2 + self.eps)


HINTS = (
    "What in Adam differs between the first steps and the later ones?",
    "After t steps, m is too small by the factor 1 - β₁^t and v by the factor 1 - β₂^t. Which power of v does the "
    "update use?",
    "√(v / c) = √v / √c: compute correction and update of the first step by hand, for a gradient of 1. The step "
    "should be `rate`.",
)
BUG = ("root_correction2 = math.sqrt(1 - self.beta2**self.steps)", "root_correction2 = 1 - self.beta2**self.steps")
WHY = (
    "the update divides by √(v / c₂) = √v / √c₂, so the root of the correction is needed; without it the steps have "
    "another size until 1 - β₂^t is about 1."
)

RNG = np.random.default_rng(0)


def check_results(answer):
    """the first steps"""
    p = [np.zeros(2), np.ones(1)]
    adam = answer.Adam(p, beta1=0.8)
    for step in range(1, 5):
        adam.step([RNG.standard_normal(2), RNG.standard_normal(1)], 0.1)
        yield f"the parameters after step {step}", np.concatenate(p)
