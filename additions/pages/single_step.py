"""One training step on a few sentences, to be shown as a page: of a run, or of a small model on the built-in corpus."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from additions.pages.step import recorded_page
from autograd import Tensor, random
from minitf.config import PRESETS, RunConfig
from minitf.config.model import BOS, EOS, PAD, UNK
from minitf.corpora.built_in import built_in_corpus
from minitf.data.batches import Batch, Batches
from minitf.data.prepared import PreparedCorpus, is_prepared
from minitf.data.vocabulary import AnyVocabulary, Vocabulary, sized
from minitf.errors import UserError
from minitf.fast.accelerate import accelerate, accelerate_adam
from minitf.model.transformer import Transformer
from minitf.run.fine_tuning import freeze
from minitf.storage.checkpoints import Checkpoints, without_prefix
from minitf.storage.run_directory import RunDirectory
from minitf.system.files import atomic_write
from minitf.training.optim import Adam, batch_loss, learning_rate
from minitf.training.resuming import load_latest, state_from_plain
from minitf.training.run import OPTIMIZER
from minitf.translation.translator import LearnedModel, load_learned, with_precision

SENTENCES = 3  # few enough to see each of their numbers
SHORTEST, LONGEST = 4, 9  # tokens of a side
LOOKED_AT = 5_000  # pairs of the corpus among which the sentences are chosen
SPECIAL = {PAD: "<pad>", UNK: "<unk>", BOS: "<s>", EOS: "</s>"}
Ids = list[int]
Pair = tuple[Ids, Ids]


@dataclass
class SingleStep:
    """A model, its optimizer, and the batch of its next step."""

    config: RunConfig
    vocabulary: AnyVocabulary
    model: Transformer
    optimizer: Adam
    batch: Batch
    number: int  # of the step
    origin: str

    def loss(self) -> tuple[Tensor, Tensor]:
        """Compute the loss of the batch as in training, smoothed, and the negative log-likelihood; sums over tokens."""
        random.manual_seed(self.config.seed)
        random.begin_step(self.number, self.batch.number, self.batch.first_row)
        return batch_loss(self.model, self.batch, self.config.optimizer.label_smoothing)

    @property
    def update(self) -> Callable[[], None]:
        """Adam's update as training makes it."""
        rate = learning_rate(self.number, self.config.model.d_model, self.config.optimizer)
        return partial(self.optimizer.step, rate=rate, gradient_scale=self._clipping() / self.batch.target_tokens)

    def _clipping(self) -> float:
        """Return the factor that brings the gradient's norm to `clip_norm`, known from running the step once before."""
        clip = self.config.optimizer.clip_norm
        if clip is None:
            return 1.0
        self.loss()[0].backward()
        norm = self.optimizer.gradient_norm() / self.batch.target_tokens
        self.optimizer.zero_grad()
        return 1.0 if norm <= clip else clip / norm

    @property
    def axes(self) -> dict[str, Any]:
        """Lengths of axes by their letter, with the tokens along those that have some."""
        model = self.config.model
        rows = {"S": (self.batch.source, self.vocabulary.source), "T": (self.batch.target_in, self.vocabulary.target)}
        tokens = {name: [_pieces(vocabulary, row) for row in ids.tolist()] for name, (ids, vocabulary) in rows.items()}
        pieces = {"V": self.vocabulary.target}
        if len(self.vocabulary.source) != len(self.vocabulary):
            pieces["source V"] = self.vocabulary.source
        sizes = {
            "B": len(self.batch.source),
            "H": model.heads,
            "K": model.head_d_k,
            "D": model.d_model,
            "F": model.d_ff,
        }
        named = {name: _pieces(each, list(range(len(each)))) for name, each in pieces.items()}
        return {**sizes, **tokens, **named}

    def write_page(self, path: Path, *, chosen: bool = False) -> tuple[Tensor, Tensor]:
        """Run the step, recorded, and write its page; return its losses.  `chosen`: see `atomic_write`"""
        config = self.config.model
        about = (
            f"step {self.number:,} of {self.origin}; {len(self.batch.source)} sentences, "
            f"{self.batch.target_tokens} target tokens; {config.encoder_depth} + {config.decoder_depth} layers, "
            f"{self.model.parameter_count():,} parameters"
        )
        text, losses = recorded_page(
            self.loss,
            model=self.model,
            update=self.update,
            states={"m": self.optimizer.m, "v": self.optimizer.v},
            axes=self.axes,
            title="A training step",
            about=about,
            loss_is_of=(self.batch.target_tokens, "token"),
        )
        with atomic_write(path, chosen=chosen) as file:
            file.write(text.encode(errors="backslashreplace"))
        return losses


def _pieces(vocabulary: Any, ids: Ids) -> list[str]:
    return [SPECIAL.get(number, piece) for number, piece in zip(ids, vocabulary.pieces(ids), strict=True)]


# ---- The model ---------------------------------------------------------------------------------------------------


def default_step(pairs: Sequence[tuple[str, str]] | None = None, *, layers: int = 2, fast: bool = False) -> SingleStep:
    """The first step of a small model with dropout, on three sentences of the built-in corpus, or on the `pairs`.

    fast: with the fast parts of `minitf train`, in the place of those of minitf/model
    """
    corpus = built_in_corpus(train_pairs=400, valid_pairs=0, test_pairs=0).train
    with tempfile.TemporaryDirectory(prefix="minitf-step-") as folder:
        lines = (line for pair in corpus for line in pair)
        vocabulary = Vocabulary.train(lines, 320, Path(folder) / "vocabulary.model", byte_fallback=False)
    tiny = PRESETS["tiny"]
    small = replace(tiny.model, layers=layers, d_model=32, d_ff=64, heads=4, dropout=0.1)
    config = replace(tiny, model=sized(small, vocabulary))
    model = Transformer(config.model, seed=config.seed, dtype=config.dtype)
    texts = [vocabulary.encode(side) for side in zip(*(pairs or corpus), strict=True)]
    batch = _batch(zip(*texts, strict=True), config, chosen=pairs is not None)
    model, optimizer = _with_optimizer(model, config, fast)
    model.train()
    return SingleStep(config, vocabulary, model, optimizer, batch, 1, "a small model on the built-in corpus")


def step_of_run(
    path: Path, warn: Callable[[str], None], pairs: Sequence[tuple[str, str]] | None = None, *, fast: bool = False
) -> SingleStep:
    """Return the step after the last checkpoint of a run, on three sentences of its training text, or on the `pairs`.

    fast: see `default_step`

    Raises: UserError if there is no run or no checkpoint, or no training text and no pairs
    """
    learned = load_learned(path, average=1, warn=warn)
    foreign = learned.origin == path  # a model of another program has no checkpoints
    config = with_precision(learned.config, "cpu", None)
    config = replace(config, model=sized(config.model, learned.vocabulary))
    model = Transformer(config.model, seed=None, dtype=config.dtype)
    model.load_parameters(learned.weights)
    model, optimizer = _with_optimizer(model, config, fast)
    number = 1 if foreign else _restore(optimizer, path, warn) + 1
    if pairs is not None:
        texts = [
            side.encode(list(lines)) for side, lines in zip(_sides(learned), zip(*pairs, strict=True), strict=True)
        ]
        batch = _batch(zip(*texts, strict=True), config, chosen=True)
    else:
        batch = _batch(_pairs_of_run(path, learned), config)
    model.train()
    return SingleStep(config, learned.vocabulary, model, optimizer, batch, number, str(path))


def _with_optimizer(model: Transformer, config: RunConfig, fast: bool) -> tuple[Transformer, Adam]:
    model = accelerate(model) if fast else model
    optimizer = Adam(freeze(model, config.freeze), config.optimizer)
    return model, accelerate_adam(optimizer) if fast else optimizer


def _restore(optimizer: Adam, path: Path, warn: Callable[[str], None]) -> int:
    """Load the moments of the last checkpoint and return its step; 0 if it has no moments, as one that was packed.

    Raises: UserError if its state contradicts itself or does not fit the parameters
    """
    arrays, plain = load_latest(Checkpoints(RunDirectory.open(path).checkpoints_path), warn) or ({}, {})
    moments = without_prefix(OPTIMIZER, arrays)
    if not moments:
        return 0
    try:
        state = state_from_plain(plain)
        optimizer.load_state(state.step, moments)
    except ValueError as error:
        raise UserError(f"the last checkpoint of {path} does not match this run: {error}") from error
    return state.step


def _sides(learned: LearnedModel) -> tuple[Any, Any]:
    return learned.vocabulary.source, learned.vocabulary.target


def _pairs_of_run(path: Path, learned: LearnedModel) -> Iterator[Pair]:
    """Yield the token ids of a run's training text."""
    folder = path / "data" / "train"
    if not is_prepared(folder):
        raise UserError(f"{path} has no copy of its training text; give sentences with --pair SOURCE TARGET")
    config = learned.config
    corpus = PreparedCorpus.load(folder, learned.vocabulary, max_length=config.max_length)
    for i in range(len(corpus)):
        yield corpus.source[i].tolist(), corpus.target[i].tolist()


# ---- The batch ---------------------------------------------------------------------------------------------------


def _batch(pairs: Iterator[tuple[Ids, Ids]], config: RunConfig, *, chosen: bool = False) -> Batch:
    """Return the batch of the pairs: of all if they are chosen, else of a few short ones.

    Raises: UserError for a side without a token
    """
    some = list(pairs) if chosen else _choose(list(islice(pairs, LOOKED_AT)), config)
    if empty := [i for i, pair in enumerate(some, 1) if not all(pair)]:
        raise UserError(f"pair {empty[0]} has an empty side; give text on both sides")
    corpus = PreparedCorpus.from_ids(*zip(*some, strict=True))
    slots = len(some) * (max(len(side) for pair in some for side in pair) + 1)
    return Batches(corpus, slots, config.seed, shuffle=False, source_eos=config.model.source_eos).batch(0, 0)


def _choose(pairs: list[Pair], config: RunConfig) -> list[Pair]:
    """A few short pairs; if possible, of a batch whose axes all differ in length, so that each length names an axis."""
    short = [pair for pair in pairs if all(SHORTEST <= len(side) <= LONGEST for side in pair)]
    short = short or sorted(pairs, key=lambda pair: max(map(len, pair)))[: 2 * SENTENCES]
    model = config.model
    taken = {SENTENCES, model.heads, model.d_model, model.d_ff, model.head_d_k, model.vocab_size}
    for first in range(len(short) - SENTENCES + 1):
        some = short[first : first + SENTENCES]
        widths = {max(len(source) for source, _ in some) + model.source_eos, max(len(target) for _, target in some) + 1}
        lengths = {len(target) for _, target in some}  # several: there is padding to see
        if len(widths) == 2 and len(lengths) > 1 and not (widths | {SENTENCES * width for width in widths}) & taken:
            return some
    return short[:SENTENCES]
