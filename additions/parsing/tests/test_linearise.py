"""Trees as sequences of symbols, and trees of whatever sequence."""

import os
import re
from itertools import combinations
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from additions.parsing.linearise import (
    Repairs,
    delinearise,
    is_mistagged,
    linearise,
    parts,
    place_tags,
    retag_punctuation,
)
from additions.parsing.tests.made_trees import TOKENS, TREES, WORDS
from additions.parsing.trees import MAX_DEPTH, Tree, clean, read_trees, trees_of
from minitf.errors import UserError


def tree(text):
    (found,) = trees_of([text], "text")
    return found


def mended(tokens, words):
    found, repairs = delinearise(tokens.split(), words.split())
    return str(found), repairs


CAT = tree("(TOP (S (NP (DT the) (NN cat)) (, ,) (VP (VBZ sleeps)) (-RRB- -RRB-)))")
FORMS = pytest.mark.parametrize("form", ["joined", "symbols"])


@pytest.mark.parametrize(
    ("tags", "form", "expected"),
    [
        ("pos", "joined", "(S(NP(DT) (NN)) (,) (VP(VBZ)) (-RRB-))"),
        ("xx", "joined", "(S(NP(XX) (XX)) (,) (VP(XX)) (-RRB-))"),
        ("pos", "symbols", "(S (NP (DT) (NN) )NP (,) (VP (VBZ) )VP (-RRB-) )S"),
        ("xx", "symbols", "(S (NP (XX) (XX) )NP (,) (VP (XX) )VP (-RRB-) )S"),
    ],
)
def test_by_hand(tags, form, expected):
    assert " ".join(linearise(CAT, tags, form)) == expected


def test_unknown_choices():
    with pytest.raises(UserError, match="tags='XX' is unknown; choose pos or xx"):
        linearise(CAT, "XX")
    with pytest.raises(UserError, match="form='none' is unknown; choose joined or symbols"):
        linearise(CAT, "pos", "none")


@pytest.mark.heavy
@FORMS
@settings(deadline=None)
@given(TREES)
def test_there_and_back(form, made):
    assert delinearise(linearise(made, "pos", form), made.words()) == (made, Repairs())


@pytest.mark.heavy
@settings(deadline=None)
@given(TREES)
def test_joined_there_is_a_token_for_each_word(made):
    tokens = linearise(made)
    assert len(tokens) == len(made.words())
    assert [part for token in tokens for part in parts(token)] == [
        symbol if symbol[0] == "(" else ")" for symbol in linearise(made, "pos", "symbols")
    ]


@pytest.mark.heavy
@FORMS
@settings(deadline=None)
@given(TREES)
def test_without_parts_of_speech_the_constituents_come_back(form, made):
    found, repairs = delinearise(linearise(made, "xx", form), made.words())
    assert not repairs
    assert found.words() == made.words()
    assert linearise(found, "xx", form) == linearise(made, "xx", form)


@settings(deadline=None)
@given(TOKENS, st.lists(WORDS, min_size=1, max_size=12))
def test_whatever_the_sequence_there_is_a_tree_over_all_words(tokens, words):
    found, repairs = delinearise(tokens, words)
    assert found.words() == words
    assert list(trees_of([str(found)], "text")) == [found]  # no constituent is empty
    for form in ("joined", "symbols"):
        assert delinearise(linearise(found, "pos", form), words) == (found, Repairs())
    if not repairs:
        assert "".join(linearise(found)) == "".join(re.sub(r"\)\w.*|\)[?]", ")", token) for token in tokens)


@pytest.mark.heavy
@settings(deadline=None)
@given(TREES, st.data())
def test_a_single_slip_is_counted_and_mended(made, data):
    symbols = linearise(made, "pos", "symbols")
    place = data.draw(st.integers(0, len(symbols) - 1))
    found, repairs = delinearise(symbols[:place] + symbols[place + 1 :], made.words())
    assert repairs
    assert found.words() == made.words()


@settings(deadline=None)
@given(
    st.lists(st.sampled_from(["NN", ",", ".", ":"]), max_size=7),
    st.lists(st.sampled_from(["a", ",", ".", ";"]), max_size=7),
)
def test_no_other_places_of_the_tags_are_nearer(tags, words):
    def cost(places):
        """Of an increasing sequence of places, as the docstring defines it."""
        pairs = [(tag, words[place]) for tag, place in zip(tags, places, strict=True) if place is not None]
        return len(tags) + len(words) - 2 * len(pairs) + 2 * sum(is_mistagged(word, tag) for tag, word in pairs)

    found = place_tags(tags, words)
    used = [place for place in found if place is not None]
    assert used == sorted(set(used))
    if len(tags) == len(words):
        assert found == list(range(len(words)))
        return
    choices = (
        (chosen, places)
        for count in range(min(len(tags), len(words)) + 1)
        for chosen in combinations(range(len(tags)), count)
        for places in combinations(range(len(words)), count)
    )
    every = ([dict(zip(chosen, places, strict=True)).get(k) for k in range(len(tags))] for chosen, places in choices)
    assert cost(found) == min(map(cost, every))


@pytest.mark.parametrize(
    ("tokens", "words", "expected", "repairs"),
    [
        ("(S (NN) )S", "a", "(TOP (S (NN a)))", Repairs()),
        ("(S(NP(NN)) (VB))", "a b", "(TOP (S (NP (NN a)) (VB b)))", Repairs()),
        ("(S (NN)", "a", "(TOP (S (NN a)))", Repairs(unclosed=1)),
        ("(S(NP(NN) (NN))", "a b", "(TOP (S (NP (NN a) (NN b))))", Repairs(unclosed=1)),
        ("(S (NP (NN) )S", "a", "(TOP (S (NP (NN a))))", Repairs(unclosed=1)),
        ("(S (NP (NN) )VP (VB) )S", "a b", "(TOP (S (NP (NN a)) (VB b)))", Repairs(mislabelled=1)),
        (")S (NN) )S", "a", "(TOP (NN a))", Repairs(unopened=2)),
        ("(NN)))", "a", "(TOP (NN a))", Repairs(unopened=2)),
        ("(S (NP )NP (NN) )S", "a", "(TOP (S (NN a)))", Repairs(empty=1)),
        ("(S (NN) )S", "a b .", "(TOP (S (NN a) (XX b) (. .)))", Repairs(missing_tags=2)),
        ("(S (NN) )S (NN)", "a b c", "(TOP (S (NN a)) (NN b) (XX c))", Repairs(missing_tags=1)),
        ("(S (NN) (NN) )S (X (NN) )X", "a", "(TOP (S (NN a)))", Repairs(surplus_tags=2, empty=1)),
        # punctuation tells where the count was lost
        (
            "(S(NP(DT)) (,) (VB) (.))",
            "a b , c .",
            "(TOP (S (NP (DT a) (XX b)) (, ,) (VB c) (. .)))",
            Repairs(missing_tags=1),
        ),
        (
            "(S(NP(DT) (NN)) (,) (VB) (.))",
            "a , c .",
            "(TOP (S (NP (DT a)) (, ,) (VB c) (. .)))",
            Repairs(surplus_tags=1),
        ),
        (
            "(S(-LRB-) (NN) (-RRB-))",
            "a -LRB- b -RRB- c",
            "(TOP (S (XX a) (-LRB- -LRB-) (NN b) (-RRB- -RRB-) (XX c)))",
            Repairs(missing_tags=2),
        ),
        ("(S (NN) (.) )S", ". a .", "(TOP (S (. .) (NN a) (. .)))", Repairs(missing_tags=1)),
        ("(S the (NN) ( )S", "a", "(TOP (S (NN a)))", Repairs(no_brackets=2)),
        ("(Sthe(NN)) ⁇", "a", "(TOP (Sthe (NN a)))", Repairs(no_brackets=1)),
        ("", "a b", "(TOP (XX a) (XX b))", Repairs(missing_tags=2)),
        ("(S " * MAX_DEPTH + "(NN)" + " )S" * MAX_DEPTH, "a", None, Repairs(too_deep=2)),
    ],
)
def test_each_repair(tokens, words, expected, repairs):
    found, counted = mended(tokens, words)
    assert expected is None or found == expected
    assert counted == repairs
    assert len(list(trees_of([found], "text"))) == 1


@pytest.mark.parametrize(
    ("tree", "expected", "count"),
    [
        ("(TOP (S (NN a) (. .)))", None, 0),
        ("(TOP (S (NP (. spade)) (NN .)))", "(TOP (S (NP (XX spade)) (. .)))", 2),
        ("(TOP (S (NN ?) (NN ;) (NN -LRB-)))", "(TOP (S (. ?) (: ;) (-LRB- -LRB-)))", 3),
        ("(TOP (: .) (: -) (NN -) ('' ') (SYM :) (, ;))", None, 0),  # other punctuation, and what may be either
        ("(TOP (S (-RRB- ,) (, :) (: ]) (NN “)))", "(TOP (S (, ,) (: :) (-RRB- ]) (`` “)))", 4),  # another mark's
        ("(TOP (S (, -) (. /) (SYM =)))", "(TOP (S (XX -) (XX /) (SYM =)))", 2),
    ],
)
def test_words_are_not_tagged_as_punctuation_nor_punctuation_as_words(tree, expected, count):
    repairs = Repairs()
    (made,) = trees_of([tree], "text")
    assert str(retag_punctuation(made, repairs)) == (expected or tree)
    assert repairs == Repairs(mistagged=count)


def test_no_words_no_tree():
    with pytest.raises(UserError, match="at least one word"):
        delinearise(["(S", ")S"], [])


def test_repairs_add_up_and_are_told():
    total = Repairs(unclosed=1)
    assert not Repairs()
    assert str(Repairs()) == "none"
    total.add(Repairs(unclosed=2, missing_tags=1200))
    assert total == Repairs(unclosed=3, missing_tags=1200)
    assert str(total) == "3 unclosed, 1,200 missing tags"


@pytest.mark.slow
@pytest.mark.skipif("MINITF_DATA" not in os.environ, reason="MINITF_DATA names no folder of corpora")
def test_a_real_treebank_there_and_back():
    count = 0
    for found in read_trees(Path(os.environ["MINITF_DATA"]) / "treebank" / "craft.mrg.gz"):
        cleaned = clean(found)
        assert isinstance(cleaned, Tree)
        form = "joined" if count % 2 else "symbols"
        assert delinearise(linearise(cleaned, "pos", form), cleaned.words()) == (cleaned, Repairs())
        count += 1
    assert count == 30_830
