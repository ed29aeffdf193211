"""Whatever a file or a stream holds, reading it ends with a result or a UserError, and no line is lost.

`make torture` tries a hundred times as many inputs as `make test`.
"""

import hashlib
import io
import json
import os
import re
import shutil
import struct
from contextlib import suppress
from dataclasses import asdict

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from minitf.app.translate import StdinLines
from minitf.config import PRESETS
from minitf.data.prepared import PreparedCorpus, prepare
from minitf.data.text import lines_of, read_lines
from minitf.data.vocabulary import Vocabulary
from minitf.errors import UserError
from minitf.storage import checkpoints
from minitf.storage.run_directory import load_config, save_config
from minitf.training.resuming import TrainState, state_from_plain

pytestmark = pytest.mark.heavy
SPECIAL = [
    "", *" \t\x00\x01\x0b\x0c\r\x1c\x1d\x1e\x1f\x7f\x85\xa0\xad",
    *"\u2028\u2029\u200b\u200d\u200f\u202e\ufeff\ufffd\ufffe\U0010ffff\u3000",
    "e\u0301", "\u0301", "\u1100\u1161\u11a8", "👩‍👩‍👧‍👦", "🇩🇪", "שלום", "مرحبا", "ﷺ", "Ǆ", "ſ", "ß", "ｆｕｌｌ", "½",
    "m²", "<s>", "</s>", "<pad>", "<unk>", "<0x0A>", "<0x00>", "▁", "▁▁", "\u2585", "⁇", "%s", "{}", "../x", "\\n", "'",
    '"', "the cat", "ein Haus", "a" * 300, "the cat sat " * 60, "." * 50, "1.5", "３",
]  # fmt: skip
CHARACTERS = st.characters(exclude_categories=["Cs"])
TEXT = st.lists(st.sampled_from(SPECIAL) | st.text(CHARACTERS, max_size=20), max_size=6).map(" ".join)
LINE = TEXT.map(lambda text: text.replace("\n", " "))
NOT_UTF8 = [b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xf5\x80\x80\x80", b"\xc0\xaf", b"\xfe\xff", b"\x80", b"\xf0\x9f\x98"]
PIECES = st.one_of(
    LINE.map(str.encode),
    st.binary(max_size=30),
    st.sampled_from([*NOT_UTF8, b"\n", b"\r\n", b"\n\n", b"\r", b"\n\r", b"\xef\xbb\xbf", b"\x1f\x8b"]),
)
BYTES = st.lists(PIECES, max_size=12).map(b"".join)
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(CHARACTERS, max_size=8)
    | st.sampled_from(SPECIAL),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(CHARACTERS, max_size=8), inner, max_size=4),
    max_leaves=8,
)
SLOW_MS = 20_000  # an input that takes longer counts as one that hangs


def hostile(*strategies, times=2):
    """Run a test on inputs of strategies, `times` as many as a test of Hypothesis gets here."""
    more = settings(
        max_examples=times * settings.default.max_examples, deadline=SLOW_MS, suppress_health_check=list(HealthCheck)
    )
    return lambda test: more(given(*strategies)(test))


def damaged(whole):
    """The bytes of a file with parts changed, cut out or inserted."""

    def change(edits):
        data = bytearray(whole)
        for begin, length, new in edits:
            data[begin : begin + length] = new
        return bytes(data)

    edit = st.tuples(st.integers(0, len(whole)), st.integers(0, 8) | st.integers(0, len(whole)), st.binary(max_size=8))
    return st.lists(edit, max_size=4).map(change)


def number_of_lines(data):
    """Count the lines that `\\n` ends, and a last one without; a byte order mark alone is not a line."""
    if data == b"\xef\xbb\xbf":
        return 0
    return data.count(b"\n") + (not data.endswith(b"\n") and bool(data))


def reads(path, read):
    """What `read` gives for a file; None after a UserError, which names the file."""
    try:
        return read(path)
    except UserError as error:
        message = str(error)
    assert str(path) in message
    return None


@pytest.fixture(scope="module")
def model(halfway):
    return (halfway / "vocabulary.model").read_bytes()


# ---- Texts -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("hostile")


@hostile(BYTES, times=8)
def test_a_text_has_as_many_lines_as_line_ends_or_the_error_names_the_line(folder, data):
    path = folder / "text"
    path.write_bytes(data)
    try:
        data.decode()
    except UnicodeDecodeError as reason:
        # lines are decoded one by one, so a character cut by a line end is named where the line ends
        number = data[: reason.start].count(b"\n") + 1
        with pytest.raises(UserError, match=rf"^{re.escape(str(path))}.*line {number:,}:"):
            list(read_lines(path))
    else:
        lines = list(read_lines(path))
        assert len(lines) == number_of_lines(data)
        assert "\n" not in "".join(lines)


@hostile(BYTES, st.lists(st.sampled_from([1, 3, 100]), min_size=1))
def test_a_stream_that_arrives_little_by_little_is_read_as_a_file_is(data, sizes):
    data = data.decode(errors="replace").encode()
    reader, writer = os.pipe()
    lines = StdinLines(reader)
    found, stream, begin = [], lines_of(lines, "it"), 0
    while begin < len(data):
        size = sizes[begin % len(sizes)]
        os.write(writer, data[begin : begin + size])
        begin += size
        while not lines.must_wait():
            found.append(next(stream))
    os.close(writer)
    found += stream
    os.close(reader)
    assert found == list(lines_of(io.BytesIO(data), "it"))


# ---- Vocabularies and token ids ----------------------------------------------------------------------------------


@hostile(st.data(), LINE)
def test_a_damaged_vocabulary_is_refused_or_gives_one_line_for_each(folder, model, data, line):
    path = folder / "vocabulary.model"
    path.write_bytes(data.draw(damaged(model) | st.binary(max_size=200)))
    if vocabulary := reads(path, Vocabulary.load):
        (text,) = vocabulary.decode(vocabulary.encode([line]))
        assert "\n" not in text


@pytest.fixture
def corpus(tmp_path, model):
    source, target = tmp_path / "source", tmp_path / "target"
    source.write_text("the cat\nthe dog sat\n")
    target.write_text("die Katze\nder Hund sitzt\n")
    return source, target, Vocabulary(model), tmp_path / "prepared"


@hostile(st.data(), times=1)
def test_damaged_token_ids_are_never_used(corpus, data):
    """They are refused, and prepared again where the text is at hand."""
    _, _, vocabulary, place = corpus
    shutil.rmtree(place, ignore_errors=True)
    expected = content(prepare(*corpus))
    path = data.draw(st.sampled_from([path for path in sorted(place.iterdir()) if path.suffix != ".lock"]))
    wrong = damaged(path.read_bytes())
    if path.name == "prepared.json":
        document = json.loads(path.read_bytes())
        changes = st.dictionaries(st.sampled_from(list(document)), JSON, max_size=3)
        wrong |= changes.map(lambda new: json.dumps({**document, **new}).encode())
    path.write_bytes(data.draw(wrong))
    with suppress(UserError):
        assert content(PreparedCorpus.load(place, vocabulary, max_length=256)) == expected
    assert content(prepare(*corpus)) == expected


def content(corpus):
    return [ids.tolist() for i in range(len(corpus)) for ids in (corpus.source[i], corpus.target[i])]


# ---- Files of a run ----------------------------------------------------------------------------------------------

ARRAYS = {"model.a": np.arange(6, dtype=np.float32).reshape(2, 3), "optimizer.m.a": np.ones(5), "b": np.array(3)}


def forged(whole):
    """Checkpoint files with a changed header and a valid digest."""
    names = st.text(CHARACTERS, max_size=9) | st.sampled_from(["model.a", "b", "__metadata__"])
    return st.builds(forge, st.just(whole), st.dictionaries(names, JSON, max_size=3), st.binary(max_size=40))


def forge(whole, changes, data):
    (length,) = struct.unpack("<Q", whole[:8])
    header = json.loads(whole[8 : 8 + length])
    metadata = header["__metadata__"]
    header |= changes
    opening = b'{"__metadata__":{"minitf_checkpoint":"1","sha256":"'
    if isinstance(header.get("__metadata__"), dict):
        header["__metadata__"] = {**metadata, **header["__metadata__"], "sha256": "0" * 64}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    start = struct.pack("<Q", len(text))
    digest = hashlib.sha256(start + text).hexdigest().encode()
    return start + text[: len(opening)] + digest + text[len(opening) + 64 :] + (data or whole[8 + length :])


@hostile(st.data(), times=8)
def test_a_damaged_or_forged_checkpoint_gives_what_was_saved_or_is_refused(folder, data):
    path = folder / "step-00000001.safetensors"
    checkpoints.save(path, ARRAYS, asdict(TrainState(step=1)))
    whole = path.read_bytes()
    content = data.draw(damaged(whole) | st.binary(max_size=300) | forged(whole))
    path.write_bytes(content)
    found = reads(path, checkpoints.load)
    if content == whole:
        assert all((found[0][name] == array).all() for name, array in ARRAYS.items())
        state_from_plain(found[1])
    elif found is not None:
        with suppress(UserError):
            state_from_plain(found[1])
        with suppress(UserError):
            checkpoints.average([path], "")


@hostile(st.data(), times=4)
def test_any_configuration_can_be_saved_and_read_again_or_is_refused(folder, data):
    path = folder / "config.json"
    save_config(path, PRESETS["tiny"])
    whole = path.read_bytes()
    document = json.loads(whole)
    section = data.draw(st.sampled_from([None, "model", "optimizer"]))
    changes = st.dictionaries(
        st.sampled_from([*document, *document["model"], *document["optimizer"]]), JSON, max_size=3
    ).map(lambda new: {**document, **new} if section is None else {**document, section: {**document[section], **new}})
    path.write_bytes(data.draw(damaged(whole) | BYTES | changes.map(lambda new: json.dumps(new).encode())))
    config = reads(path, load_config)
    if config is not None:
        save_config(path, config)
        assert load_config(path) == config
