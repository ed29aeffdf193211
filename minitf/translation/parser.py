"""Parse sentences with a trained run: words in, trees over exactly these words out.

    parser = Parser.load("runs/parsing-tiny")
    print(parser.parse(["the cat sleeps ."])[0])        # (TOP (S (NP (DT the) (NN cat)) (VP (VBZ sleeps)) (. .)))

The work is a `Translator`'s. What it gives for a sentence is read as the tokens of a tree, and mended where they make
none; how often is counted in `repaired` and `repairs`.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from minitf.data.text import PathLike
from minitf.errors import UserError
from minitf.evaluation.evalb import Parameters, Summary, score_trees
from minitf.parsing.linearise import Repairs, delinearise, tell_punctuation
from minitf.parsing.trees import Tree, clean, trees_of
from minitf.parsing.words import as_token
from minitf.translation.translator import Translator

ESCAPES = {"(": "-LRB-", ")": "-RRB-"}


class Parser:
    """A translator from sentences to tokens of trees, and what makes trees of them."""

    def __init__(self, translator: Translator):
        self.translator = translator
        self.parsed = 0
        """Sentences so far."""
        self.repaired = 0
        """Those whose output was no tree as it stood."""
        self.repairs = Repairs()
        """What had to be mended in them."""

    @classmethod
    def load(cls, run_directory: PathLike, **options: Any) -> Parser:
        """The parser of a run; options as for `Translator.load`.

        Raises: UserError where there is no run, no checkpoint, or the run has learned something else
        """
        from minitf.storage.run_directory import RunDirectory

        if RunDirectory.open(Path(run_directory)).config().task != "parsing":
            raise UserError(f"{run_directory} has learned to translate, not to parse; train one with --task parsing")
        return cls(Translator.load(run_directory, **options))

    def parse(self, sentences: Sequence[str | Sequence[str]], **options: Any) -> list[Tree | None]:
        """The tree of each sentence, given as a line with spaces between its words, or as a list of words.

        None for a sentence without words. Options as for `Translator.translate`.
        """
        if isinstance(sentences, str):
            raise TypeError("sentences is a single string, which would be parsed letter by letter; give a list")
        words = [words_of(sentence) for sentence in sentences]
        outputs = self.translator.translate([_source(each) for each in words], **options)
        return [self._tree(each, output) for each, output in zip(words, outputs, strict=True)]

    def translate_stream(self, lines: Iterable[str], **options: Any) -> Iterator[str]:
        """As `Translator.translate_stream`, from lines of words to lines of brackets; "" for a blank one."""
        waiting: deque[list[str]] = deque()

        def remember() -> Iterator[str]:
            for line in lines:
                waiting.append(words_of(line))
                yield _source(waiting[-1])

        for output in self.translator.translate_stream(remember(), **options):
            tree = self._tree(waiting.popleft(), output)
            yield "" if tree is None else str(tree)

    def score(self, gold_lines: Sequence[str], parsed_lines: Sequence[str]) -> Summary:
        """EVALB's figures, by the parameters of COLLINS.prm, however many sentences are in error.

        Traces and function tags of the gold trees do not count.

        Raises: UserError where a line of gold is not one tree
        """
        gold = [_cleaned(line, number) for number, line in enumerate(gold_lines, 1)]
        return score_trees(gold, parsed_lines, replace(Parameters(), max_errors=len(gold))).all

    def summary(self) -> str:
        """`3 of 500 outputs were no trees and were mended: 2 unclosed, 1 missing tags`"""
        share = f"{self.repaired:,} of {self.parsed:,} outputs were no trees"
        return f"{share} and were mended: {self.repairs}" if self.repaired else share

    def _tree(self, words: list[str], output: str) -> Tree | None:
        if not words:
            return None
        tree, repairs = delinearise(output.split(), words)
        tree = tell_punctuation(tree, repairs)
        self.parsed += 1
        self.repaired += bool(repairs)
        self.repairs.add(repairs)
        return tree


def words_of(sentence: str | Sequence[str]) -> list[str]:
    """The words of a sentence, brackets in them written -LRB- and -RRB-, as in treebanks."""
    words = re.split(r"[ \t\n\r\f\v]+", sentence.strip(" \t\n\r\f\v")) if isinstance(sentence, str) else sentence
    return [re.sub(r"[()]", lambda bracket: ESCAPES[bracket[0]], word) for word in words if word]


def _cleaned(line: str, number: int) -> str:
    found = [clean(tree) for tree in trees_of([line], f"the right tree {number:,}")]
    if len(found) != 1 or found[0] is None:
        raise UserError(
            f"line {number:,} of the right trees holds {len(found)} trees; give one with words on each line"
        )
    return str(found[0])


def _source(words: list[str]) -> str:
    return " ".join(map(as_token, words))


def as_learned(run_directory: PathLike, translator: Translator) -> Translator | Parser:
    """The translator of a run, as a parser where that is what the run has learned to be."""
    from minitf.storage.run_directory import RunDirectory

    task = RunDirectory.open(Path(run_directory)).config().task
    return Parser(translator) if task == "parsing" else translator
