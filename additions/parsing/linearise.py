"""Convert trees to sequences of tokens, and any sequence of tokens back to a tree.

    (TOP (S (NP (DT the) (NN cat)) (VP (VBZ sleeps)) (. .)))

    ↔  (S(NP(DT) (NN)) (VP(VBZ)) (.))                              form="joined"
    ↔  (S (NP (DT) (NN) )NP (VP (VBZ) )VP (.) )S                   form="symbols"

The sequence is the target of translation, the sentence its source (section 6.3). Words are left out, since they are
those of the sentence in order; a tag is a bracket without its word. A joined token holds the brackets that open before
a word, its tag, and the brackets that close after it: the k-th token belongs to the k-th word, and a tree is as long as
its sentence; a treebank has a few hundred such tokens. As symbols, each bracket is a token, and closing brackets carry
the label of their constituent.

Source: Vinyals et al. 2015, "Grammar as a Foreign Language", for the symbols
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields

from additions.parsing.trees import MAX_DEPTH, ROOT, Leaf, Node, Tree
from minitf.errors import UserError

ANY_WORD = "XX"
"""The tag of every word if parts of speech are not learned, and of a word without a tag."""
PUNCTUATION: dict[str, tuple[str, ...]] = {
    ",": (",",),
    ";": (":", ","),
    **dict.fromkeys((":", "—"), (":", "SYM", "HYPH")),
    **dict.fromkeys(("--", "..."), (":",)),
    **dict.fromkeys((".", "?", "!"), (".", ":")),
    **dict.fromkeys(("-LRB-", "-LSB-", "-LCB-", "[", "{"), ("-LRB-",)),
    **dict.fromkeys(("-RRB-", "-RSB-", "-RCB-", "]", "}"), ("-RRB-",)),
    **dict.fromkeys(("``", "“"), ("``",)),
    **dict.fromkeys(("''", "”"), ("''",)),
}
"""Punctuation marks, and their tags in treebanks, the usual one first."""
PUNCTUATION_TAGS = frozenset((",", ":", ".", "``", "''", "-LRB-", "-RRB-"))

PART = re.compile(r"\((?P<tag>[^\s()]+)\)|\((?P<opens>[^\s()]+)|\)(?P<closes>[^\s()]*)|(?P<text>[^()]+|\()", re.ASCII)


def linearise(tree: Tree, tags: str = "pos", form: str = "joined") -> list[str]:
    """Convert a cleaned tree to tokens, without its root.

    tags: "pos" keeps the parts of speech, as the paper's first public code does; "xx" replaces those of words by XX, as
        Vinyals et al. do, and keeps those of punctuation, by which EVALB recognises it
    form: "joined" for a token per word, "symbols" for a token per bracket
    """
    if tags not in ("pos", "xx"):
        raise UserError(f"tags={tags!r} is unknown; choose pos or xx")
    if form not in ("joined", "symbols"):
        raise UserError(f"form={form!r} is unknown; choose joined or symbols")
    symbols = [symbol for child in tree.children for symbol in _symbols(child, tags)]
    return symbols if form == "symbols" else list(_joined(symbols))


def _symbols(node: Node, tags: str) -> Iterator[str]:
    if isinstance(node, Leaf):
        yield f"({ANY_WORD})" if tags == "xx" and node.tag[:1].isalpha() else f"({node.tag})"
        return
    yield f"({node.label}"
    for child in node.children:
        yield from _symbols(child, tags)
    yield f"){node.label}"


def _joined(symbols: Iterable[str]) -> Iterator[str]:
    """Join the symbols of each word: a token ends before the first bracket that opens after its tag."""
    token, complete = "", False
    for symbol in symbols:
        if complete and symbol.startswith("("):
            yield token
            token, complete = "", False
        token += ")" if symbol.startswith(")") else symbol
        complete = complete or symbol.endswith(")")
    yield token


def parts(token: str) -> list[str]:
    """`(S(NP(DT)` -> `(S`, `(NP`, `(DT)`"""
    return [part[0] for part in PART.finditer(token)]


@dataclass
class Repairs:
    """Counts of the repairs that made a tree of a sequence; a well-formed one needs none."""

    no_brackets: int = 0  # text that is not a bracket: left out
    unopened: int = 0  # closing brackets where nothing was open: left out
    mislabelled: int = 0  # closing brackets of a label that was not open: close the innermost constituent
    unclosed: int = 0  # constituents without a closing bracket: closed with the one around them, or at the end
    empty: int = 0  # constituents without a word: left out
    too_deep: int = 0  # constituents nested deeper than MAX_DEPTH: left out, their children stay
    mistagged: int = 0  # words with the tag of punctuation, punctuation with another: tagged as if they had none
    missing_tags: int = 0  # words without a tag: placed beside the word before; the last ones outermost
    surplus_tags: int = 0  # tags without a word: left out

    def __bool__(self) -> bool:
        return any(getattr(self, each.name) for each in fields(self))

    def add(self, other: Repairs) -> None:
        """Add the counts of another tree."""
        for each in fields(self):
            setattr(self, each.name, getattr(self, each.name) + getattr(other, each.name))

    def __str__(self) -> str:
        """`3 unclosed, 1 missing tags`, or "none"."""
        counts = ((getattr(self, each.name), each.name.replace("_", " ")) for each in fields(self))
        return ", ".join(f"{count:,} {name}" for count, name in counts if count) or "none"


def delinearise(tokens: Iterable[str], words: Sequence[str]) -> tuple[Tree, Repairs]:
    """Convert tokens of either form to a tree over the words, and count the repairs.

    For any sequence, the tree has exactly these words, in order, and no constituent without a word.
    """
    if not words:
        raise UserError("a tree needs at least one word")
    found = [part for token in tokens for part in PART.finditer(token)]
    builder = _Builder(words, place_tags([part["tag"] for part in found if part["tag"] is not None], words))
    for part in found:
        builder.take(part)
    return builder.finish()


def place_tags(tags: Sequence[str], words: Sequence[str]) -> list[int | None]:
    """Align tags with words: for each tag, the index of its word, or None for a surplus tag.

    The k-th tag belongs to the k-th word. If the numbers differ, the parser has skipped or repeated a word somewhere,
    and all later tags would belong to a neighbouring word. Punctuation shows where: the alignment has the least edit
    distance, in which leaving out a tag or a word costs 1, and a tag that its word cannot have 2. Of equal alignments,
    the one that leaves out last is chosen.
    """
    if len(tags) == len(words):
        return list(range(len(words)))
    distance = [list(range(len(words), -1, -1))]  # [tags from the k-th on][words from the i-th on], k downwards
    for tag in reversed(tags):
        below = distance[-1]
        row = [below[-1] + 1]
        for i in range(len(words) - 1, -1, -1):
            row.append(min(below[i + 1] + 2 * is_mistagged(words[i], tag), below[i] + 1, row[-1] + 1))
        distance.append(row[::-1])
    distance.reverse()
    found: list[int | None] = []
    word = 0
    for tag, here, below in zip(tags, distance, distance[1:], strict=False):
        while True:
            if word < len(words) and here[word] == below[word + 1] + 2 * is_mistagged(words[word], tag):
                found.append(word)
                word += 1
                break
            if here[word] == below[word] + 1:
                found.append(None)
                break
            word += 1  # it has no tag
    return found


def retag_punctuation(tree: Tree, repairs: Repairs) -> Tree:
    """Retag every word that is tagged as punctuation, and every mark that is tagged as a word or as another mark.

    Such tags are rare in a treebank; a parser that assigns one has skipped or repeated a word.
    """

    def retagged(child: Node) -> Node:
        if isinstance(child, Tree):
            return retag_punctuation(child, repairs)
        if not is_mistagged(child.word, child.tag):
            return child
        repairs.mistagged += 1
        return Leaf(default_tag(child.word), child.word)

    return Tree(tree.label, tuple(map(retagged, tree.children)))


def default_tag(word: str) -> str:
    """Return the tag of a word without one. EVALB rejects a sentence whose punctuation is not tagged as such."""
    return PUNCTUATION.get(word, (ANY_WORD,))[0]


def is_mistagged(word: str, tag: str) -> bool:
    """Return whether exactly one of word and tag is punctuation, or they are different marks."""
    if word in PUNCTUATION:
        return tag not in PUNCTUATION[word]
    if any(letter.isalnum() for letter in word):
        return tag in PUNCTUATION_TAGS
    return tag in (",", ".")  # a dash may be tagged as a colon, an apostrophe as a quotation mark


@dataclass
class _Open:
    """A constituent that is still open."""

    label: str
    children: list[Node] = field(default_factory=list)


class _Builder:
    """The stack of open constituents while the parts of a sequence are read."""

    def __init__(self, words: Sequence[str], places: Sequence[int | None]):
        self.words = words
        self.places = iter(places)  # of the tags to come
        self.tagged = {place for place in places if place is not None}
        self.last = max(self.tagged, default=-1)
        self.used = 0
        self.stack = [_Open(ROOT)]
        self.repairs = Repairs()

    def take(self, part: re.Match[str]) -> None:
        if part["tag"] is not None:
            self.leaf(part["tag"])
        elif part["opens"] is not None:
            self.stack.append(_Open(part["opens"]))
        elif part["closes"] is not None:
            self.close(part["closes"])
        else:
            self.repairs.no_brackets += 1

    def leaf(self, tag: str) -> None:
        """Add the word of the next tag to the innermost constituent, with the untagged words beside it."""
        place = next(self.places)
        if place is None:
            self.repairs.surplus_tags += 1
            return
        while self.used < place:
            self.add_untagged_word()
        self.add_word(tag)
        while self.used < self.last and self.used not in self.tagged:
            self.add_untagged_word()

    def add_word(self, tag: str) -> None:
        """Add the next word to the innermost constituent."""
        self.stack[-1].children.append(Leaf(tag, self.words[self.used]))
        self.used += 1

    def add_untagged_word(self) -> None:
        """Add the next word, which has no tag."""
        self.repairs.missing_tags += 1
        self.add_word(default_tag(self.words[self.used]))

    def close(self, label: str) -> None:
        """Close the innermost constituent of that label and all inside it; if there is none, the innermost of all."""
        if len(self.stack) == 1:
            self.repairs.unopened += 1
            return
        if label in (constituent.label for constituent in self.stack[1:]):
            while self.stack[-1].label != label:
                self.repairs.unclosed += 1
                self.pop()
        elif label:
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
        """Close all constituents; the remaining words go to the end of the outermost one."""
        while len(self.stack) > 1:
            self.repairs.unclosed += 1
            self.pop()
        children = self.stack[0].children
        rest = [Leaf(default_tag(word), word) for word in self.words[self.used :]]
        self.repairs.missing_tags += len(rest)
        match children:
            case [Tree(label, inner)]:
                children = [Tree(label, (*inner, *rest))]
            case _:
                children = [*children, *rest]
        return Tree(ROOT, tuple(children)), self.repairs
