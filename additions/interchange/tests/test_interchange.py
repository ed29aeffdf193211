"""All readers against damaged and hostile files: one sentence, nothing is run, and little memory is taken."""

import io
import os
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
from additions.interchange.stored_arrays import ModelFileError, SourceFile, StoredArray, npz_arrays, safetensors_arrays
from additions.interchange.tests.foreign_files import write_ctranslate2, write_intgemm
from additions.interchange.tests.foreign_models import learned_model
from minitf.errors import UserError

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
        else:
            found = read_content(file).arrays
        for each in found.values():
            each.read()


KINDS = ["npz", "intgemm", "safetensors", "ctranslate2-2", "ctranslate2-3", "ctranslate2-6"]


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


def test_an_altered_number_in_a_zip_file_is_found(tmp_path):
    """Each member has a checksum, which covers the shape of an array too."""
    kind, path = "npz", tmp_path / "model.npz"
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


def test_arrays_that_are_one_place_in_the_file_take_little_memory(tmp_path):
    (tmp_path / "file").write_bytes(bytes(2**20))
    with SourceFile(tmp_path / "file") as file:
        same = [StoredArray(file, 0, (2**18,), np.dtype("<f4")) for _ in range(30)]
        assert not any(array.read().any() for array in same[:20])
        with pytest.raises(ModelFileError, match="its arrays have more than 8 times its 1048576 bytes"):
            [array.read() for array in same]


@pytest.mark.heavy
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
    np.savez(path, a=np.array([{}], object))
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
