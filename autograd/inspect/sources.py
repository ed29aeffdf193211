"""What the source of an op class says: formula, forward and backward, kernels that it calls, names of what it saves."""

from __future__ import annotations

import ast
import inspect
import linecache
import os
import textwrap
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from autograd.backend.reference import Backend
from autograd.engine import Op

ROOT = Path(__file__).parents[2]


def class_description(op_class: type[Op]) -> dict[str, Any]:
    """Formula, documentation and source of an op class, as values for JSON."""
    return {
        "name": op_class.__name__,
        "kind": op_class.__module__.rpartition(".")[2] if op_class.__module__.startswith("autograd.ops.") else "other",
        **documented(op_class),
        "forward": sources_of(op_class, "forward"),
        "backward": sources_of(op_class, "backward"),
    }


def documented(thing: Any) -> dict[str, Any]:
    """The formula, which is the first paragraph of a docstring, and the other paragraphs."""
    own = vars(thing).get("__doc__") if isinstance(thing, type) else thing.__doc__  # not that of a base class
    text = inspect.cleandoc(own or "")
    first, _, rest = text.partition("\n\n")
    return {"formula": first, "about": rest}


def sources_of(op_class: type[Op], method: str) -> list[dict[str, Any]]:
    """The source of a method, of the methods of the op that it calls, and of the kernels, by definition of each."""
    wanted: list[Any] = [getattr(op_class, method)]
    made: dict[str, dict[str, Any]] = {}
    for function in wanted:  # grows
        source = source_of(function)
        if source is None or source["name"] in made:
            continue
        made[source["name"]] = source
        own = Backend if source["name"].startswith("Backend.") else op_class
        for owner, name in _calls(source["text"]):
            found = getattr(own if owner == "self" else Backend, name, None)
            if inspect.isfunction(found) and found is not getattr(Op, name, None):
                wanted.append(found)
    return list(made.values())


def source_of(function: Callable[..., Any]) -> dict[str, Any] | None:
    """Name, file, first line and text of a function; None where there is no source, as of a typed-in program."""
    function = inspect.unwrap(getattr(function, "__func__", function))
    try:
        lines, first = inspect.getsourcelines(function)
    except (OSError, TypeError):
        return None
    where = inspect.getsourcefile(function) or ""
    text = textwrap.dedent("".join(lines)).rstrip()
    return {"name": function.__qualname__, "file": shown_path(where), "line": first, "text": text}


def _calls(text: str) -> Iterator[tuple[str, str]]:
    """Names of the calls `self.name(…)` and `self.backend.name(…)`."""
    for node in ast.walk(_parsed(text)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            match node.func.value:
                case ast.Name(id="self"):
                    yield "self", node.func.attr
                case ast.Attribute(value=ast.Name(id="self"), attr="backend"):
                    yield "backend", node.func.attr


def _parsed(text: str) -> ast.AST:
    try:
        return ast.parse(text)
    except SyntaxError:
        return ast.Module([], [])


# ---- Names -------------------------------------------------------------------------------------------------------


def input_names(op_class: type[Op], count: int) -> list[str]:
    """The names that `forward` gives to its arrays."""
    names: list[str] = []
    for parameter in list(inspect.signature(op_class.forward).parameters.values())[1:]:
        if parameter.kind is parameter.VAR_POSITIONAL:
            names += [f"{parameter.name}[{i}]" for i in range(count - len(names))]
        elif parameter.kind is not parameter.KEYWORD_ONLY:
            names.append(parameter.name)
    return [*names, *[f"input {i}" for i in range(len(names), count)]][:count]


def saved_names(op_class: type[Op], count: int) -> list[str]:
    """The names of the `count` arrays in the `self.save(…)` of `forward`, as far as the source tells."""
    if op_class not in _known_saves:
        _known_saves[op_class] = _saves(op_class)
    for names, rest in _known_saves[op_class]:
        if rest is not None and count >= len(names):
            return [*names, *[f"{rest}[{i}]" for i in range(count - len(names))]]
        if rest is None and len(names) == count:
            return list(names)
    return [f"saved[{i}]" for i in range(count)]


Saves = list[tuple[tuple[str, ...], str | None]]
_known_saves: weakref.WeakKeyDictionary[type, Saves] = weakref.WeakKeyDictionary()


def _saves(op_class: type[Op]) -> Saves:
    """The arguments of each call of `self.save`, and the name of what a star spreads at its end."""
    found: Saves = []
    for source in sources_of(op_class, "forward"):
        for node in ast.walk(_parsed(source["text"])):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "self.save":
                stars = [each for each in node.args if isinstance(each, ast.Starred)]
                plain = tuple(_short(each) for each in node.args if not isinstance(each, ast.Starred))
                if not stars or node.args[-1] is stars[0]:
                    rest = ast.unparse(stars[0].value) if stars else None
                    kept = _kept_by_kernel(_parsed(source["text"]), rest)
                    if kept:
                        found.append(((*plain, *kept), None))
                    found.append((plain, rest))
    return found


def _kept_by_kernel(tree: ast.AST, name: str | None) -> list[str]:
    """What a kernel returns for `name`: for kept in `y, kept = self.backend.attention(…)`, p of `return y, (p,)`."""
    for node in ast.walk(tree):
        match node:
            case ast.Assign(
                targets=[ast.Tuple(elts=[*_, ast.Name(id=target)])], value=ast.Call(func=ast.Attribute(attr=kernel))
            ) if target == name and hasattr(Backend, kernel):
                definition = source_of(getattr(Backend, kernel))
                for inner in ast.walk(_parsed(definition["text"] if definition else "")):
                    match inner:
                        case ast.Return(value=ast.Tuple(elts=[*_, ast.Tuple(elts=kept)])):
                            return [ast.unparse(each) for each in kept]
    return []


def _short(argument: ast.expr) -> str:
    """`x if needs_weight else None` is x."""
    return ast.unparse(argument.body if isinstance(argument, ast.IfExp) else argument)


# ---- Places ------------------------------------------------------------------------------------------------------


def shown_path(path: str) -> str:
    """A path relative to the project or the working directory; of other files, only the name."""
    for base in (ROOT, Path.cwd()):
        if Path(path).is_relative_to(base):
            return Path(path).relative_to(base).as_posix()
    return os.path.basename(path)


def place(where: tuple[str, int]) -> dict[str, Any]:
    """File, line and text of the line that made an op."""
    return {"file": shown_path(where[0]), "line": where[1], "text": linecache.getline(*where).strip()}
