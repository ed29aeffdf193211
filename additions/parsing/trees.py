"""Constituency trees: read from brackets, written to brackets, and cleaned for parsing.

    (TOP (S (NP (DT the) (NN cat)) (VP (VBZ sleeps)) (. .)))

This is the format of the Penn Treebank. A tree may span several lines; the outermost bracket may have no label. A word
cannot contain white space or brackets: treebanks write -LRB- and -RRB- for "(" and ")".
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from minitf.data.text import PathLike, normalise, read_lines
from minitf.errors import UserError

ROOT = "TOP"
ROOT_LABELS = ("", "TOP", "ROOT", "S1")
"""Labels of an outermost bracket that is not a constituent; cleaned trees have ROOT."""
EMPTY_TAG = "-NONE-"
"""The tag of empty elements: traces, dropped subjects, elided words."""
MAX_DEPTH = 200
"""Depth of nested brackets; no treebank comes near it, and all functions here may recurse this deep."""

PARTS = re.compile(r"[()]|[^\s()]+", re.ASCII)  # a no-break space is part of a word: treebanks have "a\u00a0b"


@dataclass(frozen=True, slots=True)
class Leaf:
    """A word under its part of speech: (NN cat)."""

    tag: str
    word: str

    def __str__(self) -> str:
        return f"({self.tag} {self.word})"


@dataclass(frozen=True, slots=True)
class Tree:
    """A constituent: its label and its children."""

    label: str
    children: tuple[Node, ...]

    def __str__(self) -> str:
        """The tree in brackets, on one line."""
        return f"({self.label} {' '.join(map(str, self.children))})"

    def leaves(self) -> Iterator[Leaf]:
        """Yield the leaves from left to right."""
        for child in self.children:
            if isinstance(child, Leaf):
                yield child
            else:
                yield from child.leaves()

    def words(self) -> list[str]:
        """Return the sentence."""
        return [leaf.word for leaf in self.leaves()]


Node = Tree | Leaf


# ---- Reading -----------------------------------------------------------------------------------------------------


def read_trees(path: PathLike) -> Iterator[Tree]:
    """Iterate over the trees of a file, `.gz` or not.  Raises: UserError for a malformed tree, with its line"""
    return trees_of(read_lines(path), str(path))


def trees_of(lines: Iterable[str], name: str) -> Iterator[Tree]:
    """Iterate over the trees in lines of text, each as soon as it is complete; `name` is for messages.

    Raises: UserError for brackets that do not close or open, for words outside a leaf, for empty brackets
    """
    pending: list[_Bracket] = []
    number = 0
    for number, line in enumerate(lines, start=1):
        for part in PARTS.findall(line):
            if part == "(":
                if len(pending) == MAX_DEPTH:
                    raise _malformed(name, number, f"more than {MAX_DEPTH} brackets are nested")
                pending.append(_Bracket(number))
            elif not pending:
                raise _malformed(name, number, f"{part[:40]!r} is outside all brackets")
            elif part != ")":
                pending[-1].texts.append((len(pending[-1].children), part))
            else:
                node = _closed(pending.pop(), name, number)
                if pending:
                    pending[-1].children.append(node)
                elif isinstance(node, Leaf):
                    yield Tree("", (node,))
                else:
                    yield node
    if pending:
        raise _malformed(name, number, f"the bracket opened in line {pending[0].line:,} is never closed")


class _Bracket:
    """An open bracket: its line, its words (each with the number of children before it), and its children."""

    def __init__(self, line: int):
        self.line = line
        self.texts: list[tuple[int, str]] = []
        self.children: list[Node] = []


def _closed(bracket: _Bracket, name: str, number: int) -> Node:
    """Return the node of a complete bracket."""
    match bracket.texts, bracket.children:
        case [(0, tag), (0, word)], []:
            return Leaf(tag, word)
        case [(0, label)], [_, *_]:
            return Tree(label, tuple(bracket.children))
        case [], [_, *_]:
            return Tree("", tuple(bracket.children))
    texts = " ".join(text for _, text in bracket.texts)
    raise _malformed(
        name, number, f"({texts[:60]}…) is neither a leaf such as (NN cat) nor a label with brackets after it"
    )


def _malformed(name: str, number: int, what: str) -> UserError:
    return UserError(
        f"{name}, line {number:,}: {what}; give trees in brackets, such as (S (NP (NN cat)) (VP (VBZ is)))"
    )


# ---- Cleaning ----------------------------------------------------------------------------------------------------


def clean(tree: Tree) -> Tree | None:
    """Put a tree under one root (TOP x …), without empty elements and function tags; None if no word is left.

    (NP-SBJ-1 …) becomes (NP …), as EVALB compares it; a leaf (-NONE- *T*) is removed, and every constituent that
    consists of such leaves.

    Source: the usual preparation of the Penn Treebank for parsing (Collins 1999)
    """
    children = _cleaned_children(tree)
    if not children:
        return None
    if tree.label in ROOT_LABELS:
        return Tree(ROOT, children)
    return Tree(ROOT, (Tree(plain_label(tree.label), children),))


def plain_label(label: str) -> str:
    """`NP-SBJ-1`, `NP=2` -> `NP`. A leading dash belongs to the label: `-LRB-` stays."""
    return re.split("[-=]", label, maxsplit=1)[0] if label[:1] not in ("-", "=") else label


def _cleaned_children(tree: Tree) -> tuple[Node, ...]:
    children: list[Node] = []
    for child in tree.children:
        if isinstance(child, Tree):
            inner = _cleaned_children(child)
            if inner:
                children.append(Tree(plain_label(child.label), inner))
        elif child.tag != EMPTY_TAG:
            children.append(child)
    return tuple(children)


# ---- Words -------------------------------------------------------------------------------------------------------


# applied in this order, each to the result of the ones before
RULES = tuple(
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        (r'(^|[\s(\[{<])["“]', r"\1 `` "),  # a quotation mark at the start of a word opens
        (r'["”]', " '' "),
        (r"…|\.\.\.+", " ... "),
        (r"--+|—", " -- "),
        (r"([;@#$%&?!])", r" \1 "),
        (r"([,:])(?!\d)|(?<!\d)([,:])(?=\d)", r" \1\2 "),  # but 10,000 and 7:30
        (r"(?<![.\s])\.(?=[\s)\]}>'”]*$)", " . "),  # the full stop of the last word; "Dr." keeps its own
        (r"([\[\]{}<>])", r" \1 "),
        (r"\(", " -LRB- "),
        (r"\)", " -RRB- "),
        (r"(?<=\w)(['’][sdmSDM]|['’]ll|['’]re|['’]ve|n['’]t|N['’]T)(?!\w)", r" \1 "),
        (r"(?<=\w)(['’])(?=\s|$)", r" \1 "),
        (r"(?i)\b(can)(not)\b", r"\1 \2"),
    )
)


def tokenize(line: str) -> list[str]:
    """Tokenize a line: `"Don't," he said.` -> `` Do n't , '' he said .

    Source: after the rules of the Penn Treebank's tokenizer
    """
    for pattern, replacement in RULES:
        line = pattern.sub(replacement, line)
    return line.split()


def as_token(word: str) -> str:
    """Normalise a word as the vocabulary does, and remove the white space that some treebanks have inside words."""
    return "".join(normalise(word).split()) or "_"
