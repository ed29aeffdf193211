"""Ours in the form of the learner's: plain ops and parts of the model, whole or with one mistake.

Most mistakes are made by rule from our source; those that no rule makes are texts of it, each with what stands there
by mistake. The judge calls a mistake by its name where an answer gives what the changed source gives. So neither the
checks nor the mistakes need a second solution.
"""

from __future__ import annotations

import ast
import inspect
import sys
import textwrap
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from additions.course.variants import variants

FUTURE = "from __future__ import annotations\n"


def changed(thing: Any, texts: Sequence[str], helpers: Sequence[Any] = ()) -> Any:
    """A function or class, compiled from its source with texts replaced, in it or in the helpers that it calls.

    texts: a text, its replacement, another text, …

    Raises: LookupError for a text that does not occur
    """
    source = source_of([*helpers, thing])
    for right, wrong in zip(texts[::2], texts[1::2], strict=True):
        if right not in source:
            raise LookupError(f"{thing.__name__}: {right!r} does not occur in its source")
        source = source.replace(right, wrong)
    names = dict(vars(sys.modules[thing.__module__]), __name__="changed")  # no module of autograd: it registers no op
    exec(compile(FUTURE + source, "changed", "exec"), names)
    return names[thing.__name__]


def source_of(things: Sequence[Any]) -> str:
    """The source of functions and classes."""
    return "\n\n".join(textwrap.dedent(inspect.getsource(each)) for each in things)


def by_rule(
    things: Sequence[Any], names: Mapping[str, Any], said: str, fixed: Mapping[str, Any] | None = None
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield mistakes that a rule makes in functions and classes, and the names of a module that has them.

    names: of the module, beside what `things` define
    said: the statement of the step, whose names the learner knows
    fixed: values in the place of parameters that the learner's function does not have
    """
    tree = _Fixed(fixed or {}).visit(ast.parse(source_of(things)))
    for message, program in variants(f"{said!r}\n{FUTURE}{ast.unparse(tree)}"):
        defined = {**names, "__name__": "changed"}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of a mistake in which None has an index
            code = compile(program, "changed", "exec")
        exec(code, defined)
        yield message, defined


ITS_FIRST_ARGUMENT = ("keep_bfloat16", "constant")
"""Functions that return their first argument, in float64."""


class _Fixed(ast.NodeTransformer):
    """Puts values in the place of names, and leaves out functions that do nothing here."""

    def __init__(self, values: Mapping[str, Any]):
        self.values = values

    def visit_Name(self, node: ast.Name) -> ast.AST:
        is_value = node.id in self.values and isinstance(node.ctx, ast.Load)
        return ast.Constant(self.values[node.id]) if is_value else node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        return node.args[0] if ast.unparse(node.func) in ITS_FIRST_ARGUMENT else node


class OurOp:
    """A plain op of ours with what an op of the learner promises: a tuple of arrays, of one result."""

    def __init__(self, op: Any, **fixed: Any):
        """fixed: parameters that the learner's op does not have"""
        self.op, self.fixed, self.broadcasts, self.__name__ = op, fixed, op.broadcasts, op.__name__

    def forward(self, xp: Any, *inputs: Any, **parameters: Any) -> Any:
        y = self.op.forward(xp, *inputs, **parameters, **self.fixed)
        return y[0] if isinstance(y, tuple) else y

    def backward(self, xp: Any, g: Any, y: Any, *inputs: Any, **parameters: Any) -> tuple[Any, ...]:
        several = self.op.__name__ == "CrossEntropy"  # its second result has no gradient
        found = self.op.backward(xp, (g, None) if several else g, y, *inputs, **parameters, **self.fixed)
        return tuple([each() if callable(each) else each for each in (found if isinstance(found, tuple) else (found,))])
