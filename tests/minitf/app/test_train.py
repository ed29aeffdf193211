"""Training as a person starts it: the same bits whatever comes between, and one sentence for all that is wrong."""

import os
import shutil
import signal
import subprocess
import sys
from dataclasses import replace
from itertools import cycle
from pathlib import Path

import numpy as np
import pytest

from additions.pages.run_log import read_log
from autograd import random
from autograd.fast import cpu_kernels, numpy_layers, numpy_training
from autograd.fast import threads as of_kernels
from minitf.app import translate
from minitf.config import presets
from minitf.run import start
from minitf.storage import checkpoints
from minitf.system.process import run_command
from minitf.training import loop as training_loop
from minitf.training import optim, resuming
from minitf.translation.translator import Translator
from tests.helpers.marks import parametrize_some
from tests.helpers.patching import patch_everywhere
from tests.helpers.runs import call, differences, fingerprint, write_corpus

pytestmark = pytest.mark.heavy

PROGRAM = Path(__file__).parents[3] / "train.py"


@pytest.fixture(scope="module")
def halfway(ground):
    """A run that was ended at step 9, which is on nobody's schedule; to be copied."""
    run = ground.new()
    assert call([*ground.flags, "--output", str(run), "--max-steps", "9"]) == 0
    return run


@pytest.fixture
def copy(halfway, tmp_path):
    return Path(shutil.copytree(halfway, tmp_path / "copy"))


def state_of(run, step):
    return checkpoints.Reader(checkpoints.Checkpoints(run / "checkpoints").path(step)).state


def steps_of(run):
    return checkpoints.Checkpoints(run / "checkpoints").steps()


def same_as_reference(ground, run):
    assert differences(fingerprint(run), ground.expected) == []


def assert_one_error(status, err, *words, expected=2):
    assert status == expected, err
    last = err.splitlines()[-1]
    assert last.startswith("error: ")
    assert err.count("error: ") == 1
    for word in words:
        assert str(word) in last
    assert "Traceback" not in err


# ---- The same bits -----------------------------------------------------------------------------------------------


def test_a_run_that_is_given_more_steps_is_a_run_of_that_many(ground, copy):
    """The end at step 9 leaves no trace: not its validation, not its last line of the log, not its checkpoint."""
    assert steps_of(copy) == [6, 8, 9]
    assert not state_of(copy, 9)["on_schedule"]
    assert [line.get("step") for line in read_log(copy / "log.jsonl") if "valid_loss" in line] == [4, 8, 9]
    assert call(["--resume", str(copy), "--max-steps", "13"]) == 0
    same_as_reference(ground, copy)
    assert steps_of(copy) == [10, 12, 13]


def test_a_finished_run_reports_again(ground, copy, capsys):
    before = fingerprint(copy)
    assert call(["--resume", str(copy)]) == 0
    assert fingerprint(copy) == before
    err = capsys.readouterr().err
    assert "resumed after step 9" in err
    assert "held-out BLEU" in err


def test_a_quiet_run_prints_warnings_alone(ground, tmp_path, capfd):
    words = [*ground.flags, "--quiet", "--max-steps", "3", "--output", str(tmp_path / "run")]
    assert call(words) == 0
    out, err = capfd.readouterr()
    assert out == ""
    assert "warning: the run has ended at step 3, within its warm-up of 20 steps" in err
    assert all(line.startswith("warning: ") for line in err.splitlines())
    assert len(steps_of(tmp_path / "run")) > 1


@parametrize_some("threads", ["3", "2"])
def test_bits_do_not_depend_on_threads(ground, tmp_path, monkeypatch, threads):
    """Blocks are made so small that all threads get some, at every op."""
    for module, name, value in (
        (of_kernels, "BLOCK_BYTES", 256),
        (of_kernels, "SERIAL_BYTES", 1),
        (numpy_layers, "SERIAL_PRODUCT", 1),
        (numpy_training, "SERIAL_PRODUCT", 1),
    ):
        monkeypatch.setattr(module, name, value)
    flags = [*ground.flags, "--max-steps", "5"]
    assert call([*flags, "--output", str(tmp_path / "one")]) == 0
    assert call([*flags, "--output", str(tmp_path / "more"), "--max-steps", "2"]) == 0
    ran = []
    run = numpy_training.run

    def noting(*args, **settings):
        ran.append(of_kernels._Process.pool)
        return run(*args, **settings)

    monkeypatch.setattr(numpy_training, "run", noting)
    assert call(["--resume", str(tmp_path / "more"), "--threads", threads, "--max-steps", "5"]) == 0
    assert None not in ran
    assert differences(fingerprint(tmp_path / "one"), fingerprint(tmp_path / "more")) == []


def test_a_run_that_is_resumed_with_compiled_kernels_says_so(copy, monkeypatch, capsys):
    pytest.importorskip("numba", reason="needs Numba")
    signal_at(monkeypatch, resuming.restore, [signal.SIGTERM])  # before anything is compiled
    assert call(["--resume", str(copy), "--kernels", "numba"]) == 143
    assert cpu_kernels().kernels == "numba"
    assert "numba was not recorded and is" in capsys.readouterr().err


def test_plain_parts_alone(ground, tmp_path, monkeypatch, capfd):
    """The same run and translations up to rounding, through none of the fast parts; resumed with either."""
    monkeypatch.setenv("AUTOGRAD_PLAIN", "")  # afterwards, whatever happens here
    place = ground.flags.index("--threads")
    flags = [*ground.flags[:place], *ground.flags[place + 2 :], "--max-steps", "4"]
    losses = {}
    for kind in ("fast", "plain"):
        with monkeypatch.context() as patch:
            if kind == "plain":
                for name in ("start.accelerate", "start.accelerate_adam"):
                    patch.delattr(f"minitf.run.{name}")
                patch.delattr("minitf.translation.translator.InferenceTransformer")
            run = tmp_path / kind
            assert call([*flags, "--output", str(run), *(["--plain"] if kind == "plain" else [])]) == 0
        losses[kind] = [record["loss"] for record in read_log(run / "log.jsonl") if "loss" in record]
    np.testing.assert_allclose(losses["plain"], losses["fast"], rtol=1e-5)
    assert os.environ["AUTOGRAD_PLAIN"] == "1"
    source = tmp_path / "source"
    source.write_text("a big red cat\nthe dog\n", encoding="utf-8")
    found = []
    capfd.readouterr()
    for more in ([], ["--plain"]):
        translate.main([str(tmp_path / "plain"), *more, "--input", str(source)])
        found.append(capfd.readouterr().out)
    assert found[0] == found[1]
    assert call(["--resume", str(tmp_path / "fast"), "--plain", "--max-steps", "5"]) == 0
    assert call(["--resume", str(tmp_path / "plain"), "--no-plain", "--max-steps", "5"]) == 0


# ---- Ends --------------------------------------------------------------------------------------------------------


def test_minutes_count_over_all_resumptions(ground, tmp_path, capfd):
    run = tmp_path / "run"
    assert call([*ground.flags, "--output", str(run), "--max-minutes", "1e-9"]) == 0
    assert steps_of(run) == [1]  # at least one
    assert call(["--resume", str(run)]) == 0  # they are used up
    assert "no step was left after step 1: to train on, give more" in capfd.readouterr().err
    assert steps_of(run) == [1]
    assert state_of(run, 1)["elapsed_s"] > 0


# ---- Checkpoints by other clocks, the best one, the moving average ------------------------------------------------


def test_epochs_are_saved_and_validated_as_they_end(ground, tmp_path, monkeypatch):
    """As a preset says; the flags count updates."""
    units = {"save_every": 1, "save_every_unit": "epochs", "valid_every": 2, "valid_every_unit": "epochs"}
    tiny = presets.NAMED["tiny"]
    monkeypatch.setitem(presets.NAMED, "tiny", replace(tiny, config=replace(tiny.config, **units)))
    place = ground.flags.index("--valid-every")
    flags = [*ground.flags[:place], *ground.flags[place + 4 :]]
    assert ground.flags[place + 2] == "--save-every"
    whole = tmp_path / "whole"
    assert call([*flags, "--output", str(whole)]) == 0
    states = [state_of(whole, step) for step in steps_of(whole)]
    epochs = [state["data"]["epoch"] for state in states if state["on_schedule"]]
    assert epochs == [*range(epochs[0], epochs[0] + len(epochs))] != []
    assert all(state["data"]["position"] < 2 for state in states if state["on_schedule"])  # two batches an update
    validated = [line["epoch"] for line in read_log(whole / "log.jsonl") if "valid_loss" in line]
    assert [epoch for epoch in validated[:-1] if epoch % 2] == []
    assert len(validated) == validated[-1] // 2 + 1  # and one at the end


def best_of(run):
    return checkpoints.Checkpoints(run / "checkpoints").steps("best")[-1]


def test_the_weights_of_the_best_bleu_are_kept(ground, tmp_path, monkeypatch):
    """Steps 4, 8 and 12 are validated, and the last. A run that is killed between a validation and the next checkpoint
    has the weights of a validation that it has yet to come to; they must not be taken for the best if it ends before.
    """
    scores = {4: 10.0, 8: 30.0, 12: 20.0, 13: 30.0}
    monkeypatch.setattr(training_loop, "validation_bleu", lambda *_: scores.get(random.get_state()[1], 1.0))
    flags = [*ground.flags, "--valid-metric", "bleu", "--set", "weights=best"]
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    assert call([*flags, "--output", str(whole)]) == 0
    assert best_of(whole) == 8
    bleu = [(line["step"], line["valid_bleu"]) for line in read_log(whole / "log.jsonl") if "valid_bleu" in line]
    assert bleu == [(4, 10.0), (8, 30.0), (12, 20.0), (13, 30.0)]
    with monkeypatch.context() as patch:
        log = training_loop.log_validation

        def die(run, *rest):
            if run.state.step == 8:
                raise KeyboardInterrupt
            log(run, *rest)

        patch.setattr(training_loop, "log_validation", die)
        assert call([*flags, "--output", str(parts), "--save-every", "5"]) == 130
    assert [path.name for path in sorted((parts / "checkpoints").glob("best-*"))] == [
        "best-00000004.safetensors",
        "best-00000008.safetensors",
    ]
    assert steps_of(parts) == [5]
    assert call(["--resume", str(parts), "--max-steps", "5"]) == 0
    assert best_of(parts) == 4
    assert call(["--resume", str(parts), "--max-steps", "13"]) == 0
    assert best_of(parts) == 8
    kept = [checkpoints.load(checkpoints.Checkpoints(run / "checkpoints").best_path(8))[0] for run in (whole, parts)]
    assert all((kept[0][name] == kept[1][name]).all() for name in kept[0])


def test_what_is_translated_with(ground, copy, capfd):
    """Every kind of weights is another model, and `best` and `moving-average` are those that the run's files hold."""
    store = checkpoints.Checkpoints(copy / "checkpoints")
    expected = {
        "average": checkpoints.average(store.last(2)),
        "best": checkpoints.load(store.best_path(store.steps("best")[-1]), "model.")[0],
        "moving-average": checkpoints.load(store.path(9), "moving_average.")[0],
    }
    for weights, arrays in expected.items():
        model = Translator.load(copy, weights=weights).model
        assert all((p.data == arrays[name]).all() for name, p in model.named_parameters().items()), weights
    names = list(expected["average"])
    assert any((expected["average"][name] != expected["moving-average"][name]).any() for name in names)
    (copy / "in.txt").write_text("the cat\n")
    assert run_command(translate.main, [str(copy), "--input", str(copy / "in.txt"), "--weights", "best"]) == 0
    for path in store.folder.glob("best-*"):
        path.unlink()
    capfd.readouterr()
    status = run_command(translate.main, [str(copy), "--input", str(copy / "in.txt"), "--weights", "best"])
    assert_one_error(status, capfd.readouterr().err, "has no weights of a best validation", "--valid")


def test_without_validation_text(ground, tmp_path, capsys):
    keep = [*ground.flags[:3], *ground.flags[9:]]
    assert call([*keep, "--output", str(tmp_path / "run"), "--max-steps", "3"]) == 0
    assert not any("valid_loss" in line for line in read_log(tmp_path / "run" / "log.jsonl"))
    assert steps_of(tmp_path / "run") == [2, 3]
    note = "no validation text, so overfitting is not detected; minitf split makes one for --valid SOURCE TARGET"
    assert note in capsys.readouterr().err


# ---- Signals -----------------------------------------------------------------------------------------------------


def signal_at(monkeypatch, function, numbers, when=lambda: True):
    """Send this process signals when a function of training is called for the first time."""
    sent = []

    def calling(*arguments, **options):
        if when() and not sent:
            for number in numbers:
                sent.append(number)
                os.kill(os.getpid(), number)
        return function(*arguments, **options)

    patch_everywhere(monkeypatch, function, calling)


@parametrize_some(("number", "status"), [(signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGHUP, 129)])
def test_a_signal_finishes_the_step_and_saves(ground, tmp_path, monkeypatch, capfd, number, status):
    run = tmp_path / "run"
    with monkeypatch.context() as patch:
        signal_at(patch, optim.batch_loss, [number], lambda: random.get_state()[1] == 5)
        assert call([*ground.flags, "--output", str(run)]) == status
    err = capfd.readouterr().err
    assert f"{number.name}: finishing this step and saving" in err
    assert f"stopped after step 5; resume with: minitf train --resume {run}" in err
    assert steps_of(run) == [2, 4, 5]
    assert call(["--resume", str(run)]) == 0
    same_as_reference(ground, run)


def test_a_second_signal_stops_at_once(ground, tmp_path, monkeypatch, capfd):
    run = tmp_path / "run"
    with monkeypatch.context() as patch:
        signal_at(patch, optim.batch_loss, [signal.SIGINT, signal.SIGTERM], lambda: random.get_state()[1] == 5)
        assert call([*ground.flags, "--output", str(run)]) == 143
    assert capfd.readouterr().err.endswith("terminated\n")
    assert steps_of(run) == [2, 4]  # step 5 was not finished


def test_a_signal_during_a_validation_stops_after_it(ground, tmp_path, monkeypatch, capfd):
    run = tmp_path / "run"
    with monkeypatch.context() as patch:
        signal_at(patch, training_loop.mean_nll, [signal.SIGTERM], lambda: random.get_state()[1] == 8)
        assert call([*ground.flags, "--output", str(run)]) == 143
    assert "step 8: validation" in capfd.readouterr().err
    assert steps_of(run)[-1] == 8
    assert call(["--resume", str(run)]) == 0
    same_as_reference(ground, run)


@parametrize_some(
    "place",
    [start.load_or_train_vocabulary, start.prepare_split, start.restore, start.check_texts],
    keep=(0, 2),
    ids=lambda f: f.__name__,
)
def test_a_signal_before_training_ends_it_at_once(ground, tmp_path, monkeypatch, capfd, place):
    run = tmp_path / "run"
    new, resumed = [*ground.flags, "--output", str(run)], ["--resume", str(run)]
    resumes = place is start.restore
    if resumes:
        call([*new, "--max-steps", "4"])
        capfd.readouterr()
    with monkeypatch.context() as patch:
        signal_at(patch, place, [signal.SIGTERM])
        assert call(resumed if resumes else new) == 143
    assert capfd.readouterr().err.endswith("terminated\n")
    assert call([*resumed, "--max-steps", "13"] if resumes else new) == 0
    same_as_reference(ground, run)


# ---- Divergence --------------------------------------------------------------------------------------------------


def not_a_number_at(monkeypatch, steps):
    """Make the loss of some steps NaN, in its gradient too."""
    batch_loss = optim.batch_loss

    def spoilt(*arguments, **options):
        smoothed, nll = batch_loss(*arguments, **options)
        return (smoothed * float("nan") if random.get_state()[1] in steps else smoothed), nll

    patch_everywhere(monkeypatch, batch_loss, spoilt)


def test_divergence_ends_with_step_op_and_last_good_checkpoint(ground, tmp_path, monkeypatch, capsys):
    run = tmp_path / "run"
    with monkeypatch.context() as patch:
        not_a_number_at(patch, {7})
        status = call([*ground.flags, "--output", str(run)])
    path = checkpoints.Checkpoints(run / "checkpoints").path(6)
    found = ("step 7 has loss nan", "Mul", "test_train.py", f"the last checkpoint is {path}")
    assert_one_error(status, capsys.readouterr().err, "training diverged", *found, expected=1)
    assert steps_of(run) == [2, 4, 6]


# ---- Input -------------------------------------------------------------------------------------------------------


@pytest.fixture
def texts(tmp_path):
    """A folder with a corpus of its own, and the flags to train on it."""
    folder = tmp_path / "texts"
    folder.mkdir()
    return folder, write_corpus(folder)


def rewrite(path, change):
    path.write_bytes(change(path.read_bytes()))


BAD_TEXTS = {
    "missing": (lambda path: path.unlink(), ["No such file or directory; check the path"]),
    "a line too few": (
        lambda path: rewrite(path, lambda data: data[: data[:-1].rfind(b"\n") + 1]),
        ["lines but", "equal"],
    ),
    "not UTF-8": (
        lambda path: rewrite(path, lambda data: data.replace(b"\n", b"\nx\xff", 1)),
        ["line 2: byte 2 of the line", "0xff", "iconv -c"],
    ),
    "UTF-16": (lambda path: rewrite(path, lambda data: data.decode().encode("utf-16")), ["it seems to be UTF-16"]),
    "gzip in disguise": (lambda path: rewrite(path, lambda data: b"\x1f\x8b" + data), ["it seems to be compressed"]),
}


@pytest.mark.parametrize(("fault", "name"), [*zip(BAD_TEXTS, cycle(["train.en", "valid.de", "test.en"]))])
def test_a_text_that_cannot_be_used_is_named_before_anything_is_written(ground, texts, tmp_path, capsys, name, fault):
    folder, flags = texts
    spoil, words = BAD_TEXTS[fault]
    spoil(folder / name)
    status = call([*flags, *ground.flags[9:], "--output", str(tmp_path / "run")])
    assert_one_error(status, capsys.readouterr().err, folder / name.partition(".")[0], *words)
    assert not (tmp_path / "run").exists()


def flag_replaced(flags, name, *values):
    place = flags.index(name)
    return [*flags[:place], name, *values, *flags[place + 1 + len(values) :]]


def test_a_failed_start_does_not_block_the_next(ground, tmp_path, capsys):
    run = tmp_path / "run"
    status = call([*flag_replaced(ground.flags, "--vocab-size", "20"), "--output", str(run)])
    assert_one_error(status, capsys.readouterr().err, "vocab_size=20 is too small", "choose at least")
    assert call([*ground.flags, "--max-steps", "1", "--output", str(run)]) == 0


def test_other_places(ground, tmp_path, capsys):
    (tmp_path / "file").write_text("")
    cases = [
        (["--resume", str(tmp_path)], "contains no run to resume"),
        ([*ground.flags, "--output", str(tmp_path / "file")], "cannot create the folder"),
        ([*ground.flags, "--output", str(tmp_path / "run"), "--device", "cuda:99"], "device 'cuda:99'"),
    ]
    for argv, words in cases:
        assert_one_error(call(argv), capsys.readouterr().err, words)
    assert not (tmp_path / "run").exists()


def test_another_vocabulary_is_refused_by_training_and_translation(ground, copy, tmp_path, capfd):
    """As large as the right one, so that every shape fits."""
    (tmp_path / "other").mkdir()
    flags = write_corpus(tmp_path / "other")
    for name in ("train.en", "train.de"):
        rewrite(tmp_path / "other" / name, lambda data: data.replace(b"e", b"o"))
    assert call([*flags, *ground.flags[9:], "--output", str(tmp_path / "run"), "--max-steps", "1"]) == 0
    shutil.copy(tmp_path / "run" / "vocabulary.model", copy / "vocabulary.model")
    capfd.readouterr()
    status = call(["--resume", str(copy)])
    assert_one_error(status, capfd.readouterr().err, "token ids for another vocabulary")
    status = run_command(translate.main, [str(copy), "--input", str(tmp_path / "other" / "test.en")])
    assert_one_error(status, capfd.readouterr().err, "vocabulary.model is not the vocabulary that", "step-00000009")


# ---- The command -------------------------------------------------------------------------------------------------


def test_the_command_and_its_streams(ground, tmp_path):
    """Everything that is told goes to standard error; nothing needs a terminal."""
    command = [sys.executable, "-W", "error", PROGRAM, *ground.flags, "--output", tmp_path / "run", "--max-steps", "2"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
    assert "step 1  loss" in done.stderr
    assert f"python translate.py {tmp_path / 'run'}" in done.stderr
