"""Folders that are moved, replaced, linked or edited: no two runs mix, and nothing outside of a run changes."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from minitf.app import translate
from minitf.storage import checkpoint_store, checkpoints
from minitf.system.process import run_command
from tests.helpers.runs import Ground, call, check
from tests.torture.faults import checkpoints_of, copy_of, finish, last_steps
from tests.torture.kills import Tally, check_one_error, interfere

Fate = Callable[[Path], None]


def content(folder: Path) -> dict[str, bytes | str | None]:
    """The bytes of every file of a folder, the target of every link; None for a folder."""
    found: dict[str, bytes | str | None] = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        found[name] = os.readlink(path) if path.is_symlink() else path.read_bytes() if path.is_file() else None
    return found


# ---- Another run in its place ------------------------------------------------------------------------------------


def moved(run: Path) -> None:
    run.rename(run.with_name(f"{run.name}-moved"))


def deleted(run: Path) -> None:
    shutil.rmtree(run)


def emptied(run: Path) -> None:
    for part in run.iterdir():
        shutil.rmtree(part) if part.is_dir() else part.unlink()


FATES: Sequence[Fate] = (moved, deleted, emptied)


def another_run_in_its_place(ground: Ground, tally: Tally, halfway: Path, number: int, fate: Fate) -> None:
    """At one file operation of a run, its folder becomes that of another run, which must stay as it is."""
    run, other = ground.new(), content(halfway)
    replaced = ground.folder / f"{run.name}-replaced"

    def replace(function: Callable[..., Any], arguments: Sequence[Any], options: dict[str, Any]) -> Any:
        if (run / "lock").exists():
            fate(run)
            shutil.copytree(halfway, run, dirs_exist_ok=True)
            replaced.touch()
        return function(*arguments, **options)

    def work() -> int:
        interfere(number, replace)
        return call([*ground.flags, "--output", str(run)])

    with tally.trial(f"{fate.__name__} at operation {number}"):
        status = ground.child(work)
        if replaced.exists():
            check(content(run) == other, f"the other run was changed; it ended with {status}: {ground.said}")
            sentences = ("resume the run from where it is now", "No such file or directory", "already contains a run")
            told = any(sentence in ground.said for sentence in sentences)
            check(status == 0 or (status == 2 and told), f"it ended with {status}: {ground.said}")
    shutil.rmtree(run, ignore_errors=True)


def mixed_checkpoints_are_refused(ground: Ground, tally: Tally, halfway: Path) -> None:
    """A checkpoint of a run with another seed among those of a run: neither resumed nor translated with."""
    other = ground.new()
    flags = [*ground.flags, "--output", str(other), "--max-steps", "6", "--seed", "5"]
    check(ground.child(lambda: call(flags)) == 0, ground.said)
    run = copy_of(ground, halfway)
    foreign = [path for path in checkpoints_of(other) if not (run / "checkpoints" / path.name).exists()]
    for path in foreign or checkpoints_of(other)[:1]:
        shutil.copy(path, run / "checkpoints" / path.name)
    for name, argv in (("resume", ["--resume", str(run)]), ("translate", None)):
        with tally.trial(name):
            status = ground.child(lambda argv=argv: call(argv) if argv else translated(ground, run))
            check_one_error(ground, status, "holds checkpoints of 2 runs")


def translated(ground: Ground, run: Path, *flags: str) -> int:
    argv = [str(run), "--input", str(ground.folder / "test.en"), "--output", str(ground.folder / "out"), *flags]
    return run_command(translate.main, argv)


# ---- Links -------------------------------------------------------------------------------------------------------

LINKED = (
    *("lock", "log.jsonl", "test.hypotheses", "report.html", "config.json", "environment.json", "vocabulary.model"),
    *("checkpoints", "data", "data/train", "data/valid", "data/texts", "data/train/prepare.lock"),
    *("data/train/prepared.json", "data/texts/test.source"),
)


def links_lead_nowhere(ground: Ground, tally: Tally, halfway: Path, names: Sequence[str] = LINKED) -> None:
    """A part of a run is a link to a file or folder outside, or to nothing: resuming changes nothing outside."""
    for name in names:
        for kind in ("absolute", "relative", "dangling", "hard"):
            run, outside = copy_of(ground, halfway), ground.new()
            outside.mkdir()
            if not make_link(run / name, outside / "target", kind):
                continue
            before = content(outside)
            with tally.trial(f"{name}, {kind}"):
                status = ground.child(lambda run=run: call(["--resume", str(run), *last_steps(ground)]))
                check(content(outside) == before, f"something outside has changed; it ended with {status}")
                if status != 0:
                    check_one_error(ground, status)
            shutil.rmtree(run)


def make_link(path: Path, target: Path, kind: str) -> bool:
    """Move a part of a run outside and put a link in its place; return whether that can be."""
    if not path.exists():
        if kind != "absolute":
            return False
        target.write_text("precious")
    elif kind == "hard":
        if path.is_dir():
            return False
        os.link(path, target)
        return True
    elif kind == "dangling":
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    else:
        path.rename(target)
        if target.is_dir():
            (target / ".prepared.json.01234567.partial").write_text("of someone else")
    path.symlink_to(os.path.relpath(target, path.parent) if kind == "relative" else target)
    return True


def old_checkpoints_are_used(ground: Ground, tally: Tally, halfway: Path) -> None:
    """Checkpoints without an origin, as earlier versions wrote them: no alarm, and the same result."""
    run = copy_of(ground, halfway)
    for path in (run / "checkpoints").glob("*.safetensors"):
        checkpoint_store.save(path, *checkpoints.load(path))
    with tally.trial("no origin"):
        status = ground.child(lambda: translated(ground, run))
        check(status == 0, f"it ended with {status}: {ground.said}")
        finish(ground, run)
