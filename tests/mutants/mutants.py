"""Mutants: functions of the house with one mistake each, made by the course's rules on the syntax tree."""

from __future__ import annotations

import ast
import inspect
import re
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any
from unittest.mock import patch

from additions.course.variants import Mistake, mistakes
from autograd.engine import Op

ROOT = Path(__file__).resolve().parents[2]
ROOMS = {
    "Ops": "autograd/ops/*.py",
    "Engine": "autograd/[!_gc]*.py",
    "Checker": "autograd/gradcheck/*.py",
    "Layers and model": "minitf/model/*.py",
    "Optimizer": "minitf/training/optim.py",
    "Batching": "minitf/data/batches.py",
    "Search": "minitf/decoding/search.py",
}
WRONG_OPERAND = "… stands where … is meant"
RULES = (
    "the term … is missing beside …",
    "the term - … is missing beside …",
    "the sign of the term … is wrong",
    "the sign of … is wrong: its minus is missing",
    "the factor … is missing beside …",
    "… is divided by …, which is a factor",
    "… is not divided by …",
    "the factors of … are exchanged",
    "… is transposed",
    "… is not transposed",
    "… is a sum, here it is a mean",
    "… is a mean, here it is a sum",
    WRONG_OPERAND,
    "… is taken along axis 0",
    "the results … and … are exchanged",
    "… is overwritten, where contributions are to add up",
    "… does not enter …",
    "a number is off by one: it is 1, one larger than it should be",
    "only the last of … is used",
    "… is missing",
    "… and … are exchanged when they are handed to …",
)
"""The rules that hardly ever make a program that is right too, by their messages without what these quote."""


@dataclass(frozen=True)
class Mutant:
    """One mistake. module, function: where; number: which of the mistakes that the rule makes in the function."""

    room: str
    module: str
    function: str
    rule: str
    number: int
    message: str

    def __str__(self) -> str:
        return f"{self.module}:{self.function}: {self.message}"

    def make(self) -> None:
        """Put the mistake into this process: every reference to the function, under any name, runs the code with it."""
        for k, mistake in enumerate(each for rule, each in _made(self.module)[self.function] if rule == self.rule):
            if k == self.number:
                _function(self.module, self.function).__code__ = _code_with(mistake, self.module, self.function)
                for op in Op.registry.values():
                    getattr(op, "_keeps", {}).clear()  # what the engine has noted of the inputs that backward reads


def rule_of(message: str) -> str:
    """A message without what it quotes."""
    return re.sub(r"`[^`]*`", "…", message)


def all_mutants(percent: float = 100, rooms: Sequence[str] = tuple(ROOMS)) -> list[Mutant]:
    """The mutants of rooms: of each rule in each function at most one, of a part of these pairs.

    The part and the mistakes are chosen by hash, so that a change in one function does not exchange those of others.
    """
    return [
        mutant
        for room in rooms
        for pattern in ROOMS[room].split()
        for file in sorted(ROOT.glob(pattern))
        for mutant in _of_file(room, file)
        if _hash(f"{mutant.module}:{mutant.function}: {mutant.rule}") % 1000 < 10 * percent
    ]


def _hash(text: str) -> int:
    return zlib.crc32(text.encode())


def _of_file(room: str, file: Path) -> Iterator[Mutant]:
    module = ".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    for name, made in _made(module).items():
        found: dict[str, list[str]] = {}
        for rule, mistake in made:
            found.setdefault(rule, []).append(mistake.message)
        for rule, messages in found.items():
            k = _hash(f"{rule} in {name}") % len(messages)
            yield Mutant(room, module, name, rule, k, messages[k])


@cache
def _tree(module: str) -> ast.Module:
    return ast.parse(inspect.getsource(import_module(module)))


def _functions(module: str) -> dict[str, ast.FunctionDef]:
    """The functions and methods of a module by their qualified names."""
    found = {}
    for node in _tree(module).body:
        prefix, inside = (f"{node.name}.", node.body) if isinstance(node, ast.ClassDef) else ("", [node])
        for inner in inside:
            if isinstance(inner, ast.FunctionDef) and set(map(ast.unparse, inner.decorator_list)) <= PLAIN:
                found[prefix + inner.name] = inner
    return found


PLAIN = {"property", "staticmethod", "classmethod", "contextmanager", "abstractmethod"}
"""Decorators whose function can be exchanged."""


@cache
def _made(module: str) -> dict[str, list[tuple[str, Mistake]]]:
    """The mistakes in each function of a module that change what runs, each with its rule."""
    names = {node: name for name, node in _functions(module).items()}
    found: dict[str, list[tuple[str, Mistake]]] = {name: [] for name in names.values()}
    outside = {inner for node in ast.walk(_tree(module)) for part in _beside(node) for inner in ast.walk(part)}
    for function, mistake in mistakes(_tree(module), written_out=False):
        rule = rule_of(mistake.message)
        if function in names and mistake.place not in outside and rule in RULES:
            if rule == WRONG_OPERAND and (isinstance(mistake.place, ast.BinOp) or _is_at_a_bound(mistake)):
                continue  # off by one, or nothing lies there
            found[names[function]].append((rule, mistake))
    return found


def _is_at_a_bound(mistake: Mistake) -> bool:
    """Whether a mistake is to include a bound, or leave it out, that is computed of a float: nothing is equal to it."""
    kinds = {type(op) for each in (mistake.place, mistake.other) for op in getattr(each, "ops", ())}
    constants = [each.value for each in ast.walk(mistake.place) if isinstance(each, ast.Constant)]
    return kinds in ({ast.Lt, ast.LtE}, {ast.Gt, ast.GtE}) and any(isinstance(value, float) for value in constants)


def _beside(node: ast.AST) -> Iterator[ast.AST]:
    """Yield what no test of the results sees: annotations, defaults, messages, arguments of checks that raise.

    Also the number that `where` puts in places of which a second `where`, of the same mask, drops the result.
    """
    if isinstance(node, ast.FunctionDef):
        yield from [node.args, *filter(None, [node.returns]), *node.decorator_list]
        for each in node.body:
            guard = re.match(r"(\w+) = (xp\.where\(.*), \1, \d\)$", ast.unparse(each))
            if guard and ast.unparse(node).count(guard[2]) > 1:
                yield each.value.args[2]  # type: ignore[attr-defined]
    elif isinstance(node, ast.AnnAssign):
        yield node.annotation
    elif isinstance(node, ast.Raise | ast.JoinedStr | ast.Assert) or _is_check(node):
        yield node


def _is_check(node: ast.AST) -> bool:
    name = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
    return bool(re.search(r"(^|\W)_*(check|refuse|require|warn)", name))


def _function(module: str, name: str) -> FunctionType:
    found: Any = import_module(module)
    for part in name.split("."):
        found = vars(found)[part]
    found = found.fget if isinstance(found, property) else found
    return inspect.unwrap(getattr(found, "__func__", found))


ran: set[bool] = set()
"""Not empty in the process of a mutant once its function has been called."""
(_NOTES_THAT_IT_RUNS,) = ast.parse(f"__import__('{__name__}', fromlist=['ran']).ran.add(True)").body


def _code_with(mistake: Mistake, module: str, function: str) -> CodeType:
    original = _function(module, function).__code__
    ast.copy_location(mistake.other, mistake.place)
    body = _functions(module)[function].body
    with mistake.made(), patch.object(_functions(module)[function], "body", [_NOTES_THAT_IT_RUNS, *body]):
        tree = ast.fix_missing_locations(_tree(module))
        whole = compile(tree, original.co_filename, "exec", dont_inherit=True)
    return next(
        code
        for code in _all_code(whole)
        if (code.co_qualname, code.co_firstlineno) == (original.co_qualname, original.co_firstlineno)
    )


def _all_code(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _all_code(constant)
