"""Whole models on the CUDA backend, emulated or with `-m gpu` on a GPU: the same numbers as on the CPU."""

import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import autograd as ag
from additions.decoding.attention import attention_weights
from additions.decoding.sampling import SamplingConfig, sample
from autograd import Tensor, fast, random
from autograd.fast.recomputed import in_precision_of
from minitf.config import PRESETS, OptimizerConfig, TransformerConfig
from minitf.config.model import BOS, EOS, PAD
from minitf.data.batches import Batch
from minitf.decoding.greedy import greedy_search, score_targets
from minitf.decoding.search import BeamSearchConfig, beam_search
from minitf.errors import UserError
from minitf.fast.accelerate import accelerate, accelerate_adam, linear_heads
from minitf.fast.inference import InferenceTransformer
from minitf.model.transformer import Transformer
from minitf.system.process import set_up_device
from minitf.training.optim import Adam, batch_loss
from tests.emulation.cupy_stand_in import installed
from tests.emulation.device import KINDS, cuda_backend
from tests.emulation.emulator import Emulator
from tests.helpers.marks import parametrize_some

pytestmark = pytest.mark.heavy

SMALL = replace(PRESETS["tiny"].model, vocab_size=40, layers=1, d_model=16, d_ff=24, heads=2, dropout=0.2)


@pytest.fixture(params=KINDS)
def gpu(request: pytest.FixtureRequest) -> Iterator[Any]:
    with cuda_backend(request.param) as backend:
        yield backend


def sentences(rng: np.random.Generator, length: int) -> np.ndarray:
    """Three sentences, two of them padded.  Shapes: -> int32 [3, length]"""
    ids = rng.integers(EOS + 1, SMALL.vocab_size, (3, length)).astype(np.int32)
    ids[0, -1], ids[1, length // 2], ids[2, 1] = EOS, EOS, EOS
    ids[1, length // 2 + 1 :], ids[2, 2:] = PAD, PAD
    return ids


def trained(
    device: str, config: TransformerConfig, dtype: Any, compute_dtype: str | None = None, steps: int = 3
) -> Any:
    """Losses, gradient norms and weights of a few updates."""
    rng = np.random.default_rng(0)
    source, target = sentences(rng, 7), sentences(rng, 6)
    shifted = np.concatenate([np.full((3, 1), BOS), target[:, :-1]], axis=1).astype(np.int32)
    model = accelerate(Transformer(config, seed=1, dtype=dtype).to(device), compute_dtype=compute_dtype)
    optimizer = accelerate_adam(Adam(model.named_parameters(), OptimizerConfig()))
    random.manual_seed(5)
    losses, norms = [], []
    for step in range(1, steps + 1):
        random.begin_step(step, 0, 2)
        optimizer.zero_grad()
        loss, _ = batch_loss(model, Batch(np.arange(len(source)), source, shifted, target), 0.1)
        loss.backward()
        losses.append(loss.item())
        norms.append(optimizer.gradient_norm())
        optimizer.step(1e-2, 1 / 9)
    return np.array(losses), np.array(norms), {name: p.numpy() for name, p in model.named_parameters().items()}


@parametrize_some(
    "changes",
    [{}, {"attention_dropout": 0.2, "activation_dropout": 0.1}, {"norm": "pre", "positions": "learned"},
     {"share_embeddings": "none", "activation": "gelu", "d_k": 5, "d_v": 3},
     {"decoder_start": "zero", "embedding_norm": True, "output_bias": True, "masked_tokens": (0, 2)}],
    keep=(1, 4), ids=str,
)  # fmt: skip
def test_training_gives_the_same_numbers_as_on_the_cpu(gpu: Any, changes: dict[str, Any]) -> None:
    config = replace(SMALL, **changes)
    ours, theirs = trained("cuda", config, np.float64), trained("cpu", config, np.float64)
    np.testing.assert_allclose(ours[0], theirs[0], rtol=1e-12)
    np.testing.assert_allclose(ours[1], theirs[1], rtol=1e-11)
    for name, weights in theirs[2].items():
        # softmax does not see a bias common to all keys: its gradient is 0, and Adam divides the rounding by itself
        atol = 1e-8 if name.endswith("key.bias") else 1e-10
        np.testing.assert_allclose(ours[2][name], weights, rtol=1e-9, atol=atol, err_msg=name)
    used = {name.split("<")[0] for name in gpu.launched}
    embedding, attention = {"embedding", "embedding_backward", "embedding_edges"}, {"attention", "attention_backward"}
    assert embedding | attention | {"layer_norm", "layer_norm_backward", "cross_entropy", "adam_", "squares"} <= used
    assert "relu_backward_sum" in used


def test_bfloat16_follows_float32(gpu: Any) -> None:
    """Weights, gradients and moments are float32; the loss is that of float32 within a percent."""
    pytest.importorskip("ml_dtypes")
    ours, theirs = trained("cuda", SMALL, np.float32, "bfloat16", steps=6), trained("cpu", SMALL, np.float32, steps=6)
    np.testing.assert_allclose(ours[0], theirs[0], rtol=1e-2)
    assert all(weights.dtype == np.float32 for weights in ours[2].values())
    assert ours[0][-1] < ours[0][0]
    assert "attention<bf16, true, 64>" in gpu.launched


def test_two_runs_are_identical_to_the_bit(gpu: Any) -> None:
    pytest.importorskip("ml_dtypes")
    one, two = (trained("cuda", SMALL, np.float32, "bfloat16", steps=2) for _ in range(2))
    np.testing.assert_array_equal(one[0], two[0])
    for name, weights in one[2].items():
        np.testing.assert_array_equal(weights, two[2][name])


def test_the_bfloat16_copy_of_a_weight_is_never_out_of_date(gpu: Any) -> None:
    """Adam and loading weights write it; without them, it is computed whenever it is used."""
    bf16 = np.dtype(pytest.importorskip("ml_dtypes").bfloat16)
    model = accelerate(Transformer(SMALL).to("cuda"), compute_dtype="bfloat16")
    (weight,) = [
        p for name, p in model.named_parameters().items() if name.endswith("encoder.layers.0.feed_forward.up.weight")
    ]
    x, first = model.backend.asarray(np.zeros(1, bf16)), weight.low.copy
    weight.data -= 1.0
    np.testing.assert_array_equal(in_precision_of(x, weight, weight.data).get(), weight.numpy().astype(bf16))
    weight.grad = Tensor(model.backend.asarray(np.ones(weight.shape, np.float32)))
    accelerate_adam(Adam({"weight": weight}, OptimizerConfig())).step(0.1)
    assert in_precision_of(x, weight, weight.data) is first
    np.testing.assert_array_equal(first.get(), weight.numpy().astype(bf16))
    model.load_parameters({name: p.numpy() + 1 for name, p in model.named_parameters().items()})
    assert in_precision_of(x, weight, weight.data) is first
    np.testing.assert_array_equal(first.get(), weight.numpy().astype(bf16))


def test_projections_are_one_product_with_no_copy(gpu: Any) -> None:
    """Parameters lie side by side, and gradients are computed side by side."""
    model = accelerate(Transformer(SMALL, seed=1, dtype=np.float64)).to("cuda")
    attention = model.encoder.layers[0].self_attention
    layers = [attention.query, attention.key, attention.value]
    weights = [layer.weight for layer in layers]
    stacked = gpu.stacked([w.data for w in weights])
    assert stacked.data.ptr == weights[0].data.data.ptr
    x = Tensor(gpu.asarray(np.random.default_rng(0).standard_normal((2, 3, 16))), requires_grad=True)
    sum((y * y).sum() for y in linear_heads(x, layers, attention.heads)).backward()
    assert weights[1].grad.data.base is None  # its own array to the engine, which would copy a view


# ---- Decoding ----------------------------------------------------------------------------------------------------

DECODED = [
    {}, {"norm": "pre"}, {"norm": "pre", "positions": "learned"}, {"share_embeddings": "none", "activation": "gelu"},
    {"d_k": 5, "d_v": 3, "attention_bias": False},
    {"decoder_start": "zero", "embedding_norm": True, "output_bias": True, "masked_tokens": (0, 2)},
    {"decoder_start": "eos", "share_embeddings": "target-output", "scale_embeddings": False},
]  # fmt: skip
some_models = parametrize_some("changes", DECODED, keep=(2, 5), ids=str)


def speaking(dtype: Any = np.float64, compute_dtype: str | None = None, **changes: Any) -> Transformer:
    """A model whose next token depends on everything before it."""
    model = accelerate(
        Transformer(replace(SMALL, **{"layers": 2, **changes}), seed=3, dtype=dtype), compute_dtype=compute_dtype
    )
    rng = np.random.default_rng(3)
    for p in model.parameters():
        p.data += (0.3 * rng.standard_normal(p.shape)).astype(dtype)
    return model


def assert_same_hypotheses(ours: Any, theirs: Any, rel: float) -> None:
    """Each sentence has one hypothesis, or a list of them."""
    for one, other in zip(ours, theirs, strict=True):
        if isinstance(one, list):
            assert_same_hypotheses(one, other, rel)
            continue
        assert one.tokens == other.tokens
        assert one.score == pytest.approx(other.score, rel=rel)


@parametrize_some(("beam", "changes"), [(beam, changes) for changes in DECODED for beam in (4, 1)], keep=(10,), ids=str)
def test_search_finds_what_it_finds_on_the_cpu(gpu: Any, beam: int, changes: dict[str, Any]) -> None:
    model, source = speaking(**changes), sentences(np.random.default_rng(1), 6)
    config = BeamSearchConfig(beam=beam, max_extra_length=3, n_best=min(2, beam))
    drawn = replace(config, n_best=1), SamplingConfig(seed=1, top_k=5)
    searches = (
        lambda: beam_search(model, source, config),
        lambda: greedy_search(model, source, config),
        lambda: sample(model, source, *drawn),
    )
    expected = [search() for search in searches]
    model.to("cuda")
    for search, theirs in zip(searches, expected, strict=True):
        assert_same_hypotheses(search(), theirs, 1e-9)
    used = {*gpu.launched}
    assert {"top_tokens<double>", "attention<double, false, 64>", "embedding<double>"} <= used


@some_models
def test_attention_and_scores_are_those_of_the_cpu(gpu: Any, changes: dict[str, Any]) -> None:
    """Weights of all heads as an attention page shows them."""
    model, rng = speaking(**changes), np.random.default_rng(1)
    source, target = sentences(rng, 6), np.array([[BOS, 7, 8, 9], [BOS, 9, PAD, PAD], [BOS, 5, 6, PAD]])
    targets = [[7, 8, EOS], [9, EOS], [EOS]]

    def both() -> tuple[Any, Any]:
        return attention_weights(model, source, target), score_targets(model, source, targets)

    expected, expected_scores = both()
    model.to("cuda")
    found, scores = both()
    for name in ("encoder", "decoder", "cross", "logits"):
        np.testing.assert_allclose(getattr(found, name), getattr(expected, name), rtol=1e-9, atol=1e-10, err_msg=name)
    for ours, theirs in zip(scores, expected_scores, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-9)


def test_decoding_in_float32_and_bfloat16_follows_float64(gpu: Any) -> None:
    """bfloat16 has 8 bits: a weight of attention is right to some percent of 1, a log-probability to some tenths."""
    pytest.importorskip("ml_dtypes")
    source, target = sentences(np.random.default_rng(1), 6), np.array([[BOS, 7, 8, 9]] * 3)
    exact = attention_weights(speaking(layers=1, norm="pre"), source, target)
    for compute_dtype, tolerance in ((None, 1e-4), ("bfloat16", 0.1)):
        model = speaking(np.float32, compute_dtype, layers=1, norm="pre")
        model.to("cuda")
        found = attention_weights(model, source, target)
        assert found.logits.dtype == np.float32
        for name in ("encoder", "decoder", "cross"):
            weights = getattr(found, name)
            assert weights.dtype == np.float32
            np.testing.assert_allclose(weights, getattr(exact, name), rtol=0, atol=tolerance, err_msg=name)
            np.testing.assert_allclose(weights.sum(-1), 1, atol=1e-5)
        error = found.logits.astype(np.float64) - exact.logits
        assert np.abs(error).max() < tolerance * np.abs(exact.logits).max()
        (best, *_) = beam_search(model, source, BeamSearchConfig(max_extra_length=4))
        assert np.isfinite(best[0].score)
    assert "attention<bf16, true, 64>" in gpu.launched
    assert "top_tokens<bf16>" not in gpu.launched


def test_gradients_of_positions_and_logits_are_sums_in_float32(gpu: Any) -> None:
    """Of 300 ones, a bfloat16 sum of bfloat16 numbers would be 256."""
    bf16 = np.dtype(pytest.importorskip("ml_dtypes").bfloat16)
    weight, positions = (Tensor(gpu.asarray(np.ones(s, np.float32)), requires_grad=True) for s in ((5, 3), (2, 3)))
    fast.scaled_embedding(np.zeros((301, 2), int), weight, positions=positions, dtype=bf16).sum().backward()
    np.testing.assert_array_equal(positions.grad.numpy(), np.full((2, 3), 301))
    x = Tensor(gpu.asarray(np.ones((2, 301), np.float32)).astype(bf16), requires_grad=True)
    weight = Tensor(gpu.asarray(np.ones((4, 301), np.float32)), requires_grad=True)
    y = ag.linear(x, weight, dtype=np.float32)
    np.testing.assert_array_equal(y.numpy(), np.full((2, 4), 301, np.float32))
    y.sum().backward()
    assert (x.grad.dtype, weight.grad.dtype) == (bf16, np.float32)
    np.testing.assert_array_equal(weight.grad.numpy(), np.full((4, 301), 2))


def test_a_step_of_a_search_waits_for_the_gpu_at_most_a_few_times(gpu: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many sentences it has; counted on the stand-in, where each read of the device can be seen."""
    if gpu.emulator is None:
        return  # a GPU does not tell
    reads = []
    for name in ("get", "__bool__", "__float__", "__int__", "__index__"):
        original = getattr(gpu.xp.ndarray, name)
        monkeypatch.setattr(gpu.xp.ndarray, name, lambda a, original=original: (reads.append(a), original(a))[1])
    model, source = speaking(np.float32, layers=1), np.tile(sentences(np.random.default_rng(1), 6), (2, 1))
    model.to("cuda")
    steps = 4
    config = BeamSearchConfig(max_extra_length=steps, max_length=steps, beam=2)
    for most, search in ((1, beam_search), (3, sample)):
        reads.clear()
        search(model, source, config)
        assert steps <= len(reads) <= steps * most + 3  # and the start


def test_a_decoder_follows_its_model_to_the_device(gpu: Any) -> None:
    model, source = speaking(), sentences(np.random.default_rng(1), 6)
    decoder, config = InferenceTransformer(model), BeamSearchConfig(max_extra_length=4)
    expected = beam_search(decoder, source, config)
    model.to("cuda")
    assert_same_hypotheses(beam_search(decoder, source, config), expected, 1e-9)
    assert "attention<double, false, 64>" in gpu.launched


# ---- What a user can get wrong -----------------------------------------------------------------------------------


@pytest.mark.skipif(not Emulator.available(), reason="needs g++ to emulate the CUDA kernels")
def test_what_is_missing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    emulator = Emulator()
    with installed(emulator, device_count=1), pytest.raises(UserError, match=r"this computer has 1 GPU\(s\)"):
        set_up_device(1, "cuda:1")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3")
    with installed(emulator), pytest.raises(UserError, match=r"counted from cuda:0, by CUDA_VISIBLE_DEVICES=3;"):
        set_up_device(1, "cuda:3")
    with installed(emulator) as cupy:
        cupy.__version__ = "14.1.3"
        with pytest.raises(UserError, match=r"CuPy 14.1.3 is too old; pip install"):
            set_up_device(1, "cuda")
    for given, said in (
        ({"device_count": 0}, r"'cuda' cannot be used: CuPy finds no NVIDIA GPU \(cudaErrorNoDevice"),
        ({"driver": 0}, r"there is no NVIDIA driver \(libcuda\) on this computer"),
        ({"driver": 12040}, r"driver is for CUDA 12\.4, .* CUDA 13\.0 at least; .* '\.\[gpu-cuda12\]'"),
        ({"driver": 11080}, r"driver is for CUDA 11\.8, .* CUDA 13\.0 at least; install a newer driver; choose"),
        ({"capability": "70"}, r"is too old: its compute capability is 7\.0, and 7\.5 is the least"),
    ):
        with installed(emulator, **given), pytest.raises(UserError, match=said):
            set_up_device(1, "cuda")
    with installed(emulator, capability="75"):
        set_up_device(1, "cuda")
    monkeypatch.setitem(sys.modules, "cupy", None)
    with pytest.raises(UserError, match=r"needs CuPy, which is not installed .*pip install '\.\[gpu\]'"):
        set_up_device(1, "cuda")


def test_a_tensor_of_the_cpu_beside_one_of_a_gpu(gpu: Any) -> None:
    from autograd.backend import get_backend

    there = Tensor(get_backend("cuda").asarray(np.ones(3)), requires_grad=True)
    assert (there * np.ones(3)).numpy().tolist() == [1, 1, 1]  # a constant goes along
    with pytest.raises(ValueError, match="is on the CPU and another input on a GPU"):
        there * Tensor(np.ones(3), requires_grad=True)
