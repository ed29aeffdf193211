"""Trees as sequences of symbols, and trees of whatever sequence."""

import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minitf.errors import UserError
from minitf.parsing.linearise import Repairs, delinearise, linearise
from minitf.parsing.trees import MAX_DEPTH, Leaf, Tree, clean, read_trees, trees_of
from tests.minitf.parsing.strategies import TOKENS, TREES, WORDS


def tree(text):
    (found,) = trees_of([text], "text")
    return found


def mended(tokens, words, leaves):
    found, repairs = delinearise(tokens.split(), words.split(), leaves)
    return str(found), repairs


CAT = tree("(TOP (S (NP (DT the) (NN cat)) (, ,) (VP (VBZ sleeps)) (-RRB- -RRB-)))")
LEAVES = pytest.mark.parametrize("leaves", ["words", "tags"])


@pytest.mark.parametrize(
    ("tags", "leaves", "expected"),
    [
        ("pos", "words", "(S (NP the (DT) cat (NN) )NP , (,) (VP sleeps (VBZ) )VP -RRB- (-RRB-) )S"),
        ("xx", "words", "(S (NP the cat )NP , (,) (VP sleeps )VP -RRB- (-RRB-) )S"),
        ("pos", "tags", "(S (NP (DT) (NN) )NP (,) (VP (VBZ) )VP (-RRB-) )S"),
        ("xx", "tags", "(S (NP (XX) (XX) )NP (,) (VP (XX) )VP (-RRB-) )S"),
    ],
)
def test_by_hand(tags, leaves, expected):
    assert " ".join(linearise(CAT, tags, leaves)) == expected


def test_unknown_choices():
    with pytest.raises(UserError, match="tags='XX' is unknown; choose pos or xx"):
        linearise(CAT, "XX")
    with pytest.raises(UserError, match="leaves='none' is unknown; choose words or tags"):
        linearise(CAT, "pos", "none")


@LEAVES
@settings(deadline=None)
@given(TREES)
def test_there_and_back(leaves, made):
    assert delinearise(linearise(made, "pos", leaves), made.words(), leaves) == (made, Repairs())


@LEAVES
@settings(deadline=None)
@given(TREES)
def test_without_parts_of_speech_the_constituents_come_back(leaves, made):
    found, repairs = delinearise(linearise(made, "xx", leaves), made.words(), leaves)
    assert not repairs
    assert found.words() == made.words()
    assert linearise(found, "xx", leaves) == linearise(made, "xx", leaves)


@LEAVES
@settings(deadline=None)
@given(TOKENS, st.lists(WORDS, min_size=1, max_size=12))
def test_whatever_the_sequence_there_is_a_tree_over_all_words(leaves, tokens, words):
    found, repairs = delinearise(tokens, words, leaves)
    assert found.words() == words
    assert list(trees_of([str(found)], "text")) == [found]  # no constituent is empty
    assert delinearise(linearise(found, "pos", leaves), words, leaves) == (found, Repairs())
    if not repairs:
        assert linearise(found, "xx" if leaves == "words" else "pos", leaves) == [
            token for token in tokens if leaves == "tags" or not token[1:].startswith(("NN)", "DT)", "PRP$)"))
        ]


@LEAVES
@settings(deadline=None)
@given(TREES, st.data())
def test_a_single_slip_is_counted_and_mended(leaves, made, data):
    tokens = linearise(made, "xx", leaves)
    place = data.draw(st.integers(0, len(tokens) - 1))
    if leaves == "words" and tokens[place].startswith("(") and tokens[place].endswith(")"):
        return  # a word without a tag is as good as any
    found, repairs = delinearise(tokens[:place] + tokens[place + 1 :], made.words(), leaves)
    assert found.words() == made.words()
    assert repairs


@pytest.mark.parametrize(
    ("tokens", "words", "expected", "repairs"),
    [
        ("(S (NN) )S", "a", "(TOP (S (NN a)))", Repairs()),
        ("(S (NN)", "a", "(TOP (S (NN a)))", Repairs(unclosed=1)),
        ("(S (NP (NN) )S", "a", "(TOP (S (NP (NN a))))", Repairs(unclosed=1)),
        ("(S (NP (NN) )VP (VB) )S", "a b", "(TOP (S (NP (NN a)) (VB b)))", Repairs(mislabelled=1)),
        (")S (NN) )S", "a", "(TOP (NN a))", Repairs(unopened=2)),
        ("(S (NP )NP (NN) )S", "a", "(TOP (S (NN a)))", Repairs(empty=1)),
        ("(S (NN) )S", "a b c", "(TOP (S (NN a) (XX b) (XX c)))", Repairs(missing_words=2)),
        ("(S (NN) )S (NN)", "a b c", "(TOP (S (NN a)) (NN b) (XX c))", Repairs(missing_words=1)),
        ("(S (NN) (NN) )S (X (NN) )X", "a", "(TOP (S (NN a)))", Repairs(surplus_words=2, empty=1)),
        ("(S the (NN) () )S", "a", "(TOP (S (NN a)))", Repairs(not_tokens=2)),
        ("", "a b", "(TOP (XX a) (XX b))", Repairs(missing_words=2)),
        ("(S " * MAX_DEPTH + "(NN)" + " )S" * MAX_DEPTH, "a", None, Repairs(too_deep=2)),
    ],
)
def test_each_repair_of_tags(tokens, words, expected, repairs):
    found, counted = mended(tokens, words, "tags")
    assert expected is None or found == expected
    assert counted == repairs
    assert len(list(trees_of([found], "text"))) == 1


@pytest.mark.parametrize(
    ("tokens", "words", "expected", "repairs"),
    [
        ("(S a (NN) b )S", "a b", "(TOP (S (NN a) (XX b)))", Repairs()),
        ("(S a (NN) )S", "a , b .", "(TOP (S (NN a) (, ,) (XX b) (. .)))", Repairs(missing_words=3)),
        ("(S a (NN) c (VB) )S", "a b c", "(TOP (S (NN a) (XX b) (VB c)))", Repairs(missing_words=1)),
        ("(S a (NN) e (VB) )S", "a b", "(TOP (S (NN a) (VB b)))", Repairs(misspelled=1)),
        ("(S (NP a (NN) )NP (VB) )S", "a b", "(TOP (S (NP (NN a)) (XX b)))", Repairs(stray_tags=1, missing_words=1)),
        ("(S a (NN) (VB) b (DT) )S", "a b", "(TOP (S (NN a) (DT b)))", Repairs(stray_tags=1)),
        ("(S a (NN) b (NN) c (VB) )S", "a", "(TOP (S (NN a)))", Repairs(surplus_words=2, stray_tags=2)),
        ("(S () a (NN) )S", "a", "(TOP (S (NN a)))", Repairs(not_tokens=1)),
        ("", "a b", "(TOP (XX a) (XX b))", Repairs(missing_words=2)),
    ],
)
def test_each_repair_of_words(tokens, words, expected, repairs):
    assert mended(tokens, words, "words") == (expected, repairs)


def test_words_with_spaces_in_them_come_back():
    words = ["a\u00a0b", "\u2009", "cafe\u0301"]
    made = Tree("TOP", (Tree("NP", tuple(Leaf("NN", word) for word in words)),))
    tokens = linearise(made)
    assert tokens == ["(NP", "ab", "(NN)", "_", "(NN)", "caf\u00e9", "(NN)", ")NP"]
    assert delinearise(tokens, words) == (made, Repairs())


def test_no_words_no_tree():
    with pytest.raises(UserError, match="at least one word"):
        delinearise(["(S", ")S"], [])


def test_repairs_add_up_and_are_told():
    total = Repairs(unclosed=1)
    assert not Repairs()
    assert str(Repairs()) == "none"
    total.add(Repairs(unclosed=2, missing_words=1200))
    assert total == Repairs(unclosed=3, missing_words=1200)
    assert str(total) == "3 unclosed, 1,200 missing words"


@pytest.mark.slow
@pytest.mark.skipif("MINITF_DATA" not in os.environ, reason="MINITF_DATA names no folder of corpora")
def test_a_real_treebank_there_and_back():
    count = 0
    for found in read_trees(Path(os.environ["MINITF_DATA"]) / "treebank" / "craft.mrg.gz"):
        cleaned = clean(found)
        assert isinstance(cleaned, Tree)
        leaves = "words" if count % 2 else "tags"
        assert delinearise(linearise(cleaned, "pos", leaves), cleaned.words(), leaves) == (cleaned, Repairs())
        count += 1
    assert count == 30_830
