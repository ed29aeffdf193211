"""Decoding with weights of 8 bits computes what the plain model computes with such products."""

import numpy as np
import pytest

from additions.interchange.packing import pack_run
from autograd import Tensor
from autograd.fast.int8 import Int8Weights, linear_int8
from minitf.app.translate import TranslateConfig
from minitf.decoding.decoder import TransformerDecoder
from minitf.errors import UserError
from minitf.fast.inference import InferenceTransformer
from minitf.model.layers import Embedding, Linear
from minitf.model.transformer import Transformer
from minitf.storage import checkpoints
from minitf.translation.translator import Translator
from tests.helpers.small_model import SMALL, model_with, sources

f4 = np.float32
SOURCE = sources(9, 5, 12, 3)
LINES = ["the third of May", "", "ten euros"]


@pytest.fixture
def plain_packed(monkeypatch):
    """The plain layers, with products of 8 bits."""

    def product(x, weight, bias=None):
        rows, weights = (
            x.data.reshape(-1, x.shape[-1]),
            Int8Weights.of(weight.data, None if bias is None else bias.data),
        )
        y = linear_int8(rows, weights)
        return Tensor(y.astype(f4).reshape(*x.shape[:-1], -1))

    tables = {}

    def embedded(self, ids):
        table = tables.setdefault(id(self), Int8Weights.of(self.weight.data))
        ids = np.asarray(ids)
        return Tensor(table.rows(ids.reshape(-1)).reshape(*ids.shape, -1)) * self.scale

    monkeypatch.setattr(Linear, "__call__", lambda self, x: product(x, self.weight, self.bias))
    monkeypatch.setattr(Embedding, "__call__", embedded)
    monkeypatch.setattr(Transformer, "logits", lambda self, hidden: product(hidden, self.output_matrix))


def logits_of(decoder, steps=6):
    rng = np.random.default_rng(5)
    state = decoder.start_decoding(SOURCE)
    return np.stack([decoder.decode_step(rng.integers(4, SMALL.vocab_size, len(SOURCE)), state) for _ in range(steps)])


@pytest.mark.parametrize("changes", [{}, {"norm": "pre"}, {"share_embeddings": "none"}, {"attention_bias": False}])
def test_as_the_plain_layers_compute_it(plain_packed, changes):
    model = model_with(dtype=f4, **changes)
    found, expected = logits_of(InferenceTransformer(model, packed="int8")), logits_of(TransformerDecoder(model))
    differences = np.abs(found - expected) / np.abs(expected).max()
    assert np.median(differences) < 1e-6
    assert differences.max() < 0.05  # where float32 rounds x to the middle of two numbers, another may be next


def test_the_memory_of_matrices_is_given_back():
    model = model_with(dtype=f4)
    decoder = InferenceTransformer(model, packed="int8")
    before = logits_of(decoder)
    decoder.release_weights()
    np.testing.assert_array_equal(logits_of(decoder), before)
    assert not [name for name, p in model.named_parameters().items() if p.ndim == 2 and any(p.data.strides)]
    assert np.isnan(logits_of(InferenceTransformer(model))).all()  # nothing passes for a model


def test_a_run_is_loaded(tiny_run):
    search = {"max_extra_length": 5}
    translator = Translator.load(tiny_run, precision="int8", warn=lambda message: None)
    assert not any(p.data.strides[0] for p in translator.model.parameters() if p.ndim == 2)
    (alone,) = translator.translate_nbest(LINES[:1], **search)
    both, pair = (translator, Translator.load(tiny_run, warn=lambda message: None)), (LINES[0], alone[0].text)
    scored, exact = (each.score([pair])[0].log_probability for each in both)
    assert scored != exact == pytest.approx(scored, abs=0.1)


def test_what_weights_in_8_bits_need(tiny_run):
    for option, needed in (({"device": "cuda"}, "requires --device cpu"), ({"plain": True}, "plain and precision")):
        with pytest.raises(UserError, match=needed):
            TranslateConfig(run=tiny_run, precision="int8", **option)
    with pytest.raises(ValueError, match="packed='float32' is neither 'int8' nor None"):
        InferenceTransformer(model_with(), packed="float32")
    with pytest.raises(ValueError, match="int8 needs a model in float32 on the CPU, not one in float64"):
        InferenceTransformer(model_with(), packed="int8")
    with pytest.raises(UserError, match="int8 needs a Transformer, not a model of type TransformerDecoder"):
        Translator(TransformerDecoder(model_with()), None, packed="int8")


def test_a_run_packed_in_8_bits_translates_as_the_run_to_the_bit(tiny_run, tmp_path):
    search = {"max_extra_length": 5}
    pack_run(tiny_run, tmp_path / "packed", int8=True)
    pack_run(tiny_run, tmp_path / "whole")
    sizes = [
        sum(path.stat().st_size for path in (tmp_path / name / "checkpoints").iterdir()) for name in ("packed", "whole")
    ]
    assert sizes[0] < 0.6 * sizes[1]  # of a tiny model, whose vectors and names are a large part
    found, expected = (
        Translator.load(run, precision="int8", warn=lambda message: None).translate_nbest(LINES, **search)
        for run in (tmp_path / "packed", tiny_run)
    )
    assert found == expected
    weights = Translator.load(tmp_path / "packed", warn=lambda message: None).model.target_embedding.weight.data
    whole = Translator.load(tiny_run, warn=lambda message: None).model.target_embedding.weight.data
    assert 0 < np.abs(weights - whole).max() < 0.51 * np.abs(whole).max() / 127


@pytest.mark.parametrize(("shape", "rows"), [((3, 2), 2), ((3, 2, 1), 3), ((3,), 3), ((), ())])
def test_factors_that_do_not_fit_are_refused(tmp_path, shape, rows):
    arrays = {"model.w": np.ones(shape, np.int8), "model.w.factors": np.ones(rows, np.float32)}
    checkpoints.save(tmp_path / "step-00000001.safetensors", arrays, {})
    with pytest.raises(UserError, match=r"model\.w in .* is of type int8, which has no mean"):
        checkpoints.average([tmp_path / "step-00000001.safetensors"])
