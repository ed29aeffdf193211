"""Start a run, or resume it from its newest checkpoint, with the same results as if it had never been interrupted; and
score its translations at the end."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from itertools import islice
from pathlib import Path
from shlex import quote

from minitf.config import RunConfig
from minitf.config.run_config import parse_devices
from minitf.corpora.built_in import SAMPLES
from minitf.data.text import read_lines
from minitf.data.vocabulary import sized
from minitf.decoding.lines import LineTranslator, Plan, search_of
from minitf.errors import UserError
from minitf.evaluation.metrics import bleu, chrf, exact_match
from minitf.fast.accelerate import accelerate, accelerate_adam
from minitf.fast.step_graphs import step_graphs
from minitf.model.transformer import Transformer
from minitf.run.fine_tuning import check_freeze, freeze, load_into
from minitf.run.texts import check_texts, find_texts, prepare_data
from minitf.storage.checkpoints import Checkpoints, average, load_latest, without_prefix
from minitf.storage.run_directory import NoLog, RunDirectory, RunLog
from minitf.system.environment import available_bytes
from minitf.system.files import atomic_write
from minitf.system.process import Say, set_up_device, shell_command
from minitf.training.optim import Adam, compute_gradients
from minitf.training.run import MODEL, MOVING_AVERAGE, OPTIMIZER, MovingAverage, Run, SingleProcess, TrainingData
from minitf.training.state import TrainState
from minitf.translation.translator import LearnedModel, load_learned


@contextmanager
def start(config: RunConfig, process: SingleProcess, say: Say, resumed: Path | None = None) -> Iterator[Run]:
    """Start a run with the configuration `config`, or continue the one in the directory `resumed`.

    Raises: UserError for texts, vocabularies, checkpoints and directories that cannot be used.
    """
    set_up_device(process.threads, process.device, config.precision, config.kernels, plain=config.plain)
    with ExitStack() as stack:
        initial: LearnedModel | None = None
        with process.main_process_first():
            own = None if resumed is None else RunDirectory.open(resumed)
            if process.is_main_process:
                if config.freeze is not None:
                    check_freeze(config)
                if config.init is not None and (own is None or not Checkpoints(own.checkpoints_path).steps()):
                    initial = load_learned(config.init, warn=lambda message: say(f"warning: {message}"))
            texts = find_texts(config, own, say)
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
        run.state = process.synchronize(run.state, run.model, run.optimizer, run.moving_average, data.train)
        yield run


def assembled(
    config: RunConfig,
    data: TrainingData,
    directory: RunDirectory,
    process: SingleProcess,
    initial: LearnedModel | None,
    stack: ExitStack,
    say: Say,
) -> Run:
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
            vocabulary=data.vocabulary.fingerprint(),
            valid_corpus=data.valid.corpus.fingerprint if data.valid else "",
        ),
        directory=directory,
        checkpoints=Checkpoints(
            directory.checkpoints_path,
            keep=config.keep_checkpoints if process.is_main_process else None,
        ),
        log=stack.enter_context(RunLog(directory.log_path)) if process.is_main_process else NoLog(),
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


def restore(run: Run, say: Say) -> None:
    """Continue from the newest complete checkpoint; without any, from the beginning."""

    def warn(message: str) -> None:
        say(f"warning: {message}")

    found = load_latest(run.checkpoints, warn)
    if found is None:
        say("no checkpoint yet: starting from the beginning")
        run.checkpoints.forget_best(but=0)
        run.log.truncate_to(0, say)
        return
    arrays, plain = found
    if "imported" in plain or "packed" in plain:
        raise UserError(
            f"{run.directory.path} was imported, or packed for translation, and has no optimizer state; start a run "
            f"from it with --init {run.directory.path}"
        )
    try:
        state = TrainState.from_plain(plain)
        _check_texts(run, state)
        run.model.load_parameters(without_prefix(MODEL, arrays))
        run.optimizer.load_state(state.step, without_prefix(OPTIMIZER, arrays))
        if run.moving_average is not None:
            run.moving_average.load(without_prefix(MOVING_AVERAGE, arrays))
        run.data.train.restore(state.data)
    except ValueError as error:
        raise UserError(f"the last checkpoint of {run.directory.path} does not match this run: {error}") from error
    run.state = state
    run.checkpoints.forget_best(but=state.best_step)
    run.log.truncate_to(state.log_offset, warn)
    say(f"resumed after step {state.step:,}")


def _check_texts(run: Run, state: TrainState) -> None:
    """Refuse another vocabulary or validation text, with which the run's results would not be comparable."""
    if state.vocabulary != run.state.vocabulary:
        raise UserError(
            f"{run.directory.vocabulary_path} has changed; restore the vocabulary that the run was trained with"
        )
    if state.valid_corpus != run.state.valid_corpus:
        valid = run.data.texts.valid
        raise UserError(f"the validation text {valid and valid[0]} has changed; restore it")


# ---- The end: scores on the test text, samples of the output, and suggested commands ------------------------------

SAMPLE_LINES = 5  # of the test or validation text


def score_translations(run: Run, say: Say) -> None:
    """Translate the test set with the run's weights, print scores, samples and the next commands.

    The output is kept in the run's directory as test.hypotheses, the scores as a line of the log.
    """
    config, texts, folder = run.config, run.data.texts, run.directory.path
    translator = LineTranslator(
        trained_model(run),
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
        samples = list(SAMPLES)
    else:
        found = [pair[0] for pair in (texts.test, texts.valid, texts.train) if pair is not None and pair[0].exists()]
        samples = list(islice(read_lines(found[0]), SAMPLE_LINES)) if found else []
    for source_line, output in zip(samples, translate(samples), strict=True):
        say(f"    {source_line}\n  → {output}")
    say(f"\nthe run is in {folder}; translate with it:")
    say(f"    {shell_command('translate')} {quote(str(folder))} < input.txt > output.txt")


def trained_model(run: Run) -> Transformer:
    """Return the model that translates, of the run's checkpoints, on the CPU: as `minitf translate` loads it."""
    precision = "float64" if run.config.dtype == "float64" else "float32"
    store = Checkpoints(run.directory.checkpoints_path)
    model = Transformer(run.config.model, seed=None, dtype=precision)
    model.load_parameters(average(*store.translating(run.config.weights, run.config.average_checkpoints)), copy=False)
    return (model if run.config.plain else accelerate(model)).eval()
