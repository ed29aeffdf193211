"""`minitf train`, `train.py`: train a Transformer or resume a run, and score the test set.

Imports are deferred in functions: `--help` and invalid flags need no NumPy, one process needs no minitf.parallel, and
`--plain` reaches autograd by an environment variable before autograd is imported.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from operator import attrgetter
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any, NamedTuple

from minitf.app.command_line import SECTIONS, build_parser, converter, flags_of, given_values
from minitf.config import DEFAULT_PRESET, PRESETS, RunConfig
from minitf.config.options import shown
from minitf.config.presets import NAMED
from minitf.config.removed import REMOVED_PRESETS
from minitf.config.run_config import parse_devices
from minitf.errors import UserError, nearest, shortened
from minitf.storage.run_directory import CONFIG_NAME, load_config
from minitf.system.environment import is_single_process, load_or_none, rank_zero_output
from minitf.system.process import StopRequest, say, say_warnings, shell_command, silent

if TYPE_CHECKING:
    from minitf.training.run import SingleProcess


def main(argv: Sequence[str]) -> int:
    """Train the run that the command line describes; return the exit status."""
    with rank_zero_output():
        config, resumed, quiet = read_train_args(argv)
    if config.plain:
        os.environ["AUTOGRAD_PLAIN"] = "1"
    if not is_single_process():
        from minitf.training.data_parallel import join_ranks

        with join_ranks(config) as process:
            return train_run(config, resumed, process, quiet=quiet)
    if config.devices is not None and (size := parse_devices(config.devices)[1]) > 1:
        from minitf.parallel.launch import launch

        launch(
            [*(["-m", "minitf", "train"] if shell_command("train") == "minitf train" else sys.argv[:1]), *argv], size
        )
    from minitf.training.run import SingleProcess

    return train_run(config, resumed, SingleProcess(config), quiet=quiet)


def train_run(config: RunConfig, resumed: Path | None, process: SingleProcess, *, quiet: bool = False) -> int:
    """Start or resume a run, train, and score the test set; return the exit status.  quiet: print only warnings"""
    from minitf.run.start import score_translations, start
    from minitf.training.loop import train
    from minitf.training.state import Progress

    is_main = process.is_main_process
    tell = silent if not is_main else say_warnings if quiet else say
    with start(config, process, tell, resumed) as run:
        parameters, folder = run.model.parameter_count(), run.directory.path
        tell(f"model: {parameters:,} parameters, vocabulary of {len(run.data.vocabulary):,}; run: {folder}")
        if run.config.init is not None:
            tell(f"initial weights: {run.config.init}")
        if run.config.freeze is not None:
            learning = sum(parameter.size for parameter in run.optimizer.named_parameters.values())
            tell(f"frozen: {run.config.freeze}; {learning:,} parameters are trained")
        if process.description:
            tell(process.description)
        if run.data.valid is None:
            tell("no validation text, so overfitting is not detected; minitf split makes one for --valid SOURCE TARGET")
        page = load_or_none("minitf.reports", "page")
        progress = Progress(run.config.max_steps, run.state.step, shown=is_main and not quiet, tell=tell)
        with (
            page(run.directory, run.config, parameters=parameters, writes=is_main) if page else nullcontext() as report
        ):
            start_step = run.state.step
            with progress, StopRequest(shared=process.is_parallel, tells=is_main) as stop:
                train(run, progress, stop, on_log=report.refresh if report else lambda: None)
            if run.state.step == start_step and not stop:
                tell(f"no step was left after step {start_step:,}: to train on, give more --max-steps or --max-minutes")
            if stop:
                how = f"resume with: {shell_command('train')} --resume {quote(str(folder))}"
                if report:
                    report.end("stopped", how)
                tell(f"stopped after step {run.state.step:,}; {how}")
                return stop.exit_status
            if is_main:
                score_translations(run, tell)
            if report:
                report.end("finished")
    return 0


# ---- Arguments ----


class TrainArguments(NamedTuple):
    """Values on the command line of `train`."""

    config: RunConfig
    resume: Path | None  # the directory of a run
    quiet: bool


def read_train_args(argv: Sequence[str]) -> TrainArguments:
    """Parse the command line of `train`.

    Raises: UserError for invalid arguments; SystemExit(0) after `--help` and `--version`.
    """
    parser = build_parser(
        RunConfig,
        f"{shell_command('train')} [flags]",
        "Train a Transformer to translate; without flags, a tiny model on the built-in corpus.",
        shell_command("train"),
        PRESETS[DEFAULT_PRESET],
    )
    parser.group("Run").add_argument("--quiet", action="store_true", help="print warnings and errors only")
    parser.group("Run").add_argument(
        "--set",
        action="append",
        metavar="FIELD=VALUE",
        help="set a field that has no flag, such as model.d_k=16; config.json of a run lists them all",
    )
    parser.group("Run").add_argument(
        "--resume",
        type=converter(Path),
        metavar="RUN",
        help="resume the run in this directory from its last checkpoint. Only the following flags may change: "
        f"{', '.join(flag.name for flag in flags_of(RunConfig) if flag.field.metadata['may_change'])}",
    )
    given = given_values(parser, argv)
    resume, quiet = given.pop("resume", None), given.pop("quiet", False)
    given |= set_values(given.pop("set", ()))
    given = {name: value if name == "output" else absolute(value) for name, value in given.items()}
    for name in ("valid_every", "save_every"):  # of a preset that counts epochs, too
        if name in given:
            given.setdefault(f"{name}_unit", "updates")
    if resume is not None:
        return TrainArguments(resumed_config(resume, given), resume, quiet)
    if given.get("init") is not None:
        from minitf.run.fine_tuning import with_values_of_model

        given = with_values_of_model(given)
    config = changed(_preset(given.pop("preset", DEFAULT_PRESET)), given)
    return TrainArguments(config, None, quiet)


def set_values(words: Sequence[str]) -> dict[str, Any]:
    """Convert the words after `--set`: model.d_k=16 -> {"model.d_k": 16}.

    Raises: UserError for a field that does not exist or has a flag, and for an invalid value
    """
    valid = {flag.dest: flag.field.type for flag in flags_of(RunConfig, hidden=True)}
    found = {}
    for word in words:
        name, _, value = word.partition("=")
        if name not in valid:
            raise UserError(f"--set {shortened(word)} names no field, or one with a flag{nearest(name, valid)}")
        try:
            found[name] = converter(valid[name])(value)
        except argparse.ArgumentTypeError as error:
            raise UserError(f"--set {name}: {error}") from None
    return found


def changed(config: RunConfig, given: dict[str, Any]) -> RunConfig:
    """Replace values of a configuration, given by the names of their flags; checks apply to the result as a whole."""
    own = {name: value for name, value in given.items() if "." not in name}
    for section in SECTIONS:
        inner = {name.partition(".")[2]: value for name, value in given.items() if name.startswith(f"{section}.")}
        own[section] = replace(getattr(config, section), **inner)
    return replace(config, **own)


def absolute(value: Any) -> Any:
    """Make paths absolute, so that a run resumed from another working directory still finds them."""
    if isinstance(value, tuple):
        return tuple(map(absolute, value))
    return value.absolute() if isinstance(value, Path) else value


def _preset(name: str) -> RunConfig:
    if name in REMOVED_PRESETS:
        raise UserError(f"preset={shown(name)} was removed; give {REMOVED_PRESETS[name]}")
    if name not in NAMED:
        few = ", ".join(PRESETS)
        raise UserError(
            f"preset={shown(name)} is unknown{nearest(name, NAMED)}; choose {few}, or another from minitf presets"
        )
    return NAMED[name].config


def resumed_config(folder: Path, given: dict[str, Any]) -> RunConfig:
    """Return the configuration of a saved run with the values that may change; `output` is where the run is now."""
    if not (folder / CONFIG_NAME).is_file():
        raise UserError(f"{folder} contains no run to resume: {CONFIG_NAME} is missing; check the path")
    saved = load_config(folder / CONFIG_NAME, resuming=True, warn=lambda text: say(f"warning: {text}"))
    saved = replace(saved, output=folder)
    for flag in (*flags_of(RunConfig), *flags_of(RunConfig, hidden=True)):
        if flag.dest in given and not flag.field.metadata["may_change"]:
            before, after = attrgetter(flag.dest)(saved), given[flag.dest]
            if absolute(after) != absolute(before):
                raise UserError(
                    f"{flag.name} {shown(after)} differs from the run's {shown(before)}, which cannot change; omit "
                    "the flag, or start a new run with another --output"
                )
    return changed(saved, {**_one_place(saved, given), "output": folder})


def _one_place(saved: RunConfig, given: dict[str, Any]) -> dict[str, Any]:
    """Let a --device replace the run's --devices, and the reverse.

    Raises: UserError for --devices none alone, with which a run on GPUs would continue on the CPU
    """
    if "device" in given:
        return {"devices": None, **given}
    if given.get("devices") is not None:
        return {"device": "cpu", **given}
    if "devices" in given and saved.devices is not None and saved.on_gpu:
        raise UserError(
            f"--devices none removes the run's devices {saved.devices}; give --device cuda, or --device cpu"
        )
    return given
