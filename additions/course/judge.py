"""Run the checks of an exercise on an answer, with a time limit; `verdict.py` starts it in a separate process.

    python -m additions.course.judge LABEL FILE SECONDS

reads a secret and a descriptor or path from standard input, and writes the secret and the verdict as JSON to it;
standard output is the answer's own.
"""

from __future__ import annotations

import inspect
import json
import linecache
import os
import re
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from functools import partial
from importlib import import_module
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any

try:
    import resource
except ImportError:  # on Windows
    resource = None  # type: ignore[assignment]

import numpy as np

from additions.course.exercise import Exercise, find
from additions.course.expect import Wrong, equal, results_alone
from additions.course.variants import variants
from additions.course.verdict import LIMIT_S, MEMORY_BYTES, Verdict

_REDUCTION = re.compile(r"\.(sum|mean|max|std|var)\((?!.*keepdims)")
NAMING_S = 5.0  # of processor time, in which mistakes are tried
SYMPTOM = "the symptom is still there, as in the file that was given out"
_NO_CAUSE = re.compile(r"\nlikely cause: no known.*")
MOST_OUTPUT = 5000  # characters of a message that are shown


@contextmanager
def memory_limited(more_bytes: int) -> Iterator[None]:
    """Context manager that bounds the addresses of this process, and of those it starts: those it has and `more_bytes`.

    Beyond them, Python and NumPy raise MemoryError. Only Linux says what a process has; elsewhere, nothing is bounded.
    """
    statm = Path("/proc/self/statm")
    if resource is None or not statm.exists():
        yield
        return
    taken = int(statm.read_text().split()[0]) * resource.getpagesize()
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    limits = [taken + more_bytes, *(each for each in (soft, hard) if each != resource.RLIM_INFINITY)]
    resource.setrlimit(resource.RLIMIT_AS, (min(limits), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


class TooLong(BaseException):
    """The time limit is reached; no Exception, which an answer might catch."""


def main(words: Sequence[str]) -> None:
    """Judge one exercise.  words: its label, the path of the answer, the time limit in seconds"""
    label, path, limit_s = words
    text = Path(path).read_text(encoding="utf-8-sig")
    hand_in(lambda: judge(find(label), text, path, float(limit_s)))


def hand_in(judged: Callable[[], Verdict]) -> None:
    """Write a verdict to where the process that asks for it reads."""
    secret, place = sys.stdin.read().split(maxsplit=1)
    own_process = os.getpid()
    verdict = judged()
    if os.getpid() == own_process:  # and not a copy that the answer has forked
        with open(int(place) if place.isdecimal() else place, "wb") as file:
            file.write((secret + json.dumps(asdict(verdict)) + "\n").encode())


def judge(exercise: Exercise, text: str, path: str = "answer.py", limit_s: float = LIMIT_S) -> Verdict:
    """Check an answer in this process: run the checks in order until one fails."""
    folder = exercise.path.parent.name
    solution = import_module(f"additions.course.{folder}.{exercise.name}")

    def checks() -> Iterator[tuple[str, Callable[[], None]]]:
        answer = Answer(text, path)
        for check in _checks(solution):
            yield inspect.getdoc(check) or check.__name__, partial(run_check, check, answer, exercise, solution)

    return run_checks(checks(), {path: text}, limit_s)


def run_checks(checks: Iterator[tuple[str, Callable[[], None]]], texts: Mapping[str, str], limit_s: float) -> Verdict:
    """Run checks, each with its description, in order until one raises.

    texts: the answer's files; an error is shown with their lines
    """
    for path, text in texts.items():
        linecache.cache[path] = (len(text), None, text.splitlines(keepends=True), path)
    passed: list[str] = []
    what = "the file"
    try:
        with _time_limited(limit_s), memory_limited(MEMORY_BYTES), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for what, check in checks:
                check()
                passed.append(what)
    except (Exception, SystemExit, TooLong) as error:
        message = explained(error, [*texts], limit_s)
        return Verdict(tuple(passed), what, message[:MOST_OUTPUT])
    return Verdict(tuple(passed))


@contextmanager
def _time_limited(limit_s: float) -> Iterator[None]:
    """Context manager that raises TooLong after the limit; on Windows, `judge_file` alone ends what takes too long."""
    if not hasattr(signal, "SIGALRM"):
        yield
        return
    before = signal.signal(signal.SIGALRM, _stop)
    signal.setitimer(signal.ITIMER_REAL, limit_s)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _run(check: Callable[[Any], Any], answer: Any, solution: Any) -> None:
    """Run a check; the results that it yields, with their names, are to be those of the solution."""
    solution.RNG = np.random.default_rng(7)  # a check draws the same for each answer
    if not inspect.isgeneratorfunction(check):
        check(answer)
        return
    expected = [right for _, right in check(solution)]
    solution.RNG = np.random.default_rng(7)
    for (what, found), right in zip(check(answer), expected, strict=True):
        equal(what, found, right)


def run_check(check: Callable[[Any], Any], answer: Any, exercise: Exercise, solution: Any) -> None:
    """Run a check.  Raises: Wrong with the mistake that gives the same results, if one is known"""
    try:
        _run(check, answer, solution)
    except Wrong as wrong:
        raise _named(wrong, check, exercise, solution) from None


def _named(wrong: Wrong, check: Callable[[Any], Any], exercise: Exercise, solution: Any) -> Wrong:
    """Return the error with the mistake that gives the same results, if one is known, and with a picture of them."""
    if not wrong.found:
        return wrong
    with results_alone(), suppress(TooLong):
        right = _results(check, exercise.solution, solution)
        if right:
            wrong = wrong.first_beside(right.found)
        until = time.process_time() + NAMING_S
        for message, text, is_known in _mistakes(exercise, solution):
            if (wrong.is_named and not is_known) or time.process_time() > until:
                break
            mistaken = _results(check, text, solution)
            if mistaken and wrong.is_like(mistaken.first_beside(right.found) if right else mistaken):
                if exercise.is_bug:
                    return Wrong(message)
                if exercise.kind == "explain":
                    return Wrong(f"{wrong}\n{message}")
                numbers = "" if is_known else f"\n{_NO_CAUSE.sub('', str(wrong))}"
                return Wrong(f"{wrong.what}: {message}{numbers if right else ''}{wrong.picture}")
    return Wrong(f"{wrong}{wrong.picture}")


def _results(check: Callable[[Any], Any], text: str, solution: Any) -> Wrong | None:
    """Return the results of a program that a check finds wrong; None if it ends in another error, or is right."""
    with suppress(Exception), np.errstate(all="ignore"):
        try:
            _run(check, Answer(text, "mistake.py"), solution)
        except Wrong as wrong:
            return wrong
    return None


def _mistakes(exercise: Exercise, solution: Any) -> Iterator[tuple[str, str, bool]]:
    """Yield mistakes, the programs that have them, and whether the exercise knows them; those by rule come last.

    MISTAKES of an exercise: a message, and texts of the solution, each with what stands there by mistake. A bug has
    one, and its message says nothing of the line.
    """
    if exercise.is_bug:
        yield SYMPTOM, exercise.starter, True
        return
    for message, *texts in getattr(solution, "MISTAKES", ()):
        text = exercise.solution
        for right, other in zip(texts[::2], texts[1::2], strict=True):
            text = text.replace(right, other)
        yield message, text, True
    for message, text in variants(exercise.marked):
        yield message, text, False


def _stop(*_: Any) -> None:
    raise TooLong


def _checks(module: Any) -> list[Callable[[Any], Any]]:
    return [value for name, value in vars(module).items() if name.startswith("check_")]


class Answer:
    """The names of a student's file."""

    def __init__(self, text: str, path: str):
        module = sys.modules["answer"] = ModuleType("answer")  # where dataclasses look for the names of their module
        module.__file__, self._names = path, vars(module)
        exec(compile(text, path, "exec", dont_inherit=True), self._names)

    def __getattr__(self, name: str) -> Any:
        if name not in self._names:
            raise Wrong(f"the file has no {name}; `minitf learn start N --force` writes the original file")
        return self._names[name]


def explained(error: BaseException, paths: Sequence[str], limit_s: float) -> str:
    """Explain an exception to a student: the message of a check, or the lines of the answer that raised it."""
    if isinstance(error, Wrong):
        return str(error)
    frames = _own_frames(error.__traceback__, paths)
    last = _line(frames[-1], paths) if frames else "the answer"
    if isinstance(error, TooLong):
        where = f" at {last}: `{frames[-1].line}`" if frames else ""
        return f"no result within {limit_s:g} s{where}; is there an infinite loop?"
    if isinstance(error, NotImplementedError) and frames:
        return f"{frames[-1].name} is not written yet ({last})"
    if isinstance(error, MemoryError):
        needs = f"{last} needs more than {MEMORY_BYTES // 2**20:,} MiB of memory ({str(error) or 'MemoryError'})"
        return f"{needs}; is there a list or an array that grows forever?"
    if isinstance(error, SyntaxError):
        return "".join(traceback.format_exception_only(error)).rstrip()
    lines = [f"  {_line(frame, paths)}, in {frame.name}\n    {frame.line}" for frame in frames]
    kind = type(error).__name__
    uses_t = any(".T" in (frame.line or "") for frame in frames)
    notes = [note for note in getattr(error, "__notes__", []) if uses_t or ".T " not in note]  # of what was not done
    if frames and "broadcast" in str(error) and _REDUCTION.search(frames[-1].line or ""):
        notes.append("a reduction such as .sum(axis=-1) removes the axis; with keepdims=True it stays, with size 1")
    return "\n".join([f"the answer raises {kind}:", *lines, f"{kind}: {error}", *notes])


def _own_frames(trace: TracebackType | None, paths: Sequence[str]) -> list[traceback.FrameSummary]:
    return [frame for frame in traceback.extract_tb(trace) if frame.filename in paths][-8:]


def _line(frame: traceback.FrameSummary, paths: Sequence[str]) -> str:
    """Return the line of a frame, with its file where the answer has several."""
    return f"{Path(frame.filename).name}, line {frame.lineno}" if len(paths) > 1 else f"line {frame.lineno}"


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except KeyboardInterrupt:  # the process that asks says so
        sys.exit(130)
