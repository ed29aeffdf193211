"""Warm-up: the learning rate of a step

    rate = d_model^-0.5 · min(step^-0.5, step · warmup^-1.5)

The rate rises linearly for `warmup` steps and then falls with 1/√step; both terms are equal at step = warmup. Steps
count from 1.

Shapes: three numbers -> a number
Source: section 5.3, equation 3 (d_model = 512, warmup = 4000: a peak of 0.0007)
"""


def learning_rate(step, d_model=512, warmup=4000):
    """The learning rate of a step, from 1 on."""
    # solution
    return d_model**-0.5 * min(step**-0.5, step * warmup**-1.5)
    # end


HINTS = (
    "Which of the two terms is the smaller one at step 1, and which at step 100,000?",
    "x^-0.5 is x**-0.5 in Python, 1/√x.",
    "The factor d_model^-0.5 applies to both terms.",
)

MIN = "min(step**-0.5, step * warmup**-1.5)"
MISTAKES = (
    ("multiplied by √d_model; the exponent is -0.5", "d_model**-0.5", "d_model**0.5"),
    ("the second term is step · warmup^-1.5, with step itself", MIN, "step**-0.5 * warmup**-1.5"),
    ("steps count from 1; this is the rate of the next step", "    return", "    step += 1\n    return"),
    ("the rate stays constant after the warm-up; it is to fall with 1/√step", "min(step**", "min(warmup**"),
    ("there is no warm-up: the rate falls from the first step on", MIN, "step**-0.5"),
    ("the rate keeps on rising: the second term, 1/√step, is missing", MIN, "step * warmup**-1.5"),
    ("d_model is not used", "d_model**-0.5", "512**-0.5"),
    ("warmup is not used", "warmup**-1.5", "4000**-1.5"),
)  # fmt: skip


def check_steps(answer):
    """while it rises, at the peak and while it falls"""
    yield (
        "the rate at steps 1, 100, 4000 and 100,000",
        [answer.learning_rate(step) for step in (1, 100, 4000, 100_000)],
    )


def check_arguments(answer):
    """other widths and warm-ups"""
    for step, d_model, warmup in [(1, 64, 10), (10, 64, 10), (11, 1024, 10), (16000, 1024, 16000)]:
        yield f"the rate at step {step}", answer.learning_rate(step, d_model, warmup)
