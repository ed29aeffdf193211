"""Files of pieces, and our order of them."""

from pathlib import Path

import pytest

from additions.interchange.stored_arrays import ModelFileError
from additions.interchange.vocabularies import (
    Pieces,
    dict_txt,
    json_ids,
    json_list,
    kind_of,
    lines_of,
    yaml_ids,
    yaml_text,
)
from minitf.config.model import BOS, EOS, PAD, UNK

PIECES = [
    "</s>",
    "<unk>",
    "▁the",
    "'",
    '"',
    "\\",
    ":",
    "#",
    "yes",
    "null",
    "1.5",
    "''",
    "a: b",
    "? x",
    "\u2028",
    "é",
    "-",
    "[a]",
]


def test_yaml_that_is_written_is_read_again(tmp_path):
    (tmp_path / "vocab.yml").write_text(yaml_text(PIECES))
    assert yaml_ids(tmp_path / "vocab.yml") == PIECES


def test_yaml_of_marian_is_read_line_by_line(tmp_path):
    """Plain pieces that YAML would take for truth values or numbers, single quotes, escapes, and a key of two lines."""
    lines = [
        "---", "</s>: 0", "<unk>: 1", "yes: 2", "1.5: 3", "'it''s': 4", r'"\x85": 5', r'"\u2581a": 6', "? long", ": 7",
        r'"\\": 8' + "\r", "::: 9", "",
    ]  # fmt: skip
    (tmp_path / "vocab.yml").write_bytes("\n".join(lines).encode())
    expected = ["</s>", "<unk>", "yes", "1.5", "it's", "\x85", "▁a", "long", "\\", "::"]
    assert yaml_ids(tmp_path / "vocab.yml") == expected


def test_ids_are_all_there_and_each_once(tmp_path):
    for text in ("a: 0\nb: 2\n", "a: 0\nb: 0\n", "a: 0\nb: x\n", "a: 0\na: 1\n", "", "no colon\n"):
        (tmp_path / "vocab.yml").write_text(text)
        with pytest.raises(ModelFileError):
            yaml_ids(tmp_path / "vocab.yml")
    for text in ('{"a": 0, "b": 2}', '{"a": true}', '["a"]', '{"a": 0, "a": 1}', "{", '{"a": -1}'):
        (tmp_path / "vocab.json").write_text(text)
        with pytest.raises(ModelFileError):
            json_ids(tmp_path / "vocab.json")


def test_other_files(tmp_path):
    (tmp_path / "shared_vocabulary.json").write_text('["<blank>", "a"]')
    assert json_list(tmp_path / "shared_vocabulary.json") == ["<blank>", "a"]
    (tmp_path / "vocabulary.txt").write_text("<blank>\n\u2028\na b\n")
    assert lines_of(tmp_path / "vocabulary.txt") == ["<blank>", "\u2028", "a b"]
    (tmp_path / "dict.en.txt").write_text("the 99\na b 3\n<s> 1 #fairseq:overwrite\n")
    assert dict_txt(tmp_path / "dict.en.txt")[:6] == ["<s>", "<pad>", "</s>", "<unk>", "the", "a b"]
    (tmp_path / "dict.en.txt").write_text("the\n")
    with pytest.raises(ModelFileError, match="line 1: expected is a piece, a space and its count"):
        dict_txt(tmp_path / "dict.en.txt")


def test_our_order_has_the_special_tokens_first():
    pieces = Pieces(["</s>", "<unk>", "a", "<pad>"], {PAD: None, UNK: 1, BOS: 3, EOS: 0})
    assert pieces.order == [-1, 1, 3, 0, 2]
    assert pieces.ours == ["<pad>_", "<unk>", "<pad>", "</s>", "a"]
    assert pieces.added == (PAD,)


def test_more_rows_than_pieces_get_fillers():
    names, special = ["a", "<filler1>"], dict.fromkeys((PAD, UNK, BOS, EOS))
    assert Pieces.of(names, special, b"", 3, Path("x")).names == ["a", "<filler1>", "<filler2>"]
    with pytest.raises(ModelFileError, match="x has 1 rows for 2 pieces"):
        Pieces.of(names, special, b"", 1, Path("x"))


def test_kind_follows_from_the_pieces():
    assert kind_of(["<s>", "</s>", "a", "b"]) == ("characters", "")
    assert kind_of(["<s>", "to@@", "day"]) == ("words", "@@")
    assert kind_of(["<s>", "to￭", "day"]) == ("words", "￭")
    assert kind_of(["<s>", "today"]) == ("words", "")
