"""Read the data of a pickle, without calling, importing or constructing anything.

Python's own `pickle` runs what a file tells it to run. This reader knows the operations that build numbers, texts,
lists and dicts. Where a pickle names a class or function, it keeps the name; where it calls one, a function that the
caller has admitted for this name is called instead, and any other name is refused.
"""

from __future__ import annotations

import pickletools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

MAX_OPERATIONS = 20_000_000


class PickleError(ValueError):
    """The bytes are not a pickle, or one that does more than describe data."""


class Stream(Protocol):
    """What is read of a file."""

    def read(self, count: int, /) -> bytes: ...

    def readline(self) -> bytes: ...


@dataclass(frozen=True)
class Name:
    """A class or function that a pickle names, such as `torch.FloatStorage`."""

    module: str
    name: str

    def __str__(self) -> str:
        return f"{self.module}.{self.name}"[:120]


@dataclass
class Record:
    """An object that a pickle describes: the name of its class, and the attributes that it would get."""

    of: Name
    state: dict[Any, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Admitted:
    """What the names in a pickle may stand for."""

    calls: Mapping[str, Callable[..., Any]]
    """`collections.OrderedDict` -> the function to call in its place; a ValueError or TypeError is a damaged pickle."""
    names: Callable[[str], bool]
    """Whether a pickle may name something that is not called."""
    records: Callable[[str], bool]
    """Whether a pickle may describe an object of this class."""
    persistent: Callable[[Any], Any]
    """Called with what identifies data outside the pickle."""


class _Mark:
    """Where a list or dict begins on the stack."""


MARK = _Mark()
CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
EMPTY: dict[str, Callable[[], Any]] = {"EMPTY_DICT": dict, "EMPTY_LIST": list, "EMPTY_TUPLE": tuple, "EMPTY_SET": set}
VALUES = {
    "BININT", "BININT1", "BININT2", "LONG1", "LONG4", "BINFLOAT", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8",
    "SHORT_BINBYTES", "BINBYTES", "BINBYTES8", "BINSTRING", "SHORT_BINSTRING", "INT", "LONG", "FLOAT", "UNICODE",
}  # fmt: skip


def read_pickle(stream: Stream, admitted: Admitted) -> Any:
    """Read one pickle; the stream is left behind its end.

    Raises: PickleError for damage, and for a pickle that names or calls what is not admitted
    """
    machine = _Machine(admitted)
    try:
        for number, (operation, argument, _) in enumerate(pickletools.genops(stream)):  # type: ignore[arg-type]
            if operation.name == "STOP":
                return machine.pop()
            if number > MAX_OPERATIONS:
                raise PickleError("it has too many operations")
            machine.do(operation.name, argument)
    except PickleError:
        raise
    except (ValueError, TypeError, LookupError, OverflowError, AttributeError) as error:
        raise PickleError(f"its pickle is damaged ({str(error)[:100]})") from None
    raise PickleError("its pickle does not end")


class _Machine:
    """The stack and the memo of a pickle."""

    def __init__(self, admitted: Admitted):
        self.admitted = admitted
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}

    def do(self, name: str, argument: Any) -> None:
        """Carry out one operation."""
        if name in VALUES:
            self.stack.append(argument)
        elif name in CONSTANTS:
            self.stack.append(CONSTANTS[name])
        elif name in EMPTY:
            self.stack.append(EMPTY[name]())
        elif name in ("PUT", "BINPUT", "LONG_BINPUT"):
            self.memo[int(argument)] = self.top()
        elif name in ("GET", "BINGET", "LONG_BINGET"):
            self.stack.append(self.memo[int(argument)])
        else:
            method = getattr(self, "do_" + name.lower(), None)
            if method is None:
                raise PickleError(f"its pickle has the operation {name}, which no description of data needs")
            method(argument)

    def top(self) -> Any:
        if not self.stack or self.stack[-1] is MARK:
            raise PickleError("its pickle is damaged (an operation lacks its operand)")
        return self.stack[-1]

    def pop(self) -> Any:
        value = self.top()
        self.stack.pop()
        return value

    def since_mark(self) -> list[Any]:
        """Take what was put on the stack after the last mark."""
        place = len(self.stack) - 1
        while place >= 0 and self.stack[place] is not MARK:
            place -= 1
        if place < 0:
            raise PickleError("its pickle is damaged (an operation lacks its mark)")
        values = self.stack[place + 1 :]
        del self.stack[place:]
        return values

    # ---- Operations ----

    def do_proto(self, version: int) -> None:
        pass

    def do_frame(self, size: int) -> None:
        pass

    def do_mark(self, _: None) -> None:
        self.stack.append(MARK)

    def do_pop(self, _: None) -> None:
        self.pop()

    def do_memoize(self, _: None) -> None:
        self.memo[len(self.memo)] = self.top()

    def do_tuple(self, _: None) -> None:
        self.stack.append(tuple(self.since_mark()))

    def do_tuple1(self, _: None) -> None:
        self.stack.append((self.pop(),))

    def do_tuple2(self, _: None) -> None:
        second = self.pop()
        self.stack.append((self.pop(), second))

    def do_tuple3(self, _: None) -> None:
        third, second = self.pop(), self.pop()
        self.stack.append((self.pop(), second, third))

    def do_list(self, _: None) -> None:
        self.stack.append(self.since_mark())

    def do_dict(self, _: None) -> None:
        values = self.since_mark()
        self.stack.append({})
        self._set_items(values)

    def do_append(self, _: None) -> None:
        value = self.pop()
        self._target(list).append(value)

    def do_appends(self, _: None) -> None:
        values = self.since_mark()
        self._target(list).extend(values)

    def do_additems(self, _: None) -> None:
        values = self.since_mark()
        self._target(set).update(map(_as_key, values))

    def do_setitem(self, _: None) -> None:
        value, key = self.pop(), self.pop()
        self._set_items([key, value])

    def do_setitems(self, _: None) -> None:
        self._set_items(self.since_mark())

    def _set_items(self, values: list[Any]) -> None:
        self._target(dict).update(zip(map(_as_key, values[::2]), values[1::2], strict=True))

    def _target(self, kind: type) -> Any:
        target = self.top()
        if type(target) is not kind:
            raise PickleError(f"its pickle is damaged (a {kind.__name__} is expected)")
        return target

    # ---- Names ----

    def do_global(self, argument: str) -> None:
        module, _, name = argument.partition(" ")
        self._push_name(module, name)

    def do_stack_global(self, _: None) -> None:
        name, module = self.pop(), self.pop()
        if not (isinstance(name, str) and isinstance(module, str)):
            raise PickleError("its pickle is damaged (a name is not a text)")
        self._push_name(module, name)

    def _push_name(self, module: str, name: str) -> None:
        found = Name(module, name)
        full = f"{module}.{name}"
        is_known = full in self.admitted.calls or self.admitted.names(full) or self.admitted.records(full)
        if not is_known or "." in name:
            raise PickleError(f"its pickle names {found}, which is neither a tensor nor an option; nothing was run")
        self.stack.append(found)

    def do_reduce(self, _: None) -> None:
        arguments, function = self.pop(), self.pop()
        if not (isinstance(function, Name) and isinstance(arguments, tuple)):
            raise PickleError("its pickle is damaged (it calls something that is not a function)")
        full = f"{function.module}.{function.name}"
        if full in self.admitted.calls:
            self.stack.append(self.admitted.calls[full](*arguments))
        elif self.admitted.records(full):
            self.stack.append(Record(function))
        else:
            raise PickleError(f"its pickle calls {function}, which is not data; nothing was run")

    do_newobj = do_reduce

    def do_build(self, _: None) -> None:
        """Keep the attributes of a described object; those of a dict, such as its version, are left out."""
        state, target = self.pop(), self.top()
        if isinstance(target, Record):
            if isinstance(state, dict):
                target.state.update(state)
        elif type(target) is not dict:
            raise PickleError("its pickle is damaged (it sets attributes of what has none)")

    def do_binpersid(self, _: None) -> None:
        self.stack.append(self.admitted.persistent(self.pop()))


def _as_key(value: Any) -> Any:
    """Refuse keys that could take for ever to hash: nested tuples, and numbers chosen to collide."""
    if value is None or type(value) in (str, bool) or (type(value) is int and abs(value) < 2**32):
        return value
    raise PickleError(f"its pickle has a key of type {type(value).__name__}; keys are texts or small numbers")
