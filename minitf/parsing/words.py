"""Raw English into the words of a treebank, and a word as a token that survives the vocabulary."""

from __future__ import annotations

import re

from minitf.data.text import normalise

# In this order, each on what the ones before have made of the line
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
    """`"Don't," he said.` -> `` Do n't , '' he said .

    Source: after the rules of the Penn Treebank's tokenizer
    """
    for pattern, replacement in RULES:
        line = pattern.sub(replacement, line)
    return line.split()


def as_token(word: str) -> str:
    """The word as the vocabulary will give it back, without the white space that treebanks have inside some."""
    return "".join(normalise(word).split()) or "_"
