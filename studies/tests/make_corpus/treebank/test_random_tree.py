"""The grammar, and the trees that are drawn from it."""

import pytest

from additions.parsing.trees import Tree, clean
from studies.make_corpus.portable_random import PortableRandom
from studies.make_corpus.treebank import random_tree
from studies.make_corpus.treebank.random_tree import START, lexicon, plural, rules, spelled

pytestmark = pytest.mark.slow  # the texts that the grammar wrote are pinned by their hashes


def test_every_symbol_can_be_drawn_and_is_defined_once():
    reached, waiting = set(), [START]
    while waiting:
        symbol = waiting.pop()
        if symbol not in reached:
            reached.add(symbol)
            assert (symbol in rules()) != (symbol in lexicon()), symbol
            waiting += {child for choice in rules().get(symbol, ()) for child in choice}
    written = {*rules(), *(symbol for symbol in lexicon() if not symbol.startswith("NNS/"))}
    forms = {symbol for symbol in written if symbol.startswith("VP/gap.")}  # {v} makes some that no sentence needs
    assert written - reached <= forms


@pytest.mark.parametrize("symbol", ["S/plain", "VP/VBD", "NP", "np/person.pl"])
def test_what_is_drawn_has_one_tree(monkeypatch, symbol):
    """With one word of each kind only, phrases repeat: those of the same words must have the same tree."""
    few = {symbol: words[:1] for symbol, words in lexicon().items()}
    monkeypatch.setattr(random_tree, "lexicon", lambda: few)
    found = {}
    repeated = 0
    rng = PortableRandom(3)
    for _ in range(5_000):
        tree = clean(Tree("", tuple(random_tree._expand(symbol, rng))))
        words = tuple(tree.words())
        repeated += words in found
        assert found.setdefault(words, tree) == tree
    assert repeated > 50


def test_the_past_of_a_verb_is_not_its_infinitive():
    for symbol, words in lexicon().items():
        if symbol.startswith("VBD/") and symbol.replace("VBD/", "VB/") in lexicon():
            assert not {*words} & {*lexicon()[symbol.replace("VBD/", "VB/")]}, symbol


def test_spelling():
    assert spelled(["a", "old", "man", "and", "a", "man"]) == ["An", "old", "man", "and", "a", "man"]
    assert spelled(["``", "he", "a"]) == ["``", "He", "a"]
    assert [plural(noun) for noun in ("box", "library", "boy", "woman", "match", "key")] == [
        *("boxes", "libraries", "boys"),
        *("women", "matches", "keys"),
    ]
