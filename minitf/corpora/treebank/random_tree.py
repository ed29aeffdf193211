"""A random tree, drawn from the rules from the top down."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import pairwise

from minitf.corpora.draw import Draw
from minitf.corpora.treebank.rules import NUMBERS, RULES, VERB_FORMS
from minitf.corpora.treebank.words import PLURALS, VERBS, WORDS
from minitf.parsing.trees import EMPTY_TAG, Leaf, Node, Tree

START = "TOP"

Choices = tuple[tuple[str, ...], ...]


def random_tree(draw: Draw) -> Tree:
    """A tree with traces and function tags, its sentence spelled as one: a capital at its start, "an" before vowels."""
    (tree,) = _expand(START, draw)
    assert isinstance(tree, Tree)
    words = [leaf.word for leaf in tree.leaves() if leaf.tag != EMPTY_TAG]
    return _respelled(tree, iter(spelled(words)))


def _expand(symbol: str, draw: Draw) -> Iterator[Node]:
    """The nodes that a symbol becomes: one, but for a name in small letters."""
    label = symbol.partition("/")[0]
    if symbol in lexicon():
        yield Leaf(label, draw.one_of(lexicon()[symbol]))
        return
    children = (node for child in draw.one_of(rules()[symbol]) for node in _expand(child, draw))
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
    """The same tree over other words."""
    return Tree(tree.label, tuple(_respelled_node(child, words) for child in tree.children))


def _respelled_node(node: Node, words: Iterator[str]) -> Node:
    if isinstance(node, Tree):
        return _respelled(node, words)
    return node if node.tag == EMPTY_TAG else Leaf(node.tag, next(words))


@cache
def rules() -> dict[str, Choices]:
    """What each symbol may become; what has weight 3 is there three times."""
    found: dict[str, Choices] = {}
    for line in RULES.splitlines():
        if "->" not in line:
            continue
        numbers = NUMBERS if "{n}" in line else ("",)
        verbs = VERB_FORMS if "{v}" in line else ("",)
        for n in numbers:
            for v in verbs:
                symbol, _, right = line.format(n=n, v=v).partition("->")
                found[symbol.strip()] = found.get(symbol.strip(), ()) + _choices(right)
    return found


def _choices(right: str) -> Choices:
    choices: list[tuple[str, ...]] = []
    for choice in right.split(" | "):
        weight, *children = choice.split()
        choices += [tuple(children)] * int(weight)
    return tuple(choices)


@cache
def lexicon() -> dict[str, tuple[str, ...]]:
    """The words of each symbol that is a part of speech."""
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
