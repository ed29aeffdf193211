"""Trees as sequences of symbols, and trees of whatever sequence."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minitf.errors import UserError
from minitf.parsing.linearise import Repairs, delinearise, linearise
from minitf.parsing.trees import MAX_DEPTH, Tree, clean, read_trees, trees_of
from tests.minitf.parsing.strategies import SYMBOLS, TREES, WORDS


def tree(text):
    (found,) = trees_of([text], "text")
    return found


def mended(symbols, words):
    found, repairs = delinearise(symbols.split(), words.split())
    return str(found), repairs


CAT = tree("(TOP (S (NP (DT the) (NN cat)) (, ,) (VP (VBZ sleeps)) (-RRB- -RRB-)))")


def test_by_hand():
    assert " ".join(linearise(CAT)) == "(S (NP (DT) (NN) )NP (,) (VP (VBZ) )VP (-RRB-) )S"
    assert " ".join(linearise(CAT, "xx")) == "(S (NP (XX) (XX) )NP (,) (VP (XX) )VP (-RRB-) )S"
    with pytest.raises(UserError, match="tags='XX' is unknown; choose pos or xx"):
        linearise(CAT, "XX")


@given(TREES)
def test_there_and_back(made):
    assert delinearise(linearise(made), made.words()) == (made, Repairs())


@given(TREES)
def test_without_parts_of_speech_the_constituents_come_back(made):
    found, repairs = delinearise(linearise(made, "xx"), made.words())
    assert not repairs
    assert found.words() == made.words()
    assert linearise(found, "xx") == linearise(made, "xx")


@given(SYMBOLS, st.lists(WORDS, min_size=1, max_size=12))
def test_whatever_the_sequence_there_is_a_tree_over_all_words(symbols, words):
    found, repairs = delinearise(symbols, words)
    assert found.words() == words
    assert list(trees_of([str(found)], "text")) == [found]  # no constituent is empty
    assert delinearise(linearise(found), words) == (found, Repairs())
    assert bool(repairs) == (linearise(found) != symbols)


@given(TREES, st.data())
def test_a_single_slip_is_counted_and_mended(made, data):
    symbols = linearise(made)
    place = data.draw(st.integers(0, len(symbols) - 1))
    found, repairs = delinearise(symbols[:place] + symbols[place + 1 :], made.words())
    assert repairs
    assert found.words() == made.words()


@pytest.mark.parametrize(
    ("symbols", "words", "expected", "repairs"),
    [
        ("(S (NN) )S", "a", "(TOP (S (NN a)))", Repairs()),
        ("(S (NN)", "a", "(TOP (S (NN a)))", Repairs(unclosed=1)),
        ("(S (NP (NN) )S", "a", "(TOP (S (NP (NN a))))", Repairs(unclosed=1)),
        ("(S (NP (NN) )VP (VB) )S", "a b", "(TOP (S (NP (NN a)) (VB b)))", Repairs(mislabelled=1)),
        (")S (NN) )S", "a", "(TOP (NN a))", Repairs(unopened=2)),
        ("(S (NP )NP (NN) )S", "a", "(TOP (S (NN a)))", Repairs(empty=1)),
        ("(S (NN) )S", "a b c", "(TOP (S (NN a) (XX b) (XX c)))", Repairs(missing_leaves=2)),
        ("(S (NN) )S (NN)", "a b c", "(TOP (S (NN a)) (NN b) (XX c))", Repairs(missing_leaves=1)),
        ("(S (NN) (NN) )S (X (NN) )X", "a", "(TOP (S (NN a)))", Repairs(surplus_leaves=2, empty=1)),
        ("(S the (NN) ⁇ )S", "a", "(TOP (S (NN a)))", Repairs(not_symbols=2)),
        ("", "a b", "(TOP (XX a) (XX b))", Repairs(missing_leaves=2)),
        ("(S " * MAX_DEPTH + "(NN)" + " )S" * MAX_DEPTH, "a", None, Repairs(too_deep=2)),
    ],
)
def test_each_repair(symbols, words, expected, repairs):
    found, counted = mended(symbols, words)
    assert expected is None or found == expected
    assert counted == repairs
    assert len(list(trees_of([found], "text"))) == 1


def test_no_words_no_tree():
    with pytest.raises(UserError, match="at least one word"):
        delinearise(["(S", ")S"], [])


def test_repairs_add_up_and_are_told():
    total = Repairs(unclosed=1)
    assert not Repairs()
    assert str(Repairs()) == "none"
    total.add(Repairs(unclosed=2, missing_leaves=1200))
    assert total == Repairs(unclosed=3, missing_leaves=1200)
    assert str(total) == "3 unclosed, 1,200 missing leaves"


@pytest.mark.slow
@pytest.mark.skipif("MINITF_DATA" not in os.environ, reason="MINITF_DATA names no folder of corpora")
def test_a_real_treebank_there_and_back():
    count = 0
    for found in read_trees(Path(os.environ["MINITF_DATA"]) / "treebank" / "craft.mrg.gz"):
        cleaned = clean(found)
        assert isinstance(cleaned, Tree)
        assert delinearise(linearise(cleaned), cleaned.words()) == (cleaned, Repairs())
        count += 1
    assert count == 30_830
