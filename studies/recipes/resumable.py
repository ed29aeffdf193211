"""Runs that a recipe makes, one after the other or several at once: begun, gone on with, and left alone once done."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = Path(__file__).with_name("train_fields.py")
sys.path.insert(0, str(ROOT))  # also without an installation

from additions.pages.run_log import read_log  # noqa: E402
from autograd.fast import available_cores  # noqa: E402
from minitf.errors import UserError  # noqa: E402
from minitf.storage.run_directory import CHECKPOINTS_NAME, CONFIG_NAME, LOG_NAME  # noqa: E402
from minitf.system.files import atomic_write  # noqa: E402
from minitf.system.process import say  # noqa: E402


def train_all(runs: Mapping[Path, list[str]], jobs: int = 1, *, in_order: bool = True) -> Iterator[Path]:
    """Train runs, given with their flags, `jobs` of them at once; yields each when it is done.

    in_order: yield each only when those before it are done as well

    Several at once share the cores, so each has fewer threads, and waits less for them: on few cores, small models are
    done sooner. What they print goes into a file beside each run, named after it.

    Raises: UserError where training fails; the others save, stop, and go on when they are asked for again.
    """
    if jobs < 1:
        raise UserError(f"jobs={jobs} would train nothing; choose 1 or more")
    if jobs == 1:
        for run, flags in runs.items():
            train(run, flags)
            yield run
        return
    threads = ["--threads", str(max(1, available_cores() // jobs))]
    together = Together()
    failures: list[Exception] = []

    def work(run: Path, flags: list[str]) -> None:
        try:
            train(run, flags, together.program_for(run))
        except Exception as error:
            failures.append(error)
            together.stop()  # now, whichever is waited for

    pool = ThreadPoolExecutor(jobs)
    try:
        futures: dict[Future[None], Path] = {}
        for run, flags in runs.items():
            has_own = any(flag.split("=")[0] == "--threads" for flag in flags)
            futures[pool.submit(work, run, flags if has_own else [*flags, *threads])] = run
        for future in futures if in_order else as_completed(futures):
            future.result()
            if failures:
                raise failures[0]
            yield futures[future]
    except BaseException:
        together.stop()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def seeded(flags: list[str], seed: int) -> list[str]:
    """The flags of a run of this seed.  Raises: UserError where they name one themselves"""
    if any(flag.split("=")[0] == "--seed" for flag in flags):
        raise UserError("--seed is of one run; give --seeds, with as many as you like")
    return [*flags, "--seed", str(seed)]


def train(run: Path, flags: list[str], call: Callable[[list[str]], int] | None = None) -> None:
    """Start the run, or go on with it; nothing happens to one that is done.

    Raises: UserError where training fails, which has said why.
    """
    if final_score(run) is not None:
        return
    layers = [flag for flag in flags if flag.startswith("@")]  # of train_fields.py; config.json does not name them
    has_begun = (run / CONFIG_NAME).exists() and any((run / CHECKPOINTS_NAME).glob("step-*"))
    status = (call or call_train)(["--resume", str(run), *layers] if has_begun else [*flags, "--output", str(run)])
    if status:
        raise UserError(f"training {run} ended with status {status}; once its cause is mended, run this again")


def call_train(argv: list[str]) -> int:
    """train.py in a process of its own; its exit status."""
    return subprocess.run([sys.executable, str(PROGRAM), *argv], check=False).returncode


class Together:
    """Processes of train.py that are stopped together."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.running: set[subprocess.Popen[bytes]] = set()
        self.stopped = False

    def program_for(self, run: Path) -> Callable[[list[str]], int]:
        """As `call_train`, with what it prints at the end of a file beside the run; called in a thread of its own."""

        def call(argv: list[str]) -> int:
            log = run.with_name(f"{run.name}.log")
            log.parent.mkdir(parents=True, exist_ok=True)
            with log.open("ab") as file, self.lock:
                if self.stopped:
                    return 128 + signal.SIGINT
                say(f"{run}: training; what it says is in {log}")
                # a session of its own: Ctrl-C in the terminal comes here alone, and is passed on once
                process = subprocess.Popen(
                    [sys.executable, str(PROGRAM), *argv], stdout=file, stderr=file, start_new_session=True
                )
                self.running.add(process)
            status = process.wait()
            with self.lock:
                self.running.discard(process)
            if status:
                say(f"{run}: status {status}; the reason is at the end of {log}")
            return status

        return call

    def stop(self) -> None:
        """Let all that run finish their step, save and end; nothing else is started."""
        with self.lock:
            if self.stopped:
                return  # told twice, they would stop at once, without saving
            self.stopped = True
            for process in self.running:
                process.send_signal(signal.SIGINT)


def final_score(run: Path) -> dict[str, Any] | None:
    """The last line of a run's log, with the BLEU of its test text; None for a run that has not come to it."""
    records = read_log(run / LOG_NAME) if (run / LOG_NAME).exists() else []
    return records[-1] if records and "bleu" in records[-1] else None


def write(path: Path, text: str) -> None:
    """The text as a file, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(path, "w") as file:
        file.write(text)


def write_within(page: Path, mark: str, text: str | None) -> None:
    """Replace what stands in a page between its lines `<!-- mark -->` and `<!-- end of mark -->`; None: only look.

    Raises: UserError for a page without these lines
    """
    first, last = f"<!-- {mark} -->", f"<!-- end of {mark} -->"
    before, begin, rest = page.read_text(encoding="utf-8").partition(first)
    _, end, after = rest.partition(last)
    if not (begin and end):
        raise UserError(f"{page} has no lines {first} and {last}; put them where the results are to stand")
    if text is not None:
        write(page, f"{before}{first}\n\n{text}\n{last}{after}")


def minutes(run: Path) -> float:
    """Time spent in the loop of training, over all resumptions."""
    return max(record["elapsed_s"] for record in read_log(run / LOG_NAME) if "elapsed_s" in record) / 60
