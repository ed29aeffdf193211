"""Tensors and plain data in a file of PyTorch, in its zip format and in that of before version 1.6.

A zip file has a pickle `…/data.pkl` and the numbers of each storage in `…/data/KEY`. The older format is a sequence of
pickles (a magic number, a version, facts of the system, the data, the keys of the storages), followed by each storage:
u64 numbers, and their bytes. Source: torch/serialization.py
"""

from __future__ import annotations

import itertools
import math
import pickletools
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np

from minitf.interchange.stored_arrays import BFLOAT16, Array, Member, SourceFile, StoredArray, stored_members

MAGIC = 0x1950A86A20F9469CFC6C
STORAGES: dict[str, np.dtype[Any] | str] = {
    "FloatStorage": np.dtype("<f4"), "DoubleStorage": np.dtype("<f8"), "HalfStorage": np.dtype("<f2"),
    "BFloat16Storage": BFLOAT16, "LongStorage": np.dtype("<i8"), "IntStorage": np.dtype("<i4"),
    "ShortStorage": np.dtype("<i2"), "CharStorage": np.dtype("<i1"), "ByteStorage": np.dtype("<u1"),
    "BoolStorage": np.dtype(bool),
}  # fmt: skip
OPTION_MODULES = ("argparse.", "fairseq.", "omegaconf.", "typing.", "collections.")
"""Modules whose classes describe options; none of it is imported."""
MAX_PICKLE_BYTES = 64 * 2**20
BLOCK_BYTES = 2**16


Places = dict[str, tuple[int, int, Member | None]]
"""Of each storage: the offset of its first byte in the file, number of bytes, and what has its checksum."""


@dataclass(frozen=True)
class Storage:
    """The numbers that tensors are views of."""

    key: str
    kind: str
    size: int


@dataclass(frozen=True)
class Tensor:
    """A view of a storage: where in it, and in which order."""

    storage: Storage
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


@dataclass(frozen=True)
class TorchArray:
    """A tensor in a file."""

    stored: StoredArray
    strides: tuple[int, ...]
    """Steps between numbers; PyTorch stores transposed tensors as they are."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the tensor."""
        return self.stored.shape

    def read(self) -> Array:
        """Read the tensor, in C order."""
        if self.strides == contiguous(self.shape):
            return self.stored.read()
        order = sorted(range(len(self.shape)), key=lambda axis: -self.strides[axis])
        shape = tuple(self.shape[axis] for axis in order)
        array = replace(self.stored, shape=shape).read()
        return np.ascontiguousarray(array.transpose([order.index(axis) for axis in range(len(order))]))


def read_torch(file: SourceFile) -> Any:
    """Read what was saved: dicts, lists, numbers, texts, records of options, and a TorchArray for each tensor.

    Raises: ModelFileError for a damaged file, and for a pickle that names anything but tensors and options
    """
    try:
        is_zip = file.bytes(0, min(4, file.size)) == b"PK\3\4"
        content, places = (_read_zip if is_zip else _read_legacy)(file, _Storages())
    except PickleError as error:
        raise file.damaged(str(error)) from None
    except RecursionError:
        raise file.damaged("its pickle is nested too deeply") from None
    return _with_arrays(file, content, places)


def _read_zip(file: SourceFile, storages: _Storages) -> tuple[Any, Places]:
    members = stored_members(file)
    pickles = [name for name in members if name.split("/", 1)[-1] == "data.pkl"]
    if len(pickles) != 1:
        raise file.damaged("it has no data.pkl; only what torch.save wrote is read, not a scripted model")
    folder = pickles[0].removesuffix("data.pkl")
    order = members.get(f"{folder}byteorder")
    if order is not None and file.bytes(order.offset, order.size) != b"little":
        raise file.damaged("its numbers are big-endian")
    prefix = f"{folder}data/"
    places: Places = {
        name.removeprefix(prefix): (each.offset, each.size, each)
        for name, each in members.items()
        if name.startswith(prefix)
    }
    pickle = members[pickles[0]]
    file.verify(pickle)
    return read_pickle(_Stream(file, pickle.offset, pickle.size), _admitted(storages)), places


def _read_legacy(file: SourceFile, storages: _Storages) -> tuple[Any, Places]:
    stream, admitted = _Stream(file, 0, file.size), _admitted(storages)
    if read_pickle(stream, admitted) != MAGIC:
        raise file.damaged("it is not a file of PyTorch")
    version, facts = read_pickle(stream, admitted), read_pickle(stream, admitted)
    if version != 1001 or not isinstance(facts, dict) or facts.get("little_endian") is not True:
        raise file.damaged("it is of another version, or big-endian")
    content, keys = read_pickle(stream, admitted), read_pickle(stream, admitted)
    if not isinstance(keys, list) or not all(isinstance(key, str) for key in keys):
        raise file.damaged("its list of storages is damaged")
    places: Places = {}
    place = stream.place
    for key in keys:
        (count,) = struct.unpack("<Q", file.bytes(place, 8))
        if key not in storages.found or key in places or count != storages.found[key].size:
            raise file.damaged(f"its storage {key[:80]!r} is not the one that its tensors name")
        size = count * _itemsize(STORAGES[storages.found[key].kind])
        file.check(place + 8, size)
        places[key] = place + 8, size, None
        place += 8 + size
    return content, places


class _Stream:
    """Part of a file, read on in blocks; never more bytes than there are."""

    def __init__(self, file: SourceFile, offset: int, size: int):
        self.file, self.place, self.end = file, offset, min(offset + size, offset + MAX_PICKLE_BYTES, file.size)
        self._block, self._begin = b"", offset

    def read(self, count: int) -> bytes:
        count = min(count, self.end - self.place)
        at = self.place - self._begin
        if at + count > len(self._block):
            self._block = self.file.bytes(self.place, min(max(count, BLOCK_BYTES), self.end - self.place))
            self._begin, at = self.place, 0
        self.place += count
        return self._block[at : at + count]

    def readline(self) -> bytes:
        """A line, or the start of one that is longer than any name."""
        start = self.place
        line = self.read(BLOCK_BYTES // 16)
        end = line.find(b"\n") + 1
        self.place = start + (end or len(line))
        return line[: end or len(line)]


# ---- What a pickle describes ----


def contiguous(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The strides of a tensor in C order.  Example: (2, 3, 4) -> (12, 4, 1)"""
    return tuple(math.prod(shape[axis + 1 :]) for axis in range(len(shape)))


class _Storages:
    """The storages that a pickle names."""

    def __init__(self) -> None:
        self.found: dict[str, Storage] = {}

    def add(self, identity: Any) -> Storage:
        """The storage of a persistent id: ("storage", class, key, device, numbers[, view])."""
        label, kind, key, _, size, *view = identity
        if label != "storage" or view not in ([], [None]) or not isinstance(kind, Name):
            raise PickleError("its pickle describes a storage in a way that is not known")
        if not (isinstance(key, str) and type(size) is int and 0 <= size < 2**62):
            raise PickleError("its pickle describes a storage that cannot be")
        storage = Storage(key, kind.name, size)
        if self.found.setdefault(key, storage) != storage:
            raise PickleError(f"its pickle describes the storage {key[:80]!r} in two ways")
        return storage


def _tensor(storage: Any, offset: Any, shape: Any, strides: Any, *_: Any) -> Tensor:
    if not isinstance(storage, Storage):
        raise PickleError("its pickle describes a tensor without a storage")
    numbers = (offset, *shape, *strides)
    if len(shape) != len(strides) or not all(type(each) is int and 0 <= each < 2**62 for each in numbers):
        raise PickleError("its pickle describes a tensor that cannot be")
    return Tensor(storage, offset, tuple(shape), tuple(strides))


def _parameter(tensor: Any, *_: Any) -> Tensor:
    if not isinstance(tensor, Tensor):
        raise PickleError("its pickle describes a parameter that is not a tensor")
    return tensor


def _ordered(*items: Any) -> dict[str, Any]:
    """An OrderedDict, empty or of pairs."""
    pairs = list(items[0]) if items else []
    if not all(isinstance(pair, list | tuple) and len(pair) == 2 and isinstance(pair[0], str) for pair in pairs):
        raise PickleError("its pickle describes a dict that cannot be")
    return dict(pairs)


def _admitted(storages: _Storages) -> Admitted:
    return Admitted(
        calls={
            "collections.OrderedDict": _ordered,
            "torch._utils._rebuild_tensor_v2": _tensor,
            "torch._utils._rebuild_parameter": _parameter,
        },
        names=lambda name: name.startswith("torch.") and name.removeprefix("torch.") in STORAGES,
        records=lambda name: name.startswith(OPTION_MODULES),
        persistent=storages.add,
    )


def _with_arrays(file: SourceFile, content: Any, places: Places) -> Any:
    """The data with arrays of the file in place of the described tensors."""

    def array(tensor: Tensor) -> TorchArray:
        place = places.get(tensor.storage.key)
        dtype = STORAGES[tensor.storage.kind]
        itemsize = _itemsize(dtype)
        if place is None or place[1] < tensor.storage.size * itemsize:
            raise file.damaged(f"the numbers of its storage {tensor.storage.key[:80]!r} are missing")
        if not _is_dense(tensor.shape, tensor.strides):
            raise file.damaged(f"a tensor of shape {list(tensor.shape)} has the strides {list(tensor.strides)}")
        if tensor.offset + math.prod(tensor.shape) > tensor.storage.size:
            raise file.damaged(f"a tensor of shape {list(tensor.shape)} is larger than its storage")
        stored = StoredArray(file, place[0] + tensor.offset * itemsize, tensor.shape, dtype, place[2])
        return TorchArray(stored, tensor.strides)

    return _replaced(content, array)


def _replaced(content: Any, replace: Any) -> Any:
    """Nested data with each tensor replaced; what occurs in several places is visited once."""
    done: dict[int, Any] = {id(content): content}
    todo = [content]
    top = replace(content) if isinstance(content, Tensor) else content

    def visited(value: Any) -> Any:
        if isinstance(value, Tensor):
            return replace(value)
        if isinstance(value, dict | list | Record) and id(value) not in done:
            done[id(value)] = value
            todo.append(value)
        return value

    while todo:
        value = todo.pop()
        value = value.state if isinstance(value, Record) else value
        if isinstance(value, dict):
            for key in value:
                value[key] = visited(value[key])
        elif isinstance(value, list):
            value[:] = map(visited, value)
    return top


def _is_dense(shape: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    """Whether a tensor has each of its numbers once, in some order of its axes."""
    axes = sorted((stride, size) for size, stride in zip(shape, strides, strict=True) if size > 1)
    steps = itertools.accumulate((size for _, size in axes), initial=1, func=lambda step, size: step * size)
    return strides == contiguous(shape) or all(stride == step for (stride, _), step in zip(axes, steps, strict=False))


def _itemsize(dtype: np.dtype[Any] | str) -> int:
    return 2 if isinstance(dtype, str) else dtype.itemsize


# ---- Pickles -------------------------------------------------------------------------------------------------------


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
