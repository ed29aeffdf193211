"""Lines are cut at \\n and nowhere else; bad input is named; files appear whole or not at all."""

import gzip
import io
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minitf.app.translate import READ_BYTES, StdinLines
from minitf.data.text import in_chunks, lines_of, read_lines, read_pairs
from minitf.errors import UserError
from minitf.system.files import atomic_write

# Everything that some other notion of a line would cut at, or that a careless reader would drop.
ODD_CHARACTERS = "\u2028\u2029\x85\x0b\x0c\x1c\x1d\x1e\r\0\x01\ufeff\u200b\u00a0\u0301\u05d0\u202e😀👩‍👩‍👧\t ▁"
CHARACTERS = st.characters(exclude_categories=["Cs"])  # of codec="utf-8", Hypothesis makes a list for two seconds
LINES = st.lists(
    st.text(st.one_of(st.sampled_from(ODD_CHARACTERS), CHARACTERS)).map(lambda line: line.replace("\n", ""))
)


def lines(data: bytes) -> list[str]:
    return list(lines_of(io.BytesIO(data), "input"))


def write(path: Path, data: bytes | str) -> Path:
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return path


# ---- reading -------------------------------------------------------------------------------------


@settings(deadline=None)  # the machine may be busy
@given(LINES)
def test_any_text_survives_writing_and_reading(tmp_path_factory, sentences):
    path = tmp_path_factory.mktemp("text") / "lines.txt"
    # The first character of a file cannot be told from a byte order mark, nor the end of a line from \r\n.
    sentences = [sentence.lstrip("\ufeff").rstrip("\r") for sentence in sentences]
    with atomic_write(path, "w") as file:
        for sentence in sentences:
            file.write(sentence + "\n")
    assert list(read_lines(path)) == sentences
    with gzip.open(path.with_suffix(".gz"), "wb") as zipped:
        zipped.write(path.read_bytes())
    assert list(read_lines(path.with_suffix(".gz"))) == sentences


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", []),
        (b"a", ["a"]),
        (b"a\n\n", ["a", ""]),
        (b"a\r\nb\r\n", ["a", "b"]),
        (b"a\r\r\nb", ["a\r", "b"]),
        (b"a\rb\n\r", ["a\rb", "\r"]),
        (b"\xef\xbb\xbf", []),
        (b"\xef\xbb\xbfa\n\xef\xbb\xbfb", ["a", "\ufeffb"]),
        ("a\u2028b\x85c\x0bd\x0ce\x1cf".encode(), ["a\u2028b\x85c\x0bd\x0ce\x1cf"]),
        (b"\0\n\0", ["\0", "\0"]),
    ],
)
def test_where_lines_end(data, expected):
    assert lines(data) == expected


@pytest.mark.parametrize(
    ("data", "line", "byte", "input_byte", "value"),
    [
        (b"\xff", 1, 1, 1, "0xff"),
        (b"good\nba\xffd\n", 2, 3, 8, "0xff"),
        (b"\xef\xbb\xbfab\xc3", 1, 6, 6, "0xc3"),
        (b"\xef\xbb\xbfab\nc\xed\xa0\x80", 2, 2, 8, "0xed"),  # half a surrogate pair
        (b"a\nb\xc3\n\xa9", 2, 2, 4, "0xc3"),  # a character cut by a line end
    ],
)
def test_bytes_that_are_not_utf8_are_located(data, line, byte, input_byte, value):
    with pytest.raises(UserError) as raised:
        lines(data)
    message = str(raised.value)
    assert message.startswith(
        f"input, line {line}: byte {byte} of the line (byte {input_byte} of the input) is {value},"
    )
    assert "iconv -c" in message


@pytest.mark.heavy
def test_reading_takes_the_memory_of_a_line(tmp_path):
    path = tmp_path / "large.gz"
    with gzip.open(path, "wb", compresslevel=1) as file:
        for _ in range(3):
            file.write(b"a few words\n" * 100_000)
    code = (
        "import resource, sys; from minitf.data.text import read_lines\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "assert sum(1 for _ in read_lines(sys.argv[1])) == 300_000\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)"
    )
    grown = subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True, check=True)
    assert int(grown.stdout) < 4 * 1024  # KiB, for a text of 3.6 MB: 18 MiB as a list of strings


def test_broken_compressed_files(tmp_path):
    whole = gzip.compress(b"a few words\n" * 1000)
    with pytest.raises(UserError, match="ends too early"):
        list(read_lines(write(tmp_path / "short.gz", whole[:-12])))
    with pytest.raises(UserError, match="not valid gzip data"):
        list(read_lines(write(tmp_path / "plain.gz", b"a few words\n")))
    with pytest.raises(UserError, match="not valid gzip data"):
        list(read_lines(write(tmp_path / "damaged.gz", whole[:20] + b"\xff" * 20 + whole[40:])))


# ---- pairs ---------------------------------------------------------------------------------------


def test_pairs_are_aligned_by_line_feed_alone(tmp_path):
    source = write(tmp_path / "a", "one\u2028still one\r\ntwo\x0b\n\n")
    target = write(tmp_path / "b", "eins\nzwei\ndrei")
    assert list(read_pairs(source, target)) == [("one\u2028still one", "eins"), ("two\x0b", "zwei"), ("", "drei")]


@pytest.mark.parametrize(("source_lines", "target_lines"), [(1200, 3), (3, 1200), (1, 2)])
def test_unequal_counts_are_both_named(tmp_path, source_lines, target_lines):
    source, target = write(tmp_path / "a", "x\n" * source_lines), write(tmp_path / "b", "y\n" * target_lines)
    pairs = read_pairs(source, target)
    for _ in range(min(source_lines, target_lines)):
        assert next(pairs) == ("x", "y")
    with pytest.raises(UserError, match=f"a has {source_lines:,} lines but .*b has {target_lines:,}"):
        next(pairs)


@pytest.mark.parametrize(("source", "target", "empty"), [("", "y\n", "a"), ("x\n", "", "b"), ("", "", "a")])
def test_an_empty_side_is_named(tmp_path, source, target, empty):
    with pytest.raises(UserError, match=f"{empty} is empty"):
        list(read_pairs(write(tmp_path / "a", source), write(tmp_path / "b", target)))


@settings(deadline=None)  # the machine may be busy
@given(st.lists(st.text(CHARACTERS, max_size=9)), st.integers(1, 5), st.integers(1, 20))
def test_chunks_hold_everything_in_order_and_no_more_than_asked(items, max_items, max_characters):
    chunks = list(in_chunks(items, len, max_items=max_items, max_characters=max_characters))
    assert [item for chunk in chunks for item in chunk] == items
    assert all(1 <= len(chunk) <= max_items for chunk in chunks)
    assert all(sum(map(len, chunk[:-1])) < max_characters for chunk in chunks)
    full = [len(chunk) == max_items or sum(map(len, chunk)) >= max_characters for chunk in chunks]
    assert all(full[:-1])


# ---- Standard input ----


def test_a_long_line_and_a_file(tmp_path):
    path = tmp_path / "text"
    path.write_bytes(b"x" * (3 * READ_BYTES) + b"\nend")
    with path.open("rb") as file:
        arriving = StdinLines(file.fileno())
        assert not arriving.must_wait()
        assert [len(line) for line in iter(arriving.readline, b"")] == [3 * READ_BYTES + 1, 3]


def test_a_descriptor_that_cannot_be_read_is_one_sentence(tmp_path):
    folder = os.open(tmp_path, os.O_RDONLY)
    with pytest.raises(UserError, match="cannot read standard input: Is a directory"):
        StdinLines(folder).readline()
    os.close(folder)
