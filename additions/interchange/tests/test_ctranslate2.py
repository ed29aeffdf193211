"""Models of CTranslate2: all versions and types of its file, its options, and its own scores for what we write."""

import json

import numpy as np
import pytest

from additions.interchange.ctranslate2 import read_content
from additions.interchange.formats import read_foreign, write_foreign
from additions.interchange.stored_arrays import ModelFileError, SourceFile
from additions.interchange.tests.foreign_files import write_ctranslate2
from additions.interchange.tests.foreign_models import assert_scores_of_ctranslate2, learned_model

UNTIED = {"share_embeddings": "none", "shared": False, "output_bias": True, "norm_epsilon": 1e-5}


def arrays_of(folder):
    with SourceFile(folder / "model.bin") as file:
        return {name: array.read() for name, array in read_content(file).arrays.items()}


@pytest.fixture
def folder(tmp_path):
    write_foreign(learned_model(**UNTIED), tmp_path / "model", "ctranslate2")
    return tmp_path / "model"


def quantised(arrays, kind):
    """The arrays with matrices in another type, and what each number may differ by."""
    found, steps = dict(arrays), {}
    for name, array in arrays.items():
        if array.ndim < 2 or "position" in name:
            continue
        if kind == "int8":
            scale = 127 / abs(array).max(axis=1)
            found[name], found[f"{name}_scale"] = (
                np.round(array * scale[:, None]).astype(np.int8),
                scale.astype(np.float32),
            )
            steps[name] = 0.51 / scale.min()
        elif kind == "int16":
            found[name], steps[name] = np.round(array * 1000).astype(np.int16), 0.51e-3
            found[f"{name}_scale"] = np.float32(1000).reshape(1)
        elif kind == "float16":
            found[name], steps[name] = array.astype(np.float16), 1e-3 * abs(array).max()
        elif kind == "bfloat16":
            found[name] = (np.ascontiguousarray(array, np.float32).view(np.uint32) >> 16).astype(np.uint16)
            steps[name] = 1e-2 * abs(array).max()
    return found, steps


@pytest.mark.parametrize(
    ("version", "kind"),
    [(2, "float32"), (2, "int8"), (2, "int16"), (3, "float32"), (3, "int16"), (4, "int8"), (5, "float16"),
     (6, "float32"), (6, "bfloat16"), (6, "int16"), (6, "int8")],
)  # fmt: skip
def test_versions_and_types(folder, version, kind):
    expected = read_foreign(folder)
    arrays, steps = quantised(arrays_of(folder), kind)
    if version < 4:  # integers of 32 bits are unknown there, and other scalars are
        arrays = {name: array for name, array in arrays.items() if array.dtype != np.int32}
    write_ctranslate2(folder / "model.bin", arrays, version)
    found = read_foreign(folder)
    assert found.config.model == expected.config.model
    for name, array in expected.weights.items():
        np.testing.assert_allclose(found.weights[name], array, atol=max(steps.values(), default=0) + 1e-7, err_msg=name)
    assert kind == "float32" or any((found.weights[name] != array).any() for name, array in expected.weights.items())


def test_sixteen_bit_weights_without_a_scale_have_that_of_old_files(folder):
    arrays = quantised(arrays_of(folder), "int16")[0]
    write_ctranslate2(
        folder / "model.bin", {name: each for name, each in arrays.items() if "scale" not in name[-6:]}, 2
    )
    before = arrays_of(folder)["encoder/layer_0/ffn/linear_0/weight"]
    np.testing.assert_allclose(
        read_foreign(folder).weights["encoder.layers.0.feed_forward.up.weight"], before / 1000, atol=1e-6
    )


def test_eight_bit_weights_without_a_scale_are_refused(folder):
    arrays = quantised(arrays_of(folder), "int8")[0]
    del arrays["encoder/layer_0/ffn/linear_0/weight_scale"]
    write_ctranslate2(folder / "model.bin", arrays)
    with pytest.raises(ModelFileError, match="has no weight_scale"):
        read_foreign(folder)


@pytest.mark.parametrize(
    ("name", "value"),
    [("decoder/alibi", np.int8(1)), ("encoder/multi_query_attention", np.int8(1)), ("decoder/activation", np.int8(1)),
     ("encoder/pre_norm", np.int8(1)), ("decoder/num_heads", np.int16(2)), ("decoder/scale_embeddings", np.float32(3)),
     ("decoder/layer_0/self_attention/rotary_dim", np.int32(8))],
)  # fmt: skip
def test_options_that_are_not_supported_are_named(folder, name, value):
    write_ctranslate2(folder / "model.bin", {**arrays_of(folder), name: np.asarray(value)})
    with pytest.raises(ModelFileError, match=rf"the option {name}=.* is not supported"):
        read_foreign(folder)


@pytest.mark.parametrize("name", ["relative_position_keys", "relative_attention_bias"])
def test_relative_positions_and_gates_are_refused(folder, name):
    extra = {f"encoder/layer_0/self_attention/{name}": np.zeros((3, 4), np.float32)}
    write_ctranslate2(folder / "model.bin", {**arrays_of(folder), **extra})
    with pytest.raises(ModelFileError, match=f"{name}, which no architecture of this project has"):
        read_foreign(folder)


def test_language_models_are_refused(folder):
    write_ctranslate2(folder / "model.bin", arrays_of(folder), name="TransformerDecoderSpec")
    with pytest.raises(ModelFileError, match="'TransformerDecoderSpec' is not supported"):
        read_foreign(folder)


def test_missing_and_short_vocabularies_are_named(folder):
    (folder / "target_vocabulary.json").write_text(json.dumps(["</s>", "<s>", "a"] + [f"b{i}" for i in range(30)]))
    with pytest.raises(ModelFileError, match="16 rows for 33 pieces; give the model its own vocabulary"):
        read_foreign(folder)
    (folder / "target_vocabulary.json").unlink()
    with pytest.raises(ModelFileError, match="has neither target_vocabulary nor shared_vocabulary"):
        read_foreign(folder)


@pytest.mark.parametrize(
    "fields",
    [{}, UNTIED, {"norm": "pre", "embedding_norm": True, "activation": "gelu"}, {"decoder_start": "eos"},
     {"decoder_start": "zero", "masked_tokens": (0, 2), "output_bias": True}, {"norm_epsilon": 0.01},
     {"positions": "learned", "max_positions": 70, "first_position": 2}, {"source_eos": False, "masked_tokens": (6,)},
     {"positions": "sinusoidal-concatenated", "first_position": 1, "scale_embeddings": False, "attention_bias": False}],
    ids=str,
)  # fmt: skip
def test_scores_are_those_of_ctranslate2(fields, tmp_path):
    ctranslate2 = pytest.importorskip("ctranslate2", reason="CTranslate2 is not installed")
    learned = learned_model(**fields)
    write_foreign(learned, tmp_path / "model", "ctranslate2")
    translator = ctranslate2.Translator(str(tmp_path / "model"))
    assert_scores_of_ctranslate2(translator, learned, 50)
