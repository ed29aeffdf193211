"""Start a run, or resume it from its newest checkpoint as if it had never been interrupted; score it at the end."""

import itertools
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from shlex import quote
from typing import Any

from autograd.fast.recomputed import recompute_large_outputs
from minitf.config import PathPair, RunConfig
from minitf.config.model import EOS
from minitf.config.run_config import parse_devices
from minitf.corpora.built_in import SAMPLE_PAIRS, built_in_corpus, write_corpus
from minitf.data.batches import Batches
from minitf.data.prepared import OtherVocabularyError, PreparedCorpus, prepare
from minitf.data.text import read_lines
from minitf.data.vocabulary import AnyVocabulary, Vocabulary, load_vocabulary, sized
from minitf.decoding.lines import LineTranslator, Plan, search_of
from minitf.errors import UserError
from minitf.evaluation.metrics import bleu, chrf, exact_match
from minitf.fast.accelerate import accelerate, accelerate_adam
from minitf.fast.step_graphs import step_graphs
from minitf.model.transformer import Transformer
from minitf.run.fine_tuning import freeze, load_into
from minitf.run.own_texts import check_texts, find_texts, keep_held_out
from minitf.storage.checkpoints import Checkpoints, average
from minitf.storage.run_directory import RunDirectory
from minitf.system.environment import available_bytes
from minitf.system.files import atomic_write
from minitf.system.process import Say, set_up_device, shell_command
from minitf.training.optim import Adam, compute_gradients
from minitf.training.resuming import restore
from minitf.training.run import MovingAverage, Run, SingleProcess, Texts, TrainingData
from minitf.training.state import RunLog, TrainState
from minitf.translation.translator import LearnedModel, load_learned


@contextmanager
def start(config: RunConfig, process: SingleProcess, say: Say, resumed: Path | None = None) -> Iterator[Run]:
    """Start a run with the configuration `config`, or continue the one in the directory `resumed`.

    Raises: UserError for texts, vocabularies, checkpoints and directories that cannot be used.
    """
    set_up_device(process.threads, process.device, config.precision, config.kernels, plain=config.plain)
    if not config.plain:
        recompute_large_outputs()
    with ExitStack() as stack:
        initial: LearnedModel | None = None
        with process.main_process_first():
            own = None if resumed is None else RunDirectory.open(resumed)
            if process.is_main_process:
                if config.freeze is not None:  # refused before there is a vocabulary or a directory of the run
                    outline = replace(config.model, vocab_size=EOS + 1, source_vocab_size=None, masked_tokens=())
                    freeze(Transformer(outline, seed=None), config.freeze)
                if config.init is not None and (own is None or not Checkpoints(own.checkpoints_path).steps()):
                    initial = load_learned(config.init, warn=lambda message: say(f"warning: {message}"))
            texts = None if config.data is None and config.train is None else find_texts(config, own, say)
            if process.is_main_process:
                if texts is not None:
                    check_texts(texts, say)  # before the directory of the run exists
                locked = RunDirectory.create if own is None else RunDirectory.resume
                directory = stack.enter_context(locked(config.output, config))
                for change in [] if own is None else directory.environment_changes():
                    say(f"note: {change} since this run began; results may not be bit-identical")
            else:
                try:
                    directory = RunDirectory.open(config.output)
                except UserError as error:
                    raise UserError(f"{error}; all hosts must share the directory that rank 0 has created") from error
            data = prepare_data(config, texts, directory, say, kept=None if initial is None else initial.vocabulary)
        run = assembled(config, data, directory, process, initial, stack, say)
        if own is not None and process.is_main_process:
            restore(run, say)
        process.synchronize(run)
        yield run


def assembled(
    config: RunConfig, data: TrainingData, directory: RunDirectory, process: SingleProcess,
    initial: LearnedModel | None, stack: ExitStack, say: Say,
) -> Run:  # fmt: skip
    """Put a run together, with its initial weights.

    initial: the model whose weights to start with; None: random ones
    stack: closes the log
    """
    config = replace(config, model=sized(config.model, data.vocabulary))
    tell_memory(config, say)
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
            vocabulary=data.vocabulary.fingerprint(), valid_corpus=data.valid.corpus.fingerprint if data.valid else ""
        ),
        directory=directory,
        checkpoints=Checkpoints(
            directory.checkpoints_path, keep=config.keep_checkpoints if process.is_main_process else None
        ),
        log=stack.enter_context(RunLog(directory.log_path if process.is_main_process else Path(os.devnull))),
        process=process,
        gradients=gradients,
    )


def tell_memory(config: RunConfig, say: Say) -> None:
    """Say how much memory the training will take; a warning, and what helps, where less is available."""
    processes = 1 if config.devices is None else parse_devices(config.devices)[1]
    total, available = training_bytes(config) * processes, None if config.on_gpu else available_bytes()
    size = f"{total / 2**30:.1f} GiB" if total > 2**30 else f"{total / 2**20:.0f} MiB"
    size += f" in {processes} processes" if processes > 1 else ""
    say(f"memory: about {size}, in batches of {config.max_tokens_per_batch:,} tokens")
    if available is not None and total > available:
        say(
            f"warning: {available / 2**30:.1f} GiB of memory are available; half of --max-tokens-per-batch and twice "
            "--accumulate learn the same with less, and so does --checkpoint-activations"
        )


def training_bytes(config: RunConfig) -> int:
    """Estimate the memory of one process that trains, for batches of maximum size.

    Weights and Adam's two moments; either the gradients and one layer's arrays, or the arrays of all layers that the
    backward pass needs, and the logits. Measured with base, small, tiny and laptop: within a tenth; within a third
    where activations are recomputed, or with the plain implementation.
    """
    c, size = config.model, 8 if config.dtype == "float64" else 4
    parameters = size * Transformer(c, seed=None).parameter_count()
    kept = 13 * c.d_model + 2 * c.d_ff + (9 * c.d_model if c.norm == "pre" else 0)  # of an encoder and a decoder layer
    depth = max(c.encoder_depth, c.decoder_depth)
    passing = min(config.max_tokens_per_batch * (depth * (5 * c.d_model + 2 * c.d_ff) + c.vocab_size) * size, 400 << 20)
    of_token = (2 * c.d_model * depth + 2 * kept) if config.checkpoint_activations else depth * kept
    arrays = config.max_tokens_per_batch * of_token * size + passing
    if config.plain:
        arrays *= 2
    if config.precision == "bf16" and config.on_gpu:
        arrays //= 2
    return (3 + (config.moving_average is not None)) * parameters + max(parameters, arrays)


# ---- Texts ----
#
# `data/train` and `data/valid` hold the token ids of the training and the validation text, `data/texts` copies of the
# validation and the test text: a run that is resumed needs no file but its own.


def prepare_data(
    config: RunConfig, texts: Texts | None, directory: RunDirectory, say: Say, kept: AnyVocabulary | None = None
) -> TrainingData:
    """Make the vocabulary and the token ids in the run's directory, unless it contains them.

    texts: None for the built-in corpus
    kept: the vocabulary of the model that the run starts from
    """
    if texts is None:
        folder = directory.data_path / "phrases"
        pairs = {split: (folder / f"{split}.en", folder / f"{split}.de") for split in ("train", "valid", "test")}
        if not all(path.exists() for pair in pairs.values() for path in pair):
            write_corpus(folder, built_in_corpus())
        given = texts = Texts(**pairs)
    else:
        given, texts = texts, keep_held_out(texts, directory)
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
    if texts.train is None:
        raise UserError(f"{directory.vocabulary_path} is missing; restore it, or start a new run")
    say(f"learning a joint vocabulary of {config.vocab_size:,} subwords")
    lines = (line for path in texts.train for line in read_lines(path))
    vocabulary = Vocabulary.train(lines, config.vocab_size, directory.vocabulary_path)
    if len(vocabulary) < config.vocab_size:
        say(f"the words of the training text allow {len(vocabulary):,} subwords: that is the vocabulary's size")
    return vocabulary


def prepare_split(
    name: str, paths: PathPair | None, given: PathPair | None, vocabulary: AnyVocabulary, directory: RunDirectory,
    config: RunConfig, say: Say,
) -> PreparedCorpus:  # fmt: skip
    """Return the memory-mapped token ids of one split, without its text the kept ones; report how many are left out.

    given: the files that the user named, of which `paths` may be the run's copies; messages name these
    """
    folder = directory.data_path / name
    corpus = kept_ids(folder, vocabulary, config) if paths is None else None
    if corpus is None:
        text, given = paths or config.train, given or config.train
        assert text is not None  # to a type checker: `kept_ids` has seen to it
        names = f"{given[0]} and {given[1]}" if given else None
        corpus = prepare(*text, vocabulary, folder, names=names, max_length=config.max_length)
    left_out = []
    if corpus.dropped_empty:
        left_out.append(f"{corpus.dropped_empty:,} with an empty side")
    if corpus.dropped_long:
        left_out.append(f"{corpus.dropped_long:,} with a side of more than {config.max_length} tokens")
    say(f"{name}: {len(corpus):,} pairs" + (f"; omitted: {', '.join(left_out)}" if left_out else ""))
    return corpus


def kept_ids(folder: Path, vocabulary: AnyVocabulary, config: RunConfig) -> PreparedCorpus | None:
    """Return the token ids that a run holds; None if they are damaged and its training text is still there."""
    try:
        return PreparedCorpus.load(folder, vocabulary, max_length=config.max_length)
    except OtherVocabularyError:
        raise
    except UserError:
        if config.train is None or not all(path.exists() for path in config.train):
            raise
        return None


# ---- The end: scores on the test text, samples of the output, and suggested commands ------------------------------

SAMPLE_LINES = 5  # of the test or validation text


def score_translations(run: Run, say: Say) -> None:
    """Translate the test set with the run's weights, print scores, samples and the next commands.

    The output is kept in the run's directory as test.hypotheses, the scores as a line of the log.
    """
    config, texts, folder = run.config, run.data.texts, run.directory.path
    store = Checkpoints(run.directory.checkpoints_path)
    model = Transformer(config.model, seed=None, dtype=config.dtype)  # on the CPU, as `minitf translate` loads it
    model.load_parameters(average(*store.translating(config.weights, config.average_checkpoints)), copy=False)
    translator = LineTranslator(
        (model if config.plain else accelerate(model)).eval(),
        run.data.vocabulary,
        max_source_length=config.max_length - 1,
        warn=lambda message: say(f"warning: {message}"),
    )
    plan = Plan(search_of(config))

    def translate(lines: list[str]) -> list[str]:
        return [best.text for best, *_ in translator.nbest(lines, plan)]

    if texts.test is not None:
        source, reference = (list(read_lines(path)) for path in texts.test)
        say(f"translating {len(source):,} held-out lines (beam {config.beam}, α {config.alpha})")
        hypotheses = translate(source)
        with atomic_write(run.directory.hypotheses_path, "w") as file:
            file.writelines(line + "\n" for line in hypotheses)
        score = bleu(hypotheses, reference, tokenize=config.bleu_tokenize)
        characters, exact = chrf(hypotheses, reference).score, exact_match(hypotheses, reference)
        scores = {"bleu": score.score, "chrf": characters, "exact_match": exact, "signature": score.signature}
        run.log.append({"step": run.state.step, **scores})
        say(f"held-out BLEU {score.score:.2f}, chrF {characters:.2f}, exact match {100 * exact:.1f} %")
        say(f"    signature of BLEU: {score.signature}")
    if config.train is None and config.data is None:
        samples = [english for english, _ in SAMPLE_PAIRS]
    else:
        found = [pair[0] for pair in (texts.test, texts.valid, texts.train) if pair is not None and pair[0].exists()]
        samples = list(itertools.islice(read_lines(found[0]), SAMPLE_LINES)) if found else []
    for source_line, output in zip(samples, translate(samples), strict=True):
        say(f"    {source_line}\n  → {output}")
    say(f"\nthe run is in {folder}; translate with it:")
    say(f"    {shell_command('translate')} {quote(str(folder))} < input.txt > output.txt")
