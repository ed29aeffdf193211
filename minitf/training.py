"""Around the loop of train.py: what a run consists of, how it starts or goes on, how it is validated and saved."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import autograd as ag
from autograd.backend import CPU
from autograd.backend.cpu import available_cores, keep_freed_memory
from minitf.checkpoint import CheckpointStore, with_prefix, without_prefix
from minitf.config import RunConfig
from minitf.data.batches import Batch, Batches
from minitf.data.prepared import PreparedCorpus, prepare
from minitf.data.text import read_lines, read_pairs
from minitf.data.vocabulary import PAD, Vocabulary
from minitf.errors import UserError
from minitf.optim import Adam
from minitf.rundir import RunDirectory, RunLog
from minitf.transformer import Transformer

Say = Callable[[str], None]
PathPair = tuple[Path, Path]


@dataclass
class Interval:
    """Sums over the updates since the last line of the log."""

    loss: float = 0.0  # smoothed loss, nats
    nll: float = 0.0  # negative log-likelihood, nats
    source_tokens: int = 0  # real ones, end tokens included, as in the next line
    target_tokens: int = 0
    slots: int = 0  # real and padded, both sides
    start_s: float = 0.0  # the run's clock when the interval began

    def add(self, batch: Batch, loss: float, nll: float) -> None:
        """Count one batch and its summed losses."""
        self.loss += loss
        self.nll += nll
        self.source_tokens += batch.source_tokens
        self.target_tokens += batch.target_tokens
        self.slots += batch.source.size + batch.target_out.size

    def record(self, elapsed_s: float) -> dict[str, Any]:
        """Means over the interval, for the log."""
        tokens = self.source_tokens + self.target_tokens
        return {
            "loss": self.loss / self.target_tokens,
            "perplexity": perplexity(self.nll / self.target_tokens),
            "source_tokens": self.source_tokens,
            "target_tokens": self.target_tokens,
            "padded_tokens": self.slots - tokens,
            "fill": tokens / self.slots,
            "target_tokens_per_s": self.target_tokens / max(elapsed_s - self.start_s, 1e-9),
            "elapsed_s": elapsed_s,
        }


def perplexity(nll_per_token: float) -> float:
    """exp(nats a token); a loss too large for that gives infinity."""
    return math.exp(nll_per_token) if nll_per_token < 700 else math.inf


@dataclass
class TrainState:
    """Everything that a resumed run needs besides the weights and Adam's moments.

    The random numbers of a step are a function of (seed, step), so `step` is their state, too.
    """

    step: int = 0  # updates done
    target_tokens: int = 0  # real target tokens learned from, end tokens included
    data: dict[str, Any] = field(default_factory=dict)  # place in the data, as Batches.state() gives it
    best_loss: float = math.inf  # lowest validation loss so far, nats a token
    validations_since_best: int = 0
    elapsed_s: float = 0.0  # time spent in the loop, over all its resumptions
    log_offset: int = 0  # bytes of the log at this point
    interval: Interval = field(default_factory=Interval)

    def to_plain(self) -> dict[str, Any]:
        """As JSON values; the infinite best loss of a run not validated yet becomes None."""
        return {**asdict(self), "best_loss": self.best_loss if math.isfinite(self.best_loss) else None}

    @classmethod
    def from_plain(cls, plain: dict[str, Any]) -> TrainState:
        """What `to_plain` gave.  Raises: UserError where a field is missing or unknown."""
        names = {each.name for each in fields(cls)}
        if plain.keys() != names:
            raise UserError(f"the training state does not fit this version: {sorted(plain.keys() ^ names)} differ")
        best_loss = math.inf if plain["best_loss"] is None else plain["best_loss"]
        return cls(**{**plain, "best_loss": best_loss, "interval": Interval(**plain["interval"])})


@dataclass
class Texts:
    """The files of a run, source and target of each split."""

    train: PathPair
    valid: PathPair | None
    test: PathPair | None


@dataclass
class Run:
    """What train.py works on."""

    config: RunConfig  # resolved: with the size of the vocabulary
    directory: RunDirectory
    texts: Texts
    vocabulary: Vocabulary
    train: Batches
    valid: Batches | None
    model: Transformer
    optimizer: Adam
    state: TrainState
    checkpoints: CheckpointStore
    log: RunLog


class TrainingError(UserError):
    """Training cannot go on by itself: the loss or a gradient is not a number."""


# ---- Start and resume --------------------------------------------------------------------------------------------


@contextmanager
def open_run(config: RunConfig, resume: Path | None, say: Say) -> Iterator[Run]:
    """Start the run that `config` describes, or go on with the one in the folder `resume`.

    Raises: UserError for texts, vocabularies and folders that cannot be used.
    """
    set_up_computer(config.threads)
    if resume is None and config.train is not None:
        check_texts(config)  # before the folder of the run exists
    with ExitStack() as stack:
        if resume is None:
            directory = stack.enter_context(RunDirectory.create(config.output, config))
        else:
            directory = stack.enter_context(RunDirectory.resume(resume, config))
            for change in directory.environment_changes():
                say(f"note: {change} since this run began; its bits may differ")
        texts = find_texts(config, directory)
        vocabulary = load_or_train_vocabulary(config, directory, texts, say)
        config = replace(config, model=replace(config.model, vocab_size=len(vocabulary)))
        train = prepare_split("train", texts.train, vocabulary, directory, config, say)
        valid = prepare_split("valid", texts.valid, vocabulary, directory, config, say) if texts.valid else None
        model = Transformer(config.model, seed=config.seed, dtype=config.dtype)
        run = Run(
            config=config,
            directory=directory,
            texts=texts,
            vocabulary=vocabulary,
            train=Batches(train, config.max_tokens_per_batch, seed=config.seed),
            valid=Batches(valid, config.max_tokens_per_batch, seed=config.seed, shuffle=False) if valid else None,
            model=model,
            optimizer=Adam(model.named_parameters(), config.optimizer),
            state=TrainState(),
            checkpoints=CheckpointStore(directory.checkpoints_path, keep=config.keep_checkpoints),
            log=stack.enter_context(RunLog(directory.log_path)),
        )
        if resume is not None:
            restore(run, say)
        yield run


def set_up_computer(threads: int | None) -> None:
    """Spread all work over `threads` threads (None: one a core), and keep freed memory."""
    CPU.set_threads(threads or available_cores())
    keep_freed_memory()


def check_texts(config: RunConfig) -> None:
    """Read every text once, so that a fault in any of them is named before anything is written.

    Raises: UserError for a text that is missing, empty, not UTF-8, or not aligned with its other side.
    """
    for pair in (config.train, config.valid, config.test):
        if pair is not None:
            for _ in read_pairs(*pair, errors=config.errors):
                pass


def find_texts(config: RunConfig, directory: RunDirectory) -> Texts:
    """The texts of the run; the built-in corpus is written into its folder when there are none."""
    if config.train is not None:
        return Texts(config.train, config.valid, config.test)
    folder = directory.data_path / "phrases"
    pairs = {split: (folder / f"{split}.en", folder / f"{split}.de") for split in ("train", "valid", "test")}
    if not all(path.exists() for pair in pairs.values() for path in pair):
        from minitf.data.phrases import generate_corpus, write_corpus

        write_corpus(folder, generate_corpus())
    return Texts(pairs["train"], pairs["valid"], pairs["test"])


def load_or_train_vocabulary(config: RunConfig, directory: RunDirectory, texts: Texts, say: Say) -> Vocabulary:
    """The vocabulary of the run: the one in its folder, else a copy of the one given, else one learned jointly."""
    if directory.vocabulary_path.exists():
        return Vocabulary.load(directory.vocabulary_path)
    if config.vocabulary is not None:
        given = Vocabulary.load(config.vocabulary)
        given.save(directory.vocabulary_path)
        return given
    say(f"learning a joint vocabulary of {config.vocab_size:,} subwords")
    lines = (line for path in texts.train for line in read_lines(path, errors=config.errors))
    return Vocabulary.train(lines, config.vocab_size, directory.vocabulary_path)


def prepare_split(
    name: str, paths: PathPair, vocabulary: Vocabulary, directory: RunDirectory, config: RunConfig, say: Say
) -> PreparedCorpus:
    """Token ids of one split, memory-mapped; says how many pairs are left out and why."""
    corpus = prepare(*paths, vocabulary, directory.data_path / name, max_length=config.max_length, errors=config.errors)
    left_out = []
    if corpus.dropped_empty:
        left_out.append(f"{corpus.dropped_empty:,} with an empty side")
    if corpus.dropped_long:
        left_out.append(f"{corpus.dropped_long:,} with a side of more than {config.max_length} tokens")
    say(f"{name}: {len(corpus):,} pairs" + (f"; left out: {', '.join(left_out)}" if left_out else ""))
    if not len(corpus):
        raise UserError(f"no pair of {paths[0]} and {paths[1]} can be used; raise --max-length or check the texts")
    return corpus


# ---- Validate ----------------------------------------------------------------------------------------------------


def mean_nll(model: Transformer, batches: Batches) -> float:
    """Negative log-likelihood of the targets, in nats a token, without dropout and label smoothing.

    Perplexity is its exponential.
    """
    total, tokens = 0.0, 0
    model.eval()
    with ag.no_grad():
        for batch in batches.one_epoch():
            logits = model(batch.source, batch.target_in)
            total += ag.cross_entropy(logits, batch.target_out, ignore_index=PAD, reduction="sum").item()
            tokens += batch.target_tokens
    model.train()
    return total / tokens


def validate(run: Run) -> float | None:
    """The validation loss, kept in the run's state; None without validation text."""
    if run.valid is None:
        return None
    start = time.perf_counter()
    loss = mean_nll(run.model, run.valid)
    run.state.interval.start_s += time.perf_counter() - start  # tokens a second are those of training
    improved = loss < run.state.best_loss
    run.state.validations_since_best = 0 if improved else run.state.validations_since_best + 1
    run.state.best_loss = min(loss, run.state.best_loss)
    return loss


def out_of_patience(run: Run) -> bool:
    """Has the validation loss not fallen for `patience` validations?"""
    return run.config.patience is not None and run.state.validations_since_best >= run.config.patience


def log_record(run: Run, rate: float, gradient_norm: float, valid_loss: float | None) -> dict[str, Any]:
    """One line of the log, after which a new interval begins."""
    state = run.state
    record = {"step": state.step, "epoch": run.train.epoch, **state.interval.record(state.elapsed_s)}
    record |= {"learning_rate": rate, "gradient_norm": gradient_norm}
    if valid_loss is not None:
        record |= {"valid_loss": valid_loss, "valid_perplexity": perplexity(valid_loss)}
    state.interval = Interval(start_s=state.elapsed_s)
    return record


def diverged(step: int, loss: float, gradient_norm: float, saved_step: int | None) -> TrainingError:
    """The error that ends a run whose numbers are no longer numbers."""
    last = f"the last good checkpoint is of step {saved_step}" if saved_step else "there is no checkpoint yet"
    return TrainingError(
        f"training diverged at step {step}: loss {loss}, gradient norm {gradient_norm}; {last}; "
        "try a smaller --optimizer.learning-rate-scale, more --optimizer.warmup-steps, or --optimizer.clip-norm 1"
    )


# ---- Save and restore --------------------------------------------------------------------------------------------

MODEL, OPTIMIZER = "model.", "optimizer."


def save(run: Run) -> Path:
    """Write a checkpoint: weights, Adam's moments and the training state, whole or not at all."""
    run.log.sync()
    run.state.log_offset = run.log.offset
    run.state.data = run.train.state()
    arrays = with_prefix(MODEL, {name: p.numpy() for name, p in run.model.named_parameters().items()})
    arrays |= with_prefix(OPTIMIZER, run.optimizer.state_arrays())
    return run.checkpoints.save(run.state.step, arrays, run.state.to_plain())


def restore(run: Run, say: Say) -> None:
    """Go on from the newest whole checkpoint; without any, from the start."""
    found = run.checkpoints.latest(warn=lambda message: say(f"warning: {message}"))
    if found is None:
        say("no checkpoint yet: starting from the beginning")
        run.log.truncate_to(0, say)
        return
    arrays, plain = found
    try:
        run.state = TrainState.from_plain(plain)
        run.model.load_parameters(without_prefix(MODEL, arrays))
        run.optimizer.load_state(run.state.step, without_prefix(OPTIMIZER, arrays))
        run.train.restore(run.state.data)
    except ValueError as error:
        raise UserError(f"the last checkpoint of {run.directory.path} does not fit this run: {error}") from error
    run.log.truncate_to(run.state.log_offset, lambda message: say(f"warning: {message}"))
    say(f"resumed after step {run.state.step:,}")


# ---- The clock ---------------------------------------------------------------------------------------------------


class Clock:
    """Time spent in the loop, over all resumptions, and whether the run's minutes are used up."""

    def __init__(self, run: Run):
        self._before = run.state.elapsed_s
        self._start = time.perf_counter()
        self._limit_s = math.inf if run.config.max_minutes is None else run.config.max_minutes * 60

    @property
    def elapsed_s(self) -> float:
        return self._before + time.perf_counter() - self._start

    @property
    def is_up(self) -> bool:
        return self.elapsed_s >= self._limit_s

    def remaining_s(self, step: int, max_steps: int) -> float:
        """Seconds left, by the pace so far or the limit, whichever ends first."""
        by_steps = (max_steps - step) * self.elapsed_s / step if step else math.inf
        return max(0.0, min(by_steps, self._limit_s - self.elapsed_s))
