"""A tree as a sequence of tokens, and back, whatever the sequence.

    (TOP (S (NP (DT the) (NN cat)) (VP (VBZ sleeps)) (. .)))

    ↔  (S(NP(DT) (NN)) (VP(VBZ)) (.))                              form="joined"
    ↔  (S (NP (DT) (NN) )NP (VP (VBZ) )VP (.) )S                   form="symbols"

The target of translation when the sentence is its source (section 6.3). A tag is a bracket with the place of its word
left empty: the words are those of the sentence, in order. Joined, a token says all there is to say at one word: which
brackets open before it, its tag, and how many close after it. So the k-th token belongs to the k-th word, and a tree is
no longer than its sentence; a treebank has a few hundred such tokens. As symbols, each bracket is a token, and closing
ones carry the label of what they close.

Source: Vinyals et al. 2015, "Grammar as a Foreign Language", for the symbols
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields

from minitf.errors import UserError
from minitf.parsing.trees import MAX_DEPTH, ROOT, Leaf, Node, Tree

ANY_WORD = "XX"
"""The one tag of every word where the parts of speech are not to be learned, and of a word that has got none."""
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
"""Words that are no words, and the tags they have in treebanks, the usual one first."""
PUNCTUATION_TAGS = frozenset((",", ":", ".", "``", "''", "-LRB-", "-RRB-"))

PART = re.compile(r"\((?P<tag>[^\s()]+)\)|\((?P<opens>[^\s()]+)|\)(?P<closes>[^\s()]*)|(?P<text>[^()]+|\()", re.ASCII)


def linearise(tree: Tree, tags: str = "pos", form: str = "joined") -> list[str]:
    """The tokens of a cleaned tree, without its root.

    tags: "pos" keeps the parts of speech, as the paper's first public code does; "xx" makes those of words one, XX,
        as Vinyals et al. do, and keeps the others: EVALB tells punctuation by its tag
    form: "joined" for a token a word, "symbols" for a token a bracket
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
    """Join what belongs to one word: a token ends before the first bracket that opens after its tag."""
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
    """How often each thing had to be mended to make a tree of a sequence. A well-formed one needs nothing."""

    no_brackets: int = 0  # text that is no bracket: left out
    unopened: int = 0  # closing brackets where nothing was open: left out
    mislabelled: int = 0  # closing brackets of a label that was not open: taken for the innermost one's
    unclosed: int = 0  # constituents that had no closing bracket: closed with the one around them, or at the end
    empty: int = 0  # constituents without a word: left out
    too_deep: int = 0  # constituents nested deeper than any tree here: left out, what is in them stays
    mistagged: int = 0  # words with the tag of punctuation, punctuation with another: tagged as if nothing was said
    missing_tags: int = 0  # words for which there was no tag: put beside the word before; last ones outermost
    surplus_tags: int = 0  # tags for which there was no word: left out

    def __bool__(self) -> bool:
        return any(getattr(self, each.name) for each in fields(self))

    def add(self, other: Repairs) -> None:
        """Count those of another tree as well."""
        for each in fields(self):
            setattr(self, each.name, getattr(self, each.name) + getattr(other, each.name))

    def __str__(self) -> str:
        """`3 unclosed, 1 missing tags`, or "none"."""
        counts = ((getattr(self, each.name), each.name.replace("_", " ")) for each in fields(self))
        return ", ".join(f"{count:,} {name}" for count, name in counts if count) or "none"


def delinearise(tokens: Iterable[str], words: Sequence[str]) -> tuple[Tree, Repairs]:
    """The tree that a sequence of tokens of either form makes over the words, and what had to be mended.

    Whatever the sequence, the tree has exactly these words, in order, and no constituent without one.
    """
    if not words:
        raise UserError("a tree needs at least one word")
    found = [part for token in tokens for part in PART.finditer(token)]
    builder = _Builder(words, place_tags([part["tag"] for part in found if part["tag"] is not None], words))
    for part in found:
        builder.take(part)
    return builder.finish()


def place_tags(tags: Sequence[str], words: Sequence[str]) -> list[int | None]:
    """For each tag, the number of its word, or None for a surplus one.

    The k-th tag belongs to the k-th word. Where there are more of one than of the other, the parser has lost count
    somewhere, and all that comes after would be tags of the words beside. Punctuation tells where: these are the places
    of the least edit distance between tags and words, where leaving out either costs 1, and a tag that its word cannot
    have 2. Of equal ones, that in which what is left out comes last.
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


def tell_punctuation(tree: Tree, repairs: Repairs) -> Tree:
    """The tree with another tag for every word that is tagged as punctuation, and every mark tagged as what it is not.

    A treebank may do so once in a while; where a parser does, it has lost count of the words.
    """
    children: list[Node] = []
    for child in tree.children:
        if isinstance(child, Tree):
            children.append(tell_punctuation(child, repairs))
        elif is_mistagged(child.word, child.tag):
            repairs.mistagged += 1
            children.append(Leaf(untold_tag(child.word), child.word))
        else:
            children.append(child)
    return Tree(tree.label, tuple(children))


def untold_tag(word: str) -> str:
    """The tag of a word whose tag is not said. EVALB takes a sentence for another one if punctuation is no such."""
    return PUNCTUATION.get(word, (ANY_WORD,))[0]


def is_mistagged(word: str, tag: str) -> bool:
    """Can the word not have this tag, as one of them says punctuation and the other says none, or another mark?"""
    if word in PUNCTUATION:
        return tag not in PUNCTUATION[word]
    if any(letter.isalnum() for letter in word):
        return tag in PUNCTUATION_TAGS
    return tag in (",", ".")  # a dash may be tagged as a colon, an apostrophe as a quotation mark


@dataclass
class _Open:
    """A constituent that is not closed yet."""

    label: str
    children: list[Node] = field(default_factory=list)


class _Builder:
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
        """Hang the word of the next tag under the innermost constituent, with those beside it that have none."""
        place = next(self.places)
        if place is None:
            self.repairs.surplus_tags += 1
            return
        while self.used < place:
            self.hang_untagged()
        self.hang(tag)
        while self.used < self.last and self.used not in self.tagged:
            self.hang_untagged()

    def hang(self, tag: str) -> None:
        """The next word becomes a leaf of the innermost constituent."""
        self.stack[-1].children.append(Leaf(tag, self.words[self.used]))
        self.used += 1

    def hang_untagged(self) -> None:
        """Likewise, for want of a tag of its own."""
        self.repairs.missing_tags += 1
        self.hang(untold_tag(self.words[self.used]))

    def close(self, label: str) -> None:
        """Close the innermost constituent of that label, with all within it; failing one, or a label, the innermost."""
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
        """Close what is open; what is left of the words goes to the end of the outermost constituent."""
        while len(self.stack) > 1:
            self.repairs.unclosed += 1
            self.pop()
        children = self.stack[0].children
        left = [Leaf(untold_tag(word), word) for word in self.words[self.used :]]
        self.repairs.missing_tags += len(left)
        if left and len(children) == 1 and isinstance(children[0], Tree):
            only = children[0]
            children = [Tree(only.label, (*only.children, *left))]
        else:
            children = [*children, *left]
        return Tree(ROOT, tuple(children)), self.repairs
