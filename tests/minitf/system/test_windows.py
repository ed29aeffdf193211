"""What a student needs works without what Windows lacks.

Simulated: child processes run on this system with the modules, functions and flags of POSIX taken away. Nothing here
has been run on Windows.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]

TAKEN_AWAY = '''
"""Imported by Python at its start: what Windows lacks is taken away."""
import os, signal, subprocess, sys, types

subprocess.signal = types.SimpleNamespace(**vars(signal))  # it starts processes by this system's functions
for name in ("fcntl", "resource", "termios", "tty", "pty", "pwd", "grp", "readline", "syslog", "curses"):
    sys.modules[name] = None
for name in (
    "fork forkpty killpg getpgid getpgrp setpgid setsid getsid getuid geteuid getgid getegid getgroups setuid setgid "
    "fchmod fchown chown lchown pread pwrite preadv pwritev set_blocking get_blocking mkfifo mknod statvfs fstatvfs "
    "sysconf confstr fchdir nice wait wait3 wait4 openpty ttyname sched_getaffinity getloadavg posix_fadvise "
    "sendfile O_CLOEXEC O_DIRECTORY O_NOFOLLOW O_NONBLOCK O_NOCTTY O_SYNC"
).split():
    if hasattr(os, name):
        delattr(os, name)
for name in "SIGHUP SIGALRM SIGKILL SIGUSR1 SIGUSR2 SIGPIPE SIGCHLD alarm setitimer getitimer pause sigwait".split():
    delattr(signal, name)
os.supports_dir_fd, os.supports_fd, os.supports_follow_symlinks = set(), set(), {os.stat}


def without_descriptors(function):
    def call(*arguments, dir_fd=None, src_dir_fd=None, dst_dir_fd=None, **others):
        if not (dir_fd is src_dir_fd is dst_dir_fd is None):
            raise NotImplementedError("dir_fd unavailable on this platform")
        if function is opening and os.path.isdir(arguments[0]):
            raise PermissionError(13, "Permission denied", arguments[0])
        return function(*arguments, **others)

    return call


opening = os.open
for name in ("open", "stat", "mkdir", "rename", "replace", "unlink", "rmdir"):
    setattr(os, name, without_descriptors(getattr(os, name)))
sys.modules["portalocker"] = types.ModuleType("portalocker")  # of sacrebleu, which asks for the name of the system
sys.modules["msvcrt"] = msvcrt = types.ModuleType("msvcrt")
msvcrt.LK_NBLCK, msvcrt.locked = 2, []
msvcrt.locking = lambda descriptor, mode, count: msvcrt.locked.append(descriptor)
'''


@pytest.fixture
def windows(tmp_path):
    """A function that runs Python, here with what Windows lacks taken away; it returns what was printed."""
    (tmp_path / "windows").mkdir()
    (tmp_path / "windows" / "sitecustomize.py").write_text(TAKEN_AWAY)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path / "windows"), str(ROOT)])}

    def run(*words, status=0, text=""):
        done = subprocess.run(
            [sys.executable, *map(str, words)],
            cwd=tmp_path, env=environment, input=text, capture_output=True, text=True, check=False, timeout=300,
        )  # fmt: skip
        assert done.returncode == status, done.stderr
        assert "Traceback" not in done.stderr, done.stderr
        return done.stdout + done.stderr

    return run


def test_what_is_taken_away_is_gone(windows):
    code = "import os, signal\nprint(hasattr(os, 'fork'), hasattr(signal, 'SIGHUP'))\nimport fcntl"
    with pytest.raises(AssertionError, match="import of fcntl halted"):
        windows("-c", code)
    assert windows("-c", code.replace("import fcntl", "")) == "False False\n"


@pytest.mark.slow
def test_training_resuming_reporting_and_translating(windows, tmp_path):
    run = tmp_path / "run"
    for name, lines in (("words.en", "one\ntwo\nthree\n"), ("words.de", "eins\nzwei\ndrei\n")):
        (tmp_path / name).write_text(lines * 40)
    texts = [word for flag in ("--train", "--valid", "--test") for word in (flag, "words.en", "words.de")]
    flags = ["--vocab-size", "280", "--max-steps", "3", "--log-every", "1", "--save-every", "2", "--beam", "1"]
    commands = [
        ["train", *texts, *flags, "--output", run],
        ["train", "--resume", run, "--max-steps", "4"],
        ["report", run, "--output", tmp_path / "report.html"],
        ["step", run, "--output", tmp_path / "step.html"],
        ["pack", run, "--output", tmp_path / "packed"],
        ["translate", run, "--beam", "1"],
    ]
    words = [[str(word) for word in command] for command in commands]
    code = "from minitf import __main__ as commands\n"  # imports take seconds
    code += "from minitf.system.process import run_command\n"
    code += f"for words in {words!r}:\n    assert run_command(commands.run, words) == 0, words\n"
    assert windows("-c", code, text="one\ntwo\n").count("\n") >= 2
    assert [json.loads(line).get("step") for line in (run / "log.jsonl").read_text().splitlines()][:3] == [1, 2, 3]
    assert (tmp_path / "report.html").exists()
    assert (tmp_path / "step.html").exists()
    assert (tmp_path / "packed" / "config.json").exists()
    assert not list(run.glob("*.partial"))
