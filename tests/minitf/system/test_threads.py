"""Limits of the system on threads and memory are told in a sentence, before a library ends the process."""

import os
import resource
import shutil
import subprocess
import sys
import threading

import pytest

from minitf.app import commands
from minitf.app.cli import run_command
from minitf.errors import UserError
from minitf.system import threads
from minitf.system.threads import require_numpy, require_threads


def limited(words, limit):
    """Run a command in a process whose address space is limited."""

    def lower():
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))

    command = [sys.executable, "-W", "error", "-m", "minitf", *map(str, words)]
    return subprocess.run(command, preexec_fn=lower, capture_output=True, text=True, timeout=120, check=False)


def test_threads_that_cannot_be_started_are_one_sentence(monkeypatch):
    started = []

    def start(thread):
        started.append(thread)
        if len(started) == 3:
            raise RuntimeError("can't start new thread")
        go(thread)

    go = threading.Thread.start
    before = threading.active_count()
    monkeypatch.setattr(threading.Thread, "start", start)
    with pytest.raises(
        UserError, match=r"cannot start 4 threads \(can't start new thread\); raise the limits of ulimit"
    ):
        require_threads(4)
    assert threading.active_count() == before  # those that could be started have ended


@pytest.mark.parametrize("command", ["train", "translate", "bleu", "import", "export", "pack", "report"])
def test_a_command_that_needs_numpy_asks_before_it_is_imported(monkeypatch, capsys, command):
    monkeypatch.setattr(threads, "NUMPY_BYTES", 2**60)
    assert run_command(commands.main, [command, "--help"]) == 2
    assert "error: not enough memory: NumPy needs " in capsys.readouterr().err


def test_the_setting_of_openblas_counts(monkeypatch):
    asked = []
    monkeypatch.setattr(threads, "require_threads", asked.append)
    for value in ("1", "0", "garbage", ""):
        monkeypatch.setenv("OPENBLAS_NUM_THREADS", value)
        require_numpy()
    assert asked[:2] == [1, 1]
    assert asked[2] == asked[3] >= 1


def test_a_thread_that_cannot_be_started_later_is_a_sentence(capsys):
    def main(words):
        raise RuntimeError("can't start new thread")

    assert run_command(main, []) == 2
    assert "error: cannot start a thread; raise the limits of ulimit -u" in capsys.readouterr().err


@pytest.mark.heavy
@pytest.mark.parametrize("limit", [60, 120, 200, 300, 400])
@pytest.mark.parametrize("command", ["bleu", "translate"])
def test_little_memory_is_one_sentence_or_enough(tiny_run, tmp_path, command, limit):
    """OpenBLAS would print its own, or end in a segmentation fault."""
    (tmp_path / "text").write_text("a\n")
    text = tmp_path / "text"
    words = {"bleu": ["bleu", text, text], "translate": ["translate", tiny_run, "--input", text]}[command]
    done = limited(words, limit * 2**20)
    assert done.returncode in (0, 2), done.stderr
    lines = done.stderr.splitlines()
    assert done.returncode == 0 or [line for line in lines if line.startswith("error: ")] == lines[-1:], done.stderr
    assert "OpenBLAS" not in done.stderr


@pytest.mark.heavy
@pytest.mark.skipif(
    os.geteuid() != 0 or not shutil.which("setpriv"), reason="the limit does not apply to root; needs setpriv"
)
@pytest.mark.parametrize("most", [1, 2, 3, 4])
@pytest.mark.parametrize("command", ["bleu", "translate", "train", "export"])
def test_few_processes_are_one_sentence_or_enough(tiny_run, tmp_path, command, most):
    """Run as a user who has no other process, with the right to read all files."""
    (tmp_path / "text").write_text("a b\n" * 9)
    tmp_path.chmod(0o777)
    text = tmp_path / "text"
    words = {
        "bleu": ["bleu", text, text],
        "translate": ["translate", tiny_run, "--input", text],
        "export": ["export", tiny_run, tmp_path / "exported", "--format", "safetensors"],
        "train": ["train", "--train", text, text, "--output", tmp_path / "run", "--max-steps", "1"],
    }[command]
    rights = "-all,+dac_override,+dac_read_search"
    user = ["setpriv", "--reuid", str(61_000 + most), "--clear-groups", "--inh-caps", rights, "--ambient-caps", rights]
    script = f'ulimit -u {most}; exec "$@"'
    command_line = [
        *user,
        "bash",
        "-c",
        script,
        "bash",
        sys.executable,
        "-W",
        "error",
        "-m",
        "minitf",
        *map(str, words),
    ]
    done = subprocess.run(command_line, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode in (0, 2), done.stderr
    assert done.returncode == 0 or done.stderr.splitlines()[-1].startswith("error: cannot start"), done.stderr
    assert "OpenBLAS" not in done.stderr
