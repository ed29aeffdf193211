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
    mistagged: int = 0  # words with the tag of punctuation, and the reverse: tagged as if nothing had been said
    missing_tags: int = 0  # words for which there was no tag: put at the end of the outermost constituent
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
    builder = _Builder(words)
    for token in tokens:
        for part in PART.finditer(token):
            builder.take(part)
    return builder.finish()


def tell_punctuation(tree: Tree, repairs: Repairs) -> Tree:
    """The tree with another tag for every word that is tagged as punctuation and is none, or the reverse.

    A treebank may do so once in a while; where a parser does, it has lost count of the words.
    """
    children: list[Node] = []
    for child in tree.children:
        if isinstance(child, Tree):
            children.append(tell_punctuation(child, repairs))
        elif _is_mistagged(child.word, child.tag):
            repairs.mistagged += 1
            children.append(Leaf(untold_tag(child.word), child.word))
        else:
            children.append(child)
    return Tree(tree.label, tuple(children))


def untold_tag(word: str) -> str:
    """The tag of a word whose tag is not said. EVALB takes a sentence for another one if punctuation is no such."""
    return PUNCTUATION.get(word, (ANY_WORD,))[0]


def _is_mistagged(word: str, tag: str) -> bool:
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
    def __init__(self, words: Sequence[str]):
        self.words = words
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
        """Hang the next word under the innermost constituent."""
        if self.used == len(self.words):
            self.repairs.surplus_tags += 1
            return
        self.stack[-1].children.append(Leaf(tag, self.words[self.used]))
        self.used += 1

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
