"""All readers against damaged and hostile files: one sentence, nothing is run, and little memory is taken."""

import io
import os
import pickle
import struct
import time
import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy

from additions.interchange.ctranslate2 import read_content
from additions.interchange.formats import read_foreign, write_foreign
from additions.interchange.marian_binary import binary_arrays
from additions.interchange.pytorch_file import TorchArray, read_torch
from additions.interchange.stored_arrays import ModelFileError, SourceFile, StoredArray, npz_arrays, safetensors_arrays
from additions.interchange.tests.foreign_files import (
    Described,
    Pickler,
    write_ctranslate2,
    write_intgemm,
    write_torch,
    write_torch_legacy,
    write_torch_zip,
)
from additions.interchange.tests.foreign_models import learned_model
from minitf.errors import UserError
from tests.helpers.marks import parametrize_some

OVERHEAD_BYTES = 3 * 2**20
"""What Python itself may take, however small the file: objects of headers, and blocks that are read at once."""
SLOWEST_S = 5.0


def arrays(seed=0, size=40_000):
    rng = np.random.default_rng(seed)
    shapes = {"Wemb": (size // 40, 40), "encoder_l1_self_Wq": (20, 30), "encoder_l1_self_bq": (1, 30), "x": (7,)}
    return {name: rng.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}


def write(kind, path):
    """A whole file of some format."""
    if kind == "npz":
        np.savez(path, **arrays(), **{"special:model.yml": np.frombuffer(b"type: transformer\n\0", np.int8)})
    elif kind == "intgemm":
        write_intgemm(path, {**arrays(), "special:model.yml": np.frombuffer(b"type: transformer\n\0", np.int8)})
    elif kind == "safetensors":
        safetensors.numpy.save_file(arrays(), path)
    elif kind == "torch":
        write_torch(path, {"model": arrays(), "args": Described("argparse", "Namespace", {"layers": 6})})
    elif kind == "torch-legacy":
        write_torch_legacy(path, {"model": arrays(), "args": Described("argparse", "Namespace", {"layers": 6})})
    else:
        write_ctranslate2(path, arrays(), int(kind.removeprefix("ctranslate2-")))


def read(kind, path):
    """All arrays of a file, one after the other, as an import reads them."""
    with SourceFile(path) as file:
        if kind == "npz":
            found = npz_arrays(file)
        elif kind == "intgemm":
            found = binary_arrays(file)
        elif kind == "safetensors":
            found = safetensors_arrays(file)
        elif kind.startswith("torch"):
            content = read_torch(file)
            model = content.get("model") if isinstance(content, dict) else None
            model = model if isinstance(model, dict) else {}
            found = {name: each for name, each in model.items() if isinstance(each, TorchArray)}
        else:
            found = read_content(file).arrays
        for each in found.values():
            each.read()


KINDS = ["npz", "intgemm", "safetensors", "torch", "torch-legacy", "ctranslate2-2", "ctranslate2-3", "ctranslate2-6"]


def damaged(content, rng):
    """Flipped bits, a forged number, a cut, or bytes put in, left out or moved."""
    content = bytearray(content)
    where = int(rng.integers(len(content)) if rng.random() < 0.3 else rng.integers(min(len(content), 2000)))
    where = where if rng.random() < 0.7 else len(content) - 1 - where
    way = rng.integers(6)
    if way == 0:
        for _ in range(rng.integers(1, 9)):
            content[(where + int(rng.integers(64))) % len(content)] ^= 1 << int(rng.integers(8))
    elif way == 1:
        number = [2**63 - 1, 2**64 - 1, 2**32 - 1, 2**31, 2**40, len(content) + 1, 0][rng.integers(7)]
        width = int(rng.choice([1, 2, 4, 8]))
        content[where : where + width] = (number % 256**width).to_bytes(width, "little")
    elif way == 2:
        del content[where:]
    elif way == 3:
        content[where:where] = rng.bytes(int(rng.integers(1, 40)))
    elif way == 4:
        del content[where : where + int(rng.integers(1, 40))]
    else:
        content[where : where + 64] = content[-64:]
    return bytes(content)


def check_file(kind, path):
    """Read a file that may be damaged: it is read, or refused in one sentence, soon and in little memory."""
    size = path.stat().st_size
    start = time.process_time()
    tracemalloc.start()
    try:
        read(kind, path)
        message = ""
    except ModelFileError as error:
        message = str(error)
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert not message or str(path) in message
    assert "\n" not in message
    assert len(message) < 500
    assert time.process_time() - start < SLOWEST_S
    quantised = 4 if kind == "intgemm" else 1  # a byte becomes a float32
    assert peak <= 2 * size * quantised + OVERHEAD_BYTES
    return bool(message)


def check_many(kind, tmp_path, count):
    path = tmp_path / f"model-{kind}"
    write(kind, path.with_suffix(".npz") if kind == "npz" else path)
    path = path.with_suffix(".npz") if kind == "npz" else path
    whole = path.read_bytes()
    assert not check_file(kind, path)
    rng = np.random.default_rng(KINDS.index(kind))
    refused = 0
    for _ in range(count):
        path.write_bytes(damaged(whole, rng))
        refused += check_file(kind, path)
    assert refused > count / 4  # the damage is seen, where it is not in the numbers themselves


@pytest.mark.parametrize("kind", KINDS)
def test_damaged_files_are_refused_in_one_sentence(kind, tmp_path):
    check_many(kind, tmp_path, 20)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_thousands_of_damaged_files_are_refused_in_one_sentence(kind, tmp_path):
    check_many(kind, tmp_path, 300)


@pytest.mark.parametrize("kind", ["npz", "torch"])
def test_an_altered_number_in_a_zip_file_is_found(kind, tmp_path):
    """Each member has a checksum, which covers the shape of an array too."""
    path = tmp_path / ("model.npz" if kind == "npz" else "model.pt")
    write(kind, path)
    whole = path.read_bytes()
    for array in arrays().values():
        begin = whole.index(array.tobytes())
        for place in (begin, begin + array.nbytes // 2, begin + array.nbytes - 1):
            path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
            with pytest.raises(ModelFileError, match="have changed since they were written"):
                read(kind, path)


def test_an_altered_embedding_is_found_though_its_rows_are_read_in_another_order(tmp_path):
    write_foreign(learned_model(decoder_start="zero", masked_tokens=(0, 2)), tmp_path / "model", "marian")
    path = tmp_path / "model" / "model.npz"
    whole = path.read_bytes()
    begin = whole.index(read_foreign(path).weights["source_embedding.weight"][5:].tobytes())
    path.write_bytes(whole[:begin] + bytes([whole[begin] ^ 1]) + whole[begin + 1 :])
    with pytest.raises(ModelFileError, match=r"'Wemb\.npy' have changed since they were written"):
        read_foreign(path)


# ---- Whole folders -----------------------------------------------------------------------------------------------


def check_folder(name, tmp_path, count):
    """Damage each file of a model, vocabularies and configurations too, and read the model."""
    fields = {"decoder_start": "zero", "masked_tokens": (0, 2), "output_bias": True, "positions": "sinusoidal-halves"}
    write_foreign(learned_model(norm_epsilon=1e-5, **fields), tmp_path / name, name)
    rng = np.random.default_rng(0)
    for path in sorted((tmp_path / name).iterdir()):
        whole = path.read_bytes()
        for _ in range(count):
            path.write_bytes(damaged(whole, rng))
            try:
                read_foreign(tmp_path / name)
            except UserError as error:
                message = str(error)
            else:
                message = ""
            assert "\n" not in message
            assert len(message) < 700
        path.write_bytes(whole)


@pytest.mark.heavy
@pytest.mark.parametrize("name", ["ctranslate2", "marian", "huggingface"])
def test_models_with_a_damaged_file_are_read_or_refused_in_one_sentence(name, tmp_path):
    check_folder(name, tmp_path, 10)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ctranslate2", "marian", "huggingface"])
def test_many_models_with_a_damaged_file_are_read_or_refused_in_one_sentence(name, tmp_path):
    check_folder(name, tmp_path, 100)


# ---- Hostile files -----------------------------------------------------------------------------------------------


class Runs:
    """What `pickle` turns into a call."""

    def __init__(self, function, *arguments):
        self.call = function, arguments

    def __reduce__(self):
        return self.call


def hostile_pickles(marker):
    """Pickles that would write the file `marker`, or do other harm, were they loaded."""
    command = f"touch {marker}"
    yield pickle.dumps(Runs(os.system, command), 2)
    yield pickle.dumps({"model": Runs(eval, f"open({str(marker)!r}, 'w')")}, 2)
    yield pickle.dumps(Runs(getattr, Runs(__import__, "os"), "system"), 2)
    yield pickle.dumps(Runs(os.system, command), 4)
    yield pickle.dumps(Runs(os.system, command), 0)
    yield b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\ncposix\nsystem\nX\x01\0\0\0a\x85R\x85R."
    yield b"\x80\x02(S'touch'\nios\nsystem\n."  # INST
    yield b"\x80\x02cbuiltins\nexec\n(X\x01\0\0\0atR."
    yield b"\x80\x02ccollections\nOrderedDict\n(cos\nsystem\ntR."
    yield b"\x80\x02cargparse\nNamespace\n)\x81}X\x08\0\0\0__class__cos\nsystem\nsb."
    yield b"\x80\x02cargparse\nNamespace.__init__.__globals__\n)R."
    yield b"\x80\x02\x82\x01."  # EXT1
    yield b"\x80\x04\x8c\x02os\x8c\x06system\x93\x8c\x01a\x85R."  # STACK_GLOBAL
    yield b"\x80\x02" + b"(" * 20_000 + b"."
    yield b"\x80\x02]" + b"]a" * 5_000 + b"."
    yield b"\x80\x02)" + b"q\0h\0h\0\x86" * 60 + b"}h\0Ns."  # a key that takes 2^60 steps to hash
    yield b"\x80\x02]r\xff\xff\xff\x7f."  # a memo of 2^31 entries
    yield b"\x80\x04\x8e\xff\xff\xff\xff\xff\xff\xff\x7f."  # 2^63 bytes
    yield b"\x80\x02\x8b\xff\xff\xff\x7f."  # a number of 2^31 bytes
    yield b"\x80\x05\x96\xff\xff\xff\xff\x0f\0\0\0."  # BYTEARRAY8
    yield (
        b"\x80\x02}"
        + b"".join(b"\x8a\x0b" + (i * (2**61 - 1)).to_bytes(11, "little") + b"Ns" for i in range(5000))
        + b"."
    )
    yield b"I" + b"9" * 100_000 + b"\n."
    yield b"."
    yield b""
    levels = b"".join(b"](" + (b"h" + bytes([level])) * 4 + b"eq" + bytes([level + 1]) for level in range(25))
    yield b"\x80\x02]q\0" + levels + b"."  # 4^25 lists, of which all but 26 are the same ones
    yield b"\x80\x02\x8b" + struct.pack("<i", 2500) + b"\x7f" * 2500 + b"."  # 6,000 digits, which str() refuses
    yield b"\x80\x02)" + b"\x85" * 60_000 + b"."
    yield b"\x80\x02(X\x07\0\0\0storagecargparse\nEvil\nX\x01\0\0\0000X\x03\0\0\0cpuK\x01tQ."
    pairs = b"X\x01\0\0\0aN\x86q\0](" + b"h\0" * 10_000 + b"eq\x01"
    yield b"\x80\x02" + pairs + b"ccollections\nOrderedDict\nh\x01\x85R0" * 300 + b"."  # copies without end
    yield b"\x80\x02X" + struct.pack("<i", 2**21) + b"x" * 2**21 + b"."


ONLY_DATA = {14, 16}
"""Lists in a list, and a number of a memo: they are read, and hold no tensors."""
LONG = {26, 28}
"""Read for seconds until they are refused: nested tuples, and copies without end, by the limits that 13 and 24 meet."""


@pytest.mark.heavy
@parametrize_some("number", range(30), keep=set(range(30)) - LONG)
def test_pickles_run_nothing(number, tmp_path):
    marker = tmp_path / "executed"
    content = list(hostile_pickles(marker))[number]
    zipped, legacy = tmp_path / "model.pt", tmp_path / "legacy.pt"
    write_torch_zip(zipped, content, {})
    legacy.write_bytes(content)
    legacy_head = b"".join(Pickler().dumps(each) for each in (0x1950A86A20F9469CFC6C, 1001, {"little_endian": True}))
    behind = tmp_path / "behind.pt"
    behind.write_bytes(legacy_head + content)
    for path in (zipped, legacy, behind):
        assert check_file("torch", path) or number in ONLY_DATA, path
    assert not marker.exists()


def test_all_hostile_pickles_are_tried(tmp_path):
    assert len(list(hostile_pickles(tmp_path))) == 30


def storage_of(size):
    return b"(X\x07\0\0\0storagectorch\nFloatStorage\nX\x01\0\0\0000X\x03\0\0\0cpuJ" + struct.pack("<i", size) + b"tQ"


STORAGE = storage_of(6)


def tensor_of(*rest, storage=STORAGE):
    return b"ctorch._utils\n_rebuild_tensor_v2\n(" + storage + b"".join(rest) + b"\x89NtR"


@pytest.mark.parametrize(
    ("operations", "message"),
    [
        (b"K\x01", "before seeing STOP"),
        (b"u.", "an operation lacks its mark"),
        (b"]K\x01K\x02s.", "a dict is expected"),
        (b"K\x01K\x02\x93.", "a name is not a text"),
        (b"K\x01)R.", "it calls something that is not a function"),
        (b"ccollections\nOrderedDict\n]K\x01a\x85R.", "describes a dict that cannot be"),
        (storage_of(-1) + b".", "describes a storage that cannot be"),
        (STORAGE + b"0" + storage_of(5) + b".", "describes the storage '0' in two ways"),
        (tensor_of(b"K\0K\x06\x85K\x01\x85", storage=b"N") + b".", "describes a tensor without a storage"),
        (tensor_of(b"K\0K\x06\x85)") + b".", "describes a tensor that cannot be"),
        (tensor_of(b"K\0J" + struct.pack("<i", -1) + b"\x85K\x01\x85") + b".", "describes a tensor that cannot be"),
        (b"ctorch._utils\n_rebuild_parameter\n(N\x88NtR.", "describes a parameter that is not a tensor"),
        (tensor_of(b"K\x01K\x06\x85K\x01\x85") + b".", r"a tensor of shape \[6\] is larger than its storage"),
        (tensor_of(b"K\0K\x03\x85K\x02\x85") + b".", r"a tensor of shape \[3\] has the strides \[2\]"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_no_program_writes_into_a_pickle_is_named(tmp_path, operations, message):
    write_torch_zip(tmp_path / "model.pt", b"\x80\x04" + operations, {"0": bytes(24)})
    with SourceFile(tmp_path / "model.pt") as file, pytest.raises(ModelFileError, match=message):
        read_torch(file).read()


@pytest.mark.parametrize(
    ("operations", "value"),
    [(b"(K\x01K\x02l.", [1, 2]), (b"(K\x01K\x02d.", {1: 2}), (b"\x8f(K\x01K\x02\x90.", {1, 2})],
)
def test_older_and_newer_operations_of_pickles(tmp_path, operations, value):
    write_torch_zip(tmp_path / "model.pt", b"\x80\x04" + operations, {})
    assert pickle.loads(b"\x80\x04" + operations) == value
    with SourceFile(tmp_path / "model.pt") as file:
        assert read_torch(file) == value


@pytest.mark.parametrize(
    ("at", "number", "message"),
    [(0, 2, "version 2 with"), (16, 2**20, "a name of 1048576 bytes"), (32, 2**20, "an array of 1048576 dimensions")],
)
def test_impossible_tables_of_marian_are_named(tmp_path, at, number, message):
    write("intgemm", tmp_path / "model.bin")
    whole = bytearray((tmp_path / "model.bin").read_bytes())
    whole[at : at + 8] = struct.pack("<Q", number)
    (tmp_path / "model.bin").write_bytes(whole)
    with pytest.raises(ModelFileError, match=message):
        read("intgemm", tmp_path / "model.bin")


def test_pickles_that_call_another_function_name_it(tmp_path):
    write_torch_zip(tmp_path / "model.pt", pickle.dumps(Runs(os.system, "true"), 2), {})
    with (
        SourceFile(tmp_path / "model.pt") as file,
        pytest.raises(ModelFileError, match=r"names posix\.system, which is"),
    ):
        read_torch(file)


def test_arrays_that_are_one_place_in_the_file_take_little_memory(tmp_path):
    (tmp_path / "file").write_bytes(bytes(2**20))
    with SourceFile(tmp_path / "file") as file:
        same = [StoredArray(file, 0, (2**18,), np.dtype("<f4")) for _ in range(30)]
        assert not any(array.read().any() for array in same[:20])
        with pytest.raises(ModelFileError, match="its arrays have more than 8 times its 1048576 bytes"):
            [array.read() for array in same]


def test_zip_files_of_very_many_members_are_refused_at_once(tmp_path):
    header = io.BytesIO()
    np.save(header, np.zeros(1))
    with zipfile.ZipFile(tmp_path / "many.npz", "w") as file:
        for number in range(20_001):
            file.writestr(f"{number}.npy", header.getvalue())
    with SourceFile(tmp_path / "many.npz") as file, pytest.raises(ModelFileError, match="it has 20001 members"):
        npz_arrays(file)


def test_zip_bombs_are_refused(tmp_path):
    path = tmp_path / "bomb.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("a.npy", bytes(50_000_000))
    assert check_file("npz", path)
    write_torch_zip(path, b"N.", {"0": bytes(50_000_000)}, zipfile.ZIP_DEFLATED)
    assert check_file("torch", path)


def test_members_that_share_bytes_are_refused(tmp_path):
    path = tmp_path / "overlap.npz"
    np.savez(path, a=np.zeros(1000), b=np.zeros(1000))
    content = path.read_bytes()
    entries = [i for i in range(len(content)) if content.startswith(b"PK\1\2", i)]
    first = content[entries[0] + 42 : entries[0] + 46]
    path.write_bytes(content[: entries[1] + 42] + first + content[entries[1] + 46 :])
    with pytest.raises(ModelFileError, match="two arrays share the bytes"):
        read("npz", path)


def test_arrays_of_objects_are_refused(tmp_path):
    path = tmp_path / "objects.npz"
    np.savez(path, a=np.array([Runs(os.system, "true")], object))
    with pytest.raises(ModelFileError, match="only numbers in C order are read"):
        read("npz", path)


def test_header_that_is_no_literal_is_refused(tmp_path):
    path = tmp_path / "code.npz"
    header = b"__import__('os').system('true')".ljust(118) + b"\n"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("a.npy", b"\x93NUMPY\1\0" + struct.pack("<H", len(header)) + header)
    with pytest.raises(ModelFileError, match="is damaged"):
        read("npz", path)


def test_names_of_members_are_no_paths(tmp_path):
    """`../../etc/passwd` is a name like another: nothing is extracted, and no file of that name is touched."""
    path = tmp_path / "names.npz"
    with zipfile.ZipFile(path, "w") as file:
        content = io.BytesIO()
        np.save(content, np.arange(3.0))
        file.writestr("../../outside.npy", content.getvalue())
        file.writestr("/absolute.npy", content.getvalue())
    with SourceFile(path) as file:
        assert sorted(npz_arrays(file)) == ["../../outside", "/absolute"]
    assert sorted(each.name for each in tmp_path.iterdir()) == ["names.npz"]


def test_devices_pipes_folders_and_circular_links_are_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("link")
    (tmp_path / "zero").symlink_to("/dev/zero")
    for name in ("pipe", "link", "zero", "missing", "."):
        with pytest.raises(ModelFileError):
            SourceFile(tmp_path / name)


def test_file_that_is_cut_while_it_is_read_is_refused(tmp_path):
    path = Path(tmp_path / "model.safetensors")
    safetensors.numpy.save_file(arrays(), path)
    with SourceFile(path) as file:
        found = safetensors_arrays(file)
        os.truncate(path, 5000)
        with pytest.raises(ModelFileError, match="cut short while it was read"):
            found["Wemb"].read()
