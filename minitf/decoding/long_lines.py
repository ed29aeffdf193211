"""Lines longer than any that a model was trained on: cut where a sentence ends if possible, translated in pieces."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from minitf.system.environment import sum_left_to_right

SENTENCE_ENDS = tuple(".!?…。！？।؟")
CLAUSE_ENDS = tuple(",;:–—，；：、،")
CLOSING = "\"'”’»›“)]}」』）"


def split_long(ids: list[int], texts: Sequence[str], limit: int) -> list[list[int]]:
    """Split a line into pieces of at most `limit` subwords, each at least half as long, at the best places.

    The best place is after the end of a sentence, else of a clause, of a word, or of a character; of several, the last.
    `texts` are the subwords as sentencepiece writes them: "▁" begins a word, "<0xE2>" is a byte.
    """
    pieces = []
    begin = 0
    while len(ids) - begin > limit:
        places = range(begin + limit, begin + limit // 2, -1)
        cut = max(places, key=lambda place: _cut_quality(texts[place - 1], texts[place]))  # the first of the best
        pieces.append(ids[begin:cut])
        begin = cut
    return [*pieces, ids[begin:]]


def _cut_quality(before: str, after: str) -> int:
    """Rank a place between two subwords: 4 after a sentence, 3 a clause, 2 a word, 1 a character, 0 inside one."""
    if after.startswith("<0x") and "80" <= after[3:5].upper() <= "BF":
        return 0  # a byte that continues a character
    ended = before.rstrip(CLOSING)
    if not after.startswith("▁") and before.isascii():
        return 1  # inside a word, or between "3" and ".5"; other scripts may have no spaces
    if ended.endswith(SENTENCE_ENDS):
        return 4
    if ended.endswith(CLAUSE_ENDS):
        return 3
    return 2 if after.startswith("▁") else 1


def joined(pieces: Sequence[list[Any]], n_best: int) -> list[Any]:
    """Return the n best translations of a line, by the sum of the scores of a translation of each of its pieces."""
    best: list[tuple[float, tuple[Any, ...]]] = [(0.0, ())]
    for translations in pieces:
        longer = [(score + each.score, (*chosen, each)) for score, chosen in best for each in translations]
        best = sorted(longer, key=lambda ranked: -ranked[0])[:n_best]
    return [
        replace(
            chosen[0],
            text=" ".join(each.text for each in chosen if each.text),
            score=score,
            log_probability=sum_left_to_right(each.log_probability for each in chosen),
            finished=all(each.finished for each in chosen),
            parts=tuple(part for each in chosen for part in each.parts),
        )
        for score, chosen in best
    ]
