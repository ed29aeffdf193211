"""Faults of the file system and of streams: damaged files, full and read-only disks, readers that leave."""

from __future__ import annotations

import json
import os
import random
import resource
import shutil
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from minitf.storage import checkpoints
from minitf.storage.checkpoints import DamagedCheckpointError, verify
from minitf.storage.locked_run import LockedRun
from minitf.storage.run_directory import CONFIG_NAME, ENVIRONMENT_NAME, LOG_NAME, VOCABULARY_NAME, RunDirectory
from tests.helpers.runs import Child, Ground, call, check, flip, start_or_resume
from tests.torture.kills import PROGRAM, Tally, check_one_error

HALFWAY = 9  # steps; the last checkpoint is off the schedule then

Harm = Callable[[Path], None]


def make_halfway(ground: Ground) -> Path:
    """Make a run that stopped before its end; tests damage copies of it."""
    run = ground.folder / "halfway"
    status = ground.child(lambda: call([*ground.flags, "--output", str(run), "--max-steps", str(HALFWAY)]))
    check(status == 0, f"the run to be harmed ended with {status}: {ground.said}")
    return run


def copy_of(ground: Ground, run: Path) -> Path:
    copy = ground.new()
    shutil.copytree(run, copy)
    return copy


def last_steps(ground: Ground) -> list[str]:
    """The flags that train a copy of the halfway run to the last step of the reference."""
    return ["--max-steps", ground.flags[ground.flags.index("--max-steps") + 1]]


def finish(ground: Ground, run: Path, *words: str) -> None:
    """Resume a run, expect `words` in its output, and compare the result with the reference."""
    for path in run.rglob("*.damaged"):
        path.unlink()
    status = ground.child(lambda: call(["--resume", str(run), *last_steps(ground)]))
    check(status == 0, f"it ended with {status}: {ground.said}")
    for word in words:
        check(word in ground.said, f"{word!r} is not in the output: {ground.said}")
    ground.compare(run)


# ---- Damaged checkpoints -----------------------------------------------------------------------------------------


def checkpoints_of(run: Path) -> list[Path]:
    return sorted((run / "checkpoints").glob("step-*.safetensors"))


def regions(path: Path) -> Iterator[tuple[str, int, int]]:
    """Yield (name, begin, end) of every part of a checkpoint file."""
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    yield "length of the header", 0, 8
    yield "header", 8, 8 + length
    header = json.loads(data[8 : 8 + length])
    for name in sorted(header.keys() - {"__metadata__"}):
        begin, end = header[name]["data_offsets"]
        yield name, 8 + length + begin, 8 + length + end


def is_damaged(path: Path) -> bool:
    try:
        verify(path)
    except DamagedCheckpointError:
        return True
    return False


def flips_are_found(ground: Ground, tally: Tally, halfway: Path, draw: random.Random, share: float) -> None:
    """A flipped bit is detected: in each byte of the header (or a fraction `share`), at three places of every tensor
    (or a fifth of them)."""
    path = ground.folder / "flipped.safetensors"
    shutil.copy(checkpoints_of(halfway)[-1], path)
    for what, begin, end in regions(path):
        is_head = what in ("length of the header", "header")
        positions = range(begin, end) if is_head else sorted({begin, end - 1, draw.randrange(begin, end)})
        for position in positions:
            if draw.random() >= (share if is_head else max(share, 0.2)):
                continue
            bit = draw.randrange(8)
            with tally.trial(f"bit {bit} of byte {position}, in {what}"):
                flip(path, position, bit)
                check(is_damaged(path), "not found")
                flip(path, position, bit)
    check(not is_damaged(path), "the file itself is damaged")


def lengths(path: Path) -> list[int]:
    """Lengths to truncate a file to: 0, within each part, and at each boundary."""
    places = {0, 1}
    for _, begin, end in regions(path):
        places |= {begin, begin + 1, (begin + end) // 2, end - 1}
    return sorted(places - {path.stat().st_size})


def cuts_are_found(ground: Ground, tally: Tally, halfway: Path, every: int = 1) -> None:
    """A truncated or extended file is detected, for every class of length (or one of `every`)."""
    whole = checkpoints_of(halfway)[-1].read_bytes()
    path = ground.folder / "cut.safetensors"
    path.write_bytes(whole)
    for length in lengths(path)[::every]:
        with tally.trial(f"cut to {length} bytes"):
            path.write_bytes(whole[:length])
            check(is_damaged(path), "not found")
    for more in (1, 8, 4096):
        with tally.trial(f"{more} bytes more"):
            path.write_bytes(whole + bytes(more))
            check(is_damaged(path), "not found")


def damaged_is_survived(ground: Ground, tally: Tally, halfway: Path, draw: random.Random, trials: int) -> None:
    """The one or two newest checkpoints damaged: a warning, and the run resumes from the newest intact one."""
    for trial in range(trials):
        run = copy_of(ground, halfway)
        harmed = checkpoints_of(run)[-1 - trial % 2 :]
        with tally.trial(f"{len(harmed)} of them, trial {trial}"):
            for path in harmed:
                size = path.stat().st_size
                if draw.random() < 0.5:
                    flip(path, draw.randrange(size), draw.randrange(8))
                else:
                    os.truncate(path, draw.choice([0, draw.randrange(size)]))
            told = [f"warning: the checkpoint {path} is damaged" for path in harmed]
            status = ground.child(lambda run=run: call(["--resume", str(run), *last_steps(ground)]))
            check(status == 0, f"it ended with {status}: {ground.said}")
            check(all(each in ground.said for each in told), f"no warning: {ground.said}")
            finish(ground, run)


def all_damaged_is_told(ground: Ground, tally: Tally, halfway: Path) -> None:
    """All checkpoints damaged: one error, and nothing is deleted."""
    run = copy_of(ground, halfway)
    with tally.trial("all"):
        for path in checkpoints_of(run):
            flip(path, 100, 0)
        before = [path.name for path in checkpoints_of(run)]
        check_one_error(ground, ground.child(lambda: call(["--resume", str(run)])), "none of the", "is intact")
        check([path.name for path in checkpoints_of(run)] == before, "a checkpoint is gone")
        for path in checkpoints_of(run):
            flip(path, 100, 0)
        finish(ground, run)


# ---- Other damaged files -----------------------------------------------------------------------------------------


def append(path: Path, data: bytes) -> None:
    with open(path, "ab") as file:
        file.write(data)


def change_recorded_digests(run: Path) -> None:
    """Flip a bit in the first digest of each description of prepared data."""
    for path in run.glob("data/*/prepared.json"):
        flip(path, path.read_bytes().index(b'"sha256": "') + len(b'"sha256": "') + 5, 0)


def harms(draw: random.Random) -> list[tuple[str, Harm, str]]:
    """(name, damage, words that must be printed): a run with this damage still ends with the same result."""

    def flip_one(pattern: str) -> Harm:
        def harm(run: Path) -> None:
            path = draw.choice(sorted(run.glob(pattern)))
            flip(path, draw.randrange(path.stat().st_size), draw.randrange(8))

        return harm

    def remove(pattern: str) -> Harm:
        return lambda run: draw.choice(sorted(run.glob(pattern))).unlink()

    return [
        ("half a line at the end of the log", lambda run: append(run / LOG_NAME, b'{"step": 1'), ""),
        ("lines of the log that no checkpoint knows", lambda run: append(run / LOG_NAME, b'{"step": 99}\n' * 9), ""),
        ("prepared ids, a bit", flip_one("data/*/*.ids"), ""),
        ("prepared offsets, a bit", flip_one("data/*/*.offsets"), ""),
        ("description of prepared ids, a bit", flip_one("data/*/prepared.json"), ""),
        ("prepared ids gone", remove("data/*/*.ids"), ""),
        ("description of prepared ids, the text's digest", change_recorded_digests, ""),
        ("prepared data gone", lambda run: shutil.rmtree(run / "data"), ""),
        ("vocabulary gone", remove(VOCABULARY_NAME), "learning a joint vocabulary"),
        ("record of versions gone", remove(ENVIRONMENT_NAME), "note: environment.json has gone"),
        ("translations gone", remove("test.hypotheses"), ""),
        (
            "half a checkpoint",
            lambda run: append(run / "checkpoints/.step-00000010.safetensors.00000000.partial", b"x"),
            "",
        ),
        ("half a vocabulary", lambda run: append(run / ".vocabulary.model.00000000.partial", b"x"), ""),
    ]


def other_damage_is_survived(ground: Ground, tally: Tally, halfway: Path, draw: random.Random, every: int = 1) -> None:
    for what, harm, told in harms(draw)[::every]:
        run = copy_of(ground, halfway)
        with tally.trial(what):
            harm(run)
            finish(ground, run, told)


def what_cannot_be_mended_is_told(
    ground: Ground, tally: Tally, halfway: Path, draw: random.Random, trials: int = 3
) -> None:
    """An irreplaceable file damaged: the error names it, and with the file restored the run can be resumed."""
    other = {VOCABULARY_NAME: b"no model", CONFIG_NAME: b"{", ENVIRONMENT_NAME: b"[]"}
    for name, wrong in other.items():
        for content in (wrong, b"", bytes(draw.randrange(256) for _ in range(200)))[:trials]:
            run = copy_of(ground, halfway)
            with tally.trial(f"{name}: {content[:9]!r}"):
                right = (run / name).read_bytes()
                (run / name).write_bytes(content)
                check_one_error(ground, ground.child(lambda run=run: call(["--resume", str(run)])), name)
                (run / name).write_bytes(right)
                finish(ground, run)


# ---- Disks -------------------------------------------------------------------------------------------------------


def full_disk_by_limit(ground: Ground, tally: Tally, draw: random.Random, trials: int, largest: int) -> None:
    """A random limit on file size, as on a full disk; without it the run can be resumed."""
    for _ in range(trials):
        run = ground.new()
        limit = int(largest ** draw.random())

        def work(run: Path = run, limit: int = limit) -> int:
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
            return call(start_or_resume(run, ground.flags))

        with tally.trial(f"files of at most {limit} bytes"):
            check_one_error(ground, ground.child(work), "File too large")
            ground.finish(run)


@contextmanager
def small_disk(ground: Ground, size: int) -> Iterator[Path | None]:
    """Mount a tmpfs of `size` bytes; None without the permission to mount."""
    place = ground.folder / f"disk-{os.getpid()}"
    place.mkdir(exist_ok=True)
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "minitf-test", place], capture_output=True)
    if made.returncode:
        yield None
        return
    try:
        yield place
    finally:
        subprocess.run(["umount", place], check=True)


def can_mount(ground: Ground) -> bool:
    with small_disk(ground, 64_000) as disk:
        return disk is not None


def full_disk(ground: Ground, tally: Tally, draw: random.Random, trials: int, largest: int) -> None:
    """A disk that fills up during training; with more space the run can be resumed."""
    for _ in range(trials):
        size = draw.randrange(40_000, largest)
        with small_disk(ground, size) as disk:
            assert disk is not None
            with tally.trial(f"a disk of {size} bytes"):
                run = disk / "run"
                status = ground.child(lambda run=run: call(start_or_resume(run, ground.flags)))
                check_one_error(ground, status, "No space left")
                subprocess.run(["mount", "-o", "remount,size=64m", disk], check=True)
                ground.finish(run)


def read_only_disk(ground: Ground, tally: Tally, halfway: Path) -> None:
    """A read-only disk, for a new and for a resumed run; writable again, the run can be resumed."""
    with small_disk(ground, 64_000_000) as disk:
        assert disk is not None
        run = disk / "run"
        shutil.copytree(halfway, run)
        subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
        for argv in (["--resume", str(run)], [*ground.flags, "--output", str(disk / "new")]):
            with tally.trial(argv[0]):
                check_one_error(ground, ground.child(lambda argv=argv: call(argv)), "Read-only file system")
        subprocess.run(["mount", "-o", "remount,rw", disk], check=True)
        with tally.trial("writable again"):
            finish(ground, run)


# ---- Others ------------------------------------------------------------------------------------------------------


def two_runs_on_one_folder(ground: Ground, tally: Tally, halfway: Path) -> None:
    """A second process is refused while the first one has the run, and changes nothing."""
    run = copy_of(ground, halfway)
    ready, begun = os.pipe()

    def hold() -> int:
        with LockedRun.resume(run, RunDirectory.open(run).config()):
            os.write(begun, b"x")
            os.read(go_on, 1)
        return 0

    go_on, release = os.pipe()
    first = Child(hold)
    os.read(ready, 1)
    try:
        for argv in (["--resume", str(run)], [*ground.flags, "--output", str(run)]):
            with tally.trial(argv[0]):
                check_one_error(ground, ground.child(lambda argv=argv: call(argv)), "is in use by another process")
    finally:
        os.write(release, b"x")
        first.wait()
        first.said()
        for each in (ready, begun, go_on, release):
            os.close(each)
    with tally.trial("afterwards"):
        finish(ground, run)


ENDINGS = ("2>&1 | true", "2>/dev/full")


def nobody_listens(ground: Ground, tally: Tally, endings: Sequence[str] = ENDINGS) -> None:
    """A reader of the messages that leaves, or a full disk for them: training ends with the same result."""
    command = " ".join([f"'{sys.executable}' -W error '{PROGRAM}'", *(f"'{flag}'" for flag in ground.flags)])
    for ending in endings:
        run = ground.new()
        with tally.trial(ending):
            script = f"{command} --output '{run}' {ending}"
            done = subprocess.run(["bash", "-o", "pipefail", "-c", script], capture_output=True, check=False)
            ground.said = done.stderr.decode(errors="replace") + done.stdout.decode(errors="replace")
            check(done.returncode == 0, f"it ended with {done.returncode}: {ground.said}")
            check("Traceback" not in ground.said and "Exception" not in ground.said, ground.said)
            ground.compare(run)


def checkpoint_bytes(halfway: Path) -> int:
    """Size of a checkpoint, the largest file of a run."""
    return checkpoints.Checkpoints(halfway / "checkpoints").path(HALFWAY).stat().st_size
