"""The built-in texts are those that the grammars write, to the byte."""

import bz2

import pytest

from minitf.corpora.built_in import built_in_corpus
from studies.make_corpus.__main__ import PHRASES, TREES, main, phrases_text, treebank_text


@pytest.mark.slow
def test_phrases():
    assert bz2.decompress(PHRASES.read_bytes()) == phrases_text().encode("utf-8")


@pytest.mark.slow
def test_treebank():
    assert bz2.decompress(TREES.read_bytes()) == treebank_text().encode("utf-8")


def test_a_corpus_of_another_seed(tmp_path, capsys):
    main(["phrases", str(tmp_path), "--seed", "5", "--train-pairs", "40", "--valid-pairs", "3", "--test-pairs", "2"])
    assert len((tmp_path / "train.de").read_text(encoding="utf-8").splitlines()) == 40
    assert (tmp_path / "valid.en").read_text() != "".join(
        f"{english}\n" for english, _ in built_in_corpus(valid_pairs=3).valid
    )
    assert capsys.readouterr().out.count("  →  ") % 3 == 0


def test_a_treebank_of_another_seed(tmp_path):
    main(["treebank", str(tmp_path), "--seed", "5", "--train-trees", "4", "--valid-trees", "0", "--test-trees", "1"])
    assert (tmp_path / "train.mrg").read_text().count("\n") == 4


def test_wrong_numbers_are_told(tmp_path, capsys):
    with pytest.raises(SystemExit) as stop:
        main(["phrases", str(tmp_path), "--seed=-1"])
    assert stop.value.code == 2
    assert "seed=-1 is negative" in capsys.readouterr().err
