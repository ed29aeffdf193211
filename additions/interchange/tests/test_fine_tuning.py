"""Models of other programs, fine-tuned."""

import os
from pathlib import Path

import numpy as np
import pytest

from additions.interchange.commands import export_model, import_model
from additions.interchange.formats import write_foreign
from additions.interchange.tests.foreign_models import learned_model
from minitf.system.process import run_command
from minitf.translation.translator import Translator
from tests.helpers.runs import call

FLAGS = [
    *("--threads", "1", "--max-length", "32", "--max-tokens-per-batch", "256", "--log-every", "5"),
    *("--optimizer.warmup-steps", "5", "--optimizer.peak-learning-rate", "0.01", "--save-every", "10"),
    *("--average-checkpoints", "1"),
]


@pytest.mark.heavy
@pytest.mark.parametrize("name", ["ctranslate2", "marian", "huggingface"])
def test_a_model_of_another_program_is_fine_tuned_as_it_is(name, tmp_path, capfd):
    """Without an import: the folder is what `--init` names."""
    fields = {"decoder_start": "zero", "masked_tokens": (0, 2), "output_bias": True, "positions": "sinusoidal-halves"}
    write_foreign(learned_model(**fields), tmp_path / "model", name)
    for side, line in (("source", "the cat sat on my mat"), ("target", "die Katze saß auf der Matte")):
        (tmp_path / side).write_text(f"{line}\n" * 40)
    texts = ["--train", str(tmp_path / "source"), str(tmp_path / "target")]
    words = ["--init", str(tmp_path / "model"), *texts, *FLAGS, "--max-steps", "10", "--output", str(tmp_path / "run")]
    assert call(words) == 0
    assert f"initial weights: {tmp_path / 'model'}" in capfd.readouterr().err
    pair = ("the cat sat on my mat", "die Katze saß auf der Matte")
    before, after = (Translator.load(tmp_path / each).score([pair])[0].score for each in ("model", "run"))
    assert after > before + 1


# ---- A trained model -----------------------------------------------------------------------------------------------

NAMES = ["آتزمون", "آرباكه", "اثينا", "مريم", "احمد", "كامل", "سالم", "نبيل", "فريد", "جمال", "حسن", "ليلى"]
KNOWN = [("آتزمون", "atzmon"), ("آرباكه", "arbake")]


@pytest.fixture(scope="module")
def tuned(tmp_path_factory):
    """The trained transliteration model, imported, and trained for 20 steps on what it writes itself."""
    if "MINITF_DATA" not in os.environ:
        pytest.skip("MINITF_DATA names no folder of corpora")
    folder = tmp_path_factory.mktemp("transliteration")
    source = Path(os.environ["MINITF_DATA"]) / "pretrained" / "aren-transliteration"
    assert run_command(import_model, [str(source), str(folder / "run")]) == 0
    for name, lines in (("source", NAMES), ("target", Translator.load(folder / "run").translate(NAMES))):
        (folder / name).write_text("\n".join(lines * 4) + "\n", encoding="utf-8")
    words = ["--init", str(folder / "run"), "--train", str(folder / "source"), str(folder / "target"), *FLAGS]
    rate = ["--optimizer.peak-learning-rate", "0.0003"]
    assert call([*words, *rate, "--max-steps", "20", "--output", str(folder / "tuned")]) == 0
    return folder


@pytest.mark.heavy
def test_a_trained_model_of_another_program_does_not_fall_apart(tuned):
    before, after = (Translator.load(tuned / name) for name in ("run", "tuned"))
    assert not all(
        np.array_equal(one.data, two.data)
        for one, two in zip(before.model.parameters(), after.model.parameters(), strict=True)
    )
    assert after.translate([source for source, _ in KNOWN], beam=4) == [target for _, target in KNOWN]
    scores = [[each.score for each in translator.score(KNOWN)] for translator in (before, after)]
    np.testing.assert_allclose(*scores, atol=0.2)


@pytest.mark.heavy
def test_what_was_trained_has_the_same_scores_in_ctranslate2(tuned, tmp_path):
    ctranslate2 = pytest.importorskip("ctranslate2", reason="CTranslate2 is not installed")
    words = [str(tuned / "tuned"), str(tmp_path / "model"), "--format", "ctranslate2"]
    assert run_command(export_model, words) == 0
    theirs = ctranslate2.Translator(str(tmp_path / "model"))
    ours = Translator.load(tuned / "tuned")
    pairs = [*KNOWN, *zip(NAMES, ours.translate(NAMES), strict=True), ("مريم", "xylem")]
    found = theirs.score_batch([[*source] for source, _ in pairs], [[*target] for _, target in pairs])
    for expected, each in zip(ours.score(pairs), found, strict=True):
        np.testing.assert_allclose(each.log_probs, expected.token_log_probabilities, atol=1e-5)
    results = theirs.translate_batch([[*source] for source, _ in KNOWN], beam_size=4)
    assert ["".join(each.hypotheses[0]) for each in results] == [target for _, target in KNOWN]
