"""Hypothesis strategies for hostile input: texts, bytes, JSON and damaged files."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import strategies as st

SPECIAL = [
    "", *" \t\x00\x01\x0b\x0c\r\x1c\x1d\x1e\x1f\x7f\x85\xa0\xad",
    *"\u2028\u2029\u200b\u200d\u200f\u202e\ufeff\ufffd\ufffe\U0010ffff\u3000",
    "e\u0301", "\u0301", "\u1100\u1161\u11a8", "👩‍👩‍👧‍👦", "🇩🇪", "שלום", "مرحبا", "ﷺ", "Ǆ", "ſ", "ß", "ｆｕｌｌ", "½",
    "m²", "<s>", "</s>", "<pad>", "<unk>", "<0x0A>", "<0x00>", "▁", "▁▁", "\u2585", "⁇", "%s", "{}", "../x", "\\n", "'",
    '"', "the cat", "ein Haus", "a" * 300, "the cat sat " * 60, "." * 50, "1.5", "３",
]  # fmt: skip
CHARACTERS = st.characters(exclude_categories=["Cs"])
TEXT = st.lists(st.sampled_from(SPECIAL) | st.text(CHARACTERS, max_size=20), max_size=6).map(" ".join) | st.text(
    CHARACTERS, max_size=40
)
LINE = TEXT.map(lambda text: text.replace("\n", " "))
NOT_UTF8 = [b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xf5\x80\x80\x80", b"\xc0\xaf", b"\xfe\xff", b"\x80", b"\xf0\x9f\x98"]
PIECES = st.one_of(
    LINE.map(str.encode),
    st.binary(max_size=30),
    st.sampled_from(NOT_UTF8),
    st.sampled_from([b"\n", b"\r\n", b"\n\n", b"\r", b"\n\r", b"\xef\xbb\xbf", b"\x1f\x8b"]),
)
BYTES = st.lists(PIECES, max_size=12).map(b"".join)

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.sampled_from(SPECIAL),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=8,
)


def number_of_lines(data: bytes) -> int:
    """Count the lines that `\\n` ends, and a last one without; a byte order mark alone is not a line."""
    if data == b"\xef\xbb\xbf":
        return 0
    return data.count(b"\n") + (not data.endswith(b"\n") and bool(data))


def damaged(whole: bytes) -> st.SearchStrategy[bytes]:
    """The bytes of a file with parts changed, cut out or inserted."""
    place = st.integers(0, len(whole))

    def change(edits: Sequence[tuple[int, int, bytes]]) -> bytes:
        data = bytearray(whole)
        for begin, length, new in edits:
            data[begin : begin + length] = new
        return bytes(data)

    edit = st.tuples(place, st.integers(0, 8) | st.integers(0, len(whole)), st.binary(max_size=8))
    return st.lists(edit, max_size=4).map(change)
