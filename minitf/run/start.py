"""Start a run: find and prepare its texts and its vocabulary, make its directory, its model and its optimizer."""

from __future__ import annotations

import itertools
import secrets
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from minitf.config import PathPair, RunConfig
from minitf.corpora.built_in import built_in_corpus, write_corpus
from minitf.data.batches import Batches
from minitf.data.prepared import PreparedCorpus, prepare
from minitf.data.swapped import SideWords
from minitf.data.text import read_lines, read_pairs
from minitf.data.vocabulary import AnyVocabulary, Vocabulary, load_vocabulary, sized
from minitf.errors import UserError
from minitf.fast.accelerate import accelerate, accelerate_adam
from minitf.fast.step_graphs import step_graphs
from minitf.model.transformer import Transformer
from minitf.run.fine_tuning import check_freeze, freeze, initial_model, load_into
from minitf.run.tasks import task_of
from minitf.run.text_snapshots import keep_held_out, public_texts
from minitf.storage.checkpoint_store import CheckpointStore
from minitf.storage.locked_run import LockedRun
from minitf.storage.log import NoLog, RunLog
from minitf.storage.run_directory import RunDirectory
from minitf.system.files import os_errors_explained, require_regular
from minitf.system.process import Say, set_up_device
from minitf.system.writing import remove_leftovers
from minitf.training.moving_average import MovingAverage
from minitf.training.optim import Adam, compute_gradients
from minitf.training.run import Run, SingleProcess, Texts, TrainingData, exist
from minitf.training.state import TrainState
from minitf.translation.loading import LearnedModel

PAIRS_OF_WORDS = 20_000
"""Pairs of the training text whose words tell its languages apart."""


@contextmanager
def start(config: RunConfig, process: SingleProcess, say: Say) -> Iterator[Run]:
    """Start a run with the configuration `config`.

    Raises: UserError for texts, vocabularies and directories that cannot be used.
    """
    set_up_device(process.threads, process.device, config.precision, config.kernels, plain=config.plain)
    with ExitStack() as stack:
        initial: LearnedModel | None = None
        with process.main_process_first():
            if process.is_main_process:
                if config.freeze is not None:
                    check_freeze(config)
                if config.init is not None:
                    initial = initial_model(config, say)
            texts = find_texts(config, say)
            if process.is_main_process:
                if texts is not None:
                    check_texts(texts, say)  # before the directory of the run exists
                if (task := task_of(config.task)) is not None:
                    task.check(config)
                directory: RunDirectory = stack.enter_context(LockedRun.create(config.output, config))
            else:
                directory = open_shared(config.output)
            data = prepare_data(config, texts, directory, say, kept=None if initial is None else initial.vocabulary)
        run = assembled(config, data, directory, process, initial, stack)
        run.state = process.synchronize(run.state, run.model, run.optimizer, run.moving_average, data.train)
        yield run


def open_shared(path: Path) -> RunDirectory:
    """Open the directory that the main process has created or locked."""
    try:
        return RunDirectory.open(path)
    except UserError as error:
        raise UserError(f"{error}; all hosts must share the directory that rank 0 has created") from None


def assembled(
    config: RunConfig,
    data: TrainingData,
    directory: RunDirectory,
    process: SingleProcess,
    initial: LearnedModel | None,
    stack: ExitStack,
) -> Run:
    """Put a run together, with its initial weights.

    initial: the model whose weights to start with; None: random ones
    stack: closes the log
    """
    config = replace(config, model=sized(config.model, data.vocabulary))
    model = Transformer(config.model, seed=config.seed, dtype=config.dtype)
    if initial is not None:
        load_into(model, initial)
    model.to(process.device)
    if not config.plain:
        compute_dtype = "bfloat16" if config.precision == "bf16" and config.on_gpu else None
        model = accelerate(model, compute_dtype=compute_dtype, checkpoint_layers=config.checkpoint_activations)
    named_parameters = model.named_parameters()
    learning = named_parameters if config.freeze is None else freeze(model, config.freeze)
    optimizer = Adam(learning, config.optimizer)
    gradients = None
    if config.on_gpu:
        gradients = step_graphs(model, compute_gradients, config, process.is_parallel)
    return Run(
        config=config,
        data=data,
        model=model,
        optimizer=optimizer if config.plain else accelerate_adam(optimizer),
        moving_average=MovingAverage(named_parameters, config.moving_average) if config.moving_average else None,
        state=TrainState(
            vocabulary=data.vocabulary.fingerprint(),
            valid_corpus=data.valid.corpus.fingerprint if data.valid else "",
        ),
        directory=directory,
        checkpoints=CheckpointStore(
            directory.checkpoints_path,
            keep=config.keep_checkpoints if process.is_main_process else None,
            origin={"run": secrets.token_hex(16)},
        ),
        log=stack.enter_context(RunLog(directory.log_path)) if process.is_main_process else NoLog(),
        process=process,
        gradients=gradients,
    )


# ---- Texts ----


def find_texts(config: RunConfig, say: Say) -> Texts | None:
    """Return the texts that the configuration names, or those of a public corpus; None for the built-in corpora.

    Raises: UserError if a corpus cannot be downloaded, or its files are not those expected.
    """
    if config.data is not None:
        return public_texts(config, say)
    return None if config.train is None else Texts(config.train, config.valid, config.test)


def check_texts(texts: Texts, say: Say) -> None:
    """Read every text once, so that errors in any of them are reported before anything is written.

    Warn of held-out sources that are also in the training text, but for white space, on which scores say nothing; and
    of held-out texts whose two sides are swapped.
    Raises: UserError for a text that is missing, empty, not UTF-8, or not aligned with its other side.
    """
    for path in itertools.chain(*filter(None, (texts.train, texts.valid, texts.test))):
        require_regular(path)  # before a byte of a pipe is taken
    held_out: dict[str, set[str]] = {}
    for name, pair in (("valid", texts.valid), ("test", texts.test)):
        if pair is not None:
            held_out[name] = {" ".join(source.split()) for source, _ in read_pairs(*pair)} - {""}
    shared: dict[str, set[str]] = {name: set() for name in held_out}
    words = SideWords()
    assert texts.train is not None
    for number, (source, target) in enumerate(read_pairs(*texts.train)):
        if number < PAIRS_OF_WORDS:
            words.add(source, target)
        for name, sources in held_out.items():
            if (key := " ".join(source.split())) in sources:
                shared[name].add(key)
    for name, found in shared.items():
        if found:
            share = f"{len(found):,} of {len(held_out[name]):,} source sentences of --{name}"
            say(f"warning: {share} also occur in the training text; minitf split splits a corpus without overlap")
    for name, pair in (("valid", texts.valid), ("test", texts.test)):
        swapped, count = words.swapped(itertools.islice(read_pairs(*pair), PAIRS_OF_WORDS)) if pair else (0, 0)
        if 2 * swapped > count:
            say(
                f"warning: the source of --{name} is like the targets of training, and its target like the sources; "
                f"give its two files in the other order"
            )


def prepare_data(
    config: RunConfig, texts: Texts | None, directory: RunDirectory, say: Say, kept: AnyVocabulary | None = None
) -> TrainingData:
    """Make the vocabulary and the token ids in the run's directory, unless it contains them.

    texts: None for the built-in corpora
    kept: the vocabulary of the model that the run starts from
    """
    given = make_texts(config, directory) if texts is None else texts
    texts = given if texts is None else keep_held_out(texts, directory)
    vocabulary = load_or_train_vocabulary(config, directory, texts, say, kept)
    train = prepare_split("train", texts.train, given.train, vocabulary, directory, config, say)
    valid = None
    if texts.valid is not None:
        valid = prepare_split("valid", texts.valid, given.valid, vocabulary, directory, config, say)
    settings: Any = {"seed": config.seed, "source_eos": config.model.source_eos}
    budget = config.max_tokens_per_batch
    return TrainingData(
        texts,
        vocabulary,
        train=Batches(train, budget, **settings),
        valid=Batches(valid, budget, shuffle=False, **settings) if valid else None,
    )


def make_texts(config: RunConfig, directory: RunDirectory) -> Texts:
    """Write the built-in corpus, or the texts of another task, into the run's directory, unless it holds them."""
    if (task := task_of(config.task)) is not None:
        return Texts(**task.make_texts(config, directory.data_path))
    folder = directory.data_path / "phrases"
    pairs = {split: (folder / f"{split}.en", folder / f"{split}.de") for split in ("train", "valid", "test")}
    if not all(path.exists() for pair in pairs.values() for path in pair):
        if folder.exists():
            with os_errors_explained(f"clean {folder}"):
                remove_leftovers(folder)
        write_corpus(folder, built_in_corpus())
    return Texts(**pairs)


def load_or_train_vocabulary(
    config: RunConfig, directory: RunDirectory, texts: Texts, say: Say, kept: AnyVocabulary | None = None
) -> AnyVocabulary:
    """Load the vocabulary in the run's directory, or copy the one given there, or learn one of both languages."""
    if directory.vocabulary_path.exists():
        return load_vocabulary(directory.vocabulary_path)
    if kept is None and config.vocabulary is not None:
        kept = load_vocabulary(config.vocabulary)
    if kept is not None:
        kept.save(directory.path / kept.file_name)
        return kept
    if texts.train is None or not exist(texts.train):
        raise UserError(f"{directory.vocabulary_path} is missing; restore it, or give --train SOURCE TARGET")
    if (task := task_of(config.task)) is not None:
        return task.learn_vocabulary(config, texts.train, directory.vocabulary_path, say)
    say(f"learning a joint vocabulary of {config.vocab_size:,} subwords")
    lines = (line for path in texts.train for line in read_lines(path))
    return Vocabulary.train(lines, config.vocab_size, directory.vocabulary_path)


def prepare_split(
    name: str,
    paths: PathPair | None,
    given: PathPair | None,
    vocabulary: AnyVocabulary,
    directory: RunDirectory,
    config: RunConfig,
    say: Say,
) -> PreparedCorpus:
    """Return the memory-mapped token ids of one split, kept ones if its text is gone; report how many are left out.

    given: the files that the user named, of which `paths` may be the run's copies; messages name these
    """
    folder = directory.data_path / name
    if paths is None or not exist(paths):
        corpus = PreparedCorpus.load(folder, vocabulary, max_length=config.max_length)
    else:
        names = f"{given[0]} and {given[1]}" if given else None
        corpus = prepare(*paths, vocabulary, folder, names=names, max_length=config.max_length)
    left_out = []
    if corpus.dropped_empty:
        left_out.append(f"{corpus.dropped_empty:,} with an empty side")
    if corpus.dropped_long:
        left_out.append(f"{corpus.dropped_long:,} with a side of more than {config.max_length} tokens")
    say(f"{name}: {len(corpus):,} pairs" + (f"; omitted: {', '.join(left_out)}" if left_out else ""))
    if not len(corpus):
        raise UserError(f"no pair of the {name} text can be used; increase --max-length or check the texts")
    return corpus
