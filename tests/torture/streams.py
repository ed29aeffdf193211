"""Every option of every command that names a file, given a pipe, a device, a folder or a socket: nothing is waited for,
and nothing that can be read only once is read twice."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from minitf.app import commands
from minitf.system import files
from minitf.system.process import run_command
from tests.helpers.runs import Child, Ground, check
from tests.torture.kills import Tally

LONGEST_S = 20
SENTENCES = "the cat\nthe dog sees the house\n"
KINDS = ("pipe without end", "substitution", "folder", "/dev/zero", "/dev/null", "/dev/full", "socket", "gone")


class Option:
    """A command line in which `{}` is the file, and what is expected of process substitution there."""

    def __init__(self, line: str, substitution: str = "", *, output: bool = False, text: str = SENTENCES):
        self.words, self.refusal, self.is_output, self.text = line.split(), substitution, output, text
        self.may_be_endless = any(f"--{name} {{}}" in line for name in ("reference", "prefix", "score"))


ONCE = "is a pipe or device"
TRAIN = "train --max-steps 1 --save-every 1 --output OUT/run FLAGS"
TRANSLATE = "translate RUN --quiet --threads 1 --beam 1 --max-extra-length 1"


def options() -> list[Option]:
    """All options that name files; a missing one is found by `test_every_option_that_names_a_file_is_tried`."""
    trees = "(TOP (S (NP (DT the) (NN cat)) (VP (VB sits))))\n" * 30
    tree_run = "train --preset parsing-tiny --vocab-size 300 --max-steps 1 --output OUT/run"
    return [
        *(Option(f"{TRAIN} --{name} {{}} TEXT", ONCE) for name in ("train", "valid", "test")),
        *(Option(f"{TRAIN} --{name} TEXT {{}}", ONCE) for name in ("train", "valid", "test")),
        Option(f"{TRAIN} --vocabulary {{}}", "is not a regular file"),
        Option(f"{TRAIN} --init {{}}", "is not a directory"),
        Option(f"{TRAIN} --data multi30k --data-dir {{}}", "cannot create the folder"),
        Option("train --resume {}", "contains no run"),
        Option(f"{tree_run} --parsing.trees {{}}", ONCE, text=trees),
        Option(f"{tree_run} --parsing.trees TREES --parsing.valid-trees {{}}", ONCE, text=trees),
        Option(f"{tree_run} --parsing.trees TREES --parsing.test-trees {{}}", ONCE, text=trees),
        Option("train --max-steps 1 FLAGS --output {}", "", output=True),
        Option(f"{TRANSLATE} --input {{}}"),
        *(Option(f"{TRANSLATE} --input TEXT --{name} {{}}") for name in ("reference", "prefix", "score")),
        Option(f"{TRANSLATE} --input TEXT --shortlist {{}}", text="e e 0.5\na o 0.25\n"),
        *(Option(f"{TRANSLATE} --input TEXT --{name} {{}}", output=True) for name in ("output", "attention")),
        Option("translate {} --input TEXT", "is not a directory"),
        Option("translate RUN {} --input TEXT", "is not a directory"),
        Option("bleu {} TEXT --resamples 2"),
        Option("bleu TEXT {} --resamples 2"),
        Option("parse evalb {} TREES", text=trees),
        Option("parse evalb TREES {}", text=trees),
        Option("parse evalb TREES TREES --parameters {}", text="CUTOFF_LEN 40\n"),
        Option("parse treebank {} --train-trees 9 --valid-trees 2 --test-trees 2", output=True),
        Option("corpus {} --train-pairs 9 --valid-pairs 2 --test-pairs 2", output=True),
        Option("statistics {} TEXT"),
        Option("statistics TEXT {}"),
        Option("statistics {} TEXT --held-out OTHER OTHER", ONCE),
        Option("statistics TEXT TEXT --held-out {} OTHER", "are also in"),
        Option("split {} LONG --valid 1 --test 1 --output OUT/cut", text="".join(f"line {i}\n" for i in range(60))),
        Option("split LONG {} --valid 1 --test 1 --output OUT/cut", text="".join(f"line {i}\n" for i in range(60))),
        Option("split LONG LONG --valid 1 --test 1 --output {}", output=True),
        Option("report {}", "is not a directory"),
        Option("report RUN --output {}", output=True),
        Option("step {}", "is not a directory"),
        Option("step --output {}", output=True),
        Option("pack {}", "is not a directory"),
        Option("pack RUN --output {}", output=True),
        Option("import {} OUT/imported", "contains no supported model"),
        Option("import MODEL {}", output=True),
        Option("export {} OUT/exported --format safetensors", "is not a directory"),
        Option("export RUN {} --format safetensors", output=True),
        Option("presets --write {}", "is not a regular file"),
    ]  # fmt: skip


def every_option_ends(
    ground: Ground, tally: Tally, halfway: Path, kinds: Sequence[str] = KINDS, every: int = 1
) -> None:
    """Each option with each kind of file, in this process: a result or one sentence, in time."""
    room = ground.new()
    room.mkdir()
    for name, text in (
        ("text", SENTENCES),
        ("other", "ein Hund\nzwei Hunde\n"),
        ("long", "".join(f"{i}\n" for i in range(60))),
    ):
        (room / name).write_text(text)
    (room / "trees").write_text("(TOP (S (NP (DT the) (NN cat)) (VP (VB sits))))\n" * 30)
    before = [os.stat(path).st_rdev for path in ("/dev/null", "/dev/zero", "/dev/full")]
    for number, option in enumerate(options()):
        for place, kind in enumerate((*kinds, "endless") if option.may_be_endless else kinds):
            if (number + place) % every == 0:
                with tally.trial(f"{kind}: {' '.join(option.words)[:200]}"):
                    try_option(ground, room, halfway, option, kind)
    after = [os.stat(path).st_rdev for path in ("/dev/null", "/dev/zero", "/dev/full")]
    check(before == after and stat.S_ISCHR(os.stat("/dev/null").st_mode), "a device was replaced by a file")
    shutil.rmtree(room)


def try_option(ground: Ground, room: Path, halfway: Path, option: Option, kind: str) -> None:
    """Run a command in a child, with a file of a kind."""
    shutil.rmtree(room / "out", ignore_errors=True)
    (room / "out").mkdir()
    place = room / "out" / "file"
    with given(place, kind, option) as path:
        names = {"{}": path, "RUN": halfway, "TEXT": room / "text", "OTHER": room / "other", "LONG": room / "long"}
        names |= {"TREES": room / "trees", "MODEL": halfway}
        argv: list[str] = []
        for word in option.words:
            if word == "FLAGS":
                argv += small_run(ground, option)
            else:
                argv.append(str(names.get(word, word.replace("OUT", str(room / "out")))))

        def work() -> int:
            signal.alarm(LONGEST_S)
            files.PIPE_WAIT_S = 0.2
            os.chdir(room / "out")
            return run_command(commands.main, argv)

        status = ground.child(work)
    check(status in (0, 2), f"it ended with {status}: {ground.said[-1500:]}")
    check("Traceback" not in ground.said, ground.said[-1500:])
    check(status == 0 or ground.said.count("error: ") == 1, f"not one error: {ground.said[-1500:]}")
    if kind == "substitution" and not option.is_output:
        if option.refusal:
            check(status == 2 and option.refusal in ground.said, f"{status}: {ground.said[-1500:]}")
        else:
            check(status == 0, f"it ended with {status}: {ground.said[-1500:]}")


def small_run(ground: Ground, option: Option) -> Iterator[str]:
    """The flags of a run of one step, without those that the option gives itself."""
    flags = iter(ground.flags)
    given = {word for word in option.words if word.startswith("--")}
    if "--data" in given:
        given |= {"--train", "--valid", "--test"}
    for flag in flags:
        values = [next(flags)]
        if flag in ("--train", "--valid", "--test"):
            values.append(next(flags))
        if flag not in given and not (flag in ("--vocab-size",) and given & {"--init", "--vocabulary"}):
            yield from (flag, *values)


@contextmanager
def given(place: Path, kind: str, option: Option) -> Iterator[str]:
    """Make a file of a kind; yield its path."""
    if kind in ("substitution", "endless"):
        reading, writing = os.pipe()
        mine, theirs = (writing, reading) if option.is_output else (reading, writing)
        text = option.text.encode()
        other_end = Child(
            lambda: drain(reading, writing) if option.is_output else feed(writing, reading, text, kind == "endless")
        )
        os.close(theirs)
        os.set_inheritable(mine, True)
        try:
            yield f"/dev/fd/{mine}"
        finally:
            os.close(mine)
            other_end.wait()
            other_end.said()
        return
    if kind == "pipe without end":
        os.mkfifo(place)
    elif kind == "folder":
        place.mkdir()
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as end:
            end.bind(str(place))
    yield kind if kind.startswith("/dev/") else str(place)


def feed(mine: int, theirs: int, data: bytes, forever: bool) -> int:
    """Write to a pipe; forever: until its reader has gone."""
    os.close(theirs)
    with suppress(BrokenPipeError):
        os.write(mine, data)
        while forever:
            os.write(mine, data)
    return 0


def drain(mine: int, theirs: int) -> int:
    """Read a pipe to its end."""
    os.close(theirs)
    while os.read(mine, 1 << 16):
        pass
    return 0
