"""Models of ours with vocabularies of pieces, to be written for other programs and read again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from additions.interchange.outgoing import LearnedModel
from additions.interchange.piece_vocabulary import PieceVocabulary, VocabularyPair
from minitf.config import RunConfig, TransformerConfig
from minitf.data.vocabulary import sized
from minitf.model.transformer import Transformer

SMALL: dict[str, Any] = {"layers": 1, "encoder_layers": 2, "d_model": 16, "heads": 4, "d_ff": 24}
SPECIAL = ["<pad>", "<unk>", "<s>", "</s>"]
SOURCE = ["the", "cat", "sat", "on", "my", "mat"]
TARGET = ["die", "Katze", "saß", "auf", "der", "Matte", "''", "\\", '"', "é", ":", "#"]


def learned_model(seed: int = 0, *, shared: bool = True, **fields: Any) -> LearnedModel:
    """A model with random weights and biases, whose vocabularies have words.

    The added rows of PAD and BOS are of zeros where they are masked, as in a model that was imported.
    """
    source = PieceVocabulary("words", [*SPECIAL, *SOURCE, *([] if not shared else TARGET)])
    vocabulary = VocabularyPair(source, source if shared else PieceVocabulary("words", [*SPECIAL, *TARGET]))
    config = sized(TransformerConfig(**{**SMALL, **fields}), vocabulary)
    model = Transformer(config, seed=seed)
    rng = np.random.default_rng(seed)
    weights = {name: parameter.data.copy() for name, parameter in model.named_parameters().items()}
    for name, array in weights.items():
        if array.ndim == 1:
            array += rng.standard_normal(array.shape).astype(np.float32) * 0.2
        if name in ("source_embedding.weight", "target_embedding.weight", "projection", "output_bias"):
            array[[index for index in config.masked_tokens if index < 4]] = 0
    return LearnedModel(RunConfig(model=config, max_length=64), vocabulary, weights)


def logits_of(
    learned: Any, source: list[str], target: list[str], hidden: tuple[int, ...] = (0, 1, 2)
) -> dict[str, np.ndarray]:
    """The logits of each piece by name, at each position, without those of the ids `hidden`.

    Shapes: name -> [T]
    """
    config, vocabulary, weights = learned.config, learned.vocabulary, learned.weights
    model = Transformer(sized(config.model, vocabulary), seed=None, dtype=np.float64)
    model.load_parameters(weights)
    model.eval()
    (source_ids,), (target_ids,) = (
        vocabulary.source.encode([" ".join(source)]),
        vocabulary.target.encode([" ".join(target)]),
    )
    end = [3] if config.model.source_eos else []
    logits = model(np.array([[*source_ids, *end]]), np.array([[2, *target_ids]])).data[0]
    names = vocabulary.target.pieces_by_id
    return {name: logits[:, index] for index, name in enumerate(names) if index not in hidden}


def write_run(learned: LearnedModel, folder: Path) -> Path:
    """An ordinary run directory of a model."""
    from minitf.storage.checkpoints import Checkpoints, with_prefix
    from minitf.storage.run_directory import RunDirectory

    with RunDirectory.create(folder, learned.config) as run:
        learned.vocabulary.save(folder / "vocabulary.json")
        Checkpoints(run.checkpoints_path, keep=1).save(0, with_prefix("model.", learned.weights), {})
    return folder


def assert_scores_of_ctranslate2(translator: Any, learned: Any, count: int, hidden: tuple[int, ...] = ()) -> None:
    """CTranslate2 gives the tokens of random pairs the probabilities that our model does, where these are not 0."""
    rng = np.random.default_rng(0)
    sources = [list(rng.choice(SOURCE, rng.integers(1, 9))) for _ in range(count)]
    targets = [list(rng.choice(TARGET, rng.integers(1, 9))) for _ in range(count)]
    for source, target, each in zip(sources, targets, translator.score_batch(sources, targets), strict=True):
        logits = logits_of(learned, source, target, hidden)
        total = np.logaddexp.reduce(list(logits.values()), axis=0)
        expected = np.array([logits[piece][t] - total[t] for t, piece in enumerate([*target, "</s>"])])
        usable = np.isfinite(expected)
        np.testing.assert_allclose(np.array(each.log_probs)[usable], expected[usable], atol=1e-5)
