"""A tree as a sequence of tokens, and back, whatever the sequence.

    (TOP (S (NP (DT the) (NN cat)) (VP (VBZ sleeps))))

    ↔  (S (NP the (DT) cat (NN) )NP (VP sleeps (VBZ) )VP )S        leaves="words"
    ↔  (S (NP (DT) (NN) )NP (VP (VBZ) )VP )S                       leaves="tags"

The target of translation when the sentence is its source (section 6.3). Closing brackets carry the label of what they
close. A tag is a bracket with the place of the word left empty. No bracket can be confused with a word, as words hold
none.

Source: Vinyals et al. 2015, "Grammar as a Foreign Language", for leaves="tags"
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields

from minitf.errors import UserError
from minitf.parsing.trees import MAX_DEPTH, ROOT, Leaf, Node, Tree
from minitf.parsing.words import as_token

ANY_WORD = "XX"
"""The one tag of every word where the parts of speech are not to be learned, and of a word that has got none."""
PUNCTUATION = frozenset((",", ":", ".", "``", "''", "-LRB-", "-RRB-"))
"""Words that are their own tag."""
LOOK_AHEAD = 4
"""Words that a copy may have skipped: a word that is this far on is taken for itself, one further for a misspelling."""

BRACKET = re.compile(r"\((?P<tag>[^\s()]+)\)|\((?P<opens>[^\s()]+)|\)(?P<closes>[^\s()]+)", re.ASCII)


def linearise(tree: Tree, tags: str = "pos", leaves: str = "words") -> list[str]:
    """The tokens of a cleaned tree, without its root.

    tags: "pos" keeps the parts of speech, as the paper's first public code does; "xx" makes those of words one, XX,
        as Vinyals et al. do, and keeps the others: EVALB tells punctuation by its tag
    leaves: "words" has each word before its tag, and no tag where that is XX; "tags" has the tag alone
    """
    if tags not in ("pos", "xx"):
        raise UserError(f"tags={tags!r} is unknown; choose pos or xx")
    if leaves not in ("words", "tags"):
        raise UserError(f"leaves={leaves!r} is unknown; choose words or tags")
    return [token for child in tree.children for token in _tokens(child, tags, leaves)]


def _tokens(node: Node, tags: str, leaves: str) -> Iterator[str]:
    if isinstance(node, Leaf):
        tag = ANY_WORD if tags == "xx" and node.tag[:1].isalpha() else node.tag
        if leaves == "words":
            yield as_token(node.word)
        if leaves == "tags" or tag != ANY_WORD:
            yield f"({tag})"
        return
    yield f"({node.label}"
    for child in node.children:
        yield from _tokens(child, tags, leaves)
    yield f"){node.label}"


@dataclass
class Repairs:
    """How often each thing had to be mended to make a tree of a sequence. A well-formed one needs nothing."""

    not_tokens: int = 0  # brackets without a label, words where there are to be tags only: left out
    unopened: int = 0  # closing brackets where nothing was open: left out
    mislabelled: int = 0  # closing brackets of a label that was not open: taken for the innermost one's
    unclosed: int = 0  # constituents that had no closing bracket: closed with the one around them, or at the end
    empty: int = 0  # constituents without a word: left out
    too_deep: int = 0  # constituents nested deeper than any tree here: left out, what is in them stays
    missing_words: int = 0  # words for which there was no leaf: put where they belong, or at the end
    surplus_words: int = 0  # leaves for which there was no word: left out
    misspelled: int = 0  # words that were copied wrong: taken for the next one
    stray_tags: int = 0  # tags that do not follow a word: left out

    def __bool__(self) -> bool:
        return any(getattr(self, each.name) for each in fields(self))

    def add(self, other: Repairs) -> None:
        """Count those of another tree as well."""
        for each in fields(self):
            setattr(self, each.name, getattr(self, each.name) + getattr(other, each.name))

    def __str__(self) -> str:
        """`3 unclosed, 1 missing words`, or "none"."""
        counts = ((getattr(self, each.name), each.name.replace("_", " ")) for each in fields(self))
        return ", ".join(f"{count:,} {name}" for count, name in counts if count) or "none"


def delinearise(tokens: Iterable[str], words: Sequence[str], leaves: str = "words") -> tuple[Tree, Repairs]:
    """The tree that a sequence of tokens makes over the words, and what had to be mended.

    Whatever the sequence, the tree has exactly these words, in order, and no constituent without one.
    """
    if not words:
        raise UserError("a tree needs at least one word")
    builder = (_FromWords if leaves == "words" else _FromTags)(words)
    for token in tokens:
        builder.take(token)
    return builder.finish()


def untold_tag(word: str) -> str:
    """The tag of a word whose tag is not said. EVALB takes a sentence for another one if punctuation is no such."""
    return word if word in PUNCTUATION else ANY_WORD


@dataclass
class _Open:
    """A constituent that is not closed yet."""

    label: str
    children: list[Node] = field(default_factory=list)


class _FromTags:
    """Builds a tree from brackets, of which each tag is a leaf."""

    def __init__(self, words: Sequence[str]):
        self.words = words
        self.used = 0
        self.stack = [_Open(ROOT)]
        self.repairs = Repairs()

    def take(self, token: str) -> None:
        found = BRACKET.fullmatch(token)
        if found is None:
            self.text(token)
        elif found["tag"]:
            self.tag(found["tag"])
        elif found["opens"]:
            self.stack.append(_Open(found["opens"]))
        else:
            self.close(found["closes"])

    def text(self, text: str) -> None:
        """A token that is no bracket."""
        self.repairs.not_tokens += 1

    def tag(self, tag: str) -> None:
        if self.used == len(self.words):
            self.repairs.surplus_words += 1
        else:
            self.leaf(tag)

    def leaf(self, tag: str) -> None:
        """Hang the next word under the innermost constituent."""
        self.stack[-1].children.append(Leaf(tag, self.words[self.used]))
        self.used += 1

    def close(self, label: str) -> None:
        """Close the innermost constituent of that label, with all within it; failing one, the innermost."""
        if len(self.stack) == 1:
            self.repairs.unopened += 1
            return
        if label in (constituent.label for constituent in self.stack[1:]):
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
        """Close what is open; what is left of the words goes to the end of the outermost constituent."""
        while len(self.stack) > 1:
            self.repairs.unclosed += 1
            self.pop()
        children = self.stack[0].children
        left = [Leaf(untold_tag(word), word) for word in self.words[self.used :]]
        self.repairs.missing_words += len(left)
        if left and len(children) == 1 and isinstance(children[0], Tree):
            only = children[0]
            children = [Tree(only.label, (*only.children, *left))]
        else:
            children = [*children, *left]
        return Tree(ROOT, tuple(children)), self.repairs


class _FromWords(_FromTags):
    """Builds a tree from words, each followed by its tag, and brackets."""

    def __init__(self, words: Sequence[str]):
        super().__init__(words)
        self.awaits_tag = False

    def take(self, token: str) -> None:
        super().take(token)
        if BRACKET.fullmatch(token) is not None:
            self.awaits_tag = False

    def text(self, text: str) -> None:
        """A word: the next one, or one a little further on if some were skipped, or the next one misspelled."""
        self.awaits_tag = False
        if not any(character not in "()" for character in text):
            self.repairs.not_tokens += 1
            return
        following = [as_token(word) for word in self.words[self.used : self.used + LOOK_AHEAD]]
        if not following:
            self.repairs.surplus_words += 1
            return
        if text in following:
            for _ in range(following.index(text)):
                self.repairs.missing_words += 1
                self.leaf(untold_tag(self.words[self.used]))
        else:
            self.repairs.misspelled += 1
        self.leaf(untold_tag(self.words[self.used]))
        self.awaits_tag = True

    def tag(self, tag: str) -> None:
        if not self.awaits_tag:
            self.repairs.stray_tags += 1
            return
        children = self.stack[-1].children
        children[-1] = Leaf(tag, self.words[self.used - 1])
