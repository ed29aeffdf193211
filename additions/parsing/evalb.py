"""EVALB: labelled bracketing recall, precision and F1, with the output of the original program.

A bracket is a constituent's (label, first word, word after its last). A bracket of the parser's tree is matched if the
gold tree has the same one, each gold bracket once:

    recall = matched / gold      precision = matched / test      F1 = 2 · recall · precision / (recall + precision)

summed over all sentences. The parameter file says which labels and words are left out or count as equal. A sentence
whose words differ is an error, one without words is skipped; neither enters the scores.

Source: EVALB, Sekine and Collins 1997; Black et al. 1991 (PARSEVAL)
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, zip_longest
from typing import Any

from minitf.data.text import PathLike, read_lines
from minitf.errors import UserError

Pairs = frozenset[tuple[str, str]]
Bracket = tuple[str, int, int]
"""label, first word, word after the last"""

VALID, ERROR, SKIPPED = 0, 1, 2
"""EVALB's status of a sentence."""

QUOTES = ("'", '"', "/")
"""Words that one annotator may take for a quotation mark and another for an apostrophe."""


@dataclass(frozen=True)
class Parameters:
    """Scoring parameters. The defaults are those of COLLINS.prm, the standard for parsers of the Penn Treebank."""

    delete_labels: frozenset[str] = frozenset({"TOP", "-NONE-", ",", ":", "``", "''", "."})
    """Constituents with such a label do not count; words with such a tag are removed."""
    delete_labels_for_length: frozenset[str] = frozenset({"-NONE-"})
    """Words with such a tag do not count in the length of a sentence."""
    quote_labels: frozenset[str] = frozenset()
    """Tags of quotation marks: a word that only one tree deletes is kept in both."""
    equal_labels: Pairs = frozenset({("ADVP", "PRT")})
    equal_words: Pairs = frozenset()
    labelled: bool = True
    """False: compare the places of brackets only."""
    cutoff_length: int = 40
    """Longest sentence of the second summary."""
    max_errors: int = 10
    """Scoring stops at more errors than this and one."""

    def same_label(self, one: str, other: str) -> bool:
        """Return whether two labels count as equal."""
        return one == other or not self.equal_labels.isdisjoint({(one, other), (other, one)})

    def same_word(self, one: str, other: str) -> bool:
        """Return whether two words count as equal."""
        return one == other or not self.equal_words.isdisjoint({(one, other), (other, one)})


def read_parameters(path: PathLike) -> Parameters:
    """Read a parameter file of EVALB, with EVALB's own defaults: nothing deleted, nothing equal; DEBUG has no effect.

    Raises: UserError for an unknown name or an invalid value, with the line
    """
    sets: dict[str, set] = {name: set() for name in ("DELETE_LABEL", "DELETE_LABEL_FOR_LENGTH", "QUOTE_LABEL")}
    pairs: dict[str, set] = {"EQ_LABEL": set(), "EQ_WORD": set()}
    numbers = {"LABELED": 1, "CUTOFF_LEN": 40, "MAX_ERROR": 10, "DEBUG": 0}
    for number, line in enumerate(read_lines(path), start=1):
        name, *values = line.split()[:4] or [""]
        if not name or name.startswith("#"):
            continue
        if name in sets and len(values) == 1:
            sets[name].add(values[0])
        elif name in pairs and len(values) == 2:
            pairs[name].add((values[0], values[1]))
        elif name in numbers and len(values) == 1 and values[0].isdecimal():
            numbers[name] = int(values[0])
        elif name in {**sets, **pairs, **numbers}:
            expected = "one label" if name in sets else "two words" if name in pairs else "a whole number"
            raise UserError(f"{path}, line {number}: {line.strip()!r}; {name} takes {expected}")
        else:
            known = ", ".join((*sets, *pairs, *numbers))
            raise UserError(f"{path}, line {number}: {name!r} is not a parameter; EVALB's are {known}")
    return Parameters(
        delete_labels=frozenset(sets["DELETE_LABEL"]),
        delete_labels_for_length=frozenset(sets["DELETE_LABEL_FOR_LENGTH"]),
        quote_labels=frozenset(sets["QUOTE_LABEL"]),
        equal_labels=frozenset(pairs["EQ_LABEL"]),
        equal_words=frozenset(pairs["EQ_WORD"]),
        labelled=numbers["LABELED"] != 0,
        cutoff_length=numbers["CUTOFF_LEN"],
        max_errors=numbers["MAX_ERROR"],
    )


# ---- One line ----------------------------------------------------------------------------------------------------


@dataclass
class Bracketing:
    """A line of brackets: (tag, word) of every word, and every bracket.

    A line need not be one tree: EVALB scores whatever brackets it finds. `fault` says what is wrong with them.
    """

    terminals: list[tuple[str, str]] = field(default_factory=list)
    brackets: list[Bracket] = field(default_factory=list)
    fault: str = ""
    keeps: list[bool] = field(default_factory=list)  # of each terminal: it is not deleted

    def words(self) -> list[tuple[str, str]]:
        """Return the (tag, word) of the kept words."""
        return [terminal for terminal, kept in zip(self.terminals, self.keeps, strict=True) if kept]

    def places(self) -> list[int]:
        """Return the number of kept words before each terminal, and before the end."""
        return list(accumulate(self.keeps, initial=0))

    def quotes(self, parameters: Parameters) -> list[int]:
        """Return the places of quotation marks."""
        terminals = enumerate(self.terminals)
        return [place for place, (tag, word) in terminals if tag in parameters.quote_labels and word in QUOTES]

    def counted(self, parameters: Parameters) -> list[Bracket]:
        """Return the brackets that count, over the kept words; labels without function tags."""
        places = self.places()
        spans = ((re.split("[-=]", label)[0], places[start], places[end]) for label, start, end in self.brackets)
        return [
            (label, start, end)
            for label, start, end in spans
            if start < end and not any(parameters.same_label(label, deleted) for deleted in parameters.delete_labels)
        ]


BRACKETS = re.compile(
    r"\((?P<tag>[^\s()]*)\s+(?P<word>[^\s()]+)\s*\)|\((?P<label>[^\s()]*)|(?P<close>\))|(?P<text>\S)",
    re.ASCII,
)


def read_bracketing(line: str, delete: frozenset[str] = frozenset()) -> Bracketing:
    """Read the words and brackets of a line, in the order of their opening; delete the words with a tag in `delete`."""
    read = Bracketing()
    pending: list[int] = []
    for part in BRACKETS.finditer(line):
        if part["word"] is not None:
            read.terminals.append((part["tag"], part["word"]))
        elif part["label"] is not None:
            pending.append(len(read.brackets))
            read.brackets.append((part["label"], len(read.terminals), len(read.terminals)))
        elif part["text"] is not None:
            read.fault = read.fault or f"text outside of a leaf at character {part.start() + 1}"
        elif not pending:
            read.fault = read.fault or "too many closing brackets"
        else:
            label, start, _ = read.brackets[pending[-1]]
            read.brackets[pending.pop()] = (label, start, len(read.terminals))
    if pending:
        read.fault = read.fault or "too many opening brackets"
    read.keeps = [tag not in delete for tag, _ in read.terminals]
    return read


def _restore_quotes(gold: Bracketing, test: Bracketing, parameters: Parameters) -> None:
    """Keep a quotation mark that only one tree has deleted, because the trees give it different tags."""
    for i in test.quotes(parameters):
        for j in gold.quotes(parameters):
            same_place = gold.places()[j] == test.places()[i]
            if same_place and gold.terminals[j][0] != test.terminals[i][0] and gold.keeps[j] != test.keeps[i]:
                gold.keeps[j] = test.keeps[i] = True
                break


# ---- One sentence ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SentenceScore:
    """A row of EVALB's table."""

    number: int
    length: int  # words of the gold tree that count for the length
    status: int
    matched: int = 0
    gold: int = 0
    test: int = 0
    crossing: int = 0  # test brackets that cross a gold bracket
    words: int = 0
    correct_tags: int = 0
    fault: str = ""

    def __str__(self) -> str:
        return (
            f"{self.number:4d}  {self.length:3d}    {self.status:d}  "
            f"{percent(self.matched, self.gold):6.2f} {percent(self.matched, self.test):6.2f}   "
            f"{self.matched:3d}    {self.gold:3d}  {self.test:3d}    {self.crossing:3d}"
            f"   {self.words:4d}  {self.correct_tags:4d}   {percent(self.correct_tags, self.words):6.2f}"
        )


def score_sentence(number: int, gold_line: str, test_line: str, parameters: Parameters) -> SentenceScore:
    """Compare a line of the parser's with the gold one."""
    p = parameters
    gold, test = read_bracketing(gold_line, p.delete_labels), read_bracketing(test_line, p.delete_labels)
    length = sum(tag not in p.delete_labels_for_length for tag, _ in gold.terminals)
    fault = "; ".join(f"{name}: {side.fault}" for name, side in (("gold", gold), ("test", test)) if side.fault)
    if not test.words() and not fault:
        return SentenceScore(number, length, SKIPPED, words=len(gold.words()), fault="no words")
    if len(gold.words()) != len(test.words()):
        _restore_quotes(gold, test, p)
    right, words = gold.words(), test.words()
    fault = fault or _difference(right, words, p)
    if fault:
        return SentenceScore(number, length, ERROR, words=len(right), fault=fault)
    gold_brackets, test_brackets = gold.counted(p), test.counted(p)
    return SentenceScore(
        number,
        length,
        VALID,
        matched=_matched(gold_brackets, test_brackets, p),
        gold=len(gold_brackets),
        test=len(test_brackets),
        crossing=sum(any(_cross(one, other) for other in gold_brackets) for one in test_brackets),
        words=len(right),
        correct_tags=sum(p.same_label(one, other) for (one, _), (other, _) in zip(right, words, strict=True)),
    )


def _difference(gold: list[tuple[str, str]], test: list[tuple[str, str]], parameters: Parameters) -> str:
    """Say why two sentences cannot be compared; "" if they can."""
    if len(gold) != len(test):
        return f"Length unmatch ({len(gold)}|{len(test)})"
    for (_, right), (_, word) in zip(gold, test, strict=True):
        if not parameters.same_word(right, word):
            return f"Words unmatch ({right}|{word})"
    return ""


def _matched(gold: list[Bracket], test: list[Bracket], parameters: Parameters) -> int:
    """Count the gold brackets that match a test bracket that no other has matched."""
    free: dict[tuple[int, int], list[str]] = {}
    for label, start, end in test:
        free.setdefault((start, end), []).append(label)
    matched = 0
    for label, start, end in gold:
        labels = free.get((start, end), [])
        for place, other in enumerate(labels):
            if not parameters.labelled or parameters.same_label(label, other):
                del labels[place]
                matched += 1
                break
    return matched


def _cross(one: Bracket, other: Bracket) -> bool:
    """Return whether two brackets overlap without one containing the other."""
    (_, start, end), (_, first, last) = one, other
    return first < start < last < end or start < first < end < last


# ---- A text ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Summary:
    """EVALB's figures over some sentences; all but the first three are of the valid ones."""

    sentences: int
    errors: int
    skipped: int
    matched: int
    gold: int
    test: int
    complete: int  # sentences all of whose brackets match
    crossing: int  # crossing brackets
    no_crossing: int  # sentences with none
    two_or_less_crossing: int
    words: int
    correct_tags: int

    @classmethod
    def of(cls, scores: Iterable[SentenceScore]) -> Summary:
        """Sum up the scores of sentences."""
        scores = list(scores)
        valid = [score for score in scores if score.status == VALID]
        totals: dict[str, Any] = {
            name: sum(getattr(score, name) for score in valid)
            for name in ("matched", "gold", "test", "crossing", "words", "correct_tags")
        }
        return cls(
            sentences=len(scores),
            errors=sum(score.status == ERROR for score in scores),
            skipped=sum(score.status == SKIPPED for score in scores),
            complete=sum(score.matched == score.gold == score.test for score in valid),
            no_crossing=sum(score.crossing == 0 for score in valid),
            two_or_less_crossing=sum(score.crossing <= 2 for score in valid),
            **totals,
        )

    @property
    def valid(self) -> int:
        """Number of sentences that were scored."""
        return self.sentences - self.errors - self.skipped

    @property
    def recall(self) -> float:
        """0 to 100, as all percentages here."""
        return percent(self.matched, self.gold)

    @property
    def precision(self) -> float:
        """Share of the brackets of the test trees that are in the gold trees."""
        return percent(self.matched, self.test)

    @property
    def f1(self) -> float:
        """2 · recall · precision / (recall + precision); 0 where nothing matches."""
        return percent(2 * self.matched, self.gold + self.test)

    @property
    def complete_match(self) -> float:
        """Share of the sentences all of whose brackets match."""
        return percent(self.complete, self.valid)

    @property
    def average_crossing(self) -> float:
        """Mean number of crossing brackets of a sentence."""
        return self.crossing / self.valid if self.valid else 0.0

    @property
    def tagging_accuracy(self) -> float:
        """Share of the words whose tag is right."""
        return percent(self.correct_tags, self.words)

    def __str__(self) -> str:
        return "\n".join(
            (
                f"Number of sentence        = {self.sentences:6d}",
                f"Number of Error sentence  = {self.errors:6d}",
                f"Number of Skip  sentence  = {self.skipped:6d}",
                f"Number of Valid sentence  = {self.valid:6d}",
                f"Bracketing Recall         = {self.recall:6.2f}",
                f"Bracketing Precision      = {self.precision:6.2f}",
                f"Bracketing FMeasure       = {self.f1:6.2f}",
                f"Complete match            = {self.complete_match:6.2f}",
                f"Average crossing          = {self.average_crossing:6.2f}",
                f"No crossing               = {percent(self.no_crossing, self.valid):6.2f}",
                f"2 or less crossing        = {percent(self.two_or_less_crossing, self.valid):6.2f}",
                f"Tagging accuracy          = {self.tagging_accuracy:6.2f}",
            )
        )


@dataclass(frozen=True)
class Report:
    """The scores of a text; printed, it is EVALB's output."""

    scores: Sequence[SentenceScore]
    cutoff_length: int

    @property
    def all(self) -> Summary:
        """Every sentence."""
        return Summary.of(self.scores)

    @property
    def short(self) -> Summary:
        """The sentences of at most `cutoff_length` words."""
        return Summary.of(score for score in self.scores if score.length <= self.cutoff_length)

    def __str__(self) -> str:
        line = "=" * 76
        total = self.all
        return "\n".join(
            (
                "  Sent.                        Matched  Bracket   Cross        Correct Tag",
                " ID  Len.  Stat. Recal  Prec.  Bracket gold test Bracket Words  Tags Accracy",
                line,
                *map(str, self.scores),
                line,
                # the column of crossing brackets holds the number of sentences without any, as EVALB publishes it
                f"                {total.recall:6.2f} {total.precision:6.2f} {total.matched:6d} {total.gold:6d} "
                f"{total.test:4d}  {total.no_crossing:5d}  {total.words:5d} {total.correct_tags:5d}   "
                f"{total.tagging_accuracy:6.2f}",
                f"=== Summary ===\n\n-- All --\n{total}\n\n-- len<={self.cutoff_length} --\n{self.short}",
            )
        )


def score_trees(gold_lines: Iterable[str], test_lines: Iterable[str], parameters: Parameters | None = None) -> Report:
    """Score trees, one a line, against the gold ones.

    Raises: UserError if there is no line, the numbers of lines differ, or there are too many errors
    """
    parameters = parameters or Parameters()
    scores = list(_scores(gold_lines, test_lines, parameters))
    if not scores:
        raise UserError("there is no tree to score; give at least one line of gold and of test")
    return Report(scores, parameters.cutoff_length)


def _scores(gold_lines: Iterable[str], test_lines: Iterable[str], parameters: Parameters) -> Iterator[SentenceScore]:
    errors = 0
    for number, (gold, test) in enumerate(zip_longest(gold_lines, test_lines), start=1):
        if gold is None or test is None:
            more, fewer = ("test", "gold") if gold is None else ("gold", "test")
            raise UserError(
                f"the {more} trees go on after line {number - 1:,}, where the {fewer} trees end; "
                "give both for the same sentences, one a line"
            )
        score = score_sentence(number, gold, test, parameters)
        errors += score.status == ERROR
        if errors > parameters.max_errors + 1:
            raise UserError(
                f"line {number:,} is error number {errors}: {score.fault}; are these the same sentences, and no tags "
                f"of the same words deleted on one side only? MAX_ERROR {parameters.max_errors} says when to give up"
            )
        yield score


def percent(part: float, whole: float) -> float:
    """100 · part / whole; 0 where the whole is 0."""
    return 100.0 * part / whole if whole else 0.0
