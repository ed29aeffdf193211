"""A model of random weights that is made a page: its translations mean nothing, and depend on all that came before."""

import random
import unicodedata
from dataclasses import replace
from pathlib import Path

import numpy as np

from minitf.config import PRESETS
from minitf.config.model import EOS
from minitf.data.vocabulary import sized
from minitf.model.transformer import Transformer
from minitf.translation.loading import LearnedModel
from minitf.translation.translator import Translator

SMALL = {"layers": 2, "d_model": 24, "d_ff": 40, "heads": 3}
LONGER = 8  # tokens that a translation may be longer than its sentence
RANGES = [(0x20, 0x7F), (0, 0x250), (0x300, 0x3C0), (0x5D0, 0x650), (0x1100, 0x1200), (0x1F300, 0x1F6FF), (0, 0x110000)]
SPACES = " \t\u00a0\u2003\u3000\ufeff\u200b\u2028\x1c\x85▁\u2585"


def lively_model(vocabulary, seed=0, **model):
    """As it is loaded from a run."""
    config = replace(PRESETS["tiny"], model=replace(PRESETS["tiny"].model, **(SMALL | model)), max_extra_length=LONGER)
    made = Transformer(sized(config.model, vocabulary), seed=seed)
    rng = np.random.default_rng(seed)
    weights = {
        name: (p.numpy() + 0.25 * rng.standard_normal(p.shape)).astype(np.float32)
        for name, p in made.named_parameters().items()
    }
    weights["projection" if "projection" in weights else "source_embedding.weight"][EOS] *= 2  # the end is not too rare
    return LearnedModel(config, vocabulary, weights, Path("run"))


def translator_of(learned):
    """Translate as `minitf translate` does with this model."""
    model = Transformer(sized(learned.config.model, learned.vocabulary), seed=None)
    model.load_parameters(learned.weights)
    search = {"beam": 4, "max_extra_length": LONGER}
    return Translator(model.eval(), learned.vocabulary, warn=lambda message: None), search


def odd_lines(count, words, seed=0):
    """Lines of words, of spaces of all kinds and of characters from all of Unicode that this Python knows."""
    rng = random.Random(seed)

    def part():
        if rng.random() < 0.3:
            return rng.choice(words)
        if rng.random() < 0.4:
            return rng.choice(SPACES)
        drawn = (chr(rng.randrange(*rng.choice(RANGES))) for _ in range(rng.randint(1, 4)))
        return "".join(each for each in drawn if unicodedata.category(each) not in ("Cs", "Cn"))

    return ["".join(part() for _ in range(rng.randint(0, 14))) for _ in range(count)]
