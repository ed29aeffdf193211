"""Warm-up: the learning rate of a step

    rate = d_model^-0.5 · min(step^-0.5, step · warmup^-1.5)

The rate rises linearly for `warmup` steps and then falls with 1/√step; both terms are equal at step = warmup. Steps
count from 1.

Shapes: three numbers -> a number
Source: section 5.3, equation 3 (d_model = 512, warmup = 4000: a peak of 0.0007)
"""

from minitf.learn.expect import equal


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


def _rate(step, d_model=512, warmup=4000, *, choose=min, exponent=-1.5, scale=-0.5):
    return d_model**scale * choose(step**-0.5, step * warmup**exponent)


def _mistakes(step):
    return {
        "the larger of the two terms is taken; the rate is to rise first and fall then, which the smaller one does": (
            _rate(step, choose=max)
        ),
        "d_model^-0.5 is missing": _rate(step, scale=0),
        "multiplied by √d_model; the exponent is -0.5": _rate(step, scale=0.5),
        "the exponent of warmup is -1.5: the two terms are to meet at step = warmup": _rate(step, exponent=-1),
        "the exponent of warmup is -1.5, not -0.5": _rate(step, exponent=-0.5),
        "the second term is step · warmup^-1.5, with step itself": _rate(1, 512) * step**-0.5,
        "steps count from 1; this is the rate of the next step": _rate(step + 1),
        "the rate stays constant after the warm-up; it is to fall with 1/√step": 512**-0.5
        * min(4000**-0.5, step * 4000**-1.5),
        "there is no warm-up: the rate falls from the first step on": 512**-0.5 * step**-0.5,
        "the rate keeps on rising: the second term, 1/√step, is missing": 512**-0.5 * step * 4000**-1.5,
    }


def check_warm_up(answer):
    """while it rises: step 100"""
    equal("the rate at step 100", answer.learning_rate(100), _rate(100), _mistakes(100))


def check_peak(answer):
    """the peak, at step 4000"""
    equal("the rate at step 4000", answer.learning_rate(4000), _rate(4000), _mistakes(4000))


def check_decay(answer):
    """while it falls: step 100,000"""
    equal("the rate at step 100,000", answer.learning_rate(100_000), _rate(100_000), _mistakes(100_000))


def check_arguments(answer):
    """other widths and warm-ups"""
    for step, d_model, warmup in [(1, 64, 10), (10, 64, 10), (11, 1024, 10), (16000, 1024, 16000)]:
        right = _rate(step, d_model, warmup)
        mistakes = {"d_model is not used": _rate(step, 512, warmup), "warmup is not used": _rate(step, d_model)}
        equal(f"the rate at step {step}", answer.learning_rate(step, d_model, warmup), right, mistakes)
