"""Flags follow the fields; wrong ones are told in a sentence."""

import errno
import os
import re
import subprocess
import sys
from dataclasses import replace
from operator import attrgetter
from pathlib import Path

import pytest

from minitf.app.command_line import flags_of
from minitf.app.train import read_train_args
from minitf.app.translate import TranslateConfig, parse_translate_args
from minitf.config import PRESETS, RunConfig
from minitf.config.options import shown
from minitf.config.presets import NAMED
from minitf.errors import UserError
from minitf.storage.run_directory import CONFIG_NAME, load_config, save_config
from minitf.system.process import run_command


def parse_train_args(words):
    """The configuration, and the directory to resume."""
    return read_train_args(words)[:2]


# ---- What is read ----


def test_no_flags_are_the_tiny_preset():
    assert parse_train_args([]) == (PRESETS["tiny"], None)


def test_presets():
    for name in NAMED:
        assert parse_train_args(["--preset", name]) == (NAMED[name].config, None)


def test_values_of_each_type():
    words = "--preset=small --max-minutes 1.5 --max-steps=1_000 --precision=float64 --model.norm pre"
    words += " --set model.d_k=16 --optimizer.clip-norm 25 --optimizer.label-smoothing=0 --checkpoint-activations"
    config, resume = parse_train_args([*words.split(), "--train", "a b.en", "/x/ü.de"])
    small = PRESETS["small"]
    assert resume is None
    assert config == replace(
        small,
        train=(Path("a b.en").absolute(), Path("/x/ü.de")),
        max_minutes=1.5,
        max_steps=1000,
        precision="float64",
        checkpoint_activations=True,
        model=replace(small.model, norm="pre", d_k=16),
        optimizer=replace(small.optimizer, clip_norm=25.0, label_smoothing=0.0),
    )


def test_values_of_translating():
    words = "runs/a --beam 3 --alpha 0.5 --format jsonl --quiet --input in.txt"
    expected = TranslateConfig(run=Path("runs/a"), beam=3, alpha=0.5, format="jsonl", quiet=True, input=Path("in.txt"))
    assert parse_translate_args(words.split()) == expected


def test_fields_without_a_flag():
    words = ["--set", "model.d_k=16", "--set", "weights=best", "--set", "model.attention_bias=false"]
    config, _ = parse_train_args([*words, "--set", "moving_average=none", "--set", "freeze=encoder,embeddings"])
    assert (config.model.d_k, config.weights, config.model.attention_bias) == (16, "best", False)
    assert (config.moving_average, config.freeze) == (None, "encoder,embeddings")


def test_none_takes_a_value_back():
    config, _ = parse_train_args(["--threads", "none", "--set", "model.d_k=3", "--set", "model.d_k=none"])
    assert (config.threads, config.model.d_k) == (None, None)


def test_checks_see_all_flags_together():
    config, _ = parse_train_args(["--set", "keep_checkpoints=7", "--average-checkpoints", "7", "--model.heads", "32"])
    assert (config.average_checkpoints, config.model.head_d_k) == (7, 4)


# ---- What is refused ----


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--max-step", "5"], r"unknown flag --max-step; did you mean --max-steps"),
        (["--warmup-steps", "3"], r"unknown flag --warmup-steps; did you mean --optimizer\.warmup-steps\?"),
        (["--zzzzzz"], r"unknown flag --zzzzzz; --help lists all flags$"),
        (["stray"], r"unexpected argument 'stray'; --help lists all"),
        (["--max-steps"], r"--max-steps: expected one argument"),
        (["--train", "a-b.tsv"], r"--train: expected 2 arguments: SOURCE TARGET, which minitf split makes"),
        (["--train", "a", ""], r"--train: '' is not a path"),
        (["--max-steps", "many"], r"--max-steps: 'many' is not a whole number"),
        (["--threads", "all"], r"--threads: 'all' is not a whole number, or none"),
        (["--set", "alpha=high"], r"--set alpha: 'high' is not a number"),
        (["--set", "model.layers=3"], r"--set model.layers=3 names no field, or one with a flag"),
        (["--set", "modell.d_k=3"], r"--set modell.d_k=3 names no field, or one with a flag; did you mean model.d_k"),
        (["--model.d-k", "3"], r"--model.d-k has no flag of its own; use minitf train --set model.d_k=VALUE"),
        (["--model.norm", "mid"], r"--model\.norm: 'mid' is not one of post, pre"),
        (["--max-steps", "0"], r"max_steps=0; choose a whole number >= 1"),
        (
            ["--preset", "huge"],
            rf"preset='huge' is unknown; choose {', '.join(PRESETS)}, or another from minitf presets",
        ),
        (
            ["--data", "wmt14"],
            r"--data: 'wmt14' is not one of multi30k, multi30k-tok, wmt14-en-de, wmt14-en-fr, iwslt14",
        ),
        (["--data", "multi30k", "--train", "a", "b"], r"data=multi30k and train are both given; choose one of the two"),
        (["--data-dir", "a"], r"data_dir=.*a is the directory of a public corpus; give data, too"),
        (["--preset", "bgi"], r"preset='bgi' is unknown; did you mean big\?"),
        (["--resume", "absent"], r"absent contains no run to resume: config\.json is missing"),
    ],
)
def test_wrong_command_lines_of_training(words, message):
    with pytest.raises(UserError, match=f"^{message}"):
        parse_train_args(words)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], r"required: RUN \(run directory.*\); .* --help describes all arguments"),
        (["--beem", "3", "runs/a"], r"unknown flag --beem; did you mean --beam"),
        (["runs/a", "--top-k", "2"], "--top-k was removed; give the text to minitf sample"),
        (["runs/a", "--checkpoint", "5"], "--checkpoint was removed; load one checkpoint in Python"),
        ([""], "RUN: '' is not a path"),
        (["a", "b", "--beam", "3"], "unexpected argument 'b'"),
    ],
)
def test_wrong_command_lines_of_translating(words, message):
    with pytest.raises(UserError, match=f"^{message}"):
        parse_translate_args(words)


# ---- Resuming ----


@pytest.fixture
def run(tmp_path):
    config, _ = parse_train_args(
        ["--preset", "small", "--train", "/r.en", "/r.de", "--valid", "/v.en", "/v.de", "--output", "old/place"]
    )
    save_config(tmp_path / CONFIG_NAME, config)
    return tmp_path


def test_a_resumed_run_keeps_its_values_and_knows_where_it_is(run):
    config, resume = parse_train_args(["--resume", str(run)])
    assert resume == run
    assert config == replace(load_config(run / CONFIG_NAME), output=run)
    assert config.preset == "small"


def test_what_may_change():
    assert [flag.name for flag in flags_of(RunConfig) if flag.field.metadata["may_change"]] == [
        *("--device", "--threads", "--kernels", "--plain", "--devices"),
        *("--checkpoint-activations", "--data-dir"),
        *("--max-steps", "--max-minutes", "--patience", "--valid-every"),
        *("--log-every", "--save-every", "--average-checkpoints", "--beam", "--max-extra-length"),
    ]


def test_a_resumed_run_computes_in_one_place(run):
    """--device replaces the run's --devices, and the reverse; neither falls back to the CPU unsaid."""

    def resumed(*words):
        config, _ = parse_train_args(["--resume", str(run), *words])
        return config.device, config.devices

    def save(**changes):
        save_config(run / CONFIG_NAME, replace(load_config(run / CONFIG_NAME), **changes))

    assert resumed("--devices", "none") == ("cpu", None)
    save(device="cuda:1")
    assert resumed("--devices", "none") == ("cuda:1", None)
    assert resumed("--devices", "cpu:2") == ("cpu", "cpu:2")
    with pytest.raises(UserError, match="cannot be combined"):
        resumed("--devices", "2", "--device", "cuda")
    save(device="cpu", devices="cpu:2")
    assert resumed("--devices", "none") == ("cpu", None)
    save(devices="4")
    assert resumed("--devices", "2") == ("cpu", "2")
    assert resumed("--device", "cuda") == ("cuda", None)
    assert resumed("--device", "cpu", "--devices", "none") == ("cpu", None)
    with pytest.raises(
        UserError, match="--devices none removes the run's devices 4; give --device cuda, or --device cpu"
    ):
        resumed("--devices", "none")


def test_some_values_may_change_and_every_other_must_stay(run):
    saved, _ = parse_train_args(["--resume", str(run)])
    config, _ = parse_train_args(["--resume", str(run), "--max-steps", "7", "--beam", "2"])
    assert config == replace(saved, max_steps=7, beam=2)
    for words in ("--seed 5", "--model.norm pre", "--preset tiny", "--train /t.en /t.de", "--valid /t.en /t.de"):
        with pytest.raises(UserError, match=f"^{words.split()[0]} .* differs from the run's .*, which cannot change"):
            parse_train_args(["--resume", str(run), *words.split()])


def test_the_same_values_may_be_given_again(run, monkeypatch):
    monkeypatch.chdir("/")
    words = ["--preset", "small", "--train", "r.en", "r.de", "--model.layers", "3", "--output", str(run)]
    config, _ = parse_train_args(["--resume", str(run), *words, "--max-steps", "7"])
    assert config.max_steps == 7
    with pytest.raises(UserError, match="--output"):
        parse_train_args(["--resume", str(run), "--output", "old/place"])
    monkeypatch.chdir(run.parent)
    assert parse_train_args(["--resume", run.name, "--output", str(run)])[1] == Path(run.name)


def test_an_interval_that_is_given_counts_updates():
    epochs = NAMED["multi30k-transformer-tiny"].config
    config, _ = parse_train_args(["--preset", epochs.preset, "--valid-every", "500"])
    assert (epochs.valid_every, epochs.valid_every_unit) == (1, "epochs")
    assert (config.valid_every, config.valid_every_unit, config.save_every_unit) == (500, "updates", "epochs")


def test_a_change_is_checked_with_the_rest(run):
    with pytest.raises(UserError, match="average_checkpoints=5 exceeds keep_checkpoints=2"):
        parse_train_args(["--resume", str(run), "--set", "keep_checkpoints=2"])


# ---- Help ----


@pytest.mark.parametrize(
    ("parse", "config_class"), [(parse_train_args, RunConfig), (parse_translate_args, TranslateConfig)]
)
def test_help_names_every_flag_with_its_default(parse, config_class, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "10000")
    monkeypatch.setenv("NO_COLOR", "1")
    with pytest.raises(SystemExit) as ended:
        parse(["--help"])
    assert ended.value.code == 0
    text = capsys.readouterr().out
    assert text.isascii()
    assert not re.search(r"default \)|section section", " ".join(text.split()))
    entries = [" ".join(each.split()) for each in re.split(r"\n  (?=-)", text)]
    for flag in flags_of(config_class):
        if flag.field.metadata["positional"]:
            continue
        (line,) = [each for each in entries if re.match(rf"{flag.name}[ ,]", each)]
        about = flag.field.metadata["help"]
        assert about in line or about.replace("none: ", "default: ") in line
        if config_class is RunConfig and (default := attrgetter(flag.dest)(PRESETS["tiny"])) not in (None, False):
            assert f"(default {shown(default, quote=False)})" in line
    for section in (
        ("Run", "Data", "Training", "Model", "Optimizer") if config_class is RunConfig else ("Text", "Search")
    ):
        assert f"\n{section}:\n" in text


# ---- Ending ----


@pytest.mark.parametrize(
    ("outcome", "status", "message"),
    [
        (None, 0, ""),
        (7, 7, ""),
        (UserError("no such thing"), 2, "error: no such thing\n"),
        (
            PermissionError(errno.EACCES, "Permission denied", "x/config.json"),
            2,
            "error: cannot use x/config.json: Permission denied; check the permissions or choose another directory\n",
        ),
    ],
)
def test_exit_status(outcome, status, message, capsys):
    def main(argv):
        assert argv == ["--flag"]
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

    assert run_command(main, ["--flag"]) == status
    assert capsys.readouterr() == ("", message)


def test_an_error_of_the_program_is_not_hidden():
    def main(argv):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run_command(main, [])


@pytest.mark.parametrize("lines", [1, 100_000])  # found when the buffer is emptied at the end, or before
def test_a_reader_that_leaves_is_no_traceback(lines):
    program = (
        "import sys\nfrom minitf.system.process import run_command\n"
        f"sys.exit(run_command(lambda argv: print('x\\n' * {lines})))"
    )
    read, write = os.pipe()
    os.close(read)
    try:
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
        ended = subprocess.run(
            [sys.executable, "-c", program], stdout=write, stderr=subprocess.PIPE, env=environment, check=False
        )
    finally:
        os.close(write)
    assert (ended.returncode, ended.stderr) == (141, b"")
