"""The Transformer in one file computes what minitf computes, and says in a sentence what it cannot read."""

import ast
import io
import math
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from autograd.engine import implementations
from examples import one_file
from examples.one_file import BOS, EOS, PAD
from minitf import Adam, BeamSearchConfig, OptimizerConfig, Transformer, TransformerConfig, beam_search, greedy_search
from minitf.corpora.built_in import built_in_corpus
from minitf.data.batches import Batch
from minitf.training.optim import compute_gradients, learning_rate

PATH = Path(one_file.__file__)
V, SIZES = 23, {"layers": 2, "d_model": 16, "heads": 4, "d_ff": 24, "dropout": 0.0}
WARMUP = 8


@pytest.fixture(autouse=True)
def plain(monkeypatch):
    """Ops are computed as they are defined, with no fast implementation."""
    monkeypatch.setitem(implementations, "cpu", {})


def models():
    """The same weights in both; those of norms and biases are drawn too, so that none is 0 or 1."""
    ours = one_file.Transformer(V, **SIZES, seed=3, dtype=np.float64)
    theirs = Transformer(TransformerConfig(vocab_size=V, **SIZES), seed=3, dtype=np.float64)
    rng = np.random.default_rng(4)
    for p, q in zip(ours.parameters, theirs.parameters(), strict=True):
        p.data += 0.1 * rng.standard_normal(p.data.shape)
        q.data[...] = p.data
    return ours, theirs


def sentences(rng, count, longest=9):
    return [rng.integers(4, V, rng.integers(1, longest + 1)).tolist() for _ in range(count)]


def training(ours, theirs, steps):
    """Each update's loss in both, and the gradients of the first."""
    rng = np.random.default_rng(5)
    pairs = list(zip(sentences(rng, 60), sentences(rng, 60), strict=True))
    config = OptimizerConfig(warmup_steps=WARMUP)
    adam = one_file.Adam(ours.parameters, SIZES["d_model"], WARMUP)
    optimizer = Adam(theirs.named_parameters(), config)
    losses, gradients = [], []
    for step, (source, target, labels) in zip(range(1, steps + 1), one_file.batches(pairs, 50, rng), strict=False):
        tokens = np.count_nonzero(labels != PAD)
        loss = one_file.cross_entropy(ours.decode(target, ours.encode(source), source), labels, 0.1)
        one_file.backward(loss)
        optimizer.zero_grad()
        total, _ = compute_gradients(theirs, Batch(np.arange(len(source)), source, target, labels), 0.1)
        losses.append((float(loss.data), total / tokens))
        if step == 1:
            gradients = [
                (p.grad.copy(), q.grad.numpy() / tokens)
                for p, q in zip(ours.parameters, theirs.parameters(), strict=True)
            ]
        adam.step()
        optimizer.step(learning_rate(step, SIZES["d_model"], config), 1 / tokens)
    return losses, gradients


# ---- The program is what it says that it is ------------------------------------------------------------------------


def test_it_is_one_file_of_350_lines_that_imports_numpy_and_the_standard_library():
    text = PATH.read_text(encoding="utf-8")
    imported = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            imported |= {name.name.partition(".")[0] for name in node.names}
        if isinstance(node, ast.ImportFrom):
            imported.add(node.module.partition(".")[0] if not node.level else "a relative import")
    assert imported - sys.stdlib_module_names == {"numpy"}
    assert len(text.splitlines()) <= 350


# ---- The same numbers as minitf ------------------------------------------------------------------------------------


def test_initial_weights_are_those_of_minitf():
    for dtype in (np.float32, np.float64):
        ours = one_file.Transformer(V, **SIZES, seed=7, dtype=dtype)
        theirs = Transformer(TransformerConfig(vocab_size=V, **SIZES), seed=7, dtype=dtype)
        for p, q in zip(ours.parameters, theirs.parameters(), strict=True):
            assert p.data.dtype == q.dtype
            assert np.array_equal(p.data, q.data)


def test_twenty_updates_have_the_losses_of_minitf_and_the_first_its_gradients():
    losses, gradients = training(*models(), steps=20)
    assert losses[0][0] - losses[-1][0] > 0.2, "it learns"
    for ours, theirs in losses:
        assert abs(ours - theirs) < 1e-9
    for ours, theirs in gradients:
        assert np.abs(ours).max() > 1e-6 or np.abs(theirs).max() < 1e-12
        assert np.abs(ours - theirs).max() < 1e-9


def test_translations_are_those_of_minitf():
    """After each of two spells of training: then outputs end early, late, or not before they are cut."""
    ours, theirs = models()
    lengths, cut, not_greedy, of_the_penalty = set(), 0, 0, 0
    for spell in range(2):
        if spell:
            training(ours, theirs, steps=20)
        for ids in sentences(np.random.default_rng(6), 10):
            source = np.array([[*ids, EOS]])
            (greedy,) = greedy_search(theirs, source)
            tokens, score = one_file.beam_search(ours, ids, beam=1, alpha=0.6)
            assert tuple(tokens) == greedy.tokens
            assert score == pytest.approx(greedy.score, abs=1e-9)
            found = {}
            for beam, alpha in ((2, 0.6), (4, 0.0), (4, 0.6), (4, 1.5), (7, 1.0)):
                ((best,),) = beam_search(theirs, source, BeamSearchConfig(beam=beam, alpha=alpha))
                tokens, score = one_file.beam_search(ours, ids, beam, alpha)
                assert tuple(tokens) == best.tokens
                assert score == pytest.approx(best.score, abs=1e-9)
                found[beam, alpha] = best.tokens
                lengths.add(len(tokens))
                cut += not best.finished
            not_greedy += found[4, 0.6] != greedy.tokens
            of_the_penalty += found[4, 0.0] != found[4, 1.5]
    assert one_file.TAPE == []
    print(lengths, cut, not_greedy, of_the_penalty)
