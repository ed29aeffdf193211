"""The best validation of a run: how it is recognised, and how its weights are kept for translation."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from minitf.data.text import read_lines
from minitf.decoding.search import BeamSearchConfig
from minitf.evaluation.metrics import bleu
from minitf.storage.checkpoint import with_prefix
from minitf.training.state import TrainState

if TYPE_CHECKING:
    from minitf.system.signals import StopRequest
    from minitf.training.run import Run


class _StopTranslatingError(Exception):
    """Leaves the translation of the validation text when the run is to stop."""


def validation_bleu(run: Run, stop: StopRequest | None = None) -> float | None:
    """BLEU of the validation text as the model translates it now, by a beam of `valid_beam`.

    None when `stop` is requested before the end.
    """
    from minitf.translation.translator import Translator

    assert run.texts.valid is not None
    config = run.config
    sources, references = (list(read_lines(path, errors=config.errors)) for path in run.texts.valid)
    search = BeamSearchConfig(
        beam=config.valid_beam, alpha=config.alpha, beta=config.beta, max_extra_length=config.max_extra_length
    )
    translator = Translator(
        run.model, run.vocabulary, search=search, max_source_length=config.max_length - 1, warn=lambda message: None
    )

    def look_up(lines: int) -> None:
        if stop:
            raise _StopTranslatingError

    was_training = run.model.training
    run.model.eval()
    try:
        hypotheses = translator.translate(sources, progress=look_up)
    except _StopTranslatingError:
        return None
    finally:
        run.model.train(was_training)
    return bleu(hypotheses, references, tokenize=config.bleu_tokenize).score


def is_best(metric: str, state: TrainState, loss: float, score: float | None) -> bool:
    """Is this validation better than all before it, by the run's metric? A loss that is no number never is."""
    if not math.isfinite(loss):
        return False
    if metric == "bleu":
        assert score is not None
        return state.best_bleu is None or score > state.best_bleu
    return state.best_loss is None or loss < state.best_loss


def keep_best(run: Run, loss: float, score: float | None) -> None:
    """Write the weights that the model has now: those that were measured, be they a moving average."""
    from minitf.training.run import MODEL

    arrays = with_prefix(MODEL, {name: p.numpy() for name, p in run.model.named_parameters().items()})
    about = {"step": run.state.step, "vocabulary": run.state.vocabulary, "valid_loss": loss, "valid_bleu": score}
    run.checkpoints.save_best(run.state.step, arrays, about)
