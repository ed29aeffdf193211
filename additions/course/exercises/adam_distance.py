"""The distance that Adam goes

A parameter has the gradient g in each of its first steps, always the same number. The experiment runs Adam with bias
correction (β₁ = 0.9, β₂ = 0.98, eps = 1e-9) at a constant learning rate, and measures how far the parameter has moved.

Shapes: g, rate and steps, three numbers -> a number, the distance
Source: section 5.3
"""

import numpy as np

from additions.course.exercises.adam import adam_step
from additions.course.expect import predicted


def prediction(g, rate, steps):
    """The distance that the parameter has moved."""
    # solution
    return rate * steps
    # end


HINTS = (
    "What are m and v after t steps with the same gradient, and what are they after the bias correction?",
    "m̂ = g and v̂ = g², in every step.",
    "The update is rate · m̂ / √v̂. What is left of g in it?",
)

MISTAKES = (
    ("the size of g cancels out: the update is g / √g², the sign of g alone", "rate * steps", "rate * steps * g"),
    ("this is one step", "rate * steps", "rate"),
    ("without the bias correction: the first m is 0.1 g, the first √v 0.14 g", "rate * steps",
     "sum(rate * (1 - 0.9**t) / (1 - 0.98**t) ** 0.5 for t in range(1, steps + 1))"),
    ("m is corrected: its first steps are as long as the later ones", "rate * steps",
     "sum(rate * (1 - 0.9**t) for t in range(1, steps + 1))"),
    ("v is g², and the update divides by its root", "rate * steps", "rate * steps / g"),
)  # fmt: skip


def check_prediction(answer):
    """the experiment, for three gradients"""
    for g, rate, steps in ((5.0, 0.01, 10), (0.003, 0.1, 4), (200.0, 0.001, 50)):
        p, m, v = np.zeros(1), np.zeros(1), np.zeros(1)
        for step in range(1, steps + 1):
            adam_step(p, np.array([g]), m, v, step, rate)
        what = f"the distance with g = {g:g}, rate = {rate:g}, steps = {steps}"
        predicted(what, answer.prediction(g, rate, steps), abs(p.item()), 0.001)
