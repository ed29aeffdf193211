"""Training runs that take a second and use every feature of a long one, and their fingerprints.

Dropout and a moving average are on, two batches make an update, epochs end at any step, and logging,
validating and saving fall on different steps.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from additions.pages.run_log import read_log
from minitf.app import train
from minitf.storage import checkpoints
from minitf.storage.run_directory import CONFIG_NAME, HYPOTHESES_NAME, LOG_NAME, VOCABULARY_NAME
from minitf.system.process import run_command
from minitf.training.state import CLOCK_KEYS

ENGLISH = ["the", "a", "cat", "dog", "house", "tree", "sees", "likes", "big", "small", "red", "blue"]
GERMAN = ["der", "ein", "Katze", "Hund", "Haus", "Baum", "sieht", "mag", "groß", "klein", "rot", "blau"]
PAIRS = {"train": 60, "valid": 6, "test": 4}
MULTI30K = {"train": "train", "valid": "val", "test": "test_2016_flickr"}  # the stems of its files
FLAGS = [
    *("--threads", "1", "--vocab-size", "320", "--max-length", "32", "--max-tokens-per-batch", "64"),
    *("--accumulate", "2", "--optimizer.warmup-steps", "20", "--optimizer.peak-learning-rate", "0.003"),
    *("--model.dropout", "0.1", "--set", "model.attention_dropout=0.1", "--set", "model.activation_dropout=0.1"),
    *("--model.layers", "1", "--model.d-model", "16", "--model.d-ff", "32", "--model.heads", "2"),
    *("--max-steps", "13", "--log-every", "3", "--valid-every", "4", "--save-every", "2"),
    *("--set", "keep_checkpoints=3", "--average-checkpoints", "2", "--beam", "2", "--max-extra-length", "2"),
    *("--set", "moving_average=0.9"),
]


def write_corpus(folder: Path) -> list[str]:
    """Write training, validation and test texts; return the flags that name them."""
    draw = random.Random(0)
    flags = []
    for split, pairs in PAIRS.items():
        rows = [[draw.randrange(len(ENGLISH)) for _ in range(draw.randint(2, 9))] for _ in range(pairs)]
        for suffix, words in (("en", ENGLISH), ("de", GERMAN)):
            text = "".join(" ".join(words[i] for i in row) + "\n" for row in rows)
            (folder / f"{split}.{suffix}").write_text(text, encoding="utf-8")
        flags += [f"--{split}", str(folder / f"{split}.en"), str(folder / f"{split}.de")]
    return flags


# ---- Running -----------------------------------------------------------------------------------------------------


def start_or_resume(folder: Path, flags: Sequence[str], *changes: str) -> list[str]:
    """The arguments that resume a run if it exists, and else start it."""
    if (folder / CONFIG_NAME).exists():
        return ["--resume", str(folder), *changes]
    return [*flags, "--output", str(folder), *changes]


def call(argv: Sequence[str]) -> int:
    """Run train.py in this process; return its exit status.  "@model.d_k=3" stands for --set and a field."""
    words = [part for word in argv for part in (("--set", word[1:]) if word.startswith("@") else (word,))]
    return run_command(train.main, words)


class Child:
    """A forked process whose exit status is the result of `work`; NumPy, the slowest import, is already there."""

    def __init__(self, work: Callable[[], int]):
        sys.stdout.flush()
        sys.stderr.flush()
        self._output, theirs = os.pipe()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of threads: those of BLAS know about forks
            self.pid = os.fork()
        if not self.pid:
            _live(work, theirs)
        os.close(theirs)

    def wait(self, timeout_s: float | None = None) -> int | None:
        """Return the exit status, negative for a signal; None if the process still runs after `timeout_s`."""
        if timeout_s is None:
            return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        end = time.monotonic() + timeout_s
        while True:
            found, status = os.waitpid(self.pid, os.WNOHANG)
            if found:
                return os.waitstatus_to_exitcode(status)
            if time.monotonic() >= end:
                return None
            time.sleep(0.0005)

    def said(self) -> str:
        """Return the output after the end of the process; less than a pipe's buffer of 64 KiB."""
        with open(self._output, "rb") as output:
            return output.read().decode(errors="replace")


def _live(work: Callable[[], int], output: int) -> NoReturn:
    status = 70
    try:
        os.dup2(output, 1)
        os.dup2(output, 2)
        sys.stdout, sys.stderr = (open(number, "w", buffering=1, closefd=False) for number in (1, 2))  # noqa: SIM115
        signal.signal(signal.SIGINT, signal.default_int_handler)
        for each in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(each, signal.SIG_DFL)
        status = work()
        sys.stdout.flush()
        sys.stderr.flush()
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)


# ---- Fingerprint -------------------------------------------------------------------------------------------------


def fingerprint(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of every part of a run's result, times excluded."""
    parts: dict[str, Any] = {}
    for path in sorted((folder / "checkpoints").glob("*.safetensors")):
        arrays, state = checkpoints.load(path)
        for name in ("elapsed_s", "interval.start_s", "log_offset") if path.name.startswith("step-") else ():
            *parents, last = name.split(".")
            place = state
            for parent in parents:
                place = place[parent]
            del place[last]
        for name, array in arrays.items():
            parts[f"{path.name} {name}"] = (str(array.dtype), array.shape, array.tobytes().hex())
        parts[f"{path.name} state"] = state
    records = [
        {key: value for key, value in record.items() if key not in CLOCK_KEYS} for record in read_log(folder / LOG_NAME)
    ]
    parts[LOG_NAME] = records
    for name in (HYPOTHESES_NAME, VOCABULARY_NAME):
        parts[name] = (folder / name).read_bytes().hex() if (folder / name).exists() else None
    return {name: hashlib.sha256(json.dumps(part).encode()).hexdigest() for name, part in parts.items()}


def differences(one: dict[str, str], other: dict[str, str]) -> list[str]:
    """Return the names of the parts that differ or that only one run has."""
    return sorted(name for name in one.keys() | other.keys() if one.get(name) != other.get(name))


def flip(path: Path, position: int, bit: int) -> None:
    """Flip one bit of a file."""
    with open(path, "r+b") as file:
        file.seek(position)
        (byte,) = file.read(1)
        file.seek(position)
        file.write(bytes([byte ^ 1 << bit]))


# ---- Runs that must come to the same -----------------------------------------------------------------------------


class LostError(AssertionError):
    """A run did not end as it should have."""


@dataclass
class Ground:
    """A directory for runs of one configuration, and the fingerprint with which each of them must end."""

    folder: Path
    flags: list[str]
    expected: dict[str, str] = field(default_factory=dict)
    duration_s: float = 0.0  # of a run that nothing happens to
    said: str = ""  # by the last process, on standard output and standard error
    made: int = 0

    def new(self) -> Path:
        """A directory for a new run."""
        self.made += 1
        return self.folder / f"run-{self.made}"

    def child(self, work: Callable[[], int], timeout_s: float | None = None) -> int:
        """Run `work` in a process, kill it after `timeout_s`; return its exit status."""
        child = Child(work)
        status = child.wait(timeout_s)
        if status is None:
            os.kill(child.pid, signal.SIGKILL)
            status = child.wait()
        self.said = child.said()
        check("Traceback" not in self.said, f"a traceback: {self.said[-2000:]}")
        assert status is not None
        return status

    def make_reference(self) -> None:
        """Make the reference fingerprint."""
        run, start = self.new(), time.perf_counter()
        with redirect_stderr(io.StringIO()) as said:
            status = call(start_or_resume(run, self.flags))
        self.duration_s = time.perf_counter() - start
        check(status == 0, f"the reference run ended with {status}: {said.getvalue()}")
        self.expected = fingerprint(run)
        shutil.rmtree(run)

    def finish(self, run: Path, *changes: str) -> None:
        """Resume a run, and compare the result with the reference.  Raises: LostError"""
        status = self.child(lambda: call(start_or_resume(run, self.flags, *changes)))
        check(status == 0, f"going on ended with {status}: {self.said[-2000:]}")
        self.compare(run)

    def compare(self, run: Path) -> None:
        """Delete a run.  Raises: LostError if its fingerprint differs from the reference or partial files remain"""
        found = differences(fingerprint(run), self.expected)
        check(not found, f"{run} differs in {', '.join(found[:5])}")
        left = list(run.rglob(".*.partial"))
        check(not left, f"leftovers remain: {left}")
        shutil.rmtree(run)


@contextmanager
def prepared_ground() -> Iterator[Ground]:
    """A temporary directory with a corpus and the reference fingerprint, readable by every user."""
    with tempfile.TemporaryDirectory(prefix="minitf-runs-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        ground = Ground(folder, [*write_corpus(folder), *FLAGS])
        ground.make_reference()
        yield ground


def check(condition: bool, message: str) -> None:
    if not condition:
        raise LostError(message)
