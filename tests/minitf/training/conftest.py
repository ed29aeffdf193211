"""A run of a tiny model on four sentences, without the files that its tests do not read."""

from types import SimpleNamespace

import pytest

from additions.interchange.piece_vocabulary import PieceVocabulary
from minitf.data.batches import Batches
from minitf.data.prepared import PreparedCorpus
from minitf.model.transformer import Transformer
from minitf.storage.checkpoints import Checkpoints
from minitf.training.optim import Adam
from minitf.training.run import Run, SingleProcess, Texts, TrainingData
from minitf.training.state import RunLog, TrainState
from tests.helpers.small_run import CONFIG, SENTENCES


@pytest.fixture
def run(tmp_path):
    corpus = PreparedCorpus.from_ids(SENTENCES, SENTENCES[::-1])
    model = Transformer(CONFIG.model, seed=1)
    with RunLog(tmp_path / "log.jsonl") as log:
        yield Run(
            config=CONFIG,
            data=TrainingData(
                texts=Texts((tmp_path / "a", tmp_path / "b"), None, None),
                vocabulary=PieceVocabulary("words", [f"w{token}" for token in range(CONFIG.model.vocab_size)]),
                train=Batches(corpus, 16),
                valid=Batches(corpus, 16, shuffle=False),
            ),
            model=model,
            optimizer=Adam(model.named_parameters(), CONFIG.optimizer),
            moving_average=None,
            state=TrainState(vocabulary="w", valid_corpus="v"),
            directory=SimpleNamespace(path=tmp_path, vocabulary_path=tmp_path / "vocabulary.model"),
            checkpoints=Checkpoints(tmp_path / "checkpoints", keep=5),
            log=log,
            process=SingleProcess(CONFIG),
        )


@pytest.fixture
def said():
    """What was printed, by passing `said.append` as `say`."""
    return []
