"""The source of an op class: formula, definition, the implementation that ran, its kernels, and names of its arrays."""

from __future__ import annotations

import ast
import inspect
import linecache
import os
import textwrap
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

from additions.inspect.graph import definition_of, kind_of
from autograd.engine import Op
from autograd.fast.table import TABLE

ROOT = Path(__file__).parents[2]


def class_description(op_class: type[Op]) -> dict[str, Any]:
    """Formula, documentation and source of an op class, as values for JSON."""
    definition = definition_of(op_class)
    described = documented(definition)
    if definition is not op_class:
        mine = documented(op_class)
        described["about"] = "\n\n".join(filter(None, [described["about"], mine["formula"], mine["about"]]))
    return {
        "name": op_class.__name__,
        "kind": kind_of(op_class),
        **described,
        "forward": _with_roles(definition, op_class, "forward"),
        "backward": _with_roles(definition, op_class, "backward"),
    }


def _with_roles(definition: type[Op], op_class: type[Op], method: str) -> list[dict[str, Any]]:
    """Return the sources of a method: of the definition, of an implementation in its place, and of the kernels."""
    made = sources_of(op_class, method)
    if definition is not op_class:
        for each in made:
            each["role"] = "implementation" if "." in each["name"] else "kernel"
        made = [{**each, "role": "definition"} for each in sources_of(definition, method)] + made
    return made


def documented(thing: Any) -> dict[str, Any]:
    """Return the formula, which is the first paragraph of a docstring, and the other paragraphs."""
    own = vars(thing).get("__doc__") if isinstance(thing, type) else thing.__doc__  # not that of a base class
    formula, _, about = inspect.cleandoc(own or "").partition("\n\n")
    return {"formula": formula, "about": about}


def sources_of(op_class: type[Op], method: str) -> list[dict[str, Any]]:
    """The source of a method, of the methods of the op that it calls, and of the kernels, as NumPy computes them."""
    wanted: list[Any] = [getattr(op_class, method, None)]  # an op may have no backward pass
    made: dict[str, dict[str, Any]] = {}
    for function in wanted:  # grows
        source = source_of(function)
        if source is None or source["name"] in made:
            continue
        made[source["name"]] = source
        for owner, name in _calls(source["text"]):
            found = kernel_named(name) if owner == "kernels" else getattr(op_class, name, None)
            if inspect.isfunction(found) and found is not getattr(Op, name, None):
                wanted.append(found)
    return list(made.values())


def kernel_named(name: str) -> Callable[..., Any] | None:
    """Return a kernel as NumPy computes it, if there is one of this name."""
    found = TABLE.get((name, "numpy"))
    return None if found is None else found.function


def source_of(function: Callable[..., Any]) -> dict[str, Any] | None:
    """Name, file, first line and text of a function; None where there is no source, as of a typed-in program."""
    function = inspect.unwrap(getattr(function, "__func__", function))
    try:
        lines, first = inspect.getsourcelines(function)
    except (OSError, TypeError):
        return None
    where = inspect.getsourcefile(function) or ""
    text = textwrap.dedent("".join(lines)).rstrip()
    while text.startswith("@"):  # a decorator
        text, first = text.partition("\n")[2], first + 1
    return {"name": function.__qualname__, "file": shown_path(where), "line": first, "text": text}


def _calls(text: str) -> Iterator[tuple[str, str]]:
    """Names of the calls `self.name(…)`, and `self.kernels.name(…)` or `cpu.name(…)`, with "self" or "kernels"."""
    for node in _nodes(text):
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id="self"), attr=name)):
                yield "self", name
            case ast.Call(func=ast.Attribute(value=ast.Name(id="cpu"), attr=name)):
                yield "kernels", name
            case ast.Call(
                func=ast.Attribute(value=ast.Attribute(value=ast.Name(id="self"), attr="kernels"), attr=name)
            ):
                yield "kernels", name


def _nodes(text: str) -> Iterator[ast.AST]:
    try:
        return ast.walk(ast.parse(text))
    except SyntaxError:
        return iter(())


# ---- Names -------------------------------------------------------------------------------------------------------


def input_names(op_class: type[Op], count: int) -> list[str]:
    """Return the names that `forward` gives to its arrays."""
    names: list[str] = []
    for parameter in list(inspect.signature(op_class.forward).parameters.values())[1:]:
        if parameter.kind is parameter.VAR_POSITIONAL:
            names += [f"{parameter.name}[{i}]" for i in range(count - len(names))]
        elif parameter.kind is not parameter.KEYWORD_ONLY:
            names.append(parameter.name)
    return [*names, *[f"input {i}" for i in range(len(names), count)]][:count]


def saved(op: Op) -> list[tuple[str, Any]]:
    """Return the arrays that a node keeps for its backward pass, by name."""
    if op.is_plain and isinstance(op._saved, tuple):
        names = ["y", *input_names(type(op), len(op._saved) - 1)]
        return [(name, a) for name, a in zip(names, op._saved, strict=True) if hasattr(a, "nbytes")]
    return list(zip(saved_names(type(op), len(op.saved_arrays)), op.saved_arrays, strict=True))


def saved_names(op_class: type[Op], count: int) -> list[str]:
    """Return the names of the `count` arrays in the `self.save(…)` of `forward`, as far as the source tells."""
    for names, rest in _saves(op_class):  # type: ignore[arg-type]  # a class is hashable
        if rest is not None and count >= len(names):
            return [*names, *[f"{rest}[{i}]" for i in range(count - len(names))]]
        if rest is None and len(names) == count:
            return list(names)
    return [f"saved[{i}]" for i in range(count)]


@cache
def _saves(op_class: type[Op]) -> list[tuple[tuple[str, ...], str | None]]:
    """Return the arguments of each call of `self.save`, and the name of what a star spreads at its end."""
    found: list[tuple[tuple[str, ...], str | None]] = []
    for source in sources_of(op_class, "forward"):
        for node in _nodes(source["text"]):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "self.save":
                stars = [each for each in node.args if isinstance(each, ast.Starred)]
                others = node.args[: -len(stars) or None]  # a star is the last argument
                names = [
                    ast.unparse(each.body if isinstance(each, ast.IfExp) else each) for each in others
                ]  # of x if …
                rest = ast.unparse(stars[0].value) if stars else None
                if kept := _returned_by_kernel(source["text"], rest):
                    found.append(((*names, *kept), None))
                found.append((tuple(names), rest))
    return found


def _returned_by_kernel(text: str, name: str | None) -> list[str]:
    """The names that a kernel returns as `name`: for kept in `y, kept = self.kernels.f(…)`, p of `return y, (p,)`."""
    for node in _nodes(text):
        match node:
            case ast.Assign(
                targets=[ast.Tuple(elts=[*_, ast.Name(id=target)])], value=ast.Call(func=ast.Attribute(attr=kernel))
            ) if target == name and (found := kernel_named(kernel)):
                definition = source_of(found)
                for inner in _nodes(definition["text"] if definition else ""):
                    match inner:
                        case ast.Return(value=ast.Tuple(elts=[*_, ast.Tuple(elts=kept)])):
                            return [ast.unparse(each) for each in kept]
    return []


# ---- Places ------------------------------------------------------------------------------------------------------


def shown_path(path: str) -> str:
    """Return a path relative to the project or the working directory; of other files, only the name."""
    for base in (ROOT, Path.cwd()):
        if Path(path).is_relative_to(base):
            return Path(path).relative_to(base).as_posix()
    return os.path.basename(path)


def place(where: tuple[str, int]) -> dict[str, Any]:
    """File, line and text of the line that made an op."""
    return {"file": shown_path(where[0]), "line": where[1], "text": linecache.getline(*where).strip()}
