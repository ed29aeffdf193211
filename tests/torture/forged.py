"""Command lines of any words: a result or one sentence, no traceback."""

from __future__ import annotations

import json
import os
import random
import resource
import shutil
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from minitf.app import commands
from minitf.app.command_line import flags_of
from minitf.config import RunConfig, TranslateConfig
from minitf.config.options import without_none
from minitf.system import files
from minitf.system.process import run_command
from tests.helpers.runs import Child, Ground
from tests.torture.fuzz import SHORT
from tests.torture.hostile import SPECIAL
from tests.torture.kills import Tally

AT_ONCE = 24  # command lines in one process
PATIENCE_S = 60.0  # for one of them; other programs may use the processor
MEMORY_BYTES = 6 * 2**30

NUMBERS = [0, -1, 1, 2, 3, 7, 2**31, 2**63 - 1, 2**63, 10**30, 10**400, "9" * 5000, "1e300", "-1e300", "nan", "inf"]
NUMBERS += ["1e-320", "0.5", "0.999999", "1_000", "\u0663", "0x10", " 1", "", "none", "-0", "1e400", "true"]
WORDS = [*SPECIAL, "", "-", "--", "-x", "none", "tiny", "a b", "a" * 5000, "\x1b[31mred", "\udcff", "\ud800", "%s%n{0}"]
PATHS = ["absent", ".", "..", "absent/absent", "text", "folder", "a" * 300, "/dev/null", "/dev/full", "binary", "empty"]
STEADY = {"devices", "data", "data_dir", "accumulate", "threads", "resume", "output", "list_presets", "preset"}
"""Flags whose values would start many processes, connect to the network, or compute for hours."""


# ---- Trials ------------------------------------------------------------------------------------------------------


def run_all(ground: Ground, tally: Tally, jobs: Sequence[tuple[str, Callable[[], Any]]]) -> None:
    """Run jobs in a process of their own; each that ends with an exception, or never, is recorded as lost."""
    report = ground.new().with_suffix(".txt")

    def work() -> int:
        null = os.open(os.devnull, os.O_RDWR)
        for descriptor in range(3):
            os.dup2(null, descriptor)
        os.fsync = lambda descriptor: None  # nothing of it must outlast this process
        files.PIPE_WAIT_S = 0.1
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, resource.RLIM_INFINITY))
        with open(report, "w", buffering=1, encoding="utf-8", errors="backslashreplace") as file:
            for what, job in jobs:
                print("begun", json.dumps(what), file=file)
                try:
                    status = job()
                    ended = "ended" if status in (0, 1, 2) else f"lost status {status}"
                except SystemExit as error:  # --help
                    ended = "ended" if error.code == 0 else f"lost exit {error.code}"
                except BaseException:
                    ended = "lost " + json.dumps(traceback.format_exc()[-1500:])
                print(ended, file=file)
        return 0

    report.touch()
    start = time.perf_counter()
    child = Child(work)
    size = -1
    while (status := child.wait(PATIENCE_S)) is None and report.stat().st_size > size:  # it goes on
        size = report.stat().st_size
    if status is None:
        os.kill(child.pid, 9)
        child.wait()
    child.said()
    tally.seconds += time.perf_counter() - start
    lines = report.read_text(encoding="utf-8").splitlines()
    report.unlink()
    tally.tried += len(lines[::2])
    tally.survived += sum(line == "ended" for line in lines[1::2])
    for begun, ended in zip(lines[::2], [*lines[1::2], f"no end: {status}"], strict=False):
        if ended != "ended":
            tally.lost.append(f"{tally.name}: {begun[:1000]}: {ended}")


def started(main: Callable[[Sequence[str]], int | None], argv: Sequence[str]) -> int:
    return run_command(main, [str(word) for word in argv])


# ---- Command lines -----------------------------------------------------------------------------------------------


def command_lines(ground: Ground, tally: Tally, count: int, draw: random.Random, halfway: Path) -> None:
    """Words of every command: its flags with numbers, texts and paths that nobody would give."""
    room = ground.new()
    (room / "folder").mkdir(parents=True)
    (room / "text").write_text("the cat\nthe dog sat\n")
    (room / "binary").write_bytes(b"\xff\x00\x1f\x8b" * 9)
    (room / "empty").touch()
    before = os.getcwd()
    os.chdir(room)
    try:
        while tally.tried < count:
            lines = [command_line(ground, draw, halfway) for _ in range(min(AT_ONCE, count - tally.tried))]
            jobs = [(" ".join(line), lambda line=line: started(commands.main, line)) for line in lines]
            run_all(ground, tally, jobs)
            shutil.rmtree(room / "out", ignore_errors=True)
    finally:
        os.chdir(before)


def command_line(ground: Ground, draw: random.Random, halfway: Path) -> list[str]:
    command = draw.choice(["train", "train", "resume", "translate", "translate", "translate", "others", "words"])
    if command == "train":
        ends = ["--max-steps", "1", "--output", "out"]
        return ["train", *ground.flags, *some_flags(RunConfig, draw), *ends]
    if command == "resume":  # of a folder that is none, or with values that may not change
        run = draw.choice([*PATHS, str(halfway)])
        return ["train", "--resume", run, "--model.heads", "3", *some_flags(RunConfig, draw)]
    if command == "translate":
        run = draw.choice([str(halfway)] * 4 + PATHS)
        return ["translate", run, "--input", "text", *some_flags(TranslateConfig, draw), *SHORT]
    if command == "words":
        return [word(draw) for _ in range(draw.randint(0, 4))]
    name = draw.choice(["bleu", "parse", "report", "pack", "presets"])
    first = draw.choice(["evalb", "treebank", "tokenize", str(halfway), *PATHS])
    if (name, first) == ("parse", "treebank"):  # of the usual size, it takes seconds
        return [name, first, word(draw), "--train-trees", "9", "--valid-trees", "2", "--test-trees", "2"]
    rest = [draw.choice([word(draw), "--json", "--write", "--summary", "--output", "--language"]) for _ in range(3)]
    return [name, first, *rest[: draw.randint(0, 3)]]


def some_flags(config_class: type, draw: random.Random) -> list[str]:
    flags = [flag for flag in flags_of(config_class) if flag.field.name not in STEADY and flag.name.startswith("--")]
    words: list[str] = []
    for flag in draw.sample(flags, draw.randint(1, 2)):
        kind, _ = without_none(flag.field.type)
        if kind is bool:
            words.append(flag.name)
        elif isinstance(flag.field.type, type) or kind in (int, float):
            words += [flag.name, str(draw.choice(NUMBERS))]
        else:
            words += [flag.name, word(draw)]
    return words


def word(draw: random.Random) -> str:
    return str(draw.choice([*NUMBERS, *WORDS, *PATHS])).replace("\0", "")
