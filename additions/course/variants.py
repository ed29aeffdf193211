"""Plausible mistakes, made by rule from a right program: each with what it does, and the program that has it.

An answer that gives the results of such a program has its mistake, or one that amounts to the same. The rules: a
factor, term, root or power that is missing; a sign, a side of a fraction, an order of factors; a transposition; a mean
for a sum; an axis, a size or a name for another; a number off by one; eps; a comparison; an overwritten sum; a layer
that is missing or another one; an argument that is not handed on; a Tensor that passes no gradient back.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any, cast

HOLE = re.compile(r"^( *)# solution\n.*?^ *# end\n", re.MULTILINE | re.DOTALL)
MOST = 90  # characters of an expression that is shown
_ARITHMETIC = (ast.Add, ast.Sub)
_OTHER: dict[type, Any] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd,
}  # fmt: skip
_OPPOSITE: dict[type, Any] = {
    ast.Lt: ast.GtE, ast.LtE: ast.Gt, ast.Gt: ast.LtE, ast.GtE: ast.Lt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
_CALLS = {"sum": "mean", "mean": "sum", "max": "min", "min": "max", "maximum": "minimum", "sin": "cos", "cos": "sin"}
_SYMMETRIC = {
    "maximum",
    "minimum",
    "max",
    "min",
    "add",
    "multiply",
    "logical_and",
    "logical_or",
    "equal",
    "array_equal",
    "swapaxes",
    "result_type",
}
Change = tuple[str, ast.AST]  # what the mistake is, and what stands there by it


def variants(source: str) -> Iterator[tuple[str, str]]:
    """Yield mistakes and the programs that have them.

    source: a program; only what is between `# solution` and `# end` is changed, if it has these marks
    """
    tree = ast.parse(source)
    holes = [(source.count("\n", 0, m.start()) + 1, source.count("\n", 0, m.end())) for m in HOLE.finditer(source)]
    seen = {ast.unparse(tree)}
    for _, mistake in mistakes(tree):
        if holes and not any(first < mistake.place.lineno < last for first, last in holes):
            continue
        with mistake.made():
            changed = ast.unparse(tree)
        if changed not in seen:
            seen.add(changed)
            yield mistake.message, changed


@dataclass(frozen=True)
class Mistake:
    """What a mistake is, the node of the tree where it is made, and what stands there by it."""

    message: str
    place: Any
    other: ast.AST
    put: Callable[[ast.AST], None]  # puts another node in the place

    @contextmanager
    def made(self) -> Iterator[None]:
        """Context manager: the mistake is in the tree inside the block."""
        self.put(self.other)
        try:
            yield
        finally:
            self.put(self.place)


def mistakes(tree: ast.Module, written_out: bool = True) -> Iterator[tuple[ast.FunctionDef, Mistake]]:
    """Yield the functions of a program, each with every mistake that a rule makes in it.

    written_out: True for messages in the words of a learner, who does not know the program's own names
    """
    parts = _parts(tree)
    put_at = dict(_places(tree))
    for function in [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]:
        words = _Words(function, ast.get_docstring(tree) or "", parts, written_out)
        for place in [node for node in ast.walk(function) if hasattr(node, "lineno")]:
            for message, other in [*_changes(place, words)]:
                yield function, Mistake(message, place, other, put_at[place])


def _places(tree: ast.AST) -> Iterator[tuple[ast.AST, Callable[[ast.AST], None]]]:
    """Yield every node inside a tree, and a function that puts another one in its place."""
    for parent in ast.walk(tree):
        for name, value in ast.iter_fields(parent):
            if isinstance(value, ast.AST):
                yield value, partial(setattr, parent, name)
            elif isinstance(value, list):
                yield from (
                    (node, partial(value.__setitem__, k)) for k, node in enumerate(value) if isinstance(node, ast.AST)
                )


class _Replaced(ast.NodeTransformer):
    """Puts a node in the place of another, which is found by where it stands."""

    def __init__(self, place: ast.AST, other: ast.AST):
        self.place, self.other, self.text = place, other, ast.dump(place)

    def visit(self, node: ast.AST) -> ast.AST:
        if type(node) is type(self.place) and _where(node) == _where(self.place) and ast.dump(node) == self.text:
            return self.other
        return self.generic_visit(node)


def _where(node: ast.AST) -> tuple[int, int, int | None]:
    return getattr(node, "lineno", 0), getattr(node, "col_offset", 0), getattr(node, "end_col_offset", 0)


class _Words:
    """Writes expressions as a learner reads them: names that only the solution has are written out."""

    def __init__(self, function: ast.FunctionDef, statement: str, parts: dict[str, str], written_out: bool):
        """parts: the attributes of its class that are layers, and their classes"""
        self.parameters = [each.arg for each in function.args.args]
        self.types = {each.arg: ast.unparse(each.annotation) if each.annotation else "" for each in function.args.args}
        self.parts = parts
        is_of_tensors = "Tensor" in self.types.values()
        lambdas = [each for each in ast.walk(function) if isinstance(each, ast.Lambda)] if is_of_tensors else []
        self.tensors = {name for name, kind in self.types.items() if kind == "Tensor"}
        self.tensors |= {each.arg for function in lambdas for each in function.args.args}
        assigned = [node for node in ast.walk(function) if isinstance(node, ast.Assign) and len(node.targets) == 1]
        names = [node.targets[0].id for node in assigned if isinstance(node.targets[0], ast.Name)]
        self.meaning = {
            node.targets[0].id: node.value
            for node in assigned
            if written_out
            and isinstance(node.targets[0], ast.Name)
            and names.count(node.targets[0].id) == 1
            and node.targets[0].id not in self.parameters
            and not re.search(rf"\b{node.targets[0].id}\b", statement)
        }

    def __call__(self, node: ast.AST) -> str:
        text = ast.unparse(node)
        for _ in range(3 if self.meaning.keys() & {n.id for n in ast.walk(node) if isinstance(n, ast.Name)} else 0):
            longer = ast.unparse(_Written(self.meaning).visit(deepcopy(node)))
            if len(longer) > MOST:
                break
            try:
                text, node = longer, ast.parse(longer, mode="eval").body
            except SyntaxError:  # a part of an expression, such as *x
                break
        text = re.sub(r"\.swapaxes\(-1, -2\)|\.T\b", "ᵀ", re.sub(r", keepdims=True|\bnp\.|\bmath\.|\bxp\.", "", text))
        return f"`{text}`" if len(text) <= MOST else f"`{text[:MOST]}…`"


def _parts(tree: ast.Module) -> dict[str, str]:
    """Attributes that are made by calls, as `self.key`, and what is called."""
    made = [node for node in ast.walk(tree) if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call)]
    return {
        ast.unparse(node.targets[0]): ast.unparse(node.value.func)  # type: ignore[attr-defined]
        for node in made
        if ast.unparse(node.targets[0]).startswith("self.")
    }


class _Written(ast.NodeTransformer):
    def __init__(self, meaning: dict[str, ast.expr]):
        self.meaning = meaning

    def visit_Name(self, node: ast.Name) -> ast.AST:
        return deepcopy(self.meaning.get(node.id, node))


def _changes(node: ast.AST, words: _Words) -> Iterator[Change]:
    """Yield the mistakes that may be made at a node."""
    if type(node) in _OF:
        yield from _OF[type(node)](node, words)


def _of_name(node: ast.Name, words: _Words) -> Iterator[Change]:
    """Yield the mistakes of a use of a Tensor or parameter."""
    if not isinstance(node.ctx, ast.Load):
        return
    if node.id in words.tensors:
        array = ast.Call(ast.Name("Tensor", ast.Load()), [ast.Attribute(node, "data", ast.Load())], [])
        yield f"one of the uses of `{node.id}` passes no gradient back", array
    if node.id in words.parameters:
        if "None" in words.types[node.id]:
            yield f"`{node.id}` is not used", ast.Constant(None)
        for value in (True, False) if words.types[node.id] == "bool" else ():
            yield f"it is as if `{node.id}` were always {value}", ast.Constant(value)
        for name in words.parameters:
            if not {name, node.id} & {"self", "xp"} and name != node.id and words.types[name] == words.types[node.id]:
                yield f"`{name}` stands where `{node.id}` is meant", ast.Name(name, ast.Load())


def _of_attribute(node: ast.Attribute, words: _Words) -> Iterator[Change]:
    """Yield the other parts of the same kind."""
    here = ast.unparse(node)
    if here in words.parts and isinstance(node.ctx, ast.Load):
        for name, kind in words.parts.items():
            if name != here and kind == words.parts[here]:
                yield f"`{name}` stands where `{here}` is meant", ast.parse(name, mode="eval").body


def _of_comparison(node: ast.Compare, words: _Words) -> Iterator[Change]:
    """Yield the comparison that includes or leaves out equal values, and the opposite."""
    if type(node.ops[0]) in _OPPOSITE:
        opposite = ast.Compare(node.left, [_OPPOSITE[type(node.ops[0])](), *node.ops[1:]], node.comparators)
        yield f"{words(opposite)} stands where {words(node)} is meant", opposite
    if type(node.ops[0]) in _OTHER.keys() - {ast.Eq, ast.NotEq} and not isinstance(node.left, ast.Constant):
        other = ast.Compare(node.left, [_OTHER[type(node.ops[0])]()], node.comparators)
        yield f"{words(other)} stands where {words(node)} is meant", other


def _of_constant(node: ast.Constant, words: _Words) -> Iterator[Change]:
    """Yield the next integers."""
    if type(node.value) is int:
        for value, what in ((node.value + 1, "larger"), (node.value - 1, "smaller")):
            yield f"a number is off by one: it is {value}, one {what} than it should be", ast.Constant(value)


def _of_sign(node: ast.UnaryOp, words: _Words) -> Iterator[Change]:
    """Yield the operand without its minus."""
    if isinstance(node.op, ast.USub):
        yield f"the sign of {words(node.operand)} is wrong: its minus is missing", node.operand


def _of_pair(node: ast.Tuple, words: _Words) -> Iterator[Change]:
    """Yield the pair in the other order; a pair of slices is an index."""
    if len(node.elts) == 2 and not set(ast.unparse(node)) & set(":*"):
        yield f"{words(node.elts[0])} and {words(node.elts[1])} are exchanged", ast.Tuple(node.elts[::-1], node.ctx)


def _of_size(node: ast.Subscript, words: _Words) -> Iterator[Change]:
    """Yield the sizes of other axes."""
    if ast.unparse(node.value).endswith(".shape") and isinstance(node.ctx, ast.Load):
        for axis in (0, 1, -1, -2):
            other = ast.Subscript(node.value, ast.Constant(axis), node.ctx)
            yield f"the size of axis {axis} stands where {words(node)} is meant", other


def _of_sum(node: ast.AugAssign, words: _Words) -> Iterator[Change]:
    """Yield the mistakes of a contribution to a sum."""
    what = words(node.target)
    overwritten = ast.Assign([node.target], node.value, lineno=0)
    yield f"{what} is overwritten, where contributions are to add up", overwritten
    yield f"{words(node.value)} does not enter {what}", ast.Pass()
    if isinstance(node.op, _ARITHMETIC):
        op = ast.Sub() if isinstance(node.op, ast.Add) else ast.Add()
        yield f"{words(node.value)} enters {what} with the wrong sign", ast.AugAssign(node.target, op, node.value)


def _of_branch(node: ast.If, words: _Words) -> Iterator[Change]:
    """Yield a condition that is always or never met."""
    if any(isinstance(each, ast.Name) for each in ast.walk(node.test)):
        for value in (True, False):
            other = ast.If(ast.Constant(value), node.body, node.orelse)
            yield f"it is as if {words(node.test)} were always {value}", other


def _of_loop(node: ast.For, words: _Words) -> Iterator[Change]:
    """Yield a loop over the last item alone."""
    over = next((each for each in ast.walk(node.iter) if isinstance(each, ast.Attribute)), node.iter)
    last = ast.parse(f"{ast.unparse(over)}[-1:]", mode="eval").body
    items = cast(ast.expr, _Replaced(over, last).visit(deepcopy(node.iter)))
    other = ast.For(node.target, items, node.body, [], lineno=0)
    yield f"only the last of {words(over)} is used", other


def _of_assignment(node: ast.Assign, words: _Words) -> Iterator[Change]:
    """Yield the missing call that changes a name."""
    if isinstance(node.value, ast.Call) and ast.unparse(node.targets[0]) in map(ast.unparse, ast.walk(node.value)):
        yield f"{words(node.value)} is missing", ast.Pass()


def _of_statement(node: ast.Expr, words: _Words) -> Iterator[Change]:
    """Yield the missing statement."""
    if not isinstance(node.value, ast.Constant):
        yield f"{words(node.value)} is missing", ast.Pass()


def _of_results(statement: ast.Return, words: _Words) -> Iterator[Change]:
    """Yield the mistakes of several results: two of them are exchanged, or one is there twice."""
    node = statement.value
    if not isinstance(node, ast.Tuple):
        return
    for k, (a, b) in enumerate(pairwise(node.elts)):
        for pair, what in (
            ((b, a), f"the results {words(a)} and {words(b)} are exchanged"),
            ((a, a), f"the result {words(a)} stands where {words(b)} is meant"),
            ((b, b), f"the result {words(b)} stands where {words(a)} is meant"),
        ):
            yield what, ast.Return(ast.Tuple([*node.elts[:k], *pair, *node.elts[k + 2 :]], ast.Load()))


def _of_order(node: ast.FunctionDef, words: _Words) -> Iterator[Change]:
    """Yield functions in which two statements that change the same name stand in the other order."""
    for k, (one, next_one) in enumerate(pairwise(node.body)):
        if not isinstance(one, ast.Assign) or not isinstance(one.value, ast.Call):
            continue
        target = ast.unparse(one.targets[0])
        is_pair = isinstance(next_one, ast.Assign | ast.Return) and isinstance(next_one.value, ast.Call)
        if is_pair and all(target in map(ast.unparse, ast.walk(each.value)) for each in (one, next_one)):  # type: ignore[attr-defined]
            first, second = deepcopy(one), deepcopy(next_one)
            first.value, second.value = second.value, first.value  # type: ignore[attr-defined]
            other = deepcopy(node)
            other.body = [*node.body[:k], first, second, *node.body[k + 2 :]]
            name = ast.unparse(second.value.func)  # type: ignore[attr-defined]
            yield f"`{name}` comes second, and is to come first", other


def _of_two(node: ast.BinOp, words: _Words) -> Iterator[Change]:
    """Yield the mistakes of a sum, product, quotient or power."""
    other: ast.AST
    a, b = node.left, node.right
    for name in (each for each in (a, b) if isinstance(each, ast.Name)):
        for k in (1, -1):
            off = ast.BinOp(name, ast.Add(), ast.Constant(k))
            other = ast.BinOp(off if name is a else a, node.op, off if name is b else b)
            yield f"`{name.id} {'+-'[k < 0]} 1` stands where `{name.id}` is meant", other
    if isinstance(node.op, ast.Add) and isinstance(b, ast.Call) and len(b.args) == 1 and _is_own(b.func):
        other = ast.Call(b.func, [ast.BinOp(a, node.op, b.args[0])], [])
        yield f"`{ast.unparse(b.func)}` is applied to the sum; it is to {words(b.args[0])} alone", other
    if isinstance(node.op, _ARITHMETIC):
        minus = isinstance(node.op, ast.Sub)
        root = _root_of(a)
        if root is not None:
            other = ast.Call(a.func, [ast.BinOp(root, node.op, b)], [])  # type: ignore[attr-defined]
            yield f"{words(b)} is inside the root; it is added after it", other
        yield f"the term {'- ' * minus}{words(b)} is missing beside {words(a)}", a
        yield f"the term {words(a)} is missing beside {words(b)}", ast.UnaryOp(ast.USub(), b) if minus else b
        yield f"the sign of the term {words(b)} is wrong", ast.BinOp(a, ast.Add() if minus else ast.Sub(), b)
    elif isinstance(node.op, ast.Mult):
        for kept, lost in ((a, b), (b, a)):
            yield f"the factor {words(lost)} is missing beside {words(kept)}", kept
            yield f"{words(kept)} is divided by {words(lost)}, which is a factor", ast.BinOp(kept, ast.Div(), lost)
            yield f"the factor {words(lost)} is there twice beside {words(kept)}", ast.BinOp(node, ast.Mult(), lost)
    elif isinstance(node.op, ast.Div):
        yield f"{words(a)} is not divided by {words(b)}", a
        yield f"{words(a)} is multiplied by {words(b)}, which is a divisor", ast.BinOp(a, ast.Mult(), b)
        yield f"{words(a)} is divided by {words(b)} twice", ast.BinOp(node, ast.Div(), b)
        yield f"the numerator {words(a)} is missing", ast.BinOp(ast.Constant(1.0), ast.Div(), b)
        root = ast.BinOp(b, ast.Pow(), ast.Constant(0.5))
        yield f"{words(a)} is divided by the root of {words(b)}", ast.BinOp(a, ast.Div(), root)
    elif isinstance(node.op, ast.Pow):
        yield f"the power is missing: {words(a)} stands for {words(node)}", a
        yield f"the absolute value stands for {words(node)}", ast.Call(ast.Name("abs", ast.Load()), [a], [])
        yield f"the sign of the exponent of {words(node)} is wrong", ast.BinOp(a, ast.Pow(), ast.UnaryOp(ast.USub(), b))
        for power in (-2.0, -1.5, -1.0, -0.5, 0.5, 1.5, 2.0):
            yield f"{words(a)} has the power {power:g}", ast.BinOp(a, ast.Pow(), ast.Constant(power))
    elif isinstance(node.op, ast.MatMult):
        if ast.dump(a) != ast.dump(b):
            yield f"the factors of {words(node)} are exchanged", ast.BinOp(b, node.op, a)
        for which in (a, b):

            def beside(other: ast.expr, which: ast.expr = which) -> ast.BinOp:
                return ast.BinOp(other if which is a else a, node.op, other if which is b else b)

            what = words(_turned(which) if _is_turned(which) else which)
            yield f"{what} is {'not ' * _is_turned(which)}transposed", beside(_turned(which))
            if _is_turned(which):
                shape = ast.Attribute(which, "shape", ast.Load())
                message = "is reshaped to the shape of its transpose; its elements are to be exchanged"
                yield f"{what} {message}", beside(_call(_turned(which), "reshape", shape))
                reverse = ast.Attribute(_turned(which), "T", ast.Load())
                yield f"all axes of {what} are reversed; only the last two are to be exchanged", beside(reverse)
    if type(node.op) in _OTHER:
        yield f"{words(b)} is missing beside {words(a)}", a
        yield f"{words(a)} is missing beside {words(b)}", b
        other = ast.BinOp(a, _OTHER[type(node.op)](), b)
        yield f"{words(other)} stands where {words(node)} is meant", other


def _of_call(node: ast.Call, words: _Words) -> Iterator[Change]:
    """Yield the mistakes of a call: a reduction of the wrong kind or axis, a function that is missing."""
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    receiver = node.func.value if isinstance(node.func, ast.Attribute) else None
    inner = node.args[0] if node.args and ast.unparse(node.func).partition(".")[0] in ("np", "math", "xp") else receiver
    if name in _CALLS:
        other = deepcopy(node)
        if isinstance(other.func, ast.Attribute):
            other.func.attr = _CALLS[name]
        else:
            other.func.id = _CALLS[name]  # type: ignore[attr-defined]
        if name in ("sum", "mean"):
            yield f"{words(node)} is a {name}, here it is a {_CALLS[name]}", other
        else:
            yield f"{_CALLS[name]} stands where {name} is meant, in {words(node)}", other
    if name in ("sum", "mean") and inner is not None:
        yield from _other_axes(node, inner, words)
    if name in ("sum", "mean", "exp", "log", "sqrt", "copy", "astype", "max", "swapaxes") and inner is not None:
        what = {"sqrt": f"the root of {words(inner)} is missing", "copy": f"{words(inner)} is not copied"}
        yield what.get(name, f"the {name} is missing: {words(inner)} stands for {words(node)}"), inner
    if name == "sqrt" and isinstance(inner, ast.BinOp) and isinstance(inner.op, _ARITHMETIC):
        root = ast.Call(node.func, [inner.left], [])
        yield f"{words(inner.right)} is added after the root; it belongs inside", ast.BinOp(root, inner.op, inner.right)
    yield from _of_arguments(node, words)
    if (name in ("tri", "arange", "range") and inner is None) or name == "tri":
        for k in (-1, 1):
            other = deepcopy(node)
            other.args[-1] = ast.BinOp(other.args[-1], ast.Add(), ast.Constant(k))
            yield f"{words(node)} is off by one", other


def _of_arguments(node: ast.Call, words: _Words) -> Iterator[Change]:
    """Yield the mistakes of what is handed to a function: it is not called; an argument is missing, or another's."""
    other: ast.AST
    if node.args and not isinstance(node.args[0], ast.Starred) and _is_own(node.func):
        yield f"`{ast.unparse(node.func)}` is missing around {words(node.args[0])}", node.args[0]
        inner = node.args[0]
        if isinstance(inner, ast.Call) and inner.args and _is_own(inner.func):
            swapped = ast.Call(node.func, [inner.args[0], *node.args[1:]], node.keywords)
            other = ast.Call(inner.func, [swapped, *inner.args[1:]], inner.keywords)
            yield f"`{ast.unparse(node.func)}` comes before `{ast.unparse(inner.func)}`; it comes after it", other
        if isinstance(inner, ast.BinOp) and isinstance(inner.op, ast.Add) and len(node.args) == 1:
            other = ast.BinOp(inner.left, ast.Add(), ast.Call(node.func, [inner.right], []))
            yield f"`{ast.unparse(node.func)}` is applied to {words(inner.right)} alone; it is to the sum", other
    if len(node.args) == 2 and (isinstance(node.args[1], ast.Lambda) or ast.unparse(node.args[1]) in words.parts):
        other = ast.Call(node.args[1], node.args[:1], [])
        yield f"`{ast.unparse(node.func)}` is missing around {words(node.args[1])}", other
    what = f"to `{ast.unparse(node.func)}`"
    for each in node.keywords:
        if each.arg not in ("axis", "keepdims"):
            other = ast.Call(node.func, node.args, [k for k in node.keywords if k is not each])
            yield f"`{each.arg}` is not handed {what}", other
    if any(isinstance(each, ast.Starred) for each in node.args):
        return
    if len(node.args) > 1:
        yield f"{words(node.args[-1])} is not handed {what}", ast.Call(node.func, node.args[:-1], node.keywords)
    for k, (a, b) in enumerate(pairwise(node.args)):
        if ast.dump(a) != ast.dump(b) and ast.unparse(node.func).rpartition(".")[2] not in _SYMMETRIC:
            other = ast.Call(node.func, [*node.args[:k], b, a, *node.args[k + 2 :]], node.keywords)
            yield f"{words(a)} and {words(b)} are exchanged when they are handed {what}", other


def _is_own(function: ast.expr) -> bool:
    """Whether a function is one of the program or a layer, not one of a library."""
    return isinstance(function, ast.Name) or ast.unparse(function).startswith("self.")


def _other_axes(node: ast.Call, inner: ast.expr, words: _Words) -> Iterator[Change]:
    axis = next((each for each in node.keywords if each.arg == "axis"), None)
    if axis is None:
        return
    for value in ("-1", "-2", "0", "1", "None"):
        other = deepcopy(node)
        for each in other.keywords:
            if each.arg == "axis":
                each.value = ast.parse(value, mode="eval").body
        where = "over all elements" if value == "None" else f"along axis {value}"
        yield f"{words(node)} is taken {where}", other


def _root_of(node: ast.AST) -> ast.expr | None:
    is_root = isinstance(node, ast.Call) and ast.unparse(node.func).endswith("sqrt") and len(node.args) == 1
    return node.args[0] if is_root else None  # type: ignore[attr-defined]


def _is_turned(node: ast.AST) -> bool:
    return (isinstance(node, ast.Attribute) and node.attr == "T") or _is_swapped(node)


def _is_swapped(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "swapaxes"


def _turned(node: ast.expr) -> ast.expr:
    """The transpose of an expression."""
    if isinstance(node, ast.Attribute) and node.attr == "T":
        return node.value
    if _is_swapped(node):
        return node.func.value  # type: ignore[attr-defined]
    return _call(node, "swapaxes", ast.Constant(-1), ast.Constant(-2))


def _call(receiver: ast.expr, name: str, *arguments: ast.expr) -> ast.Call:
    return ast.Call(ast.Attribute(receiver, name, ast.Load()), list(arguments), [])


_OF: dict[type, Callable[[Any, _Words], Iterator[Change]]] = {
    ast.Name: _of_name, ast.Attribute: _of_attribute, ast.Compare: _of_comparison, ast.Constant: _of_constant,
    ast.UnaryOp: _of_sign, ast.Tuple: _of_pair, ast.Subscript: _of_size, ast.AugAssign: _of_sum, ast.If: _of_branch,
    ast.For: _of_loop, ast.Assign: _of_assignment, ast.Expr: _of_statement, ast.Return: _of_results,
    ast.FunctionDef: _of_order, ast.BinOp: _of_two, ast.Call: _of_call,
}  # fmt: skip
