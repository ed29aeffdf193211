"""Damage to derivatives of higher order: what is recorded of a backward pass, and what fast ops hand over to it."""

from tests.mutants.damage import Mutant

H = "autograd.higher_order"
D = "autograd.functional"
F = "autograd.fast.ops"
U = "autograd.fast.unfused"
SECOND = ("tests/autograd/test_higher_order.py",)
FUNCTIONS = ("tests/autograd/test_functional.py",)

# fmt: off
MUTANTS = [
    # ---- The recorded pass ----
    Mutant(f"{H}:_read", "what was read counts as constant", "tensor._requires_grad, tensor._edge = True, edge", "pass",
           near=SECOND),
    Mutant(f"{H}:gradients_of_inputs", "the output counts as constant",
           "_read(y, node.output_specs[0], node)",
           "node.output_specs[0] if y is None else _read(y, node.output_specs[0], node).detach()",
           near=SECOND),
    Mutant(f"{H}:_Sums.add", "a second gradient overwrites the first",
           "self.sums[key] + g if key in self.sums else g", "g", near=SECOND),
    Mutant(f"{H}:_Sums.complete", "hooks do not run", "if node.hooks and index in node.hooks:",
           "if False:", near=SECOND),
    Mutant(f"{H}:_Sums._finish", "hooks of leaves do not run", "leaf.hooks.run(g) if leaf.hooks else g", "g",
           near=SECOND),
    Mutant(f"{H}:_unbroadcast", "not summed over broadcast axes", "unbroadcast(g, spec.shape)", "g", near=SECOND),
    Mutant(f"{H}:run_recorded_backward", "changes in place go unnoticed",
           "call(node, [g.data for g in g_outputs])", "pass", near=SECOND),
    Mutant(f"{H}:_flip", "not reversed", "slice(None, None, -1)", "slice(None)", near=SECOND),
    Mutant(f"{H}:_cumprod", "products of two", "found[-1] * piece if found else piece", "piece", near=SECOND),
    Mutant("autograd.engine:evaluate", "an op inside another is differentiated by its formula",
           "if any(isinstance(x, Tensor) for x in inputs):", "if False:", near=SECOND),
    Mutant("autograd.ops.reduce:Std.backward", "0 times infinity where all are equal", "xp.where(spread, y, 1)", "y",
           near=SECOND),
    Mutant("autograd.ops.elementwise:Power.backward", "0 times infinity for an exponent of 0",
           "(b - (b != 0))", "(b - 1)", near=SECOND),
    # ---- What implementations hand over ----
    Mutant(f"{F}:centred", "the normalised rows for the centred ones", "normalised / inverse_std.reshape(-1, 1)",
           "normalised", near=SECOND),
    Mutant(f"{U}:CrossEntropy.read_by_plain", "smoothing forgotten", "1 - epsilon", "1", near=SECOND),
    Mutant(f"{U}:CrossEntropy.read_by_plain", "targets forgotten",
           "p[self.xp.arange(len(targets)), targets] += 1 - epsilon", "pass", near=SECOND),
    Mutant(f"{F}:Linear.read_by_plain", "the output as input", "return y, x, weight, None",
           "return y, y, weight, None", near=SECOND),
    Mutant(f"{U}:Gelu.read_by_plain", "the slope is that of x + 1",
           "return None, x", "return None, x + 1", near=SECOND),
    # ---- Functions of functions ----
    Mutant(f"{D}:hvp", "the product with ones", "call.leaves, vs, create_graph",
           "call.leaves, [new_tensor(_ones(v)) for v in vs], create_graph", near=FUNCTIONS),
    Mutant(f"{D}:hvp", "all gradients are computed", "values=False", "values=True", near=FUNCTIONS),
    Mutant(f"{H}:gradients_of_inputs", "hooks are shown what is not computed", " or bool(edge.hooks)", "",
           near=FUNCTIONS),
    Mutant(f"{H}:run_recorded_backward", "observers are shown what is not computed",
           "values = values or bool(state.observers)", "pass", near=FUNCTIONS),
    Mutant(f"{D}:jacobian", "transposed", "ops.stack(column)", "ops.stack(column, -1)", near=FUNCTIONS),
    Mutant(f"{D}:_argument", "other uses of the argument count, too", "ops.reshape(x, x.shape)", "x", near=FUNCTIONS),
    Mutant(f"{D}:_Call.__init__", "what else is depended on gets no gradient",
           "is_recording and _depends_on_others(self.outputs, self.leaves)", "False", near=FUNCTIONS),
    Mutant(f"{D}:_Recorded.backward", "a custom gradient is constant",
           "self.gradient(*(g if isinstance(g, tuple) else (g,)))", "self.gradient(g.detach())", near=FUNCTIONS),
]
