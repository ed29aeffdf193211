"""Lexical tables: IBM model 1 against its plain definition, and files in Marian's form."""

import numpy as np
import pytest

from minitf.data.lexical_table import NO_SOURCE, LexicalTable, model_1, piece_names
from minitf.data.piece_vocabulary import PieceVocabulary, VocabularyPair
from minitf.data.sentences import Sentences
from minitf.errors import UserError

SPECIAL = ["<pad>", "<unk>", "<s>", "</s>"]
WORDS = VocabularyPair(
    PieceVocabulary("words", [*SPECIAL, "the", "cat", "dog"]), PieceVocabulary("words", [*SPECIAL, "die", "Katze"])
)
PAIRS = [([4, 5], [4, 5]), ([4, 6, 4], [5]), ([], [4]), ([6], []), ([5, 1], [5, 5, 4])]


def as_dict(table):
    return {
        (s, t): p
        for s, t, p in zip(table.source.tolist(), table.target.tolist(), table.probability.tolist(), strict=True)
    }


def plain_model_1(pairs, iterations):
    """The textbook's loops over sentences and dictionaries."""
    pairs = [([NO_SOURCE, *source], target) for source, target in pairs]
    table = {(s, t): 1.0 for source, target in pairs for s in source for t in target}
    for _ in range(iterations):
        counts = dict.fromkeys(table, 0.0)
        for source, target in pairs:
            for t in target:
                total = sum(table[s, t] for s in source)
                for s in source:
                    counts[s, t] += table[s, t] / total
        of_source = {s: sum(c for (other, _), c in counts.items() if other == s) for s, _ in counts}
        table = {(s, t): count / of_source[s] for (s, t), count in counts.items()}
    text = [t for _, target in pairs for t in target]
    return {(s, t): text.count(t) / len(text) if s == NO_SOURCE else p for (s, t), p in table.items()}


@pytest.mark.parametrize("iterations", [1, 4])
@pytest.mark.parametrize("at_a_time", [1, 2, 5])
def test_model_1_is_the_plain_definition(iterations, at_a_time):
    chunks = [PAIRS[i : i + at_a_time] for i in range(0, len(PAIRS), at_a_time)]
    given = [tuple(map(Sentences.from_lists, zip(*chunk, strict=True))) for chunk in chunks]
    found, expected = as_dict(model_1(given, iterations)), plain_model_1(PAIRS, iterations)
    assert found.keys() == expected.keys()
    np.testing.assert_allclose([found[key] for key in expected], [*expected.values()], rtol=1e-12)


def test_each_piece_finds_its_translation():
    """ "the" stands beside every word, and only company tells the words apart."""
    pairs = [([4, word], [4, word]) for word in range(5, 30)] + [([word], [word]) for word in range(5, 30)]
    table = model_1([tuple(map(Sentences.from_lists, zip(*pairs, strict=True)))])
    best = table.best(1)
    chosen = {s: t for s, t in as_dict(best) if s != NO_SOURCE}
    assert chosen == {word: word for word in range(4, 30)}


def test_no_text_gives_an_empty_table():
    assert (
        len(model_1([]).source) == len(model_1([(Sentences.from_lists([[]]), Sentences.from_lists([[]]))]).source) == 0
    )


def test_best_translations_come_first_equal_ones_by_target():
    table = LexicalTable.of(
        np.array([5, 4, 4, 4, 0, 0]), np.array([9, 9, 8, 7, 7, 6]), np.array([1, 0.2, 0.2, 0.6, 0.5, 0.5])
    )
    assert table.target.tolist() == [6, 7, 7, 8, 9, 9]
    assert table.best(2).target.tolist() == [6, 7, 7, 8, 9]
    assert table.best(1).target.tolist() == [6, 7, 7, 9]  # all of no source piece
    assert table.best(3, above=0.2).target.tolist() == [6, 7, 7, 9]


def test_a_file_is_read_as_it_was_written(tmp_path):
    table = LexicalTable.of(
        np.array([0, 4, 4, 6, 1, 5]), np.array([5, 4, 5, 4, 4, 1]), np.array([0.5, 0.25, 1, 0, 1, 1])
    )
    table.write(tmp_path / "lex", WORDS)
    assert (tmp_path / "lex").read_text() == (
        "Katze NULL 0.5000000\nKatze the 1.0000000\ndie the 0.2500000\ndie dog 0.0000000\n"
    )  # unknown words have no name
    found = as_dict(LexicalTable.read(tmp_path / "lex", WORDS))
    assert found == {(0, 5): 0.5, (4, 5): 1, (4, 4): 0.25, (6, 4): 0}


def test_files_of_marian_are_read(tmp_path):
    """Spaces and tabs, NULL on either side, a pair twice, exponents; few pieces without an id are left out."""
    (tmp_path / "lex").write_text(
        "die the 0.1\n die \t the 2e-1 \r\nNULL the 0.3\ndie NULL .25\n" + "die cat 1\n" * 40 + "x the 1\ndie y 1"
    )
    assert as_dict(LexicalTable.read(tmp_path / "lex", WORDS)) == {(4, 4): 0.2, (0, 4): 0.25, (5, 4): 1}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty; make a shortlist with"),
        ("NULL the 0.5\n", "is empty"),
        ("die the 0.5\ndie the\n", "line 2 of .* is not a target piece, a source piece and a probability: 'die the'"),
        ("die the x\n", "line 1 of"),
        ("die the 0.5 1\n", "line 1 of"),
        ("die the 1.5\n", "line 1 of"),
        ("die the nan\n", "line 1 of"),
        ("\n", "line 1 of"),
        ("die the 0.5\nder the 0.5\n", "1 of the 2 lines .* made with another vocabulary"),
        ("the die 0.5\n", "its columns are not target, source, probability"),
    ],
)
def test_other_files_are_refused(text, message, tmp_path):
    (tmp_path / "lex").write_text(text)
    with pytest.raises(UserError, match=message):
        LexicalTable.read(tmp_path / "lex", WORDS)
    with pytest.raises(UserError, match="nowhere"):
        LexicalTable.read(tmp_path / "nowhere", WORDS)


def test_names_hold_no_space_and_are_not_null():
    names = piece_names(PieceVocabulary("characters", [*SPECIAL, "a", " ", "NULL", "\u3000"]))
    assert names == {4: "a", 5: "▁", 7: "▁"}
