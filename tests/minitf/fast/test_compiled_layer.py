"""Decoding in compiled loops gives the logits of the decoder's kernels, up to rounding, whatever the beams do."""

import numpy as np
import pytest

pytest.importorskip("numba", reason="needs Numba")

from autograd.fast import cpu_kernels
from autograd.fast.compiled import CompiledKernels
from autograd.fast.devices import _Cpu
from minitf.fast.decoder import InferenceTransformer
from tests.helpers.small_model import SMALL, model_with, sources

pytestmark = pytest.mark.heavy  # Numba compiles

SOURCE = sources(9, 5, 12, 3)
VARIANTS = {
    "paper": {},
    "pre-norm": {"norm": "pre"},
    "SiLU": {"activation": "silu"},
    "SiLU, pre-norm": {"activation": "silu", "norm": "pre"},
    "narrow keys": {"d_k": 3, "d_v": 5},
    "wide keys": {"d_k": 7, "d_v": 2},
    "three heads, of any width": {"heads": 3, "d_k": 4, "d_v": 4},
    "no biases": {"attention_bias": False},
    "restricted attention": {"mixing": "restricted", "neighbourhood": 3},
    "recurrent encoder": {"mixing": "recurrent"},
    "dot products without scale": {"attention": "dot-product"},
    "one layer": {"layers": 1},
}


@pytest.fixture
def compiled_cpu(monkeypatch):
    monkeypatch.setattr(_Cpu, "kernels", CompiledKernels(threads_of=cpu_kernels()))


def decoder_of(model, **settings):
    """A decoder of the model, and a list to which it adds an entry whenever a layer is computed in a loop."""
    decoder, calls = InferenceTransformer(model, **settings), []
    if decoder._of_loops is not None:
        loop, *rest = decoder._of_loops

        def spy(*arguments):
            calls.append(len(arguments[0]))
            return loop(*arguments)

        decoder._of_loops = (spy, *rest)
    return decoder, calls


def walk(decoder, source=SOURCE):
    """The logits of 40 steps in which beams branch, swap and join, and sentences move, end and come down to one."""
    rng = np.random.default_rng(5)
    state = decoder.start_decoding(source)
    sentences, beams, found = len(source), 1, []
    for step in range(40):
        logits = decoder.decode_step(rng.integers(1, SMALL.vocab_size, sentences * beams), state)
        found.append(logits)
        if step % 7 == 3:
            kept = rng.permutation(sentences)[: max(1, sentences - (step > 3))]  # at first, all in other places
            grown = int(rng.integers(1, 4))
            state.reorder((kept[:, None] * beams + rng.integers(0, beams, (len(kept), grown))).reshape(-1))
            sentences, beams = len(kept), grown
    return found


@pytest.mark.heavy
@pytest.mark.parametrize("changes", VARIANTS.values(), ids=VARIANTS.keys())
@pytest.mark.parametrize("source", [SOURCE, sources(6, 6, 6, 6)], ids=["padded", "not padded"])
def test_as_the_kernels_compute_it(monkeypatch, changes, source):
    model = model_with(dtype=np.float32, **changes)
    expected = walk(InferenceTransformer(model), source)
    monkeypatch.setattr(_Cpu, "kernels", CompiledKernels(threads_of=cpu_kernels()))
    decoder, calls = decoder_of(model)
    found = walk(decoder, source)
    assert len(calls) == 40 * model.config.decoder_depth
    assert max(calls) > 4  # more rows at once than one of four
    for ours, plain in zip(found, expected, strict=True):
        np.testing.assert_allclose(ours, plain, rtol=2e-5, atol=2e-5 * abs(plain).max())


def test_what_stays_with_the_kernels(compiled_cpu):
    for changes in ({"activation": "gelu"}, {"attention": "additive"}):
        decoder, _ = decoder_of(model_with(dtype=np.float32, **changes))
        assert decoder._of_loops is None
        walk(decoder)
    for dtype, settings in ((np.float64, {}), (np.float32, {"same_bits": True})):
        decoder, _ = decoder_of(model_with(dtype=dtype), **settings)
        assert decoder._of_loops is None
        walk(decoder)


def test_many_rows_and_large_products_stay_with_the_kernels(compiled_cpu):
    decoder, calls = decoder_of(model_with(dtype=np.float32))
    for rows, loops in ((15, 2), (16, 0)):
        calls.clear()
        decoder.decode_step(np.full(rows, 1), decoder.start_decoding(sources(*[5] * rows)))
        assert len(calls) == loops
    assert cpu_kernels().runs_loops(4, 400_000)
    assert not cpu_kernels().runs_loops(5, 400_000)  # which two threads compute in less time


def test_weights_of_attention_are_recorded_all_the_same(compiled_cpu):
    decoder, calls = decoder_of(model_with(dtype=np.float32))
    seen = []
    state = decoder.start_decoding(SOURCE, {("cross", 1): seen.append})
    decoder.decode_step(np.full(4, 1), state)
    assert [weights.shape for weights in seen] == [(4, 2, 1, 12)]
    assert not calls


def test_a_loop_takes_over_weights_that_have_changed(compiled_cpu):
    model = model_with(dtype=np.float32)
    decoder = InferenceTransformer(model)
    before = walk(decoder)[0]
    up = model.decoder.layers[0].feed_forward.up.weight
    up.data = up.data * np.float32(2)
    after = walk(decoder)[0]
    assert (before != after).any()
    np.testing.assert_array_equal(after, walk(InferenceTransformer(model))[0])


def test_weights_that_have_diverged_do_not_look_like_numbers(compiled_cpu):
    model = model_with(dtype=np.float32)
    key = model.decoder.layers[1].self_attention.key.weight
    key.data = np.full_like(key.data, np.nan)
    assert np.isnan(walk(InferenceTransformer(model))[0]).all()
