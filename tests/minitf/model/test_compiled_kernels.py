"""A model with compiled kernels computes what it computes with NumPy's, up to rounding."""

import numpy as np
import pytest

pytest.importorskip("numba", reason="needs Numba")

from autograd import random
from autograd.fast import cpu_kernels
from autograd.fast.compiled import CompiledKernels
from autograd.fast.devices import _Cpu
from minitf.decoding.search import BeamSearchConfig, beam_search
from minitf.fast.accelerate import accelerate
from minitf.fast.decoder import InferenceTransformer
from minitf.training.loss import batch_loss
from tests.helpers.batches import batch_of
from tests.helpers.small_model import Lively, model_with, sources

SOURCE = sources(9, 5, 12, 3)
CONFIG = BeamSearchConfig(beam=3, max_length=14)


@pytest.fixture
def compiled_cpu(monkeypatch):
    """The CPU's backend of this process, compiled for one test or until monkeypatch.undo()."""
    monkeypatch.setattr(_Cpu, "kernels", CompiledKernels(threads_of=cpu_kernels()))


def test_a_training_step(compiled_cpu, monkeypatch):
    def step():
        model = accelerate(model_with(dtype=np.float32, dropout=0.2, attention_dropout=0.2))
        model.train()
        random.begin_step(3)
        target = [[4, 5, 6, 7], [8, 9], [10, 11, 12], [13]]
        loss, _ = batch_loss(model, batch_of(SOURCE, target), label_smoothing=0.1)
        loss.backward()
        return [loss.numpy(), *(p.grad for p in model.parameters())]

    found = step()
    monkeypatch.undo()
    expected = step()
    assert any((a != b).any() for a, b in zip(found, expected, strict=True))  # or nothing was compiled
    for ours, plain in zip(found, expected, strict=True):
        np.testing.assert_allclose(ours, plain, rtol=2e-5, atol=2e-5 * max(1, float(abs(plain).max())))


def test_a_search(compiled_cpu, monkeypatch):
    model = accelerate(model_with(dtype=np.float32))
    found = beam_search(model, SOURCE, CONFIG)
    monkeypatch.undo()
    for ours, plain in zip(found, beam_search(model, SOURCE, CONFIG), strict=True):
        assert [each.tokens for each in ours] == [each.tokens for each in plain]
        np.testing.assert_allclose([h.score for h in ours], [h.score for h in plain], rtol=1e-5)


def test_with_same_bits_a_sentence_is_searched_alike_among_others(compiled_cpu):
    decoder = InferenceTransformer(model_with(dtype=np.float32), same_bits=True)
    together = beam_search(Lively(decoder), SOURCE, CONFIG)
    assert together == [beam_search(Lively(decoder), row[None], CONFIG)[0] for row in SOURCE]
