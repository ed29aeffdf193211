"""Damage to gradcheck itself, which would let a wrong gradient pass."""

from tests.mutants.damage import Mutant

C = "autograd.gradcheck.compare:Comparison"
F = "autograd.gradcheck.function:CheckedFunction"
N = "autograd.gradcheck.numerical"
D = "autograd.gradcheck.diagnosis"
SAID = ("tests/autograd/gradcheck/test_diagnosis.py",)
W = f"{N}:Estimate.wrong"
V = "autograd.gradcheck.variations"
T = "autograd.gradcheck.cases"

# fmt: off
MUTANTS = [
    Mutant(f"{W}", "accepts everything",
           "return ~(abs(analytic - self.values) <= self.atol + self.rtol * abs(self.values) + self.error)",
           "return np.zeros(np.broadcast(analytic, self.values).shape, bool)"),
    Mutant(f"{W}", "no absolute value: what is too small passes",
           "abs(analytic - self.values)", "(analytic - self.values)"),
    Mutant(f"{W}", "NaN passes",
           "~(abs(analytic - self.values) <= self.atol + self.rtol * abs(self.values) + self.error)",
           "abs(analytic - self.values) > self.atol + self.rtol * abs(self.values) + self.error"),
    Mutant(f"{W}", "a thousandfold tolerance", "self.rtol * abs(self.values)", "1000 * self.rtol * abs(self.values)"),
    Mutant(f"{C}._compare", "the gradient is compared with itself",
           "self.numerical.derivative(target)", "self.numerical.estimate(analytic)"),
    Mutant(f"{C}.along_directions", "the gradient is compared with itself, in the fast check",
           "self._compare(target, target, analytic)", "self.numerical.estimate(analytic)"),
    Mutant(f"{C}.along_directions", "a difference is seen and nothing is said",
           "if estimate.wrong(analytic).any():", "if False:"),
    Mutant(f"{C}.everywhere", "only the first input is looked at", "enumerate(jacobians)", "enumerate(jacobians[:1])"),
    # ---- Which numerical derivatives ----
    Mutant(f"{N}:Automatic.derivative", "complex steps are never used", "return by_step", "return by_difference"),
    Mutant(f"{N}:ComplexStep.reconsider", "complex steps are always believed", "if abs(fine", "if False and abs(fine"),
    Mutant(f"{N}:ComplexStep.confirm", "complex steps for one input are always believed",
           "if not _nearly(", "if False and not _nearly("),
    Mutant(f"{N}:Central.reconsider", "the error of differences is not allowed for",
           "abs(self._column(target, place, 2) - estimate.values[:, place])", "0"),
    # ---- Circumstances ----
    Mutant(f"{V}:_compare", "differences go unnoticed", "if off.any():", "if False:"),
    Mutant(f"{V}:check_frozen", "no input is frozen",
           "requires_grad = False", "requires_grad = True"),
    Mutant(f"{V}:_sets_to_freeze", "none is left alone", "if 2 < count <= ALONE", "if False"),
    Mutant(f"{V}:check_layouts", "incoming gradients in C order only",
           "in_layout(c, layout_of_cotangents) for c", "c for c"),
    Mutant(f"{V}:check_layouts", "inputs in one order only", "layouts[i % len(layouts)]", "'rows'"),
    Mutant(f"{V}:_check_repeated_cotangent", "no incoming gradient of repeated numbers",
           "np.broadcast_to(number, shape)", "np.full(shape, number)"),
    Mutant(f"{V}:_check_two_graphs", "only one graph is alive",
           "second = function.call(points)\n    inputs", "second = function.call()\n    inputs"),
    Mutant(f"{V}:_check_two_graphs", "two graphs are not joined",
           "_compare(\n        function,\n        function.pull(both",
           "(lambda *_: None)(\n        function,\n        function.pull(both"),
    Mutant(f"{V}:other_points", "other points are the inputs", "array[...] = change(x)", "change(x)"),
    Mutant(f"{V}:_Line.disagrees", "slopes elsewhere may differ",
           "not abs(analytic - numerical) <= error", "False"),
    Mutant(f"{V}:check_float32", "float32 may differ", "if wrong.any():", "if False:"),
    Mutant(f"{V}:check_float32", "a thousandfold tolerance of float32",
           "NARROW_RTOL * abs(g)", "1000 * NARROW_RTOL * abs(g)"),
    # ---- Side effects, linearity ----
    Mutant(f"{C}._check_linear", "linearity is not checked", "if off.any():", "if False:"),
    Mutant(f"{C}._direction", "the same direction for all elements", "self.rng.standard_normal(point.shape)", "1.0"),
    Mutant(f"{V}:check_side_effects", "cotangents of ones",
           "weights = rng.standard_normal(values.size)", "weights = np.ones(values.size)"),
    Mutant(f"{V}:check_side_effects", "outputs that the backward pass changes go unnoticed",
           "if not _same(y.numpy(), then):", "if False:"),
    Mutant(f"{V}:_check_unchanged", "inputs that are changed go unnoticed",
           "if then is not None and not", "if False and not"),
    Mutant(f"{V}:_check_repeatable", "a second backward pass may give another result",
           "if not _same(first, second):", "if False:"),
    Mutant(f"{V}:_check_precision", "rounding to float32 goes unnoticed", "if some.size and", "if False and"),
    Mutant(f"{V}:_call_twice", "random functions go unnoticed",
           "if random.get_state() != state or not _same(second, values):", "if False:"),
    Mutant(f"{F}.jacobian", "a cotangent of ones for each row", "unit[place] = 1.0", "unit[...] = 1.0"),
    Mutant(f"{F}.__exit__", "the caller's Tensors keep other data", "tensor.data = data", "pass"),
    Mutant("autograd.gradcheck:gradcheck", "the tolerances are not those of the caller",
           "rtol=rtol, fast=fast", "rtol=None, fast=fast"),
    Mutant("autograd.gradcheck:gradcheck", "the options are not those of the caller",
           "options=options)", "options=None)"),
    # ---- What is said of a mistake ----
    Mutant(f"{D}:_vanishes", "everything is a projection", "<= NEARLY * terms", "<= np.inf", near=SAID),
    Mutant(f"{D}:_rank", "two missing terms count as one", "1e-2 * values.max", "1 * values.max", near=SAID),
    Mutant(f"{D}:Evidence.explained_by", "any model explains anything", "<= 1e-3 *", "<= 1e3 *", near=SAID),
    Mutant(f"{D}:mask", "masks are always the wrong way round",
           "if not passes[~flat].any():", "if True:", near=SAID),
    Mutant(f"{T}:_compare", "plain compositions may differ", "or not (error <= EXACT).all()", ""),
    Mutant("tests.cases.table:check_cases", "failures are not told",
           'row.failures.append(f"{case} (example {k}): {type(error).__name__}: {error}")', "pass"),
]
