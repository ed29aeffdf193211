"""Cut a parallel corpus into training, validation and test text so that no source sentence is on two sides.

    split_corpus(Path("mine.en"), Path("mine.de"), Path("split"))

Pairs with the same source stay together, and with `by="both"` also those with the same target, and those that either
ties together. Sentences are compared without regard to case and white space: a copy that differs in these only
would leak as well. Time is linear in the size of the corpus, which is held in memory.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from additions.corpora.faults import EMPTY, pairs_with_faults, read_corpus
from minitf.corpora.built_in import Splits, require_non_negative
from minitf.data.text import normalise
from minitf.errors import UserError
from minitf.system.files import atomic_write, os_errors_explained

Pair = tuple[str, str]
BY = ("source", "both")
LARGEST_SHORTFALL = 0.1  # of a held-out part
LARGEST_PART, SHARE = 1_000, 20
"""Pairs of a held-out part unless told otherwise: so many at most, and one in so many of a small corpus."""


@dataclass
class Report:
    """Counts of the pairs in each part, and the files that `split_corpus` wrote."""

    train: int
    valid: int
    test: int
    removed: dict[str, int]  # pairs left out, by the rule that they break
    targets_in_train: int  # held-out pairs whose target, with another source, is also a target of training
    paths: dict[str, tuple[Path, Path]]  # of train, valid and test, without empty ones
    requested: tuple[int, int]  # pairs of validation and test text


def split_corpus(
    source: Path,
    target: Path | None,
    folder: Path,
    *,
    valid: int | None = None,
    test: int | None = None,
    seed: int = 0,
    by: str = "source",
    clean: bool = False,
) -> Report:
    """Write train, valid and test with the suffixes of the given files into `folder`.

    Pairs keep their order within the training text, and are drawn by `seed`.

    target: None for a source whose lines are a sentence, a tab and its translation
    valid, test: numbers of pairs; None: one for 20 distinct sources, at most 1,000
    clean: leave out all pairs with a fault; False: only those with an empty side
    Raises: UserError for texts that cannot be read, files that exist, and a corpus that cannot be cut like that.
    """
    require_non_negative(valid=valid or 0, test=test or 0, seed=seed)
    if by not in BY:
        raise UserError(f"by={by!r} is unknown; choose source or both")
    suffixes = _suffixes(source, target)
    paths = [folder / f"{name}.{suffix}" for name in ("train", "valid", "test") for suffix in suffixes]
    found = [path for path in paths if path.exists()]
    if found:
        raise UserError(f"{found[0]} already exists; delete it, or give another --output")
    removed: Counter[str] = Counter()
    whole = []
    for pair, faults in pairs_with_faults(list(read_corpus(source, target))):
        wrong = [fault for fault in faults if clean or fault == EMPTY]
        removed.update(wrong[:1])
        if not wrong:
            whole.append(pair)
    usual = pairs_held_out(len({key_of(pair[0]) for pair in whole}))
    parts = {name: usual if count is None else count for name, count in (("valid", valid), ("test", test))}
    splits = split_pairs(whole, **parts, seed=seed, by=by)
    trained = {key_of(pair[1]) for pair in splits.train}
    return Report(
        **{name: len(part) for name, part in vars(splits).items()},
        removed=dict(removed),
        targets_in_train=sum(key_of(pair[1]) in trained for pair in (*splits.valid, *splits.test)),
        paths=_write(splits, folder, suffixes),
        requested=(parts["valid"], parts["test"]),
    )


def pairs_held_out(distinct_sources: int) -> int:
    """Return the number of pairs of a held-out part, unless it is given."""
    return min(LARGEST_PART, max(1, distinct_sources // SHARE))


def _write(splits: Splits[Pair], folder: Path, suffixes: Pair) -> dict[str, tuple[Path, Path]]:
    """Write the parts that are not empty; return the paths of each."""
    with os_errors_explained(f"create the folder {folder}"):
        folder.mkdir(parents=True, exist_ok=True)
    written = {}
    for name, pairs in vars(splits).items():
        if not pairs:
            continue
        written[name] = (folder / f"{name}.{suffixes[0]}", folder / f"{name}.{suffixes[1]}")
        for side, path in enumerate(written[name]):
            with atomic_write(path, "w") as file:
                file.writelines(f"{pair[side]}\n" for pair in pairs)
    return written


def split_pairs(pairs: list[Pair], *, valid: int, test: int, seed: int = 0, by: str = "source") -> Splits[Pair]:
    """Draw groups of pairs that belong together until each held-out part has its number of pairs.

    A group that is larger than what is left to draw stays in training. A part may therefore be a little smaller than
    asked for: where each source has three targets, the numbers of pairs are multiples of three.
    Raises: UserError if a part would be more than a tenth too small, or nothing would be left to train on.
    """
    groups = groups_of(pairs, by)
    order = _shuffled(len(groups), seed)
    held_out: dict[str, list[int]] = {}
    drawn: set[int] = set()
    for name, wanted in (("test", test), ("valid", valid)):
        chosen: list[int] = []
        for number in order:
            if len(chosen) == wanted:
                break
            if number not in drawn and len(chosen) + len(groups[number]) <= wanted:
                drawn.add(number)
                chosen += groups[number]
        if wanted - len(chosen) > max(LARGEST_SHORTFALL * wanted, 2) or (wanted and not chosen):
            raise UserError(_too_few(name, wanted, len(chosen), len(pairs), len(groups), by))
        held_out[name] = chosen
    train = sorted(i for number, group in enumerate(groups) if number not in drawn for i in group)
    if not train:
        raise UserError(f"no pairs remain for training: all {len(pairs):,} pairs are held out; give a smaller --test")
    splits = Splits(*([pairs[i] for i in part] for part in (train, held_out["valid"], held_out["test"])))
    refuse_overlap(splits, by)
    return splits


def _shuffled(count: int, seed: int) -> list[int]:
    """Return the numbers below `count` in random order (Fisher and Yates), the same on every version of Python."""
    draw = random.Random(seed).random  # the one method whose numbers Python promises never to change
    order = list(range(count))
    for last in range(count - 1, 0, -1):
        other = int(draw() * (last + 1))
        order[last], order[other] = order[other], order[last]
    return order


def groups_of(pairs: Iterable[Pair], by: str = "source") -> list[list[int]]:
    """Return the indices of the pairs that belong together, in the order of their first pairs."""
    parents: list[int] = []
    first: dict[tuple[int, str], int] = {}
    for i, pair in enumerate(pairs):
        parents.append(i)
        for side in range(len(pair) if by == "both" else 1):
            other = _root(parents, first.setdefault((side, key_of(pair[side])), i))
            own = _root(parents, i)
            parents[max(own, other)] = min(own, other)
    groups: dict[int, list[int]] = {}
    for i in range(len(parents)):
        groups.setdefault(_root(parents, i), []).append(i)
    return list(groups.values())


def _root(parents: list[int], i: int) -> int:
    """Return the first pair of the group of pair i; paths are halved on the way."""
    while parents[i] != i:
        parents[i] = parents[parents[i]]
        i = parents[i]
    return i


def key_of(sentence: str) -> str:
    """Return the sentence in a form that is equal for all sentences that count as the same."""
    return normalise(sentence).casefold()


def refuse_overlap(splits: Splits[Pair], by: str = "source") -> None:
    """Raises: UserError if a sentence is in two of the parts"""
    for side, name in enumerate(("source", "target") if by == "both" else ("source",)):
        where: dict[str, str] = {}
        for part, pairs in vars(splits).items():
            for pair in pairs:
                other = where.setdefault(key_of(pair[side]), part)
                if other != part:
                    raise UserError(f"the {name} {pair[side][:60]!r} is in both {other} and {part}; keep it in one")


def _suffixes(source: Path, target: Path | None) -> Pair:
    """The languages, as the names of the files end: corpus.en.gz -> en, corpus.en-de.tsv -> en and de; source and
    target where they do not tell."""
    names = [path.name.removesuffix(".gz") for path in (source, target or source)]
    if target is None:
        one, _, two = names[0].removesuffix(".tsv").rpartition(".")[2].partition("-")
        names = [f".{one}", f".{two}"]
    found = names[0].rpartition(".")[2], names[1].rpartition(".")[2]
    return found if all(found) and found[0] != found[1] else ("source", "target")


def _too_few(name: str, wanted: int, found: int, pairs: int, groups: int, by: str) -> str:
    tied = "the same source" if by == "source" else "a source or target in common, directly or through others,"
    return (
        f"only {found:,} of {wanted:,} pairs can be held out for {name}: the {pairs:,} pairs are {groups:,} groups "
        f"with {tied} which cannot be split; give a smaller --{name}" + ("" if by == "source" else ", or --by source")
    )
