"""A checkpoint of fairseq, written key by key, against a computation in plain NumPy with fairseq's own names."""

import argparse
import math
import subprocess
import sys

import numpy as np
import pytest

from additions.interchange.fairseq import read_fairseq
from additions.interchange.formats import read_foreign
from additions.interchange.stored_arrays import ModelFileError
from additions.interchange.tests.fairseq_model import ARGS, HEADS, D, tensors, write_fairseq
from minitf.model.transformer import Transformer

# ---- fairseq's computation ---------------------------------------------------------------------------------------


def layer_norm(w, name, x):
    centred = x - x.mean(-1, keepdims=True)
    return centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5) * w[f"{name}.weight"] + w[f"{name}.bias"]


def linear(w, name, x):
    return x @ w[f"{name}.weight"].T + w[f"{name}.bias"]


def attention(w, name, x, memory, causal):
    q, k, v = (linear(w, f"{name}.{part}_proj", y) for part, y in (("q", x), ("k", memory), ("v", memory)))
    y = np.zeros_like(q)
    for part in (slice(i, i + D // HEADS) for i in range(0, D, D // HEADS)):
        scores = q[:, part] @ k[:, part].T / math.sqrt(D // HEADS)
        scores = np.where(np.tri(*scores.shape, dtype=bool), scores, -np.inf) if causal else scores
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        y[:, part] = weights / weights.sum(-1, keepdims=True) @ v[:, part]
    return linear(w, f"{name}.out_proj", y)


def embed(w, side, ids, args):
    x = math.sqrt(D) * w[f"{side}.embed_tokens.weight"][ids]
    if args[f"{side}_learned_pos"]:
        return x + w[f"{side}.embed_positions.weight"][2 : 2 + len(ids)]
    frequency = np.exp(np.arange(D // 2) * -(math.log(10000) / (D // 2 - 1)))
    angle = np.arange(2, 2 + len(ids))[:, None] * frequency
    return x + np.concatenate([np.sin(angle), np.cos(angle)], axis=1)


def run_layers(w, side, x, args, memory=None):
    is_pre = args[f"{side}_normalize_before"]

    def residual(norm, x, sublayer):
        return x + sublayer(layer_norm(w, norm, x)) if is_pre else layer_norm(w, norm, x + sublayer(x))

    for layer in range(args[f"{side}_layers"]):
        place = f"{side}.layers.{layer}"
        norm, name = f"{place}.self_attn_layer_norm", f"{place}.self_attn"
        x = residual(norm, x, lambda y, name=name: attention(w, name, y, y, memory is not None))
        if memory is not None:
            norm, name = f"{place}.encoder_attn_layer_norm", f"{place}.encoder_attn"
            x = residual(norm, x, lambda y, name=name: attention(w, name, y, memory, False))
        feed = (f"{place}.fc1", f"{place}.fc2")
        x = residual(
            f"{place}.final_layer_norm", x, lambda y, f=feed: linear(w, f[1], np.maximum(linear(w, f[0], y), 0))
        )
    return layer_norm(w, f"{side}.layer_norm", x) if is_pre else x


def fairseq_logits(args, source, target):
    """Logits for ids of fairseq; the decoder starts with </s>, 2."""
    w = {name: array.astype(np.float32).astype(np.float64) for name, array in tensors(args).items()}
    memory = run_layers(w, "encoder", embed(w, "encoder", source, args), args)
    x = run_layers(w, "decoder", embed(w, "decoder", [2, *target[:-1]], args), args, memory)
    return x @ w["decoder.output_projection.weight"].T


# ---- Tests -------------------------------------------------------------------------------------------------------

VARIANTS = {
    "post-norm": {},
    "pre-norm": {"encoder_normalize_before": True, "decoder_normalize_before": True},
    "untied": {"share_decoder_input_output_embed": False},
    "learned positions": {"encoder_learned_pos": True, "decoder_learned_pos": True},
}


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("form", [{}, {"as_cfg": True}], ids=["args", "cfg"])
def test_logits_are_those_of_fairseq(variant, form, tmp_path):
    args = {**ARGS, **VARIANTS[variant]}
    config, vocabulary, weights = read_fairseq(write_fairseq(tmp_path, args, **form))
    model = Transformer(config.model, seed=None, dtype=np.float64)
    model.load_parameters(weights)
    model.eval()
    source, target = [4, 6, 8, 2], [5, 4, 7, 2]  # fairseq's ids
    ours = {0: 2, 1: 0, 2: 3, 3: 1}  # <s>, <pad>, </s>, <unk>
    found = model(
        np.array([[ours.get(i, i) for i in source]]), np.array([[2, *[ours.get(i, i) for i in target[:-1]]]])
    ).data[0]
    expected = fairseq_logits(args, source, target)
    in_our_order = expected[:, [1, 3, 0, 2, *range(4, expected.shape[1])]]
    np.testing.assert_allclose(found, in_our_order, atol=1e-9)
    assert config.model.masked_tokens == ()  # fairseq's softmax has all of them
    assert vocabulary.source.encode(["the cat sat on@@ ly dogs"]) == [[4, 5, 6, 7, 8, 1]]
    assert vocabulary.target.decode([[4, 5, 7]]) == ["die Katze nur"]


@pytest.mark.parametrize(
    ("option", "value"),
    [("arch", "fconv_wmt_en_de"), ("adaptive_softmax_cutoff", "10000"), ("activation_fn", "gelu_fast"),
     ("decoder_normalize_before", True), ("decoder_learned_pos", True), ("decoder_attention_heads", 2)],
)  # fmt: skip
def test_options_that_are_not_supported_are_named(option, value, tmp_path):
    path = write_fairseq(tmp_path, {**ARGS, option: value}, model=tensors(ARGS))
    with pytest.raises(ModelFileError, match=f"the option {option}={value!r} is not supported"):
        read_fairseq(path)


def test_arrays_of_another_architecture_are_refused(tmp_path):
    extra = {"encoder.layers.0.self_attn.relative_positions.weight": np.zeros((3, 3), np.float32)}
    path = write_fairseq(tmp_path, ARGS, model={**tensors(ARGS), **extra})
    with pytest.raises(ModelFileError, match=r"relative_positions\.weight, which no architecture of this project has"):
        read_fairseq(path)


def test_missing_dictionary_is_named(tmp_path):
    path = write_fairseq(tmp_path, ARGS)
    (tmp_path / "dict.de.txt").unlink()
    (tmp_path / "dict.en.txt").unlink()
    with pytest.raises(ModelFileError, match=r"0 files dict\.\*\.txt"):
        read_fairseq(path)


def test_a_pickle_is_not_read_and_the_lines_that_convert_it_do(tmp_path):
    torch = pytest.importorskip("torch", reason="needs PyTorch")
    path = write_fairseq(tmp_path, ARGS)
    expected = read_fairseq(path).weights
    path.unlink()
    model = {name: torch.tensor(array.astype(np.float32)) for name, array in tensors(ARGS).items()}
    torch.save({"args": argparse.Namespace(**ARGS), "model": model, "epoch": 3}, tmp_path / "model.pt")
    with pytest.raises(
        ModelFileError, match=r"model\.pt is a pickle, which can run code when it is read; if you trust"
    ) as caught:
        read_foreign(tmp_path)
    code = str(caught.value).partition("with PyTorch: ")[2]
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True)
    found = read_foreign(tmp_path).weights
    assert all(np.array_equal(found[name], expected[name]) for name in expected)


def test_a_pickle_is_refused_with_the_lines_that_convert_it(tmp_path):
    (tmp_path / "model.pt").write_bytes(b"anything")
    for path in (tmp_path, tmp_path / "model.pt"):
        with pytest.raises(ModelFileError, match=r"is a pickle, .* with PyTorch: import json, torch; from safetensors"):
            read_foreign(path)
