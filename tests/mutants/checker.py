"""Damage to gradcheck itself, which would let a wrong gradient pass."""

from tests.mutants.damage import Mutant

C = "autograd.gradcheck.compare:Comparison"
K = "autograd.gradcheck.conduct"
F = "autograd.gradcheck.function:CheckedFunction"
N = "autograd.gradcheck.numerical"
T = "autograd.testing.check"

# fmt: off
MUTANTS = [
    Mutant(f"{C}.wrong", "accepts everything",
           "return ~(abs(analytic - numerical) <= self.atol + self.rtol * abs(numerical))",
           "return np.zeros(np.broadcast(analytic, numerical).shape, bool)"),
    Mutant(f"{C}.wrong", "no absolute value: what is too small passes",
           "abs(analytic - numerical)", "(analytic - numerical)"),
    Mutant(f"{C}.wrong", "NaN passes", "~(abs(analytic - numerical) <= self.atol + self.rtol * abs(numerical))",
           "abs(analytic - numerical) > self.atol + self.rtol * abs(numerical)"),
    Mutant(f"{C}.wrong", "a thousandfold tolerance", "self.rtol * abs(numerical)", "1000 * self.rtol * abs(numerical)"),
    Mutant(f"{C}._jacobian", "the gradient is compared with itself",
           "self.close(analytic, numerical)", "self.close(analytic, analytic)"),
    Mutant(f"{C}.along_directions", "the gradient is compared with itself, in the fast check",
           "np.array([self.numerical.along(i, direction, self.weights)])", "analytic"),
    Mutant(f"{C}.along_directions", "a difference is seen and nothing is said", "if not agrees:", "if False:"),
    Mutant(f"{C}.everywhere", "only the first input is looked at",
           "enumerate(self.function.jacobian())", "enumerate(self.function.jacobian()[:1])"),
    Mutant(f"{C}._check_linear", "linearity is not checked", "if off.any():", "if False:"),
    Mutant(f"{C}._direction", "the same direction for all elements", "self.rng.standard_normal(point.shape)", "1.0"),
    Mutant(f"{K}:check_conduct", "cotangents of ones",
           "weights = rng.standard_normal(values.size)", "weights = np.ones(values.size)"),
    Mutant(f"{K}:check_conduct", "outputs that the backward pass changes go unnoticed",
           "if not _same(y.numpy(), then):", "if False:"),
    Mutant(f"{K}:_check_unchanged", "inputs that are changed go unnoticed",
           "if then is not None and not", "if False and not"),
    Mutant(f"{K}:_check_repeatable", "a second backward pass may give another result",
           "if not _same(first, second):", "if False:"),
    Mutant(f"{K}:_check_precision", "rounding to float32 goes unnoticed", "if some.size and", "if False and"),
    Mutant(f"{K}:_call_twice", "random functions go unnoticed",
           "if random.get_state() != state or not _same(function.vector(second), values):", "if False:"),
    Mutant(f"{F}.jacobian", "a cotangent of ones for each row", "unit[place] = 1.0", "unit[...] = 1.0"),
    Mutant(f"{F}.__exit__", "the caller's Tensors keep other data", "tensor.data = data", "pass"),
    Mutant("autograd.gradcheck:gradcheck", "an error that should be raised is swallowed",
           "if raise_exception:", "if False:"),
    Mutant("autograd.gradcheck:gradcheck", "False becomes True",
           "        return False\n    return True", "        return True\n    return True"),
    Mutant(f"{T}:_compare", "plain compositions may differ", "or not (error <= EXACT).all()", ""),
    Mutant("tests.cases.table:check_cases", "failures are not told",
           'row.failures.append(f"{case} (example {k}): {type(error).__name__}: {error}")', "pass"),
]
