"""Sentences with made-up attention, and runs that have learned to translate a little."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from additions.pages.tests.browser import chromium, screenshots, window
from additions.pages.tests.pages import HEADS, LAYERS
from additions.pages.tests.translating import train_a_little

__all__ = ["chromium", "screenshots", "window"]
from additions.pages.sentence_attention import SentenceAttention


@pytest.fixture(scope="session")
def little_run(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """little_run(*flags): a run that has learned to translate a little; trained once for all tests."""
    made: dict[tuple[str, ...], Path] = {}

    def run(*flags: str) -> Path:
        if flags not in made:
            made[flags] = train_a_little(tmp_path_factory.mktemp("little"), *flags)
        return made[flags]

    return run


@pytest.fixture(scope="session")
def make_attention() -> Callable[..., SentenceAttention]:
    """make_attention(source pieces, target pieces): random rows, causal ones in the decoder; end tokens are added."""

    def rows(rng: np.random.Generator, t: int, s: int, causal: bool = False) -> np.ndarray:
        scores = 2 * rng.standard_normal((LAYERS, HEADS, t, s))
        weights = np.exp(np.where(np.tri(t, s, dtype=bool), scores, -np.inf) if causal else scores)
        return (weights / weights.sum(-1, keepdims=True)).astype(np.float32)

    def make(source: list[str], target: list[str], finished: bool = True, seed: int = 0) -> SentenceAttention:
        rng = np.random.default_rng(seed)
        s, t = len(source) + 1, len(target) + finished
        return SentenceAttention(
            source=(*source, "</s>"),
            target_in=("<s>", *target)[:t],
            target_out=(*target, *["</s>"] * finished),
            encoder=rows(rng, s, s),
            decoder=rows(rng, t, t, causal=True),
            cross=rows(rng, t, s),
            log_probabilities=-rng.random(t),
            source_text="".join(source).replace("▁", " ").strip(),
            target_text="".join(target).replace("▁", " ").strip(),
            finished=finished,
        )

    return make
