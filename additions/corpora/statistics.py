"""Statistics of a parallel corpus: lengths, faults, and a model that suits it.

    print(render(corpus_statistics(Path("mine.en"), Path("mine.de"))))

Time is linear in the size of the corpus; memory holds a hash of every line.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from shlex import quote

from additions.corpora.faults import EQUAL, SWAPPED, faults_of, read_corpus, swapped_pairs
from additions.corpora.swapped import SideWords
from minitf.data.text import normalise, read_lines
from minitf.errors import UserError

SPECIAL = 4 + 256 + 1  # subwords that every vocabulary has: special tokens, bytes, the beginning of a word
MEASURED = "29,000 gave 37.9 BLEU after 30 minutes on one core"  # docs/results.md, Multi30k
QUANTILES = (0.5, 0.95, 0.99, 1.0)


@dataclass
class Side:
    """The lengths of the sentences of one side, and its distinct words and characters."""

    path: Path
    words: list[int] = field(default_factory=list)  # of each sentence
    characters: int = 0
    distinct_words: set[str] = field(default_factory=set)
    distinct_characters: set[str] = field(default_factory=set)  # of words

    def add(self, sentence: str) -> int:
        """Count one sentence, and return its length in words."""
        words = sentence.split()
        self.words.append(len(words))
        self.characters += len(sentence)
        self.distinct_words.update(words)
        self.distinct_characters.update(*words)
        return len(words)


@dataclass
class Statistics:
    """Counts of pairs, and the line of the first pair of each kind, counted from 1."""

    source: Side
    target: Side
    pairs: int = 0
    faults: dict[str, tuple[int, int]] = field(default_factory=dict)  # name: count, first line
    distinct_pairs: int = 0
    distinct_sources: int = 0
    distinct_targets: int = 0
    is_one_file: bool = False  # with a tab between source and target

    def count(self, fault: str, line: int) -> None:
        """Count a fault of a line."""
        found, first = self.faults.get(fault, (0, line))
        self.faults[fault] = found + 1, first


def corpus_statistics(source: Path, target: Path | None) -> Statistics:
    """Read a corpus, regular files twice: swapped pairs are found by the words of all.

    target: None for a source whose lines are a sentence, a tab and its translation

    Raises: UserError for texts that cannot be read or are not aligned
    """
    found = Statistics(Side(source), Side(target or source), is_one_file=target is None)
    words = SideWords()
    seen: tuple[set[int], set[int], set[int]] = (set(), set(), set())  # hashes of pairs, sources and targets
    for line, pair in enumerate(read_corpus(source, target), start=1):
        one, two = map(normalise, pair)
        found.pairs += 1
        found.source.add(one)
        found.target.add(two)
        words.add(*pair)
        for fault in faults_of(one, two, seen[0]):
            found.count(fault, line)
        if target is not None and "\t" in pair[0].strip():
            found.count(f"have a tab in {source.name}: if it has both languages, give it alone", line)
        for keys, each in zip(seen[1:], (hash(one), hash(two)), strict=True):
            keys.add(each)
    found.distinct_pairs, found.distinct_sources, found.distinct_targets = map(len, seen)
    if all(side.path.is_file() for side in (found.source, found.target)):
        for line in swapped_pairs(words, read_corpus(source, target)):
            found.count(SWAPPED, line)
    return found


def refuse_leaks(training: Path, target: Path | None, held_out: Path) -> None:
    """Raises: UserError if a sentence of a held-out text is also a source of the training text, ignoring case"""
    wanted = {normalise(line).casefold() for line in read_lines(held_out)} - {""}
    shared: dict[str, int] = {}
    for number, (line, _) in enumerate(read_corpus(training, target), start=1):
        if (key := normalise(line).casefold()) in wanted:
            shared.setdefault(key, number)
    if shared:
        text, number = next(iter(shared.items()))
        raise UserError(
            f"{len(shared):,} of {len(wanted):,} sentences of {held_out} are also in {training}, the first on line "
            f"{number:,}: {text[:60]!r}; scores on them are meaningless: split the corpus with minitf split"
        )


# ---- Advice ----------------------------------------------------------------------------------------------------------


def suggested_preset(distinct_pairs: int) -> tuple[str, str]:
    """Return the flags of a model that suits the number of pairs, and why."""
    if distinct_pairs < 5_000:
        return "--preset laptop", "few pairs: translations will be rough, and improve with more text"
    if distinct_pairs < 200_000:
        return "--preset laptop", f"some 5,000 to 200,000 pairs: {MEASURED}"
    if distinct_pairs < 500_000:
        return "--preset small", "some 200,000 to 500,000 pairs: half a day on two cores"
    return "--preset base", "half a million pairs or more: on a GPU, or --preset small on a CPU"


def suggested_vocabulary(statistics: Statistics) -> int:
    """Return a number of subwords: larger for more text, but enough for its characters, and not more than its words
    can be merged into."""
    pairs = statistics.distinct_pairs
    sizes = ((20_000, 4_000), (50_000, 5_000), (200_000, 8_000), (2_000_000, 16_000))
    by_size = next((size for most, size in sizes if pairs < most), 37_000)
    words = len(statistics.source.distinct_words | statistics.target.distinct_words)
    characters = len(statistics.source.distinct_characters | statistics.target.distinct_characters)
    return max(min(by_size, 300 + words // 100 * 100), SPECIAL + characters)


def suggested_flags(statistics: Statistics) -> str:
    """Return flags of minitf train that suit the corpus."""
    return f"{suggested_preset(statistics.distinct_pairs)[0]} --vocab-size {suggested_vocabulary(statistics)}"


def render(statistics: Statistics) -> str:
    """Format as lines of text, ending with a command to train."""
    lines = [f"{statistics.pairs:,} pairs, {statistics.distinct_pairs:,} of them distinct", ""]
    head = f"{'':20}{'words':>12}{'distinct':>12}{'a sentence':>12}" + "".join(f"{_name(q):>9}" for q in QUANTILES)
    lines.append(head)
    for side in (statistics.source, statistics.target):
        ordered = sorted(side.words)
        row = f"{side.path.name[:19]:20}{sum(ordered):>12,}{len(side.distinct_words):>12,}"
        row += f"{sum(ordered) / max(len(ordered), 1):>12.1f}"
        lines.append(row + "".join(f"{ordered[round(q * (len(ordered) - 1))]:>9,}" for q in QUANTILES))
    ratio = sum(statistics.target.words) / max(sum(statistics.source.words), 1)
    lines.append(f"target words per source word: {ratio:.2f}")
    lines.append(
        f"distinct sources: {statistics.distinct_sources:,}; distinct targets: {statistics.distinct_targets:,}"
    )
    lines += [
        "",
        "pairs to check:" if statistics.faults else "no problems found, such as empty sides or repeated pairs",
    ]
    for fault, (count, line) in statistics.faults.items():
        lines.append(f"{count:>9,} {fault}, the first on line {line:,}")
    if statistics.faults.get(EQUAL, (0, 0))[0] == statistics.pairs:
        lines.append("both sides are the same text: give the texts of two languages")
    return "\n".join([*lines, "", *_advice(statistics)])


def _name(quantile: float) -> str:
    return {0.5: "median", 1.0: "longest"}.get(quantile, f"{100 * quantile:g} %")


def _advice(statistics: Statistics) -> list[str]:
    _, why = suggested_preset(statistics.distinct_pairs)
    paths = [quote(str(side.path)) for side in (statistics.source, statistics.target)]
    texts = paths[0] if statistics.is_one_file else " ".join(paths)
    clean = " --clean" if statistics.faults else ""
    return [
        f"suggested: {suggested_flags(statistics)}",
        f"    {why}",
        "first split off validation and test texts:",
        f"    minitf split {texts}{clean}",
    ]
