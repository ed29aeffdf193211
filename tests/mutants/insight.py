"""Damage to autograd.inspect: wrong times, bytes, graphs, and reports of the first NaN."""

from tests.mutants.damage import Mutant

I = "autograd.inspect"  # noqa: E741
MEMORY = ("tests/autograd/inspect/test_memory_profile.py",)
PROFILE = ("tests/autograd/inspect/test_time_profile.py",)
GRAPH = ("tests/autograd/inspect/test_graph.py",)
ANOMALY = ("tests/autograd/inspect/test_anomaly.py",)

# fmt: off
MUTANTS = [
    Mutant(f"{I}.memory_profile:Memory.after_forward", "what ops save is not followed",
           "(*outputs, *op.saved_arrays)", "outputs", near=MEMORY),
    Mutant(f"{I}.memory_profile:Memory._note", "the dead are not taken off",
           "live_bytes + change", "live_bytes + max(change, 0)", near=MEMORY),
    Mutant(f"{I}.memory_profile:Memory._follow", "a view counts as memory of its own",
           "known = self._known(owner)", "known = None", near=MEMORY),
    Mutant(f"{I}.memory_profile:Memory.before_backward", "gradients on their way are not counted",
           "self._follow(g, ", "(lambda *_, **__: None)(g, ", near=MEMORY),
    Mutant(f"{I}.memory_profile:Memory.after_backward", "saved arrays are never let go of",
           "if open_ends:", "if False:", near=MEMORY),
    Mutant(f"{I}.memory_profile:Memory._look_at_leaves", "copies for leaves are overlooked",
           "if leaf is not None and leaf.grad is not None:", "if False:", near=MEMORY),
    Mutant(f"{I}.memory_profile:Memory.finish", "the allocator's peak with what was there before",
           "tracemalloc.get_traced_memory()[1] - self._measured_before",
           "tracemalloc.get_traced_memory()[1] + self._measured_before + 2**20", near=MEMORY),
    Mutant(f"{I}.time_profile:Clock.pause", "time between ops belongs to nobody",
           "(self._outside, ", '(Row(""), ', near=PROFILE),
    Mutant(f"{I}.time_profile:Clock.pause", "time goes to the outermost that runs",
           "(self._running[-1].row, self._running[-1].phase)", "(self._running[0].row, self._running[0].phase)",
           near=PROFILE),
    Mutant(f"{I}.time_profile:Clock.resume", "time spent on keeping books is lost",
           "self._spend(self._own, ", 'self._spend(Row(""), ', near=PROFILE),
    Mutant(f"{I}.time_profile:Clock._spend", "backward for forward",
           'f"{phase}_ms"', 'f"{phase}_ms".replace("backward", "forward")', near=PROFILE),
    Mutant(f"{I}.time_profile:Row.add", "FLOPs are not added up",
           "getattr(self, each.name) + getattr(other, each.name)",
           'getattr(self, each.name) * (each.name != "flops") + getattr(other, each.name)', near=PROFILE),
    Mutant(f"{I}.graph:SavedMemory._new_bytes", "memory that two ops keep counts twice",
           "return 0\n        try", "pass\n        try", near=GRAPH),
    Mutant(f"{I}.graph:SavedMemory.added_by", "the memory of leaves counts",
           "self._new_bytes(edge[0].data)", "pass", near=GRAPH),
    Mutant(f"{I}.graph:graph", "edges from the wrong end",
           "(index[id(edge[0])], index[id(each)])", "(index[id(each)], index[id(edge[0])])", near=GRAPH),
    Mutant("autograd.safety:CallSites.before_forward", "the line of the caller's caller",
           "op.call_site = frame.f_code, frame.f_lasti",
           "op.call_site = frame.f_back.f_code, frame.f_back.f_lasti", near=ANOMALY),
    Mutant(f"{I}.anomaly:_Inspector.after_forward", "NaN from outside passes",
           "if kind == NAN:", "if False:", near=ANOMALY),
    Mutant(f"{I}.anomaly:_Inspector.after_forward", "what comes up is never worse than what went in",
           "kind > max(inputs, default=FINITE)", "kind > NAN", near=ANOMALY),
    Mutant(f"{I}.anomaly:_Inspector.after_backward", "gradients of inputs are not looked at",
           "FINITE if g is None else _kind(g)", "FINITE", near=ANOMALY),
    Mutant(f"{I}.anomaly:_Inspector.after_leaf", "sums at leaves are not looked at",
           "if kind != FINITE:", "if False:", near=ANOMALY),
    Mutant(f"{I}.anomaly:_raise", "the last bad element for the first",
           "int(bad.argmax())", "int(bad.size - 1 - bad.reshape(-1)[::-1].argmax())", near=ANOMALY),
]
