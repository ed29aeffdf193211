"""Files that transformers and CTranslate2 themselves wrote, beside the numbers that these programs compute from them.

`files/make.py` writes the files again.
"""

import json
from pathlib import Path

import numpy as np
import pytest

from minitf import Translator

FILES = Path(__file__).parent / "files"
EXPECTED = json.loads((FILES / "expected.json").read_text())


@pytest.mark.parametrize("kind", EXPECTED["log-probabilities"])
def test_log_probabilities_of_tied_models_are_those_of_ctranslate2(kind):
    """The scale of tied embeddings is stored under one of their names, and float16 rounds the table of positions."""
    translator = Translator.load(FILES / f"ctranslate2-{kind}")
    pairs = [(" ".join(source), " ".join(target)) for source, target in EXPECTED["pairs"]]
    for found, expected in zip(translator.score(pairs), EXPECTED["log-probabilities"][kind], strict=True):
        np.testing.assert_allclose(found.token_log_probabilities, expected, atol=1e-5)
