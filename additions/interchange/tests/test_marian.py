"""Models of Marian: its two files of weights, its options, and CTranslate2's reader of what we write."""

import shutil

import numpy as np
import pytest

from additions.interchange.formats import is_foreign, read_foreign, write_foreign
from additions.interchange.marian import parse_yaml, read_marian
from additions.interchange.stored_arrays import ModelFileError, SourceFile, npz_arrays
from additions.interchange.tests.foreign_files import write_intgemm
from additions.interchange.tests.foreign_models import assert_scores_of_ctranslate2, learned_model

OPUS = {"decoder_start": "zero", "masked_tokens": (0, 2), "output_bias": True, "positions": "sinusoidal-concatenated"}


def arrays_of(folder):
    with SourceFile(folder / "model.npz") as file:
        return {name: array.read() for name, array in npz_arrays(file).items()}


def with_option(folder, name, value):
    """Replace an option in a model's configuration."""
    arrays = arrays_of(folder)
    lines = [line for line in bytes(arrays["special:model.yml"]).rstrip(b"\0").decode().split("\n") if line]
    lines = [line for line in lines if not line.startswith(f"{name}:")] + [f"{name}: {value}"]
    arrays["special:model.yml"] = np.frombuffer("\n".join(lines).encode() + b"\0", np.int8)
    np.savez(folder / "model.npz", **arrays)


@pytest.fixture
def folder(tmp_path):
    write_foreign(learned_model(**OPUS), tmp_path / "model", "marian")
    return tmp_path / "model"


def test_positions_are_marians_own_or_those_of_other_readers(folder):
    own, other = (read_marian(folder / "model.npz", positions) for positions in (None, "sinusoidal-halves"))
    assert own.config.model.positions == "sinusoidal-concatenated"
    assert other.config.model.positions == "sinusoidal-halves"
    assert own.config.model.norm_epsilon == 1e-6
    assert own.config.model.decoder_start == "zero"


def test_rows_of_norms_and_biases_are_matrices_of_one_row_as_marian_has_them_or_vectors(folder):
    arrays, expected = arrays_of(folder), read_foreign(folder)
    for name in ("encoder_l1_self_Wo_ln_scale", "encoder_l1_self_Wo_ln_bias", "encoder_l1_self_bq"):
        assert arrays[name].shape == (1, 16)
        np.savez(folder / "model.npz", **{**arrays, name: arrays[name][0]})
        found = read_foreign(folder)
        assert all(np.array_equal(found.weights[each], array) for each, array in expected.weights.items())


@pytest.mark.parametrize("intgemm8", [0x4101, 0x10101])
def test_eight_bit_models_are_dequantised(folder, tmp_path, intgemm8):
    arrays = arrays_of(folder)
    browser = tmp_path / "browser"
    browser.mkdir()
    write_intgemm(
        browser / "model.deen.intgemm.alphas.bin",
        {**arrays, "encoder_l1_self_Wq_QuantMultA": np.ones((1, 1))},
        intgemm8,
    )
    shutil.copy(folder / "vocab.yml", browser)
    assert is_foreign(browser)
    found, expected = read_foreign(browser), read_foreign(folder)
    for name, array in expected.weights.items():
        step = abs(array).max() / 127 if array.ndim == 2 else 0
        np.testing.assert_allclose(found.weights[name], array, atol=0.51 * step + 1e-7, err_msg=name)


@pytest.mark.parametrize(
    ("option", "value"),
    [("type", "s2s"), ("transformer-decoder-autoreg", "rnn"), ("transformer-ffn-activation", "gelu"),
     ("transformer-preprocess", "d"), ("transformer-postprocess", "da"), ("transformer-no-projection", "true"),
     ("transformer-tied-layers", "[1, 1]"), ("enc-depth", "7"), ("transformer-heads", "x"), ("lemma-dim-emb", "64")],
)  # fmt: skip
def test_options_that_are_not_supported_are_named(folder, option, value):
    with_option(folder, option, value)
    with pytest.raises(ModelFileError, match=rf"model\.npz: the option {option}=.* is not supported"):
        read_foreign(folder)


def test_arrays_of_another_architecture_are_refused(folder):
    np.savez(folder / "model.npz", **arrays_of(folder), decoder_l1_rnn_W=np.zeros((2, 2), np.float32))
    with pytest.raises(ModelFileError, match="decoder_l1_rnn_W, which no architecture of this project has"):
        read_foreign(folder)


def test_vocabularies_that_a_file_names_elsewhere_are_not_followed(folder):
    outside = folder.parent / "vocab.yml"
    (folder / "vocab.yml").rename(outside)
    (folder / "decoder.yml").write_text(f"models:\n  - ../model.npz\nvocabs:\n  - ../vocab.yml\n  - {outside}\n")
    with pytest.raises(ModelFileError, match="has no vocabulary"):
        read_foreign(folder)


def test_missing_parts_are_named(folder):
    (folder / "vocab.yml").unlink()
    with pytest.raises(ModelFileError, match=r"has no vocabulary, such as vocab\.yml"):
        read_foreign(folder)
    arrays = arrays_of(folder)
    del arrays["encoder_l2_self_Wq"]
    np.savez(folder / "model.npz", **arrays)
    (folder / "vocab.yml").write_text("".join(f'"{name}": {i}\n' for i, name in enumerate(["</s>", "<unk>"])))
    with pytest.raises(ModelFileError, match="has no array encoder_l2_self_Wq"):
        read_foreign(folder)


def test_yaml_of_options():
    lines = [
        "version: v1.9", "dim-vocabs:", "  - 7", "  - 8", "empty: []", "flow: [1, 'a', true]", "x: -0.5", "y: 1e-3",
        "z: ~", 'pre: ""', "nested:", "  a: 1",
    ]  # fmt: skip
    assert parse_yaml("\n".join(lines)) == {
        "version": "v1.9", "dim-vocabs": [7, 8], "empty": [], "flow": [1, "a", True], "x": -0.5, "y": 1e-3, "z": None,
        "pre": "", "nested": [],
    }  # fmt: skip


def test_brackets_in_brackets_are_text():
    assert parse_yaml(f"a: {'[' * 100_000}{']' * 100_000}") == {"a": ["[" * 99_999 + "]" * 99_999]}


@pytest.mark.parametrize("changes", [{}, {"norm": "pre"}, {"share_embeddings": "target-output", "shared": False}])
def test_ctranslate2_reads_what_we_write(changes, tmp_path):
    """CTranslate2's own converter and runtime: the scores of tokens, and translations."""
    ctranslate2 = pytest.importorskip("ctranslate2", reason="CTranslate2 is not installed")
    converters = pytest.importorskip("ctranslate2.converters.marian", reason="PyYAML is not installed")
    learned = learned_model(**{**OPUS, "positions": "sinusoidal", "norm_epsilon": 1e-5, **changes})
    write_foreign(learned, tmp_path / "marian", "marian")
    paths = sorted((tmp_path / "marian").glob("vocab*.yml"))
    converter = converters.MarianConverter(str(tmp_path / "marian" / "model.npz"), list(map(str, paths)))
    converter.convert(str(tmp_path / "ct2"))
    translator = ctranslate2.Translator(str(tmp_path / "ct2"))
    assert_scores_of_ctranslate2(translator, learned, 200, hidden=(0, 2))
