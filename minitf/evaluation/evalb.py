"""Labelled bracketing recall, precision and F1, figure by figure as EVALB gives them.

A bracket is a constituent's (label, first word, word after its last). Those of the parser's tree that the gold tree has
as well are matched, each once:

    recall = matched / gold      precision = matched / test      F1 = 2 · recall · precision / (recall + precision)

summed over all sentences. What is not counted decides the figures as much as what is, and is what the parameter file
says: labels and words left out, labels and words taken for equal. A sentence whose words differ counts as an error, one
without words as skipped; neither enters the figures.

Source: EVALB, Sekine and Collins 1997; Black et al. 1991 (PARSEVAL)
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, zip_longest

from minitf.data.text import PathLike, read_lines
from minitf.errors import UserError

Pairs = frozenset[tuple[str, str]]

VALID, ERROR, SKIPPED = 0, 1, 2
"""EVALB's status of a sentence."""

QUOTES = ("'", '"', "/")
"""Words that may be a quotation mark to one side and an apostrophe to the other."""


@dataclass(frozen=True)
class Parameters:
    """What counts. The defaults are those of COLLINS.prm, with which parsers of the Penn Treebank are compared."""

    delete_labels: frozenset[str] = frozenset({"TOP", "-NONE-", ",", ":", "``", "''", "."})
    """A constituent of such a label does not count; a word with such a tag is as if it were not there."""
    delete_labels_for_length: frozenset[str] = frozenset({"-NONE-"})
    """Words with such a tag do not count in the length of a sentence."""
    quote_labels: frozenset[str] = frozenset()
    """Tags of quotation marks: where one side deletes such a word and the other does not, both keep it."""
    equal_labels: Pairs = frozenset({("ADVP", "PRT")})
    equal_words: Pairs = frozenset()
    labelled: bool = True
    """False compares the places of brackets only."""
    cutoff_length: int = 40
    """The second summary is of sentences no longer than this."""
    max_errors: int = 10
    """With more errors than this and one, scoring stops: something is wrong with the texts."""

    def same_label(self, one: str, other: str) -> bool:
        return one == other or (one, other) in self.equal_labels or (other, one) in self.equal_labels

    def same_word(self, one: str, other: str) -> bool:
        return one == other or (one, other) in self.equal_words or (other, one) in self.equal_words

    def deletes_bracket(self, label: str) -> bool:
        return any(self.same_label(label, deleted) for deleted in self.delete_labels)


def read_parameters(path: PathLike) -> Parameters:
    """Read a parameter file of EVALB. What it does not set is EVALB's own default: nothing deleted, nothing equal.

    DEBUG is read and has no effect.  Raises: UserError for an unknown name and a value that cannot be, with the line
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
            raise UserError(f"{path}, line {number}: {name!r} is no parameter; EVALB's are {known}")
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
    """A line of brackets: (tag, word) of every word, and (label, first word, word after the last) of every bracket.

    A line need not be one tree: EVALB scores whatever brackets it finds. `fault` says what is wrong with them.
    """

    terminals: list[tuple[str, str]] = field(default_factory=list)
    brackets: list[tuple[str, int, int]] = field(default_factory=list)
    fault: str = ""


BRACKETS = re.compile(
    r"\((?P<tag>[^\s()]*)\s+(?P<word>[^\s()]+)\s*\)|\((?P<label>[^\s()]*)|(?P<close>\))|(?P<text>\S)",
    re.ASCII,
)


def read_bracketing(line: str) -> Bracketing:
    """The words and brackets of a line, in the order of their opening."""
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
    return read


@dataclass
class _Side:
    """A bracketing of which the deleted words are left out."""

    read: Bracketing
    keeps: list[bool]  # of each terminal

    def words(self) -> list[tuple[str, str]]:
        return [terminal for terminal, kept in zip(self.read.terminals, self.keeps, strict=True) if kept]

    def places(self) -> list[int]:
        """Kept words before each terminal, and before the end."""
        return list(accumulate(self.keeps, initial=0))

    def brackets(self, parameters: Parameters) -> list[tuple[str, int, int]]:
        """Those that count, over the kept words; labels without function tags."""
        places = self.places()
        spans = ((re.split("[-=]", label)[0], places[start], places[end]) for label, start, end in self.read.brackets)
        return [
            (label, start, end) for label, start, end in spans if start < end and not parameters.deletes_bracket(label)
        ]


def _side(line: str, parameters: Parameters) -> _Side:
    read = read_bracketing(line)
    return _Side(read, [tag not in parameters.delete_labels for tag, _ in read.terminals])


def _mend_quotes(gold: _Side, test: _Side, parameters: Parameters) -> None:
    """Put back a quotation mark that only one side has deleted, because it gives it another tag."""
    for i in _quotes(test, parameters):
        for j in _quotes(gold, parameters):
            same_place = gold.places()[j] == test.places()[i]
            if same_place and gold.read.terminals[j][0] != test.read.terminals[i][0] and gold.keeps[j] != test.keeps[i]:
                gold.keeps[j] = test.keeps[i] = True
                break


def _quotes(side: _Side, parameters: Parameters) -> list[int]:
    terminals = enumerate(side.read.terminals)
    return [place for place, (tag, word) in terminals if tag in parameters.quote_labels and word in QUOTES]


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
    gold, test = _side(gold_line, parameters), _side(test_line, parameters)
    length = sum(tag not in parameters.delete_labels_for_length for tag, _ in gold.read.terminals)
    gold_words = gold.words()
    fault = "; ".join(
        f"{name}: {side.read.fault}" for name, side in (("gold", gold), ("test", test)) if side.read.fault
    )
    if not test.words() and not fault:
        return SentenceScore(number, length, SKIPPED, words=len(gold_words), fault="no words")
    if len(gold_words) != len(test.words()):
        _mend_quotes(gold, test, parameters)
        gold_words = gold.words()
    fault = fault or _difference(gold_words, test.words(), parameters)
    if fault:
        return SentenceScore(number, length, ERROR, words=len(gold_words), fault=fault)
    gold_brackets, test_brackets = gold.brackets(parameters), test.brackets(parameters)
    return SentenceScore(
        number,
        length,
        VALID,
        matched=_matched(gold_brackets, test_brackets, parameters),
        gold=len(gold_brackets),
        test=len(test_brackets),
        crossing=sum(any(_cross(one, other) for other in gold_brackets) for one in test_brackets),
        words=len(gold_words),
        correct_tags=sum(
            parameters.same_label(right, tag) for (right, _), (tag, _) in zip(gold_words, test.words(), strict=True)
        ),
    )


def _difference(gold: list[tuple[str, str]], test: list[tuple[str, str]], parameters: Parameters) -> str:
    """What keeps two sentences from being compared, or nothing."""
    if len(gold) != len(test):
        return f"Length unmatch ({len(gold)}|{len(test)})"
    for (_, right), (_, word) in zip(gold, test, strict=True):
        if not parameters.same_word(right, word):
            return f"Words unmatch ({right}|{word})"
    return ""


def _matched(gold: list[tuple[str, int, int]], test: list[tuple[str, int, int]], parameters: Parameters) -> int:
    """How many gold brackets find one among those of the test that no other has taken."""
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


def _cross(one: tuple[str, int, int], other: tuple[str, int, int]) -> bool:
    """Do two brackets overlap without one holding the other?"""
    (_, start, end), (_, first, last) = one, other
    return first < start < last < end or start < first < end < last


# ---- A text ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Summary:
    """EVALB's figures over some sentences; all but the counts are of the valid ones."""

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
        """Sum up."""
        scores = list(scores)
        valid = [score for score in scores if score.status == VALID]
        return cls(
            sentences=len(scores),
            errors=sum(score.status == ERROR for score in scores),
            skipped=sum(score.status == SKIPPED for score in scores),
            matched=sum(score.matched for score in valid),
            gold=sum(score.gold for score in valid),
            test=sum(score.test for score in valid),
            complete=sum(score.matched == score.gold == score.test for score in valid),
            crossing=sum(score.crossing for score in valid),
            no_crossing=sum(score.crossing == 0 for score in valid),
            two_or_less_crossing=sum(score.crossing <= 2 for score in valid),
            words=sum(score.words for score in valid),
            correct_tags=sum(score.correct_tags for score in valid),
        )

    @property
    def valid(self) -> int:
        return self.sentences - self.errors - self.skipped

    @property
    def recall(self) -> float:
        """0 to 100, as all shares here."""
        return percent(self.matched, self.gold)

    @property
    def precision(self) -> float:
        return percent(self.matched, self.test)

    @property
    def f1(self) -> float:
        """2 · recall · precision / (recall + precision); 0 where nothing matches."""
        return percent(2 * self.matched, self.gold + self.test)

    @property
    def complete_match(self) -> float:
        return percent(self.complete, self.valid)

    @property
    def average_crossing(self) -> float:
        """Crossing brackets a sentence."""
        return self.crossing / self.valid if self.valid else 0.0

    @property
    def tagging_accuracy(self) -> float:
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
        """Those of at most `cutoff_length` words."""
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
                "=== Summary ===",
                "",
                "-- All --",
                str(total),
                "",
                f"-- len<={self.cutoff_length} --",
                str(self.short),
            )
        )


def score_trees(gold_lines: Iterable[str], test_lines: Iterable[str], parameters: Parameters | None = None) -> Report:
    """Score trees, one a line, against the gold ones.

    Raises: UserError where there is no line, the numbers of lines differ, or there are too many errors
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
    """100 · part / whole; of nothing, 0."""
    return 100.0 * part / whole if whole else 0.0
