"""Lines longer than any that a model was trained on: where to cut them, and how to combine what their pieces become."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from minitf.decoding.translation import Translation
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


def joined(pieces: Sequence[list[Translation]], n_best: int) -> list[Translation]:
    """Return the n best translations of a line, from those of its pieces."""
    return [
        Translation(
            " ".join(each.text for each in chosen if each.text),
            score,
            sum_left_to_right(each.log_probability for each in chosen),
            all(each.finished for each in chosen),
            tuple(part for each in chosen for part in each.parts),
        )
        for score, chosen in _best_combinations(pieces, n_best)
    ]


def _best_combinations(pieces: Sequence[Sequence[Translation]], n_best: int) -> list[tuple[float, list[Translation]]]:
    """Choose one translation of each piece in the n best ways, by the sum of their scores: (sum, the chosen)."""
    best: list[tuple[float, Any]] = [(0.0, None)]  # the other part: (that of the pieces before, the last one chosen)
    for translations in pieces:
        longer = [(score + each.score, (chain, each)) for score, chain in best for each in translations]
        best = sorted(longer, key=lambda ranked: -ranked[0])[:n_best]
    return [(score, _in_order(chain)) for score, chain in best]


def _in_order(chain: Any) -> list[Any]:
    """((None, first), second) -> [first, second]"""
    chosen = []
    while chain is not None:
        chain, last = chain
        chosen.append(last)
    return chosen[::-1]
