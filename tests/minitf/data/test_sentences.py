"""Sentences end to end in one array, and padded."""

import numpy as np
import pytest

from minitf.config.model import BOS, EOS, PAD
from minitf.data.batches import Sentences, pad


def test_arrays_and_lists_are_alike():
    lists = [[5, 6], [], [70_000]]
    arrays = [np.array(ids, dtype) for ids, dtype in zip(lists, (np.uint16, np.int64, np.int32), strict=True)]
    for sentences in (Sentences.from_lists(lists), Sentences.from_lists(arrays)):
        assert pad(sentences).tolist() == [[5, 6, EOS], [EOS, PAD, PAD], [70_000, EOS, PAD]]
        assert pad(sentences, eos=False).tolist() == [[5, 6], [PAD, PAD], [70_000, PAD]]
        assert pad(sentences, bos=True).tolist() == [[BOS, 5, 6], [BOS, PAD, PAD], [BOS, 70_000, PAD]]
        assert [ids.tolist() for ids in sentences] == lists


def test_taken_sentences_are_in_the_order_asked():
    sentences = Sentences.from_lists([[7, 8], [9], [], [4, 5, 6]])
    taken = sentences.take(np.array([3, 0, 2, 0]))
    assert [ids.tolist() for ids in taken] == [[4, 5, 6], [7, 8], [], [7, 8]]
    assert taken.lengths.tolist() == [3, 2, 0, 2]
    assert len(taken) == 4
    with pytest.raises(IndexError, match="sentence -1 of 4, counted from 0"):
        taken[-1]
