"""Model files of other programs, written byte by byte as their own writers do, without these programs."""

from __future__ import annotations

import struct
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

Array = np.ndarray
STORAGES = {"float32": "FloatStorage", "float16": "HalfStorage", "float64": "DoubleStorage", "int64": "LongStorage"}


# ---- PyTorch -----------------------------------------------------------------------------------------------------


@dataclass
class TorchTensor:
    """A tensor to be saved; with strides, a view of `array` that is stored in this order."""

    array: Array
    shape: tuple[int, ...] | None = None
    strides: tuple[int, ...] | None = None


@dataclass
class Described:
    """An object of a class, with attributes: Described("argparse", "Namespace", {"layers": 6})"""

    module: str
    name: str
    state: dict[str, Any] = field(default_factory=dict)


@dataclass
class Pickler:
    """A pickle of protocol 2, with PyTorch's form of tensors."""

    legacy: bool = False
    storages: list[Array] = field(default_factory=list)

    def dumps(self, value: Any) -> bytes:
        return b"\x80\x02" + self.of(value) + b"."

    def of(self, value: Any) -> bytes:
        """The operations that put a value on the stack."""
        if value is None or isinstance(value, bool):
            return {None: b"N", True: b"\x88", False: b"\x89"}[value]
        if isinstance(value, int):
            fits = -(2**31) <= value < 2**31
            content = value.to_bytes(max(1, (value.bit_length() + 8) // 8), "little", signed=True)
            return b"J" + struct.pack("<i", value) if fits else b"\x8a" + bytes([len(content)]) + content
        if isinstance(value, float):
            return b"G" + struct.pack(">d", value)
        if isinstance(value, str):
            content = value.encode()
            return b"X" + struct.pack("<I", len(content)) + content
        if isinstance(value, tuple):
            return b"(" + b"".join(map(self.of, value)) + b"t"
        if isinstance(value, list):
            return b"](" + b"".join(map(self.of, value)) + b"e"
        if isinstance(value, dict):
            return b"}(" + b"".join(self.of(key) + self.of(item) for key, item in value.items()) + b"u"
        if isinstance(value, Described):
            return self.named(value.module, value.name) + b")\x81" + self.of(value.state) + b"b"
        return self.tensor(value)

    @staticmethod
    def named(module: str, name: str) -> bytes:
        return f"c{module}\n{name}\n".encode()

    def tensor(self, value: Any) -> bytes:
        """The call of `_rebuild_tensor_v2`, whose storage has a persistent id."""
        tensor = value if isinstance(value, TorchTensor) else TorchTensor(np.ascontiguousarray(value))
        shape = tensor.shape or tensor.array.shape
        strides = tensor.strides or tuple(int(np.prod(shape[i + 1 :])) for i in range(len(shape)))
        key = str(len(self.storages))
        self.storages.append(tensor.array)
        kind = self.named("torch", STORAGES[str(tensor.array.dtype)])
        label = [self.of("storage"), kind, self.of(key), self.of("cpu"), self.of(tensor.array.size)]
        storage = b"(" + b"".join(label) + (b"N" if self.legacy else b"") + b"tQ"
        hooks = self.named("collections", "OrderedDict") + b")R"
        arguments = b"(" + storage + self.of(0) + self.of(tuple(shape)) + self.of(strides) + b"\x89" + hooks + b"t"
        return self.named("torch._utils", "_rebuild_tensor_v2") + arguments + b"R"


def write_torch(path: Path, value: Any) -> None:
    """A file of `torch.save` in the zip format."""
    pickler = Pickler()
    content = pickler.dumps(value)
    write_torch_zip(path, content, {str(key): array.tobytes() for key, array in enumerate(pickler.storages)})


def write_torch_zip(path: Path, pickle: bytes, storages: Mapping[str, bytes], method: int = zipfile.ZIP_STORED) -> None:
    """A file of PyTorch with a given pickle."""
    with zipfile.ZipFile(path, "w", method) as file:
        file.writestr("archive/data.pkl", pickle)
        file.writestr("archive/byteorder", b"little")
        for key, content in storages.items():
            file.writestr(f"archive/data/{key}", content)
        file.writestr("archive/version", b"3\n")


def write_torch_legacy(path: Path, value: Any) -> None:
    """A file of `torch.save` of before version 1.6."""
    pickler = Pickler(legacy=True)
    facts = {"protocol_version": 1001, "little_endian": True, "type_sizes": {"short": 2, "int": 4, "long": 4}}
    parts = [
        Pickler().dumps(0x1950A86A20F9469CFC6C),
        Pickler().dumps(1001),
        Pickler().dumps(facts),
        pickler.dumps(value),
    ]
    parts.append(Pickler().dumps([str(key) for key in range(len(pickler.storages))]))
    parts += [struct.pack("<Q", array.size) + array.tobytes() for array in pickler.storages]
    path.write_bytes(b"".join(parts))


# ---- CTranslate2 -------------------------------------------------------------------------------------------------


def write_ctranslate2(
    path: Path,
    arrays: Mapping[str, Array],
    version: int = 6,
    *,
    name: str = "TransformerSpec",
    aliases: Mapping[str, str] | None = None,
    bfloat16: bool = False,
) -> None:
    """A `model.bin`; bfloat16: store arrays of uint16 as that type."""

    def text(value: str) -> bytes:
        return struct.pack("<H", len(value) + 1) + value.encode() + b"\0"

    kinds = {"float32": 0, "int8": 1, "int16": 2, "int32": 3, "float16": 4, "uint16": 5}
    parts = [struct.pack("<I", version), text(name), struct.pack("<2I", 7, len(arrays))]
    for label, array in arrays.items():
        parts += [text(label), struct.pack(f"<B{array.ndim}I", array.ndim, *array.shape)]
        after = (kinds[str(array.dtype)], array.nbytes) if version >= 4 else (array.itemsize, array.size)
        parts += [struct.pack("<BI", *after), array.tobytes()]
    if version >= 3:
        parts.append(struct.pack("<I", len(aliases or {})))
        parts += [text(alias) + text(label) for alias, label in (aliases or {}).items()]
    path.write_bytes(b"".join(parts))


# ---- Marian ------------------------------------------------------------------------------------------------------


def write_intgemm(path: Path, arrays: Mapping[str, Array], intgemm8: int = 0x4101) -> None:
    """A `.intgemm.alphas.bin`: matrices with more than one row in 8 bits, transposed but for embeddings."""
    headers, shapes, contents = [], [], []
    for name, array in arrays.items():
        if array.dtype == np.int8:
            kind, content = 0x101, array.tobytes()
        elif array.ndim == 2 and len(array) > 1:
            kind, multiplier = intgemm8, np.float32(127 / abs(array).max())
            q = np.round(array * multiplier).astype(np.int8)
            content = (q if "Wemb" in name else q.T).tobytes() + multiplier.tobytes()
        else:
            kind, content = 0x404, array.astype("<f4").tobytes()
        content += bytes(-len(content) % 256)
        headers.append(struct.pack("<4Q", len(name) + 1, kind, array.ndim, len(content)))
        shapes.append(struct.pack(f"<{array.ndim}i", *array.shape))
        contents.append(content)
    start = struct.pack("<2Q", 1, len(arrays)) + b"".join(headers) + b"".join(f"{name}\0".encode() for name in arrays)
    start += b"".join(shapes)
    gap = -(len(start) + 8) % 256
    path.write_bytes(start + struct.pack("<Q", gap) + bytes(gap) + b"".join(contents))
