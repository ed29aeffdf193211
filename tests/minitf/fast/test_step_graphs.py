"""Training steps as CUDA graphs, on a GPU (`pytest -m gpu`): the bits of the plain path."""

import math
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from autograd import random
from autograd.anomaly import AnomalyError, anomaly_mode
from autograd.backend import get_backend
from autograd.tensor import note_change
from minitf.config import PRESETS, OptimizerConfig, TransformerConfig
from minitf.config.model import BOS, EOS, PAD
from minitf.data.batches import Batch
from minitf.fast.accelerate import accelerate, accelerate_adam
from minitf.fast.step_graphs import INPUTS, StepGraphs
from minitf.model.transformer import Transformer
from minitf.parallel.group import GradientBuckets, Group
from minitf.run import start
from minitf.training.optim import Adam, compute_gradients, learning_rate, squared_norm
from tests.helpers.marks import parametrize_some
from tests.helpers.runs import FLAGS, call, differences, fingerprint

pytestmark = [pytest.mark.heavy, pytest.mark.gpu]

SMALL = replace(PRESETS["tiny"].model, vocab_size=40, layers=1, d_model=16, d_ff=24, heads=2, dropout=0.2)
OPTIMIZER = OptimizerConfig(warmup_steps=4)
SHAPES = [(3, 7, 6), (2, 5, 9), (3, 7, 6), (2, 5, 9), (3, 4, 4), (3, 7, 6), (3, 4, 4), (2, 5, 9)]


@pytest.fixture
def gpu() -> Any:
    return get_backend("cuda")


def batch_of(seed: int, rows: int, source: int, target: int) -> Batch:
    """Random sentences; the first is as long as the batch, others are shorter."""
    rng = np.random.default_rng(seed)
    sides = []
    for width in (source, target):
        ids = rng.integers(EOS + 1, SMALL.vocab_size, (rows, width)).astype(np.int32)
        for row in range(rows):
            end = width - 1 if row == 0 else int(rng.integers(1, width))
            ids[row, end], ids[row, end + 1 :] = EOS, PAD
        sides.append(ids)
    shifted = np.concatenate([np.full((rows, 1), BOS, np.int32), sides[1][:, :-1]], axis=1)
    return Batch(np.arange(rows), sides[0], shifted, sides[1])


class Run:
    """A model in training, with graphs or without."""

    def __init__(self, most: int, config: TransformerConfig = SMALL, dtype: Any = np.float32, compute: Any = None):
        self.model = accelerate(Transformer(config, seed=1, dtype=dtype), compute_dtype=compute)
        self.model.to("cuda")
        self.optimizer = accelerate_adam(Adam(self.model.named_parameters(), OPTIMIZER))
        self.graphs = StepGraphs(self.model, compute_gradients, 0.1, most) if most else None
        self.seen: list[Any] = []
        random.manual_seed(5)

    def step(self, number: int, shape: tuple[int, int, int], skip: bool = False) -> None:
        """One update: losses and norm are noted, learning rate, masks and batch are those of its number."""
        random.begin_step(number)
        self.optimizer.zero_grad()
        batch = batch_of(number, *shape)
        losses = self.graphs(batch) if self.graphs else compute_gradients(self.model, batch, 0.1)
        norm = math.sqrt(squared_norm([p.grad.data for p in self.model.parameters() if p.grad is not None]))
        self.seen.append((*map(float, losses), norm))
        if not skip:
            scale = min(1.0, 2.0 * batch.target_tokens / norm) / batch.target_tokens  # the norm is clipped
            self.optimizer.step(learning_rate(number, 16, OPTIMIZER), scale)

    def weights(self) -> dict[str, np.ndarray]:
        return {name: p.numpy() for name, p in self.model.named_parameters().items()}


def assert_same_bits(ours: Run, theirs: Run) -> None:
    assert ours.seen == theirs.seen
    for name, weights in theirs.weights().items():
        np.testing.assert_array_equal(ours.weights()[name], weights, err_msg=name)


@parametrize_some(
    ("changes", "dtype", "compute"),
    [({}, np.float64, None), ({}, np.float32, "bfloat16"),
     ({"attention_dropout": 0.2, "activation_dropout": 0.1}, np.float32, None),
     ({"norm": "pre", "positions": "learned", "share_embeddings": "none"}, np.float32, "bfloat16"),
     ({"decoder_start": "zero", "output_bias": True, "masked_tokens": (0, 2)}, np.float32, None)],
    keep=(2,), ids=str,
)  # fmt: skip
def test_graphs_give_the_bits_of_the_plain_path(gpu: Any, changes: Any, dtype: Any, compute: Any) -> None:
    if compute:
        pytest.importorskip("ml_dtypes")
    config = replace(SMALL, **changes)
    plain, ours = Run(0, config, dtype, compute), Run(8, config, dtype, compute)
    for run in (plain, ours):
        for number, shape in enumerate(SHAPES, 1):
            run.step(number, shape, skip=number == 6)
    assert_same_bits(ours, plain)
    assert len(ours.graphs._steps) == 3
    assert len({step[0] for step in plain.seen}) == len(SHAPES)


@pytest.mark.slow
def test_memory_that_a_graph_reads_may_be_replaced(gpu: Any) -> None:
    """The causal mask by that of another shape, positions by a longer table."""
    shapes = [(3, 7, 6), (3, 7, 6), (3, 7, 6), (2, 5, 9), (3, 7, 6), (2, 20, 15), (3, 7, 6), (3, 7, 6)]
    plain, ours = Run(0), Run(8)
    for run in (plain, ours):
        for number, shape in enumerate(shapes, 1):
            run.step(number, shape)
    assert_same_bits(ours, plain)


@pytest.mark.slow
def test_weights_that_are_loaded_are_read(gpu: Any) -> None:
    """As a validation with the moving average does: in the same memory, bfloat16 copies as well."""
    pytest.importorskip("ml_dtypes")
    plain, ours = Run(0, compute="bfloat16"), Run(8, compute="bfloat16")
    for run in (plain, ours):
        for number in range(1, 7):
            run.step(number, (3, 7, 6))
            if number == 3:
                graphs = run.graphs and [*run.graphs._steps.values()]
                run.model.load_parameters({name: 0.5 * a for name, a in run.weights().items()})
    assert_same_bits(ours, plain)
    assert [*ours.graphs._steps.values()] == graphs


@pytest.mark.slow
def test_copies_that_are_out_of_date_are_made_without_a_graph(gpu: Any) -> None:
    """They would belong to the graph, and other graphs would read copies that Adam no longer writes."""
    pytest.importorskip("ml_dtypes")
    plain, ours = Run(0, compute="bfloat16"), Run(8, compute="bfloat16")
    for run in (plain, ours):
        for number, shape in enumerate(
            [(3, 7, 6), (3, 7, 6), (2, 5, 9), (3, 7, 6), (3, 7, 6), (2, 5, 9), (3, 7, 6)], 1
        ):
            run.step(number, shape, skip=number in (1, 2))
            if number == 4:
                for p in run.model.parameters():
                    p.data[...] = p.data * 0.5
                    note_change(p.data)
    assert_same_bits(ours, plain)


def test_graphs_are_kept_and_more_shapes_are_computed_without(gpu: Any) -> None:
    run, captured = Run(2), []
    capture = run.graphs._captured
    run.graphs._captured = lambda *args: (captured.append(args[-1]), capture(*args))[1]
    one, two, three = (3, 7, 6), (2, 5, 9), (3, 4, 4)
    for number, shape in enumerate([one, two, one, two, one, three, three, one, two], 1):
        run.step(number, shape)
    assert captured == [3, 4]  # the seventh step, the second one of `three`, finds two graphs


def test_batches_on_the_gpu_are_not_changed(gpu: Any) -> None:
    run, batches = Run(8), [batch_of(number, 3, 7, 6) for number in range(3)]
    there = [replace(batch, **{name: gpu.asarray(getattr(batch, name)) for name in INPUTS}) for batch in batches]
    for number, batch in enumerate(there):
        random.begin_step(number)
        run.optimizer.zero_grad()
        run.graphs(batch)
    for ours, theirs in zip(there, batches, strict=True):
        np.testing.assert_array_equal(ours.source.get(), theirs.source)


def test_gradients_and_inspections_are_not_lost(gpu: Any) -> None:
    run, plain = Run(8), Run(0)
    for each in (run, plain):
        random.manual_seed(5)
        for number in (1, 2):
            each.step(number, (3, 7, 6))
        random.begin_step(3)
        compute = each.graphs or partial(compute_gradients, each.model, label_smoothing=0.1)
        each.seen.append(tuple(map(float, compute(batch_of(3, 3, 7, 6)))))  # added to the gradients of step 2
    assert_same_bits(run, plain)
    for ours, theirs in zip(run.model.parameters(), plain.model.parameters(), strict=True):
        np.testing.assert_array_equal(ours.grad.numpy(), theirs.grad.numpy())
    run.optimizer.zero_grad()
    run.model.parameters()[0].data[...] = np.nan
    with anomaly_mode(), pytest.raises(AnomalyError):
        run.graphs(batch_of(3, 3, 7, 6))


def test_graphs_of_several_processes(gpu: Any) -> None:
    """Two batches an update, whose gradients `GradientBuckets` moves to its buffer, and adds, after the launch."""
    found = []
    for most in (0, 8):
        run = Run(0, compute="bfloat16")
        run.graphs = StepGraphs(run.model, compute_gradients, 0.1, most)
        group = _Alone()
        buckets = GradientBuckets(run.model.parameters(), group, bucket_bytes=2000)
        seen: list[Any] = []
        for number in range(1, 6):
            buckets.begin(2)
            losses: list[Any] = []
            for part in range(2):
                random.begin_step(number, part)
                losses += run.graphs(replace(batch_of(2 * number + part, 3, 7, 6), number=part))
                assert len(group.parts) == (len(buckets.buckets) if part else 0)
            assert [*group.parts] == [part.stop - part.start for _, part in buckets.buckets]
            group.parts.clear()
            buckets.finish()
            seen += map(float, losses)  # read late: each graph has its own
            seen.append(run.optimizer.gradient_norm())
            run.optimizer.step(1e-3)
        assert len(run.graphs._steps) == (2 if most else 0)
        found.append((seen, run.weights()))
    assert found[0][0] == found[1][0]
    for name, weights in found[0][1].items():
        np.testing.assert_array_equal(found[1][1][name], weights, err_msg=name)


class _Alone(Group):
    """A group of one process, which notes what is summed."""

    is_asynchronous = True

    def __init__(self) -> None:
        self.parts: list[int] = []

    def all_reduce(self, array: Any) -> None:
        self.parts.append(array.size)


def test_a_run_whose_step_cannot_be_captured_goes_on_without(gpu: Any) -> None:
    """Wide heads are computed by CuPy's cuBLAS; the masks are those of a run without graphs."""
    wide = replace(SMALL, heads=1, d_k=130, d_v=130)
    plain, ours = Run(0, wide), Run(8, wide)
    ours.step(1, (3, 7, 6))
    with pytest.warns(UserWarning, match="steps run without CUDA graphs: NotImplementedError: .*cuBLAS"):
        ours.step(2, (3, 7, 6))
    ours.step(3, (3, 7, 6))
    for number in (1, 2, 3):
        plain.step(number, (3, 7, 6))
    assert_same_bits(ours, plain)


def test_a_run_with_graphs_is_the_run_without(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Log, checkpoints and best weights of `minitf train`, with validations by a moving average between the steps."""
    captured = []
    capture = StepGraphs._captured
    monkeypatch.setattr(StepGraphs, "_captured", lambda *args: (captured.append(args), capture(*args))[1])
    texts = {"en": ["a cat", "the dog", "a big red tree", "the cat likes a"], "de": ["ein Hund", "x", "y z", "u v w"]}
    for suffix, lines in texts.items():
        (tmp_path / f"t.{suffix}").write_text("\n".join(lines) + "\n", encoding="utf-8")
    pair = [str(tmp_path / "t.en"), str(tmp_path / "t.de")]
    flags = ["--train", *pair, "--valid", *pair, *FLAGS, "--accumulate", "1", "--device", "cuda", "--max-steps", "10"]
    flags += ["--max-tokens-per-batch", "32"]
    found = []
    for graphs in ("without", "with"):
        with monkeypatch.context() as patch:
            if graphs == "without":
                patch.setattr(start, "step_graphs", lambda *args: None)
            folder = tmp_path / graphs
            assert call([*flags, "--vocab-size", "290", "--output", str(folder)]) == 0
        found.append(fingerprint(folder))
    assert differences(*found) == []
    assert len(captured) == 2  # of ten steps
