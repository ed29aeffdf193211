"""Training holds no more memory after many steps than after a few, without help of the garbage collector."""

import gc
import tracemalloc

import numpy as np
import pytest

import autograd as ag
from autograd import Tensor, random
from minitf.config import OptimizerConfig, TransformerConfig
from minitf.config.model import PAD
from minitf.model.transformer import Transformer
from minitf.training.optim import Adam


@pytest.fixture
def traced_without_collector():
    gc.collect()
    gc.disable()
    tracemalloc.start()
    yield
    tracemalloc.stop()
    gc.enable()


def live_memory():
    """(Tensors and graph nodes, bytes of arrays): Python's own small objects sit in free lists, which fill up."""
    arrays = tracemalloc.take_snapshot().filter_traces([tracemalloc.DomainFilter(True, np.lib.tracemalloc_domain)])
    nodes = sum(issubclass(type(each), (Tensor, ag.Op)) for each in gc.get_objects())  # a dead proxy has no class
    return nodes, sum(trace.size for trace in arrays.traces)


@pytest.mark.heavy
def test_live_memory_after_16_steps_is_what_it_was_after_7(traced_without_collector):
    config = TransformerConfig(
        vocab_size=40, layers=2, d_model=16, heads=2, d_ff=32, dropout=0.1, attention_dropout=0.1
    )
    model = Transformer(config)
    optimizer = Adam(model.named_parameters(), OptimizerConfig())
    rng = np.random.default_rng(0)
    sizes = [(3, 7, 6), (2, 4, 9), (5, 5, 5)]
    batches = [(rng.integers(4, 40, (b, s)), rng.integers(4, 40, (b, t))) for b, s, t in sizes]

    def step(number):
        random.begin_step(number)
        optimizer.zero_grad()
        source, target = batches[number % len(batches)]
        logits = model(source, target[:, :-1])
        loss = ag.cross_entropy(logits, target[:, 1:], ignore_index=PAD, label_smoothing=0.1)
        loss.backward()
        optimizer.step(1e-3)

    measured = {}
    for number in range(1, 17):
        step(number)
        if number in (7, 16):  # batches of one shape
            measured[number] = live_memory()
    assert measured[16] == measured[7]
    assert measured[7][1] > 3 * model.parameter_count() * 4  # parameters and moments, so arrays are seen
