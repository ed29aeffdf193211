"""Tensors and plain data in a file of PyTorch, in its zip format and in that of before version 1.6.

A zip file has a pickle `…/data.pkl` and the numbers of each storage in `…/data/KEY`. The older format is a sequence of
pickles (a magic number, a version, facts of the system, the data, the keys of the storages), followed by each storage:
u64 numbers, and their bytes. Source: torch/serialization.py

Python's own `pickle` runs what a file tells it to run. The reader here knows the operations that build numbers, texts,
lists and dicts, and calls, imports and constructs nothing: a class or function that a pickle names stays a name, the
functions that PyTorch names are replaced by ours, and any other name is refused.
"""

from __future__ import annotations

import itertools
import math
import pickletools
import struct
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from additions.interchange.stored_arrays import (
    BFLOAT16,
    MAX_RANK,
    MAX_READ_BYTES,
    Array,
    Member,
    SourceFile,
    StoredArray,
    Stream,
    stored_members,
)

MAGIC = 0x1950A86A20F9469CFC6C
STORAGES: dict[str, np.dtype[Any] | str] = {
    "torch.FloatStorage": np.dtype("<f4"), "torch.DoubleStorage": np.dtype("<f8"), "torch.HalfStorage": np.dtype("<f2"),
    "torch.BFloat16Storage": BFLOAT16, "torch.LongStorage": np.dtype("<i8"), "torch.IntStorage": np.dtype("<i4"),
    "torch.ShortStorage": np.dtype("<i2"), "torch.CharStorage": np.dtype("<i1"), "torch.ByteStorage": np.dtype("<u1"),
    "torch.BoolStorage": np.dtype(bool),
}  # fmt: skip
OPTION_MODULES = ("argparse.", "fairseq.", "omegaconf.", "typing.", "collections.")
"""Modules whose classes describe options; none of it is imported."""
MAX_OPERATIONS = 20_000_000
MAX_DEPTH, MAX_TEXT = 32, 2**20
"""Lists in lists, and characters of a text."""
VALUES_PER_OPERATION, SPARE_VALUES = 4, 10_000
"""The most values that a pickle may describe: a number for each of its operations, plus a constant.  A shared value
counts wherever it is."""

Places = dict[str, tuple[int, int, Member | None]]
"""The offset of each storage's first byte in the file, its number of bytes, and what has its checksum."""


class PickleError(ValueError):
    """The bytes are not a pickle, or one that does more than describe data."""


@dataclass(frozen=True)
class Storage:
    """The numbers that tensors are views of."""

    key: str
    dtype: np.dtype[Any] | str
    size: int

    @property
    def itemsize(self) -> int:
        """Bytes of a number."""
        return 2 if isinstance(self.dtype, str) else self.dtype.itemsize


@dataclass(eq=False)
class TorchArray:
    """A tensor: a view of a storage."""

    storage: Storage
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    """Steps between numbers; PyTorch stores transposed tensors as they are."""
    stored: StoredArray = field(init=False)
    """The numbers in the file, in the order of the file."""

    def find(self, file: SourceFile, places: Places) -> None:
        """Set `stored`.  Raises: ModelFileError for numbers that the file does not have"""
        place, size, member = places.get(self.storage.key, (0, -1, None))
        if size < self.storage.size * self.storage.itemsize:
            raise file.damaged(f"the numbers of its storage {self.storage.key[:80]!r} are missing")
        if not self._is_dense():
            raise file.damaged(f"a tensor of shape {list(self.shape)} has the strides {list(self.strides)}")
        if self.offset + math.prod(self.shape) > self.storage.size:
            raise file.damaged(f"a tensor of shape {list(self.shape)} is larger than its storage")
        offset = place + self.offset * self.storage.itemsize
        self.stored = StoredArray(file, offset, self.shape, self.storage.dtype, member)

    def _is_dense(self) -> bool:
        """Return whether the tensor has each of its numbers once, in some order of its axes."""
        axes = sorted((stride, size) for size, stride in zip(self.shape, self.strides, strict=True) if size > 1)
        steps = itertools.accumulate((size for _, size in axes), initial=1, func=lambda step, size: step * size)
        return self._is_in_c_order() or all(stride == step for (stride, _), step in zip(axes, steps, strict=False))

    def _is_in_c_order(self) -> bool:
        """Return whether the strides are those of C order: (12, 4, 1) of shape (2, 3, 4)."""
        return self.strides == tuple(math.prod(self.shape[axis + 1 :]) for axis in range(len(self.shape)))

    def read(self) -> Array:
        """Read the tensor, in C order."""
        if self._is_in_c_order():
            return self.stored.read()
        order = sorted(range(len(self.shape)), key=lambda axis: -self.strides[axis])
        array = replace(self.stored, shape=tuple(self.shape[axis] for axis in order)).read()
        return np.ascontiguousarray(array.transpose([order.index(axis) for axis in range(len(order))]))


@dataclass
class Record:
    """An object that a pickle describes, such as a namespace of options: the attributes that it would get."""

    state: dict[Any, Any] = field(default_factory=dict)


def read_torch(file: SourceFile) -> Any:
    """Read what was saved: dicts, lists, numbers, texts, records of options, and a TorchArray for each tensor.

    Raises: ModelFileError for a damaged file, and for a pickle that names anything but tensors and options
    """
    reader = _PickleReader()
    try:
        is_zip = file.bytes(0, min(4, file.size)) == b"PK\3\4"
        content, places = (_read_zip if is_zip else _read_legacy)(file, reader)
    except PickleError as error:
        raise file.damaged(str(error)) from None
    except RecursionError:
        raise file.damaged("its pickle is nested too deeply") from None
    for tensor in reader.tensors:
        tensor.find(file, places)
    return content


def _read_zip(file: SourceFile, reader: _PickleReader) -> tuple[Any, Places]:
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
    return reader.read(Stream(file, pickle.offset, min(pickle.size, MAX_READ_BYTES))), places


def _read_legacy(file: SourceFile, reader: _PickleReader) -> tuple[Any, Places]:
    stream = Stream(file, 0, MAX_READ_BYTES)
    if reader.read(stream) != MAGIC:
        raise file.damaged("it is not a file of PyTorch")
    version, facts = reader.read(stream), reader.read(stream)
    if version != 1001 or not isinstance(facts, dict) or facts.get("little_endian") is not True:
        raise file.damaged("it is of another version, or big-endian")
    content, keys = reader.read(stream), reader.read(stream)
    if not isinstance(keys, list) or not all(isinstance(key, str) for key in keys):
        raise file.damaged("its list of storages is damaged")
    places: Places = {}
    place = stream.place
    for key in keys:
        (count,) = struct.unpack("<Q", file.bytes(place, 8))
        storage = reader.storages.get(key)
        if storage is None or key in places or count != storage.size:
            raise file.damaged(f"its storage {key[:80]!r} is not the one that its tensors name")
        size = count * storage.itemsize
        file.check(place + 8, size)
        places[key] = place + 8, size, None
        place += 8 + size
    return content, places


# ---- Pickles -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Name:
    """A class or function that a pickle names, such as `torch.FloatStorage`."""

    full: str

    def __str__(self) -> str:
        return self.full[:120]


MARK = object()
"""The mark on the stack at which a list or dict begins."""
VALUES = {
    "BININT", "BININT1", "BININT2", "LONG1", "LONG4", "BINFLOAT", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8",
    "SHORT_BINBYTES", "BINBYTES", "BINBYTES8", "BINSTRING", "SHORT_BINSTRING", "INT", "LONG", "FLOAT", "UNICODE",
}  # fmt: skip
NEW: dict[str, Callable[[], Any]] = {
    "NONE": lambda: None, "NEWTRUE": lambda: True, "NEWFALSE": lambda: False, "MARK": lambda: MARK,
    "EMPTY_DICT": dict, "EMPTY_LIST": list, "EMPTY_TUPLE": tuple, "EMPTY_SET": set,
}  # fmt: skip


class _PickleReader:
    """Reads the pickles of a file, and remembers the storages and tensors that they describe."""

    def __init__(self) -> None:
        self.storages: dict[str, Storage] = {}
        self.tensors: list[TorchArray] = []
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}
        self.copied = 0  # values, by operations that copy more than they have in the file
        self.calls: dict[str, Callable[..., Any]] = {
            "collections.OrderedDict": self._ordered,
            "torch._utils._rebuild_tensor_v2": self._tensor,
            "torch._utils._rebuild_parameter": _parameter,
        }

    def read(self, stream: Stream) -> Any:
        """Read one pickle; the stream is left behind its end.

        Raises: PickleError for damage, and for a pickle that names or calls anything else
        """
        self.stack, self.memo = [], {}
        try:
            for number, (operation, argument, _) in enumerate(pickletools.genops(stream)):  # type: ignore[arg-type]
                if operation.name == "STOP":
                    return _tree(self._pop(), VALUES_PER_OPERATION * number + SPARE_VALUES)
                if number > MAX_OPERATIONS:
                    raise PickleError("it has too many operations")
                self._do(operation.name, argument)
        except PickleError:
            raise
        except (ValueError, TypeError, LookupError, OverflowError, AttributeError) as error:
            raise PickleError(f"its pickle is damaged ({str(error)[:100]})") from None
        raise PickleError("its pickle does not end")

    def _do(self, operation: str, argument: Any) -> None:
        push = self.stack.append
        match operation:
            case _ if operation in VALUES:
                push(argument)
            case _ if operation in NEW:
                push(NEW[operation]())
            case "PROTO" | "FRAME":
                pass
            case "POP":
                self._pop()
            case "MEMOIZE":
                self.memo[len(self.memo)] = self._top()
            case "PUT" | "BINPUT" | "LONG_BINPUT":
                self.memo[int(argument)] = self._top()
            case "GET" | "BINGET" | "LONG_BINGET":
                push(self.memo[int(argument)])
            case "TUPLE":
                push(tuple(self._since_mark()))
            case "TUPLE1" | "TUPLE2" | "TUPLE3":
                push(self._pops(int(operation[-1])))
            case "LIST":
                push(self._since_mark())
            case "DICT":
                values = self._since_mark()
                push({})
                self._set_items(values)
            case "APPEND" | "APPENDS":
                items = self._pops(1) if operation == "APPEND" else self._since_mark()
                self._target(list).extend(items)
            case "ADDITEMS":
                items = self._since_mark()
                self._target(set).update(map(_as_key, items))
            case "SETITEM" | "SETITEMS":
                self._set_items(self._pops(2) if operation == "SETITEM" else self._since_mark())
            case "GLOBAL":
                push(self._name(*argument.partition(" ")[::2]))
            case "STACK_GLOBAL":
                push(self._name(*self._pops(2)))
            case "REDUCE" | "NEWOBJ":
                push(self._called(*self._pops(2)))
            case "BUILD":
                self._build(self._pop())
            case "BINPERSID":
                push(self._storage(self._pop()))
            case _:
                raise PickleError(f"its pickle has the operation {operation}, which no description of data needs")

    # ---- The stack ----

    def _top(self) -> Any:
        if not self.stack or self.stack[-1] is MARK:
            raise PickleError("its pickle is damaged (an operation lacks its operand)")
        return self.stack[-1]

    def _pop(self) -> Any:
        value = self._top()
        self.stack.pop()
        return value

    def _pops(self, count: int) -> tuple[Any, ...]:
        return tuple([self._pop() for _ in range(count)][::-1])

    def _since_mark(self) -> list[Any]:
        """Take what was put on the stack after the last mark."""
        place = next((place for place in range(len(self.stack) - 1, -1, -1) if self.stack[place] is MARK), None)
        if place is None:
            raise PickleError("its pickle is damaged (an operation lacks its mark)")
        values = self.stack[place + 1 :]
        del self.stack[place:]
        return values

    def _target(self, kind: type) -> Any:
        target = self._top()
        if type(target) is not kind:
            raise PickleError(f"its pickle is damaged (a {kind.__name__} is expected)")
        return target

    def _set_items(self, values: Any) -> None:
        self._target(dict).update(zip(map(_as_key, values[::2]), values[1::2], strict=True))

    def _build(self, state: Any) -> None:
        """Keep the attributes of a described object; those of a dict, such as its version, are left out."""
        target = self._top()
        if isinstance(target, Record):
            if isinstance(state, dict):
                self._count(state)
                target.state.update(state)
        elif type(target) is not dict:
            raise PickleError("its pickle is damaged (it sets attributes of what has none)")

    # ---- Names ----

    def _name(self, module: Any, name: Any) -> Name:
        if not (isinstance(name, str) and isinstance(module, str)):
            raise PickleError("its pickle is damaged (a name is not a text)")
        found = Name(f"{module}.{name}")
        is_known = found.full in self.calls or found.full in STORAGES or found.full.startswith(OPTION_MODULES)
        if not is_known or "." in name:
            raise PickleError(f"its pickle names {found}, which is neither a tensor nor an option; nothing was run")
        return found

    def _called(self, function: Any, arguments: Any) -> Any:
        """The result of one of our functions, or a record of an option; nothing that the file brings is called."""
        if not (isinstance(function, Name) and isinstance(arguments, tuple)):
            raise PickleError("its pickle is damaged (it calls something that is not a function)")
        if function.full in self.calls:
            return self.calls[function.full](*arguments)
        if function.full.startswith(OPTION_MODULES):
            return Record()
        raise PickleError(f"its pickle calls {function}, which is not data; nothing was run")

    def _storage(self, identity: Any) -> Storage:
        """Return the storage of a persistent id: ("storage", class, key, device, numbers[, view])."""
        label, kind, key, _, size, *view = identity
        if label != "storage" or view not in ([], [None]) or not (isinstance(kind, Name) and kind.full in STORAGES):
            raise PickleError("its pickle describes a storage in a way that is not known")
        if not (isinstance(key, str) and type(size) is int and 0 <= size < 2**62):
            raise PickleError("its pickle describes a storage that cannot be")
        storage = Storage(key, STORAGES[kind.full], size)
        if self.storages.setdefault(key, storage) != storage:
            raise PickleError(f"its pickle describes the storage {key[:80]!r} in two ways")
        return storage

    def _tensor(self, storage: Any, offset: Any, shape: Any, strides: Any, *_: Any) -> TorchArray:
        if not isinstance(storage, Storage):
            raise PickleError("its pickle describes a tensor without a storage")
        if not (len(shape) == len(strides) <= MAX_RANK):
            raise PickleError("its pickle describes a tensor that cannot be")
        numbers = (offset, *shape, *strides)
        if not all(type(each) is int and 0 <= each < 2**62 for each in numbers):
            raise PickleError("its pickle describes a tensor that cannot be")
        self.tensors.append(TorchArray(storage, offset, tuple(shape), tuple(strides)))
        return self.tensors[-1]

    def _ordered(self, *items: Any) -> dict[str, Any]:
        """Return an OrderedDict, empty or of pairs."""
        if items:
            self._count(items[0])
        pairs = list(items[0]) if items else []
        if not all(isinstance(pair, list | tuple) and len(pair) == 2 and isinstance(pair[0], str) for pair in pairs):
            raise PickleError("its pickle describes a dict that cannot be")
        return dict(pairs)

    def _count(self, values: Any) -> None:
        """Count the values of a list or dict that is copied: the file may name it again and again."""
        self.copied += len(values)
        if self.copied > MAX_OPERATIONS // 10:
            raise PickleError("its pickle copies too many values")


def _tree(value: Any, most: int) -> Any:
    """Return the value, once it is known to be a tree that code may walk, compare and print.

    A pickle of a few bytes can describe a list that holds itself, or one list twice in a list, that list twice in
    another, and so on, which no program has the time to walk.

    Raises: PickleError for more than `most` values, more than MAX_DEPTH levels, a text of more than MAX_TEXT
    characters, and a number of more than 128 bits
    """
    count, level = 1, [value]
    for _ in range(MAX_DEPTH):
        below: list[Any] = []
        for each in level:
            each = each.state if isinstance(each, Record) else each
            if isinstance(each, dict):
                below += each
                below += each.values()
            elif isinstance(each, list | tuple | set):
                below += each
            elif isinstance(each, str | bytes) and len(each) > MAX_TEXT:
                raise PickleError(f"its pickle has a text of {len(each)} characters")
            elif isinstance(each, int) and each.bit_length() > 128:
                raise PickleError(f"its pickle has a number of {each.bit_length()} bits")
            if count + len(below) > most:
                raise PickleError(f"its pickle describes more than {most} values, the same ones again and again")
        if not below:
            return value
        count, level = count + len(below), below
    raise PickleError(f"its pickle has more than {MAX_DEPTH} levels of lists in lists")


def _parameter(tensor: Any, *_: Any) -> TorchArray:
    if not isinstance(tensor, TorchArray):
        raise PickleError("its pickle describes a parameter that is not a tensor")
    return tensor


def _as_key(value: Any) -> Any:
    """Refuse keys that could take forever to hash: nested tuples, and numbers chosen to collide."""
    if value is None or type(value) in (str, bool) or (type(value) is int and abs(value) < 2**32):
        return value
    raise PickleError(f"its pickle has a key of type {type(value).__name__}; keys are texts or small numbers")
