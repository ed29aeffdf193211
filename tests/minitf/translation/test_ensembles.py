"""How the models of an ensemble read a source that is given in the token ids of the first."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from minitf.config.model import EOS, PAD, UNK
from minitf.data.piece_vocabulary import PieceVocabulary, VocabularyPair
from minitf.translation.ensembles import source_reader
from tests.helpers.imported import MODEL, PAIR

LARGER = VocabularyPair(PieceVocabulary("characters", [*PAIR.source.pieces_by_id[:4], *"zhgfedcba"]), PAIR.target)
FIRST = SimpleNamespace(vocabulary=PAIR, config=SimpleNamespace(model=replace(MODEL, source_eos=True)))


def reads(vocabulary, source_eos):
    return SimpleNamespace(vocabulary=vocabulary, config=SimpleNamespace(model=replace(MODEL, source_eos=source_eos)))


def test_equal_vocabularies_and_ends_need_no_reader():
    assert source_reader(FIRST, FIRST) is None


@pytest.mark.parametrize(("vocabulary", "source_eos"), [(PAIR, False), (LARGER, True), (LARGER, False)])
def test_the_other_model_reads_its_own_pieces_of_the_same_text(vocabulary, source_eos):
    """Without an end token, an empty row is UNK: a model cannot attend to nothing."""
    read = source_reader(FIRST, reads(vocabulary, source_eos))
    rows = FIRST.vocabulary.source.encode(["abc", "", "hg"])
    length = max(map(len, rows)) + 1
    ends = [EOS] * source_eos
    found = read(np.array([[*row, EOS, *[PAD] * (length - 1 - len(row))] for row in rows]))
    expected = [[*row, *ends] or [UNK] for row in vocabulary.source.encode(["abc", "", "hg"])]
    assert [[token for token in row if token != PAD] for row in found.tolist()] == expected
