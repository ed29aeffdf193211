"""Trees in brackets."""

import gzip
import re

import pytest
from hypothesis import given, settings

from additions.parsing.tests.made_trees import TREES
from additions.parsing.trees import MAX_DEPTH, Leaf, Tree, as_token, clean, plain_label, read_trees, tokenize, trees_of
from minitf.data.text import normalise
from minitf.errors import UserError

CAT = "(TOP (S (NP (DT the) (NN cat)) (VP (VBZ sleeps)) (. .)))"


def tree(text):
    (found,) = trees_of([text], "text")
    return found


def test_a_tree_by_hand():
    found = tree(CAT)
    assert found == Tree(
        "TOP",
        (
            Tree(
                "S",
                (
                    Tree("NP", (Leaf("DT", "the"), Leaf("NN", "cat"))),
                    Tree("VP", (Leaf("VBZ", "sleeps"),)),
                    Leaf(".", "."),
                ),
            ),
        ),
    )
    assert found.words() == ["the", "cat", "sleeps", "."]
    assert str(found) == CAT


@pytest.mark.heavy
@settings(deadline=None)
@given(TREES)
def test_what_is_written_is_read(made):
    assert list(trees_of([str(made)], "text")) == [made]


def test_a_tree_over_several_lines_and_several_on_one(tmp_path):
    lines = ["( (S", "  (NP (NN a))", "", "  (VP", "(VB b))) )  (X (NN c)) (NN d)", ""]
    expected = ["( (S (NP (NN a)) (VP (VB b))))", "(X (NN c))", "( (NN d))"]
    assert [str(found) for found in trees_of(lines, "text")] == expected
    path = tmp_path / "trees.mrg.gz"
    path.write_bytes(gzip.compress("\n".join(lines).encode()))
    assert [str(found) for found in read_trees(path)] == expected


def test_only_ascii_spaces_separate():
    assert tree("(NP (NN a\u00a0b)\t(NN c\u2009))").words() == ["a\u00a0b", "c\u2009"]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["(S (NN a))", "(S (NN a)"], "text, line 2: the bracket opened in line 2 is never closed"),
        (["(S (NN a)))"], "line 1: ')' is outside"),
        (["cat (S (NN a))"], "line 1: 'cat' is outside"),
        (["(S", "(NN a) word)"], "line 2: (S word…) is neither a leaf"),
        (["(S (NN a b))"], "(NN a b…) is neither a leaf"),
        (["(S (NN))"], "(NN…) is neither a leaf"),
        (["(S ())"], "(…) is neither a leaf"),
        (["(" * (MAX_DEPTH + 1)], f"more than {MAX_DEPTH} brackets"),
    ],
)
def test_what_is_no_tree_is_refused_with_its_line(lines, message):
    with pytest.raises(UserError, match=re.escape(message)):
        list(trees_of(lines, "text"))


def test_the_deepest_tree_can_be_read_written_and_cleaned():
    deep = tree("(S " * (MAX_DEPTH - 1) + "(NN a)" + ")" * (MAX_DEPTH - 1))
    assert str(clean(deep)).count("(S ") == MAX_DEPTH - 1


def test_cleaning():
    traces = "( (S (NP-SBJ-1 (-NONE- *PRO*)) (VP (TO to) (VP=2 (VB go) (NP (NP (-NONE- *T*))))) (-LRB- -LRB-) (. .)))"
    assert str(clean(tree(traces))) == "(TOP (S (VP (TO to) (VP (VB go))) (-LRB- -LRB-) (. .)))"
    assert str(clean(tree("(ROOT (NP-SBJ (NN a)))"))) == "(TOP (NP (NN a)))"
    assert str(clean(tree("(S (NN a))"))) == "(TOP (S (NN a)))"
    assert clean(tree("(S (NP (-NONE- *)))")) is None


@pytest.mark.heavy
@settings(deadline=None)
@given(TREES)
def test_cleaning_once_is_enough(made):
    once = clean(made)
    assert clean(once) == once


@pytest.mark.parametrize(
    ("label", "plain"),
    [("NP", "NP"), ("NP-SBJ-1", "NP"), ("NP=2", "NP"), ("-LRB-", "-LRB-"), ("PRP$", "PRP$"), ("WHNP-2=3", "WHNP")],
)
def test_plain_labels(label, plain):
    assert plain_label(label) == plain


# ---- Words -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("The cat sleeps.", "The cat sleeps ."),
        ('"Don\'t go," he said (quietly).', "`` Do n't go , '' he said -LRB- quietly -RRB- ."),
        ("“Yes,” she said.", "`` Yes , '' she said ."),
        ("Dr. Smith's cat paid $10,000 at 7:30...", "Dr. Smith 's cat paid $ 10,000 at 7:30 ..."),
        ("I cannot; they're “here”—now!", "I can not ; they 're `` here '' -- now !"),
        ("the dogs' bowl [1]", "the dogs ' bowl [ 1 ]"),
        ("", ""),
    ],
)
def test_tokenize(line, words):
    assert tokenize(line) == words.split()
    assert tokenize(words.replace("-LRB-", "(").replace("-RRB-", ")").replace("``", '"')) == words.split()


@pytest.mark.parametrize(
    ("word", "token"), [("cat", "cat"), ("a\u00a0b", "ab"), ("\u2009", "_"), ("\u2581", "_"), ("e\u0301", "é")]
)
def test_tokens_survive_the_vocabulary(word, token):
    assert as_token(word) == normalise(as_token(word)) == token
