"""A tree as a sequence of symbols, and back, whatever the sequence.

    (TOP (S (NP (DT the) (NN cat)) (VP (VBZ sleeps))))   ↔   (S (NP (DT) (NN) )NP (VP (VBZ) )VP )S

The target of translation when the sentence is its source (section 6.3). Closing brackets carry the label of what they
close. A leaf is a bracket with the place of its word left empty: the words are those of the source, in order. No symbol
can be confused with a word, as words hold no brackets.

Source: Vinyals et al. 2015, "Grammar as a Foreign Language"
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields

from minitf.errors import UserError
from minitf.parsing.trees import MAX_DEPTH, ROOT, Leaf, Node, Tree

ANY_WORD = "XX"
"""The one tag of every word where the parts of speech are not to be learned, and of a word that has got none."""

SYMBOL = re.compile(r"\((?P<tag>[^\s()]+)\)|\((?P<opens>[^\s()]+)|\)(?P<closes>[^\s()]+)", re.ASCII)


def linearise(tree: Tree, tags: str = "pos") -> list[str]:
    """The symbols of a cleaned tree, without its root.

    tags: "pos" keeps the parts of speech, as the paper's first public code does; "xx" makes those of words one, XX,
        as Vinyals et al. do, and keeps the others: EVALB tells punctuation by its tag
    """
    if tags not in ("pos", "xx"):
        raise UserError(f"tags={tags!r} is unknown; choose pos or xx")
    return [symbol for child in tree.children for symbol in _symbols(child, tags)]


def _symbols(node: Node, tags: str) -> Iterator[str]:
    if isinstance(node, Leaf):
        yield f"({ANY_WORD})" if tags == "xx" and node.tag[:1].isalpha() else f"({node.tag})"
        return
    yield f"({node.label}"
    for child in node.children:
        yield from _symbols(child, tags)
    yield f"){node.label}"


@dataclass
class Repairs:
    """How often each thing had to be mended to make a tree of a sequence. A well-formed one needs nothing."""

    not_symbols: int = 0  # parts of the output that are no symbol: left out
    unopened: int = 0  # closing brackets where nothing was open: left out
    mislabelled: int = 0  # closing brackets of a label that was not open: taken for the innermost one's
    unclosed: int = 0  # constituents that had no closing bracket: closed with the one around them, or at the end
    empty: int = 0  # constituents without a word: left out
    too_deep: int = 0  # constituents nested deeper than any tree here: left out, what is in them stays
    missing_leaves: int = 0  # words for which there was no leaf: put at the end of the outermost constituent
    surplus_leaves: int = 0  # leaves for which there was no word: left out

    def __bool__(self) -> bool:
        return any(getattr(self, each.name) for each in fields(self))

    def add(self, other: Repairs) -> None:
        """Count those of another tree as well."""
        for each in fields(self):
            setattr(self, each.name, getattr(self, each.name) + getattr(other, each.name))

    def __str__(self) -> str:
        """`3 unclosed, 1 missing leaves`, or "none"."""
        counts = ((getattr(self, each.name), each.name.replace("_", " ")) for each in fields(self))
        return ", ".join(f"{count:,} {name}" for count, name in counts if count) or "none"


def delinearise(symbols: Iterable[str], words: Sequence[str]) -> tuple[Tree, Repairs]:
    """The tree that a sequence of symbols makes over the words, and what had to be mended.

    Whatever the sequence, the tree has exactly these words, in order, and no constituent without one.
    """
    if not words:
        raise UserError("a tree needs at least one word")
    builder = _Builder(words)
    for symbol in symbols:
        builder.take(symbol)
    return builder.finish()


@dataclass
class _Open:
    """A constituent that is not closed yet."""

    label: str
    children: list[Node] = field(default_factory=list)


class _Builder:
    def __init__(self, words: Sequence[str]):
        self.words = words
        self.used = 0
        self.stack = [_Open(ROOT)]
        self.repairs = Repairs()

    def take(self, symbol: str) -> None:
        found = SYMBOL.fullmatch(symbol)
        if found is None:
            self.repairs.not_symbols += 1
        elif found["tag"]:
            self.leaf(found["tag"])
        elif found["opens"]:
            self.open(found["opens"])
        else:
            self.close(found["closes"])

    def leaf(self, tag: str) -> None:
        if self.used == len(self.words):
            self.repairs.surplus_leaves += 1
            return
        self.stack[-1].children.append(Leaf(tag, self.words[self.used]))
        self.used += 1

    def open(self, label: str) -> None:
        self.stack.append(_Open(label))

    def close(self, label: str) -> None:
        """Close the innermost constituent of that label, with all within it; failing one, the innermost."""
        if len(self.stack) == 1:
            self.repairs.unopened += 1
            return
        open_labels = [constituent.label for constituent in self.stack[1:]]
        if label in open_labels:
            while self.stack[-1].label != label:
                self.repairs.unclosed += 1
                self.pop()
        else:
            self.repairs.mislabelled += 1
        self.pop()

    def pop(self) -> None:
        """Close the innermost constituent."""
        done = self.stack.pop()
        if not done.children:
            self.repairs.empty += 1
        elif len(self.stack) > MAX_DEPTH - 2:  # the root and the leaf are brackets as well
            self.repairs.too_deep += 1
            self.stack[-1].children += done.children
        else:
            self.stack[-1].children.append(Tree(done.label, tuple(done.children)))

    def finish(self) -> tuple[Tree, Repairs]:
        while len(self.stack) > 1:
            self.repairs.unclosed += 1
            self.pop()
        children = self.stack[0].children
        left = [Leaf(ANY_WORD, word) for word in self.words[self.used :]]
        self.repairs.missing_leaves += len(left)
        if left and len(children) == 1 and isinstance(children[0], Tree):
            only = children[0]
            children = [Tree(only.label, (*only.children, *left))]
        else:
            children = [*children, *left]
        return Tree(ROOT, tuple(children)), self.repairs
