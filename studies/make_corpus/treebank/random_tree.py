"""A random tree, drawn from the rules top down."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from itertools import pairwise, product

from additions.parsing.trees import EMPTY_TAG, Leaf, Node, Tree
from studies.make_corpus.portable_random import PortableRandom
from studies.make_corpus.treebank.rules import NUMBERS, RULES, VERB_FORMS
from studies.make_corpus.treebank.words import PLURALS, VERBS, WORDS

START = "TOP"

Choices = tuple[tuple[str, ...], ...]


def random_tree(rng: PortableRandom) -> Tree:
    """A tree with traces and function tags; its sentence has a capital letter at its start and "an" before vowels."""
    (tree,) = _expand(START, rng)
    assert isinstance(tree, Tree)
    words = [leaf.word for leaf in tree.leaves() if leaf.tag != EMPTY_TAG]
    return _respelled(tree, iter(spelled(words)))


def _expand(symbol: str, rng: PortableRandom) -> Iterator[Node]:
    """The nodes that a symbol expands to: one, unless its name is in lower case."""
    label = symbol.partition("/")[0]
    if symbol in lexicon():
        yield Leaf(label, rng.choice(lexicon()[symbol]))
        return
    children = (node for child in rng.choice(rules()[symbol]) for node in _expand(child, rng))
    if label.islower():
        yield from children
    else:
        yield Tree(label, tuple(children))


def spelled(words: list[str]) -> list[str]:
    """["a", "old", "man"] -> ["An", "old", "man"]"""
    words = ["an" if word == "a" and following[0] in "aeiou" else word for word, following in pairwise([*words, "."])]
    first = next(place for place, word in enumerate(words) if word[0].isalpha())
    words[first] = words[first][0].upper() + words[first][1:]
    return words


def _respelled(tree: Tree, words: Iterator[str]) -> Tree:
    """The same tree with other words."""

    def respelled(node: Node) -> Node:
        if isinstance(node, Tree):
            return _respelled(node, words)
        return node if node.tag == EMPTY_TAG else Leaf(node.tag, next(words))

    return Tree(tree.label, tuple(map(respelled, tree.children)))


@cache
def rules() -> dict[str, Choices]:
    """The choices of each symbol; a choice of weight 3 is there three times."""
    found: dict[str, Choices] = {}
    for line in filter(None, re.sub("#.*", "", RULES).splitlines()):
        numbers = NUMBERS if "{n}" in line else ("",)
        verbs = VERB_FORMS if "{v}" in line else ("",)
        for n, v in product(numbers, verbs):
            symbol, _, choices = line.format(n=n, v=v).partition("->")
            for choice in choices.split(" | "):
                weight, *children = choice.split()
                found[symbol.strip()] = found.get(symbol.strip(), ()) + (tuple(children),) * int(weight)
    return found


@cache
def lexicon() -> dict[str, tuple[str, ...]]:
    """The words of each symbol that is a part of speech, with the inflected forms of nouns and verbs."""
    found: dict[str, tuple[str, ...]] = {}
    for line in WORDS.strip().splitlines():
        symbol, _, words = line.partition(": ")
        found[symbol] = found.get(symbol, ()) + tuple(words.split())
    for symbol in [symbol for symbol in found if symbol.startswith("NN/")]:
        found[symbol.replace("NN/", "NNS/")] = tuple(map(plural, found[symbol]))
    for line in VERBS.strip().splitlines():
        kind, _, verbs = line.partition(": ")
        for verb in verbs.split("; "):
            infinitive, third, past, participle, gerund = verb.split()
            forms = (infinitive, infinitive, third, past, participle, gerund)
            for tag, form in zip(VERB_FORMS, forms, strict=True):
                symbol = f"{tag}/{kind}"
                found[symbol] = (*found.get(symbol, ()), form)
    return found


def plural(noun: str) -> str:
    """`box` -> `boxes`, `library` -> `libraries`, `woman` -> `women`"""
    if noun in PLURALS:
        return PLURALS[noun]
    if noun.endswith(("s", "x", "ch", "sh")):
        return noun + "es"
    if noun.endswith("y") and noun[-2] not in "aeiou":
        return noun[:-1] + "ies"
    return noun + "s"
