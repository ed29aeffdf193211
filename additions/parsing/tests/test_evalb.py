"""EVALB's figures, on sentences worked out by hand and on the sample that its authors publish."""

import os
import random
import re
from dataclasses import replace
from pathlib import Path

import pytest

from additions.parsing.evalb import (
    ERROR,
    SKIPPED,
    Parameters,
    read_bracketing,
    read_parameters,
    score_sentence,
    score_trees,
)
from minitf.data.text import read_lines
from minitf.errors import UserError

NONE = Parameters(delete_labels=frozenset(), equal_labels=frozenset())


def score(gold, test, parameters=NONE):
    return score_sentence(1, gold, test, parameters)


def counts(gold, test, parameters=NONE):
    found = score(gold, test, parameters)
    assert found.status == 0, found.fault
    return found.matched, found.gold, found.test


@pytest.mark.skipif("MINITF_DATA" not in os.environ, reason="MINITF_DATA names no folder of corpora")
def test_the_published_sample_figure_by_figure():
    """Letter by letter, but for the line with F1, which EVALB has printed only since the sample was published."""
    folder = Path(os.environ["MINITF_DATA"]) / "treebank" / "evalb"
    parameters = read_parameters(folder / "sample.prm")
    report = score_trees(read_lines(folder / "sample.gld"), read_lines(folder / "sample.tst"), parameters)
    printed = str(report).split("\n")
    without_f1 = [line for line in printed if not line.startswith("Bracketing FMeasure")]
    assert len(printed) - len(without_f1) == 2
    assert without_f1 == (folder / "sample.rsl").read_text().rstrip("\n").split("\n")
    assert report.all.f1 == pytest.approx(2 * 86 / (98 + 95) * 100)


@pytest.mark.parametrize(
    ("gold", "test", "expected"),
    [
        ("(S (A (P a)) (B (Q b)))", "(S (A (P a)) (B (Q b)))", (3, 3, 3)),
        ("(S (A (P a)) (B (Q b)))", "(S (A (P a)) (C (Q b)))", (2, 3, 3)),
        ("(S (A (P a)) (B (Q b)))", "(S (P a) (Q b))", (1, 3, 1)),
        ("(S (P a) (Q b))", "(P a) (Q b)", (0, 1, 0)),
        ("(S (A (A (P a))))", "(S (A (P a)))", (2, 3, 2)),  # each gold bracket needs one of its own
        ("(S (A-SBJ-1 (P a)) (B=2 (Q b)))", "(S (A (P a)) (B-X (Q b)))", (3, 3, 3)),
        ("( (S (P a)))", "(TOP (S (P a)))", (1, 2, 2)),  # a root without a label is a bracket like others
    ],
)
def test_matched_brackets(gold, test, expected):
    assert counts(gold, test) == expected


def test_deleted_labels():
    parameters = replace(NONE, delete_labels=frozenset({"TOP", ",", "-NONE-"}))
    gold = "(TOP (S (NP (, ,) (N a)) (X (-NONE- *)) (V b)))"
    assert counts(gold, "(S (, ,) (NP (N a)) (V b))", parameters) == (2, 2, 2)
    assert score(gold, gold).words == 4
    assert score(gold, gold, parameters).words == 2
    assert counts("(S (TOP (N a)))", "(S (N a))", parameters) == (1, 1, 1)  # the bracket goes, what is in it stays


def test_equal_labels_and_words():
    parameters = replace(NONE, equal_labels=frozenset({("A", "B")}), equal_words=frozenset({("this", "This")}))
    for one, other in ((("A", "this"), ("B", "This")), (("B", "This"), ("A", "this"))):
        gold, test = (f"(S ({label} ({label} {word})))" for label, word in (one, other))
        assert counts(gold, test, parameters) == (2, 2, 2)
        assert score(gold, test, parameters).correct_tags == 1
        assert score(gold, test).status == ERROR
    assert counts("(S (A (N a)))", "(S (B (N a)))") == (1, 2, 2)
    deleting = replace(parameters, delete_labels=frozenset({"A"}))
    assert counts("(S (B (N a)))", "(S (N a))", deleting) == (1, 1, 1)  # equal to a deleted label is deleted, too


def test_unlabelled():
    assert counts("(S (A (N a)) (N b))", "(X (Y (N a)) (N b))", replace(NONE, labelled=False)) == (2, 2, 2)


def test_crossing_counts_brackets_of_the_parser():
    gold = "(S (A (N a) (N b)) (B (N c) (N d)))"
    assert score(gold, "(S (N a) (X (Y (N b) (N c))) (N d))").crossing == 2
    assert score(gold, "(S (X (N a)) (N b) (N c) (Y (N d)))").crossing == 0
    assert score(gold, "(S (X (N a) (N b) (N c)) (N d))").crossing == 1
    assert score("(S (N a) (X (Y (N b) (N c))) (N d))", gold).crossing == 2


def test_tags_are_compared_whole():
    assert score("(S (N-1 a) (V b))", "(S (N a) (V b))").correct_tags == 1


@pytest.mark.parametrize(
    ("gold", "test", "status", "fault"),
    [
        ("(S (N a))", "", SKIPPED, "no words"),
        ("(S (N a) (N b))", "(S (N a))", ERROR, "Length unmatch (2|1)"),
        ("(S (N a) (N b))", "(S (N a) (N c))", ERROR, "Words unmatch (b|c)"),
        ("(S (N a))", "(S (N a)))", ERROR, "test: too many closing brackets"),
        ("(S (N a)", "(S (N a))", ERROR, "gold: too many opening brackets"),
        ("(S (N a))", "(S (N a) b)", ERROR, "test: text outside of a leaf at character 10"),
    ],
)
def test_what_cannot_be_compared(gold, test, status, fault):
    found = score(gold, test)
    assert (found.status, found.fault) == (status, fault)
    assert (found.matched, found.gold, found.test, found.correct_tags) == (0, 0, 0, 0)


def test_a_quotation_mark_deleted_on_one_side_only():
    parameters = replace(NONE, delete_labels=frozenset({"''"}), quote_labels=frozenset({"''", "POS"}))
    gold, test = "(S (A (N a) ('' ')) (B (N b)))", "(S (A (N a) (POS ')) (B (N b)))"
    assert score(gold, test, replace(parameters, quote_labels=frozenset())).status == ERROR
    assert counts(gold, test, parameters) == (3, 3, 3)
    assert score(gold, test, parameters).words == 3
    assert counts(test, gold, parameters) == (3, 3, 3)


def test_lengths_and_the_second_summary():
    parameters = replace(NONE, cutoff_length=2, delete_labels_for_length=frozenset({"X"}))
    three, two = "(S (N a) (N b) (X c))", "(S (N a) (N b) (N c))"
    report = score_trees([three, two], [three, two], parameters)
    assert [row.length for row in report.scores] == [2, 3]
    assert (report.all.sentences, report.short.sentences) == (2, 1)


def test_summary_by_hand():
    gold = ["(S (A (N a)) (B (N b)))", "(S (A (N a)) (B (N b)))", "(S (N a))", "(S (N a))"]
    test = ["(S (A (N a)) (B (M b)))", "(S (C (N a)) (N b))", "", "(S (N z))"]
    total = score_trees(gold, test, NONE).all
    assert (total.sentences, total.valid, total.errors, total.skipped) == (4, 2, 1, 1)
    assert (total.matched, total.gold, total.test) == (4, 6, 5)
    assert total.recall == pytest.approx(400 / 6)
    assert total.precision == pytest.approx(80)
    assert total.f1 == pytest.approx(2 * total.recall * total.precision / (total.recall + total.precision))
    assert (total.complete_match, total.tagging_accuracy) == (50, 75)


def test_nothing_valid_divides_by_nothing():
    total = score_trees(["(S (N a))"], [""], NONE).all
    assert (total.recall, total.precision, total.f1, total.complete_match, total.average_crossing) == (0, 0, 0, 0, 0)


def test_different_numbers_of_lines():
    with pytest.raises(UserError, match=re.escape("the gold trees go on after line 1, where the test trees end")):
        score_trees(["(S (N a))"] * 2, ["(S (N a))"])
    with pytest.raises(UserError, match=re.escape("the test trees go on after line 0")):
        score_trees([], ["(S (N a))"])
    with pytest.raises(UserError, match="no tree to score"):
        score_trees([], [])


def test_too_many_errors():
    """EVALB stops when it finds another one after it has told of MAX_ERROR + 1."""
    parameters = replace(NONE, max_errors=2)
    assert score_trees(["(S (N a))"] * 3, ["(S (N b))"] * 3, parameters).all.errors == 3
    with pytest.raises(UserError, match=re.escape("line 4 is error number 4: Words unmatch (a|b)")):
        score_trees(["(S (N a))"] * 4, ["(S (N b))"] * 4, parameters)


def test_the_parameter_file(tmp_path):
    path = tmp_path / "x.prm"
    path.write_text(
        "## a comment\nDEBUG 0\nMAX_ERROR 7\nCUTOFF_LEN 30  \nLABELED 0\n\nDELETE_LABEL TOP\nDELETE_LABEL ``\n"
        "DELETE_LABEL_FOR_LENGTH -NONE-\nQUOTE_LABEL ''\nEQ_LABEL T TT\nEQ_WORD  This this\n"
    )
    assert read_parameters(path) == Parameters(
        delete_labels=frozenset({"TOP", "``"}),
        delete_labels_for_length=frozenset({"-NONE-"}),
        quote_labels=frozenset({"''"}),
        equal_labels=frozenset({("T", "TT")}),
        equal_words=frozenset({("This", "this")}),
        labelled=False,
        cutoff_length=30,
        max_errors=7,
    )


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("DELET_LABEL X", "'DELET_LABEL' is not a parameter; EVALB's are DELETE_LABEL"),
        ("EQ_LABEL A", "EQ_LABEL takes two words"),
        ("DELETE_LABEL", "DELETE_LABEL takes one label"),
        ("CUTOFF_LEN forty", "CUTOFF_LEN takes a whole number"),
    ],
)
def test_a_parameter_file_that_cannot_be_read(tmp_path, line, message):
    path = tmp_path / "x.prm"
    path.write_text(f"DEBUG 0\n{line}\n")
    with pytest.raises(UserError, match=re.escape(message)) as caught:
        read_parameters(path)
    assert f"{path}, line 2" in str(caught.value)


def test_brackets_and_words_of_a_line():
    read = read_bracketing("(S (A (P a)) (B (Q\tb ) (C)))")
    assert read.terminals == [("P", "a"), ("Q", "b")]
    assert read.brackets == [("S", 0, 2), ("A", 0, 1), ("B", 1, 2), ("C", 2, 2)]
    assert not read.fault


def test_recall_of_one_is_precision_of_the_other():
    generator = random.Random(1)

    def grow(words):
        if len(words) == 1 or generator.random() < 0.2:
            return f"({generator.choice('AB')} " + " ".join(f"(N {word})" for word in words) + ")"
        cut = generator.randrange(1, len(words))
        return f"({generator.choice('AB')} {grow(words[:cut])} {grow(words[cut:])})"

    words = [list("abcdefg")[: generator.randint(1, 7)] for _ in range(200)]
    one, other = [grow(each) for each in words], [grow(each) for each in words]
    there, back = score_trees(one, other, NONE).all, score_trees(other, one, NONE).all
    assert there.recall == back.precision
    assert there.f1 == back.f1
    assert 0 < there.f1 < 100
    assert there.gold > there.matched
