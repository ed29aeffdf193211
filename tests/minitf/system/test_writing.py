"""A held folder is written through its descriptor: never where its path has come to lead, never through a link."""

import itertools
import os
import shutil
from contextlib import closing
from pathlib import Path

import pytest

from minitf.errors import UserError
from minitf.storage.log import RunLog
from minitf.system.new_folders import new_folder
from minitf.system.writing import (
    HeldFolder,
    atomic_write,
    clear_away,
    delete,
    exclusive_lock,
    is_held,
    make_folder,
    open_own_file,
    opened,
    remove_leftovers,
    rename,
)
from tests.helpers.patching import record_flushes

OPERATIONS = ("open", "write", "fsync", "fchmod", "rename", "replace", "unlink", "ftruncate", "mkdir", "rmdir")


@pytest.fixture
def held(tmp_path):
    (tmp_path / "run" / "inner").mkdir(parents=True)
    (tmp_path / "run" / "inner" / "old").write_text("old")
    folder = HeldFolder(tmp_path / "run", "lock")
    folder.hold("me")
    yield folder
    folder.close()


def write(path):
    with atomic_write(path) as file:
        file.write(b"new")


def append(path):
    with opened(path.parent) as folder:
        os.close(open_own_file(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, folder))


def log(path):
    with RunLog(path) as file:
        file.append({"step": 1})


def lock(path):
    with exclusive_lock(path):
        pass


CHANGES = {
    "write": write,
    "append": append,
    "log": log,
    "lock": lock,
    "delete": delete,
    "clear": clear_away,
    "rename": lambda path: rename(path, "other"),
    "make": lambda path: make_folder(path.parent / "made"),
    "clean": lambda path: remove_leftovers(path.parent),
}


def content(folder):
    return {path: path.read_bytes() if path.is_file() else None for path in sorted(folder.rglob("*"))}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_every_change_works_inside_it(held, change):
    change(held.path / "inner" / "old")
    change_twice = held.path / "old"
    change_twice.write_text("old")
    change(change_twice)


def moved(path):
    path.rename(path.with_name("elsewhere"))


def emptied(path):
    """Not the folder, but all that is in it: the lock too."""
    for part in path.iterdir():
        shutil.rmtree(part) if part.is_dir() else part.unlink()


@pytest.mark.parametrize("fate", [moved, shutil.rmtree, emptied])
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_nothing_changes_in_a_folder_that_took_its_place(held, fate, change):
    fate(held.path)
    (held.path / "inner").mkdir(parents=True)
    for name in ("lock", "inner/old", "inner/.old.01234567.partial"):
        (held.path / name).write_text("of another run")
    before = content(held.path.parent)
    with pytest.raises(UserError, match=r"was moved, deleted or replaced .*; resume the run from where it is now"):
        change(held.path / "inner" / "old")
    assert content(held.path.parent) == before


@pytest.mark.parametrize("fate", [moved, shutil.rmtree, emptied])
@pytest.mark.parametrize("change", [write, append, log, lock, clear_away, make_folder, remove_leftovers])
@pytest.mark.parametrize("name", ["old", "inner", "inner/old"])
def test_nothing_changes_in_a_folder_that_takes_its_place_in_the_midst(tmp_path, monkeypatch, fate, change, name):
    """At each operation on files; the last number is one that is never reached."""
    for at in itertools.count(1):
        run = tmp_path / str(at) / "run"
        make_run_folder(run, b"old")
        before = {}
        with monkeypatch.context() as patched, closing(HeldFolder(run, "lock")) as folder:
            folder.hold("me")
            numbers = itertools.count(1)

            def wrapped(function, numbers=numbers, at=at, run=run, before=before):
                def act(*arguments, **options):
                    if next(numbers) == at:
                        fate(run)
                        make_run_folder(run, b"of another run")
                        before.update(content(run))
                    return function(*arguments, **options)

                return act

            for each in OPERATIONS:
                patched.setattr(os, each, wrapped(getattr(os, each)))
            said = "resume the run from where it is now"
            try:
                change(run / name)
            except UserError as error:
                said = str(error)
            except OSError:
                said = "of the file, which is a folder or is not there"
        if not before:
            return
        assert "resume the run from where it is now" in said, f"operation {at}"
        assert content(run) == before, f"operation {at}"


def make_run_folder(run, text):
    """What `change` may be called with is there, except the lock, whose absence would be told in another way."""
    (run / "inner" / "old").parent.mkdir(parents=True, exist_ok=True)
    for name in ("lock", "old", "inner/old", "inner/.old.01234567.partial"):
        (run / name).write_bytes(text)


def test_a_file_is_not_renamed_into_a_folder_that_took_its_place_while_it_was_written(held):
    path = held.path / "inner" / "old"

    def slowly():
        with atomic_write(path) as file:
            file.write(b"new")
            moved(held.path)
            (held.path / "inner").mkdir(parents=True)

    with pytest.raises(UserError, match="no longer the directory that this process has locked"):
        slowly()
    assert os.listdir(held.path / "inner") == []
    assert content(held.path.with_name("elsewhere") / "inner") == {
        held.path.with_name("elsewhere") / "inner" / "old": b"old"
    }


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
@pytest.mark.parametrize("absolute", [True, False])
def test_no_folder_that_is_a_link_is_followed(held, change, absolute):
    outside = held.path.parent / "outside"
    (held.path / "inner").rename(outside)
    (outside / ".old.01234567.partial").write_text("half")
    (held.path / "inner").symlink_to(outside if absolute else "../outside")
    before = content(outside)
    with pytest.raises(UserError, match=r"inner is a symbolic link, and a run writes to nothing outside its folder"):
        change(held.path / "inner" / "old")
    assert content(outside) == before


@pytest.mark.parametrize("change", [write, append, lock, delete])
@pytest.mark.parametrize("dangling", [False, True])
def test_no_file_that_is_a_link_is_followed(held, change, dangling):
    outside = held.path.parent / "outside"
    if not dangling:
        outside.write_text("precious")
    (held.path / "inner" / "link").symlink_to(outside)
    if change in (append, lock):  # files that are changed in place
        with pytest.raises(UserError, match=r"link is a symbolic link"):
            change(held.path / "inner" / "link")
    else:
        change(held.path / "inner" / "link")
        assert not (held.path / "inner" / "link").is_symlink()
    assert outside.exists() != dangling
    assert dangling or outside.read_text() == "precious"


@pytest.mark.parametrize("change", [append, lock])
def test_files_that_are_something_else_as_well_are_not_changed_in_place(held, change):
    os.link(held.path / "inner" / "old", held.path.parent / "backup")
    with pytest.raises(UserError, match=r"old has 2 names \(hard links\)"):
        change(held.path / "inner" / "old")
    os.mkfifo(held.path / "pipe")
    with pytest.raises(UserError, match="pipe is not a regular file"):  # opening it would wait for a reader
        change(held.path / "pipe")


def test_after_its_end_paths_are_paths(held):
    assert is_held(held.path / "inner" / "old")
    assert not is_held(held.path.with_name("run2"))
    again = HeldFolder(held.path, "lock")
    again.hold("me")
    again.close()
    assert is_held(held.path)


# ---- Folders that are new ----


def make_new(path, afterwards=None):
    with new_folder(path) as folder:
        (folder / "a").write_text("a")
        if afterwards:
            afterwards()


def test_a_new_folder_is_there_whole_and_its_name_is_durable(tmp_path, monkeypatch):
    done = record_flushes(monkeypatch, tmp_path)
    (tmp_path / "new").mkdir()
    with new_folder(tmp_path / "new") as folder:
        (folder / "a").write_text("a")
        assert list((tmp_path / "new").iterdir()) == []
    assert (tmp_path / "new" / "a").read_text() == "a"
    assert [path.name for path in tmp_path.iterdir()] == ["new"]
    assert done == ["rename", "flush folder"]


@pytest.mark.parametrize("error", [OSError(5, "Input/output error"), KeyboardInterrupt()])
@pytest.mark.parametrize("moment", ["within", "rename"])
def test_nothing_is_left_of_a_new_folder_after_an_error(tmp_path, monkeypatch, error, moment):
    def fail(*_):
        raise error

    with monkeypatch.context() as patched:
        if moment == "rename":
            patched.setattr(os, "replace", fail)
        with pytest.raises((UserError, type(error))):
            make_new(tmp_path / "new", fail if moment == "within" else None)
    assert list(tmp_path.iterdir()) == []


def test_what_was_renamed_is_not_deleted_after_a_later_error(tmp_path, monkeypatch):
    """A network file system may show the old name for a while, under which the new folder would be deleted."""

    def fail(*_):
        raise OSError(5, "Input/output error")

    deleted = []
    monkeypatch.setattr("minitf.system.new_folders.sync_folder", fail)
    monkeypatch.setattr(shutil, "rmtree", lambda path, **_: deleted.append(path))
    with pytest.raises(UserError, match=r"cannot write the folder .*new: Input/output error"):
        make_new(tmp_path / "new")
    assert deleted == []
    assert (tmp_path / "new" / "a").read_text() == "a"


@pytest.mark.parametrize("kind", ["file", "full", "link", "dangling", ".", "..", "missing/.."])
def test_what_is_not_a_new_folder_is_refused(tmp_path, monkeypatch, kind):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "a").write_text("mine")
    (tmp_path / "file").write_text("mine")
    (tmp_path / "link").symlink_to("empty")
    (tmp_path / "dangling").symlink_to("nowhere")
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(UserError, match=r"; give (a new )?one$"), new_folder(Path(kind)):
        raise AssertionError("not reached")
    assert sorted(tmp_path.rglob("*")) == before


def test_a_mount_point_is_refused_before_the_work(tmp_path, monkeypatch):
    """The system would refuse the rename, at the end."""
    (tmp_path / "empty").mkdir()
    monkeypatch.setattr(os.path, "ismount", lambda path: Path(path) == tmp_path / "empty")
    with pytest.raises(UserError, match=r"empty is a mount point, .*; give a new directory in it"):
        make_new(tmp_path / "empty")
    make_new(tmp_path / "empty" / "new")
    assert [path.name for path in (tmp_path / "empty").iterdir()] == ["new"]


def test_a_lock_written_in_pieces_is_ones_own(tmp_path, monkeypatch):
    whole = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda file, data, at: whole(file, data[:3], at))
    with closing(HeldFolder(tmp_path, "lock")) as folder:
        folder.hold("me")
        folder.check()
        assert (tmp_path / "lock").read_bytes() == folder._written


def test_a_lock_file_that_is_a_link_is_refused(tmp_path):
    (tmp_path / "outside").write_text("precious")
    (tmp_path / "lock").symlink_to(tmp_path / "outside")
    with pytest.raises(UserError, match="lock is a symbolic link"):
        HeldFolder(tmp_path, "lock")
    assert (tmp_path / "outside").read_text() == "precious"


def test_a_process_that_wrote_its_name_into_the_lock_has_taken_the_folder(held):
    """Locks that have no effect, as on some network file systems: the one who came last goes on."""
    (held.path / "lock").write_text("process 7 on other\n0123\n")
    before = set(held.path.iterdir())
    for change in (write, append, lock):
        with pytest.raises(UserError, match=r"process 7 on other has taken .*run from this process: locks have no"):
            change(held.path / "new")
    assert set(held.path.iterdir()) == before
