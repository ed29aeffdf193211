"""Damage to the optimizer, which the gradients are for."""

from tests.mutants.damage import Mutant

O = "minitf.training.optim"  # noqa: E741
PLAIN = "autograd.backend.reference:Backend.adam_"
TESTS = ("tests/minitf/training/test_optim.py",)
KERNELS = ("tests/autograd/backend/test_cpu.py",)

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
           "self.m[name], self.v[name], parameter.last_reduced", "self.v[name], self.m[name], parameter.last_reduced"),
    Mutant(f"{O}:Adam.step", "m starts from 0 at every step", "self.m[name]", "_zeros_like(parameter.data)"),
    Mutant(f"{O}:Adam.step", "the scale of the gradient is forgotten",
           "gradient_scale=gradient_scale", "gradient_scale=1.0"),
    Mutant(f"{O}:Adam.step", "graphs of the old values do not notice", "parameter.version[0] += 1", "pass"),
    Mutant(f"{O}:Adam.step", "a parameter without a gradient stops the update",
           "if not updates:", "if len(updates) < len(self.named_parameters):"),
    Mutant(f"{O}:Adam.zero_grad", "gradients of the last step stay", "parameter.grad = None", "pass"),
    Mutant(f"{O}:learning_rate", "the larger for the smaller", "min(step**-0.5", "max(step**-0.5"),
    Mutant(f"{O}:learning_rate", "warm-up with another exponent", "warmup_steps**-1.5", "warmup_steps**-1"),
    Mutant(f"{O}:global_norm", "no root",
           "math.sqrt(float(backend_of(gradients).squared_norm(gradients)))",
           "float(backend_of(gradients).squared_norm(gradients))"),
    Mutant("autograd.backend.reference:Backend.squared_norm", "the last parameter for the sum over all",
           "total += ", "total = ", near=TESTS),
    Mutant("autograd.backend.reference:Backend.adam_all_", "only the first parameter is updated",
           "in updates:", "in updates[:1]:", near=TESTS),
    Mutant("autograd.backend.cpu:CpuBackend.adam_all_", "of each block, only the first small parameter is updated",
           "small[s]", "small[s][:1]", near=KERNELS),
    Mutant("autograd.backend.cpu:CpuBackend.adam_all_", "large parameters are left as they are",
           "if update[0].nbytes >= blocks.SERIAL_BYTES]", "if False]", near=KERNELS),
    Mutant(PLAIN, "ε inside the root", "self.xp.sqrt(v)\n        step += eps", "self.xp.sqrt(v + eps)", near=TESTS),
    Mutant(PLAIN, "v of |g| for v of g²", "g *= g", "g = abs(g)", near=TESTS),
    Mutant(PLAIN, "m not updated before it is used", "m += step", "m += 0 * step", near=TESTS),
    Mutant(PLAIN, "writes into the gradient",
           "g = gradient * gradient_scale", "g = gradient\n        g *= gradient_scale", near=TESTS),
    Mutant("autograd.backend.blocks:BlockedBackend._over_elements", "every block gets the first elements",
           "a[s] for a in flat", "a[: s.stop - s.start] for a in flat", near=KERNELS),
]
