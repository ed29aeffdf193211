"""Damage to the optimizer, which the gradients are for."""

from tests.mutants.damage import Mutant

O = "minitf.training.optim"  # noqa: E741
PLAIN = "minitf.training.optim:update"
TESTS = ("tests/minitf/training/test_optim.py",)
KERNELS = ("tests/autograd/fast/test_cpu.py",)
FAST = ("tests/minitf/fast/test_accelerate.py",)

# fmt: off
MUTANTS = [
    Mutant(f"{O}:Adam.step", "no bias correction of m", "1 - self.config.beta1**self.step_count", "1.0"),
    Mutant(f"{O}:Adam.step", "no bias correction of v", "math.sqrt(1 - self.config.beta2**self.step_count)", "1.0"),
    Mutant(f"{O}:Adam.step", "bias correction of v without its root",
           "math.sqrt(1 - self.config.beta2**self.step_count)", "1 - self.config.beta2**self.step_count"),
    Mutant(f"{O}:Adam.step", "steps count from 2",
           "self.config.beta1**self.step_count", "self.config.beta1**(self.step_count + 1)"),
    Mutant(f"{O}:Adam.step", "ε added before the bias correction",
           "eps=self.config.epsilon * root_correction2", "eps=self.config.epsilon"),
    Mutant(f"{O}:Adam.step", "β₁ and β₂ exchanged", "beta1=self.config.beta1", "beta1=self.config.beta2"),
    Mutant(f"{O}:Adam.step", "the moments are exchanged",
           "self.m[name], self.v[name]", "self.v[name], self.m[name]"),
    Mutant(f"{O}:Adam.step", "m starts from 0 at every step", "self.m[name]", "_zeros_like(parameter.data)"),
    Mutant(f"{O}:Adam.step", "the scale of the gradient is forgotten",
           "gradient_scale=gradient_scale", "gradient_scale=1.0"),
    Mutant(f"{O}:Adam.step", "graphs of the old values do not notice", "note_change(parameter.data)", "pass"),
    Mutant(f"{O}:Adam.step", "a parameter without a gradient stops the update",
           "        self.update_all(", "        if len(learning) == len(self.named_parameters): self.update_all("),
    Mutant(f"{O}:Adam.zero_grad", "gradients of the last step stay", "parameter.grad = None", "pass"),
    Mutant(f"{O}:learning_rate", "the larger for the smaller", "min(step**-0.5", "max(step**-0.5"),
    Mutant(f"{O}:learning_rate", "warm-up with another exponent", "warmup_steps**-1.5", "warmup_steps**-1"),
    Mutant(f"{O}:Adam.gradient_norm", "no root", "math.sqrt(", "float("),
    Mutant(f"{O}:squared_norm", "the last parameter for the sum over all",
           "for g in gradients", "for g in gradients[-1:]"),
    Mutant(f"{O}:update_all", "only the first parameter is updated", "in learning:", "in learning[:1]:"),
    Mutant("autograd.fast.training:TrainingKernels.adam_all_", "only the first parameter is updated",
           "in updates:", "in updates[:1]:", near=KERNELS),
    Mutant("autograd.fast.cpu_training:CpuTraining.adam_all_", "of four parts, only the first is updated",
           "parts[s], **settings", "parts[s][:1], **settings", near=KERNELS),
    Mutant("autograd.fast.cpu_training:_parts_of_update", "of large parameters, only the first half is updated",
           "blocks_of(update[0].size,", "blocks_of(update[0].size // 2,", near=KERNELS),
    Mutant("autograd.fast.training:TrainingKernels.adam_", "v of |g| for v of g²",
           "g *= g", "np.abs(g, out=g)", near=FAST),
    Mutant("autograd.fast.training:TrainingKernels.squared_norm", "the last array for the sum over all",
           "total += math.fsum", "total = math.fsum", near=FAST),
    Mutant(PLAIN, "ε inside the root", "xp.sqrt(v) + eps", "xp.sqrt(v + eps)"),
    Mutant(PLAIN, "v of |g| for v of g²", "(g * g - v)", "(abs(g) - v)"),
    Mutant(PLAIN, "m not updated before it is used", "m += (1 - beta1) * (g - m)", "m += 0 * (g - m)"),
    Mutant(PLAIN, "writes into the gradient", "g = g * gradient_scale", "g *= gradient_scale"),
    Mutant("autograd.fast.blocks:BlockedKernels._over_elements", "every block gets the first elements",
           "a[s] for a in flat", "a[: s.stop - s.start] for a in flat", near=KERNELS),
]
