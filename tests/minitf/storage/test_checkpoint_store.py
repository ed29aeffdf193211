"""Checkpoint files: what goes in comes out, and nothing else does."""

import hashlib
import json
import os
import struct
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as st_numpy
from safetensors import safe_open
from safetensors.numpy import load_file

from minitf.errors import UserError
from minitf.storage.checkpoints import DamagedCheckpointError, Reader, load, save

STATE = {"step": 3, "tokens": 12345678901234567890, "place": [1, None, {"file": "ü", "x": 0.1}], "done": False}


def small_arrays():
    rng = np.random.default_rng(0)
    return {
        "model.weight": rng.normal(size=(3, 2)).astype(np.float32),
        "model.bias": rng.normal(size=2),
        "optimizer.m.weight": rng.normal(size=(3, 2)).astype(np.float32),
        "empty": np.zeros((0, 4), np.float32),
        "step": np.array(7, np.int64),
    }


def assert_same(found, expected):
    assert set(found) == set(expected)
    for name, array in expected.items():
        assert found[name].shape == array.shape, name
        assert found[name].dtype == array.dtype.newbyteorder("="), name
        assert found[name].tobytes() == np.ascontiguousarray(array, array.dtype.newbyteorder("=")).tobytes(), name


# ---- What goes in comes out ----


@pytest.mark.heavy
@given(
    arrays=st.dictionaries(
        st.from_regex(r"[A-Za-z0-9_]{1,5}(\.[a-z0-9_]{1,5}){0,2}", fullmatch=True),
        st_numpy.arrays(
            st.sampled_from(["<f8", ">f8", "<f4", ">f4", "<f2", "<i8", ">i4", "<i2", "i1", "<u8", "<u4", "<u2", "u1"]),
            st_numpy.array_shapes(min_dims=0, min_side=0, max_side=4),
        ),
        max_size=4,
    ),
    transposed=st.booleans(),
)
@settings(deadline=None)
def test_round_trip_of_every_type_and_layout(tmp_path_factory, arrays, transposed):
    path = tmp_path_factory.getbasetemp() / "of-every-type"
    if transposed:
        arrays = {name: array.T for name, array in arrays.items()}
    save(path, arrays, {})
    assert_same(load(path)[0], arrays)


def test_other_libraries_read_the_files(tmp_path):
    save(tmp_path / "a", small_arrays(), STATE)
    assert_same(load_file(tmp_path / "a"), small_arrays())
    with safe_open(tmp_path / "a", framework="np") as file:
        assert json.loads(file.metadata()["state"]) == STATE


def test_equal_content_gives_equal_bytes(tmp_path):
    save(tmp_path / "a", small_arrays(), STATE)
    save(tmp_path / "b", small_arrays(), STATE)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_a_prefix_is_taken_off_and_only_its_tensors_are_read(tmp_path):
    path = tmp_path / "a"
    save(path, small_arrays(), STATE)
    arrays, state = load(path, prefix="model.")
    assert_same(arrays, {"weight": small_arrays()["model.weight"], "bias": small_arrays()["model.bias"]})
    assert state == STATE
    content = bytearray(path.read_bytes())
    at = content.index(small_arrays()["optimizer.m.weight"].tobytes())
    content[at] ^= 1
    path.write_bytes(content)
    assert_same(load(path, prefix="model.")[0], arrays)
    with pytest.raises(DamagedCheckpointError, match=r"bytes of optimizer\.m\.weight have changed"):
        load(path)
    with pytest.raises(UserError, match=r"no tensor whose name begins with 'modell\.'"):
        load(path, prefix="modell.")


def test_memory(tmp_path):
    """Saving takes no copy of the tensors; loading takes one."""
    size = 2**23
    arrays = {f"{group}.{i}": np.ones(size // 4, np.float32) for group in ("model", "optimizer") for i in range(2)}
    peaks = {}
    for name, act in {
        "save": lambda: save(tmp_path / "a", arrays, {}),
        "load": lambda: load(tmp_path / "a"),
        "prefix": lambda: load(tmp_path / "a", "model."),
    }.items():
        tracemalloc.start()
        act()
        peaks[name] = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peaks["save"] < 2**21
    assert 4 * size <= peaks["load"] < 4 * size + 2**21
    assert 2 * size <= peaks["prefix"] < 2 * size + 2**21


@pytest.mark.parametrize(
    ("arrays", "state", "kind", "message"),
    [
        ({"a": np.array([None])}, {}, TypeError, "type object"),
        ({"a": np.zeros(1, np.complex64)}, {}, TypeError, "type complex64"),
        ({}, {"pair": (1, 2)}, TypeError, "lists instead of tuples"),
        ({}, {"map": {1: 2}}, TypeError, "strings as keys"),
        ({}, {"loss": float("nan")}, ValueError, "not JSON compliant"),
        ({}, {"loss": np.float32(1)}, TypeError, "float32"),
    ],
)
def test_what_cannot_be_kept_is_refused_before_anything_is_written(tmp_path, arrays, state, kind, message):
    with pytest.raises(kind, match=message):
        save(tmp_path / "a", arrays, state)
    assert os.listdir(tmp_path) == []


# ---- Damage ----


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    path = tmp_path_factory.mktemp("whole") / "a"
    save(path, {"w": np.arange(4, dtype=np.float32), "b": np.zeros(0)}, {"step": 1})
    return path.read_bytes()


@pytest.mark.heavy
def test_every_flipped_bit_is_found(tmp_path, whole):
    path = tmp_path / "a"
    for place in range(8 * len(whole)):
        content = bytearray(whole)
        content[place // 8] ^= 1 << place % 8
        path.write_bytes(content)
        with pytest.raises(DamagedCheckpointError, match="is damaged"):
            load(path)
    path.write_bytes(whole)
    load(path)


def test_every_truncation_is_found(tmp_path, whole):
    path = tmp_path / "a"
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        with pytest.raises(DamagedCheckpointError, match=r"(?s)is damaged: .*; without it, earlier checkpoints"):
            load(path)


# ---- Hostile files: all sums are right, the claims are not ----


def forged(header, data=b"", digests=None):
    """A file whose sums are right for any header: a dict of tensors, or the rest of the JSON text after the sum."""
    opening = '{"__metadata__":{"minitf_checkpoint":"1","sha256":"'
    if isinstance(header, dict):
        if digests is None:
            digests = "".join(
                hashlib.sha256(data[slice(*claim["data_offsets"])]).hexdigest() for claim in header.values()
            )
        metadata = json.dumps({"tensors_sha256": digests, "state": "{}"})
        rest = '",' + metadata[1:] + "".join(f",{json.dumps(k)}:{json.dumps(v)}" for k, v in header.items()) + "}"
    else:
        rest = '",' + header
    text = (opening + "0" * 64 + rest).encode()
    length = struct.pack("<Q", len(text))
    digest = hashlib.sha256(length + text).hexdigest()
    return length + (opening + digest + rest).encode() + data


def tensor(dtype="F32", shape=(2,), offsets=(0, 8)):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": list(offsets)}


EMPTY = '"tensors_sha256":"","state":"{}"}'


def test_the_forger_makes_files_that_are_read(tmp_path):
    """Else the tests below would pass for the wrong reason."""
    path = tmp_path / "a"
    path.write_bytes(forged({"a": tensor(), "b": tensor("U8", (), (8, 9))}, bytes(range(9))))
    assert load(path)[0]["a"].tobytes() == bytes(range(8))
    path.write_bytes(forged(EMPTY + "}"))
    assert load(path) == ({}, {})


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "a header of 0 bytes is impossible"),
        (struct.pack("<Q", 2**64 - 1) + b"{}" * 100, "impossible in a file of 208 bytes"),
        (struct.pack("<Q", 2) + b"{}" + bytes(300), "a header of 2 bytes is impossible"),
        (struct.pack("<Q", 200) + b"{" * 200, "does not begin like a checkpoint"),
        (forged({"a": tensor("F128")}, bytes(8)), "unknown variant `F128`"),
        (forged({"a": tensor("BF16", (4,))}, bytes(8)), "a is of type BF16, which a checkpoint cannot hold"),
        (forged({"a": tensor(offsets=(0, 8))}, bytes(9)), "file not fully covered"),
        (forged({"a": tensor(), "b": tensor()}, bytes(8)), "invalid offset for tensor"),  # overlap
        (forged({"a": tensor(shape=(2**62, 2**62, 0), offsets=(0, 0))}), "overflow computing buffer size"),
        (forged({"a": tensor(shape=(2**50,), offsets=(0, 2**52))}, b"", "0" * 64), "file not fully covered"),
        (forged({"a": tensor(shape=(1,) * 99, offsets=(0, 4))}, bytes(4)), "maximum supported dimension"),
        (forged({"a": tensor()}, bytes(8), "0" * 64), "bytes of a have changed"),
        (forged(EMPTY + ',"__metadata__":{}}'), "duplicate field `__metadata__`"),
        (forged(EMPTY + ',"a":' + "[" * 300_000), "recursion limit exceeded"),
        (forged('"tensors_sha256":"","state":"[1]"}}'), "it is not an object"),
        (forged('"tensors_sha256":"","state":' + json.dumps("[" * 300_000) + "}}"), "nested too deeply"),
    ],
)
def test_hostile_headers_are_refused_without_taking_memory(tmp_path, content, message):
    path = tmp_path / "a"
    path.write_bytes(content)
    for read in (load, Reader):
        if read is Reader and message in (
            "bytes of a have changed",
            "maximum supported dimension",
            "a is of type BF16, which a checkpoint cannot hold",
        ):
            continue  # reads no tensor
        tracemalloc.start()
        with pytest.raises(DamagedCheckpointError, match=message):
            read(path)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 4 * 2**20 + 8 * len(content)
