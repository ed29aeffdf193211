"""Parse sentences with a trained run: words in, trees over exactly these words out.

    parser = Parser.load("runs/parsing-tiny")
    print(parser.parse(["the cat sleeps ."])[0])        # (TOP (S (NP (DT the) (NN cat)) (VP (VBZ sleeps)) (. .)))

A `Translator` does the work. Its output for a sentence is read as the tokens of a tree, and repaired where they do not
form one; `repaired` and `repairs` count how often.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, overload

from additions.parsing.evalb import Parameters, Summary, score_trees
from additions.parsing.linearise import Repairs, delinearise, retag_punctuation
from additions.parsing.trees import Tree, as_token, clean, trees_of
from minitf.data.text import PathLike
from minitf.errors import UserError
from minitf.translation.translator import Translator

BRACKETS = {"(": "-LRB-", ")": "-RRB-"}
"""Brackets among the words, as treebanks write them."""


class Parser:
    """A translator from sentences to tokens of trees, whose output is turned into trees."""

    def __init__(self, translator: Translator):
        self.translator = translator
        self.parsed = 0
        """Sentences so far."""
        self.repaired = 0
        """Sentences whose output did not form a tree."""
        self.repairs = Repairs()
        """The repairs in them."""

    @classmethod
    def load(cls, run_directory: PathLike, **options: Any) -> Parser:
        """Load the parser of a run.  Options: see `Translator.load`

        Raises: UserError if there is no run, or no checkpoint
        """
        return cls(Translator.load(run_directory, **options))

    def __repr__(self) -> str:
        return f"Parser({self.translator!r})"

    @overload
    def parse(self, sentences: str, **options: Any) -> Tree | None: ...

    @overload
    def parse(self, sentences: Sequence[str | Sequence[str]], **options: Any) -> list[Tree | None]: ...

    def parse(self, sentences: str | Sequence[str | Sequence[str]], **options: Any) -> Tree | list[Tree | None] | None:
        """Parse sentences, given as lines with spaces between the words or as lists of words; None without words.

        sentences: a list, or one line, whose tree alone is returned
        Options: see `Translator.translate`
        """
        if isinstance(sentences, str):
            return self.parse([sentences], **options)[0]
        words = [words_of(sentence) for sentence in sentences]
        outputs = self.translator.translate([_source(each) for each in words], **options)
        return [self._tree(each, output) for each, output in zip(words, outputs, strict=True)]

    def translate_stream(self, lines: Iterable[str], **options: Any) -> Iterator[str]:
        """Parse lines of words into lines of brackets; "" for a blank one.  Options: `Translator.translate_stream`"""
        waiting: deque[list[str]] = deque()

        def sources() -> Iterator[str]:
            for line in lines:
                waiting.append(words_of(line))
                yield _source(waiting[-1])

        for output in self.translator.translate_stream(sources(), **options):
            tree = self._tree(waiting.popleft(), output)
            yield "" if tree is None else str(tree)

    def score(self, gold_lines: Sequence[str], parsed_lines: Sequence[str]) -> Summary:
        """Compute EVALB's scores with the parameters of COLLINS.prm, and no limit on the number of error sentences.

        Traces and function tags of the gold trees are removed.

        Raises: UserError if a line of gold is not one tree
        """
        gold = [_cleaned(line, number) for number, line in enumerate(gold_lines, 1)]
        return score_trees(gold, parsed_lines, replace(Parameters(), max_errors=len(gold))).all

    def summary(self) -> str:
        """`3 of 500 outputs were not trees and were repaired: 2 unclosed, 1 missing tags`"""
        share = f"{self.repaired:,} of {self.parsed:,} outputs were not trees"
        return f"{share} and were repaired: {self.repairs}" if self.repaired else share

    def _tree(self, words: list[str], output: str) -> Tree | None:
        if not words:
            return None
        tree, repairs = delinearise(output.split(), words)
        tree = retag_punctuation(tree, repairs)
        self.parsed += 1
        self.repaired += bool(repairs)
        self.repairs.add(repairs)
        return tree


def words_of(sentence: str | Sequence[str]) -> list[str]:
    """Split a sentence at spaces, unless it is a list of words, and write brackets as -LRB- and -RRB-."""
    words = re.split(r"[ \t\n\r\f\v]+", sentence) if isinstance(sentence, str) else sentence
    return [re.sub(r"[()]", lambda bracket: BRACKETS[bracket[0]], word) for word in words if word]


def _cleaned(line: str, number: int) -> str:
    found = [clean(tree) for tree in trees_of([line], f"the gold tree {number:,}")]
    if len(found) != 1 or found[0] is None:
        raise UserError(f"line {number:,} of the gold trees holds {len(found)} trees; give one with words on each line")
    return str(found[0])


def _source(words: list[str]) -> str:
    return " ".join(map(as_token, words))
