"""Tokenize raw English as treebanks do, and write words as tokens that the vocabulary leaves as they are."""

from __future__ import annotations

import re

from minitf.data.text import normalise

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
