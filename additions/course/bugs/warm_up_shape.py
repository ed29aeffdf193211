"""The loss jumps during the warm-up

Symptom: with warmup=4000, the loss falls for the first steps, then jumps upwards and never recovers. The log shows a
learning rate of 0.0011 at step 100, 0.044 at step 4000 and 0.0007 at step 4001. With warmup=1, nothing unusual is seen.
"""


class Schedule:
    """rate = d_model^-0.5 · min(step^-0.5, step · warmup^-1.5), equation 3 of the paper."""

    def __init__(self, d_model, warmup):
        self.scale = d_model**-0.5
        self.warmup = warmup

    def rate(self, step):
        if step <= self.warmup:
            return self.scale * self.rising(step)
        return self.scale * self.falling(step)

    def rising(self, step):
        return step * self.warmup**-1.5

    def falling(self, step):
        return step**-0.5


HINTS = (
    "Both terms are to be equal at step = warmup. Compute each of them there, for warmup = 4000.",
    "0.0007 at step 4001 is what the paper's formula gives. So which of the two terms is wrong?",
    "step · warmup^x is to be warmup^-0.5 at step = warmup. What is x?",
)
BUG = ("return step * self.warmup**-1.5", "return step * self.warmup**-1")
WHY = "step / warmup rises to 1, √warmup times more than the other term has at that step: the exponent is -1.5."


def check_results(answer):
    """while the rate rises, at the peak and while it falls"""
    for step in (1, 7, 4000, 4001, 16000):
        yield f"the rate at step {step}", answer.Schedule(512, 4000).rate(step)
