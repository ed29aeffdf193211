"""memory(): the bytes in use over time, who holds them at the peak, and what the allocator says."""

import gc
import re
import tracemalloc

import numpy as np
import pytest

import autograd as ag
from additions.inspect import memory, profile
from additions.inspect.memory_profile import GRADIENT, INTERMEDIATE, RESULT, SAVED
from autograd import Op, Tensor, random
from autograd.anomaly import anomaly_mode
from autograd.fast import recomputed
from autograd.safety import owner_of
from minitf.config import OptimizerConfig, TransformerConfig
from minitf.model.transformer import Transformer
from minitf.training.optim import Adam
from tests.helpers.leaves import random_leaf, without_garbage_collector
from tests.helpers.marks import parametrize_some

recomputed.recompute_large_outputs()

KIB = 1024


def kib_leaf(seed=0):
    """A leaf of one KiB."""
    return random_leaf(128, seed=seed)


def live_kib(m):
    return [moment.live_bytes / KIB for moment in m.timeline]


def held_kib(m):
    return {reason: sum(b.nbytes for b in buffers) / KIB for reason, buffers in m.at_peak().items() if buffers}


# ---- Small steps, by hand ----


def test_every_birth_and_death_of_a_chain():
    x = kib_leaf()
    with memory() as m:
        y = ag.exp(x)  # 1, saved by Exp
        z = y + 1.0  # 2, saved by nobody
        del y
        del z  # and with it the graph
    assert live_kib(m) == [0, 1, 2, 1, 0]
    assert m.peak_bytes == 2 * KIB
    assert m.live_bytes == 0
    assert held_kib(m) == {SAVED: 1, RESULT: 1}
    assert [moment.ms for moment in m.timeline] == sorted(moment.ms for moment in m.timeline)


def test_gradients_of_leaves_and_on_the_way():
    x, w = kib_leaf(), kib_leaf(1)
    with memory() as m:
        y = ag.exp(x) * w  # Exp's result, saved twice, and y
        y.backward(np.ones(128))
    # y, Exp's result; the gradient to start from, those of w and of Exp's result, and that of x
    assert m.peak_bytes == 6 * KIB
    held = held_kib(m)
    assert held[GRADIENT] >= 1
    assert held[SAVED] + held[RESULT] == 2
    assert sum(held.values()) == 6
    del y
    names = {b.gradient_of[1] for b in m.buffers if b.gradient_of}
    assert names == {"gradient of a leaf"}


def test_a_gradient_that_is_copied_for_the_leaf_is_found():
    x = kib_leaf()
    with memory() as m:
        (x + 1.0).backward(np.ones(128))  # the gradient is the caller's array: the leaf gets a copy
    assert x.grad is not None
    assert m.live_bytes == KIB
    assert [b.gradient_of is not None for b in m.buffers if b.died is None] == [True]


def test_saved_memory_is_saved_until_the_node_has_run_back():
    x = kib_leaf()
    with memory() as m:
        y = ag.exp(x)
        z = ag.sum(y)
        assert [b.held_as(len(m.timeline) - 1) for b in m.buffers] == [SAVED, RESULT]
        z.backward()
        assert m.buffers[0].held_as(len(m.timeline) - 1) == RESULT  # y still refers to it
    assert y.op.freed


# ---- Any step, against what can be reached ----

STEPS = [
    lambda a, b: ag.exp(a * 0.1),
    lambda a, b: a + b,
    lambda a, b: a * b,
    lambda a, b: a / (b * b + 1.0),
    lambda a, b: ag.relu(a),
    lambda a, b: ag.softmax(a),
    lambda a, b: ag.maximum(a, b),
    lambda a, b: a.reshape(8, 16).reshape(128),
    lambda a, b: ag.concatenate([a[:64], b[64:]]),
    lambda a, b: ag.dropout(a, 0.5),
]


def ops_behind(tensors):
    ops = {t.op for t in tensors if t.op is not None}
    new = ops
    while new:
        new = {edge[0] for op in new for edge in op.edges if edge is not None and isinstance(edge[0], Op)} - ops
        ops |= new
    return ops


def reachable_bytes(tensors, leaves):
    """What Tensors and the graphs behind them hold, without what the leaves were made with."""
    arrays = [a for op in ops_behind(tensors) for a in op.saved_arrays]
    arrays += [t.data for t in tensors] + [t.grad.data for t in tensors if t.grad is not None]
    owners = {id(owner_of(a)): owner_of(a) for a in arrays if hasattr(a, "nbytes")}
    return sum(a.nbytes for key, a in owners.items() if key not in {id(leaf.data) for leaf in leaves})


@pytest.mark.heavy
@parametrize_some("seed", range(40), keep=8)
def test_live_bytes_are_those_that_can_be_reached(seed):
    """Ops, results that go and backward passes in any order."""
    rng = np.random.default_rng(seed)
    leaves = [kib_leaf(0), kib_leaf(1), Tensor(np.ones(128))]
    with without_garbage_collector(), memory() as m:
        live = list(leaves)
        for _ in range(12):
            what = rng.random()
            if what < 0.6 or len(live) == len(leaves):
                a, b = rng.integers(len(live), size=2)
                live.append(STEPS[rng.integers(len(STEPS))](live[a], live[b]))
            elif what < 0.85:
                del live[rng.integers(len(leaves), len(live))]
            else:
                whole = [t for t in live if t.op is not None and not any(op.freed for op in ops_behind([t]))]
                if whole:
                    whole[rng.integers(len(whole))].backward(np.ones(128), retain_graph=bool(rng.integers(2)))
                del whole
            assert m.live_bytes == reachable_bytes(live, leaves)
    assert m.peak_bytes > KIB


# ---- A training step ----


@pytest.fixture(scope="module")
def step():
    """One training step, large enough for arrays to matter more than Python objects."""
    random.manual_seed(0)
    config = TransformerConfig(layers=2, d_model=96, d_ff=384, heads=4, vocab_size=100)
    model = Transformer(config)
    optimizer = Adam(model.named_parameters(), OptimizerConfig())
    source, target = np.random.default_rng(0).integers(4, 100, (2, 64, 20))

    def run():
        optimizer.zero_grad()
        loss = ag.cross_entropy(model(source, target), target, label_smoothing=0.1)
        loss.backward()
        optimizer.step(1e-4)

    run()  # optimizer and positions have what they keep
    return model, optimizer, run


@pytest.mark.heavy
def test_the_peak_is_what_the_allocator_measures(step):
    model, optimizer, run = step
    optimizer.zero_grad()
    gc.collect()
    tracemalloc.start()
    try:
        with memory(model) as m:
            run()
        outside = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert m.peak_bytes > 10 * 2**20
    assert 0.9 <= m.peak_bytes / outside <= 1.1
    assert m.measured_peak_bytes == pytest.approx(outside, rel=0.01)
    assert m.live_bytes == sum(p.grad.data.nbytes for p in model.parameters())


def test_outputs_computed_again_are_counted(monkeypatch):
    monkeypatch.setattr(recomputed, "LARGE_BYTES", 1)
    x, residual = random_leaf(2000, 100), random_leaf(2000, 100)
    gain, bias, w = random_leaf(100), random_leaf(100), random_leaf(100, 100)
    with memory() as m:
        y = ag.fast.dropout_add_layer_norm(x, residual, gain, bias, p=0.1)
        (ag.linear(y, w) + ag.linear(y, w)).sum().backward()
    assert [b.shape for b in m.buffers if "computed again" in b.made_by] == [(2000, 100)]


def test_the_peak_is_told_apart_by_layer_and_parameter(step):
    model, _, run = step
    with memory(model) as m:
        run()
    held = m.at_peak()
    assert sum(b.nbytes for buffers in held.values() for b in buffers) == m.peak_bytes
    assert held[SAVED][0].nbytes >= held[SAVED][-1].nbytes
    layers = {b.layer for b in m.buffers}
    assert {"encoder.layers.0.self_attention", "decoder.layers.1.feed_forward"} <= layers
    named = {b.gradient_of[1] for b in m.buffers if b.gradient_of}
    assert named == {f"gradient of {name}" for name in model.named_parameters()}
    assert m.measured_peak_bytes is None


def test_the_table(step):
    model, _, run = step
    with memory(model) as m:
        run()
    head, reasons, arrays = str(m).split("\n\n")
    assert head.startswith(f"peak {m.peak_bytes / 2**20:.1f} MiB after ")
    assert "Relu backward (layers.py:" in head
    assert [line.split("  ")[0] for line in reasons.splitlines()[2:]] == [SAVED, GRADIENT, INTERMEDIATE, RESULT]
    assert re.match(r"\[64, 20, 384\] float32 (Linear|Relu)", arrays.splitlines()[2])
    assert len(arrays.splitlines()) == 2 + 8
    assert len(m.table(largest=3).split("\n\n")[2].splitlines()) == 2 + 3


# ---- Nothing is left behind ----


@pytest.mark.heavy
def test_the_tools_leave_no_cycle_behind():
    model = Transformer(TransformerConfig(layers=1, d_model=16, d_ff=32, heads=2, vocab_size=50))
    source = np.full((2, 3), 5)
    with without_garbage_collector():
        with memory(model) as m, profile(model) as p, anomaly_mode():
            ag.sum(model(source, source)).backward()
        del m, p
        assert not [x for x in gc.get_objects() if str(type(x).__module__).startswith("autograd.inspect")]
