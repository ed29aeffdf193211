"""A process that can do what its work needs, and little else."""

import ctypes
import errno
import os
import resource
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from minitf.errors import UserError
from minitf.system import confined as module
from minitf.system.confined import confined
from minitf.system.process import interrupting

HAS_LANDLOCK = sys.platform == "linux" and ctypes.CDLL(None).syscall(module.CREATE_RULESET, None, 0, 1) >= 4
needs_landlock = pytest.mark.skipif(not HAS_LANDLOCK, reason="needs Linux 6.7 with Landlock")


@pytest.fixture
def run(tmp_path):
    """Do some work that can write into the folder "inside"; it has 64 MiB and a second."""
    (tmp_path / "inside").mkdir()

    def run(work, more_bytes=2**26, seconds=1):
        return confined(work, tmp_path / "inside", more_bytes, seconds)

    return run


def test_work_has_a_result_or_a_sentence(run):
    assert run(lambda: [1, "a", {"b": None}]) == [1, "a", {"b": None}]

    def refused():
        raise UserError("no such piece")

    with pytest.raises(UserError, match=r"^no such piece$"):
        run(refused)


@pytest.mark.parametrize(
    ("work", "status"), [(lambda: os.kill(os.getpid(), 9), -9), (lambda: os._exit(3), 3), (lambda: 1 / 0, 1)]
)
def test_work_that_ends_its_process_is_told(run, work, status, capfd):
    with pytest.raises(UserError, match=f"the process that reads the file ended with status {status}$"):
        run(work)
    assert ("ZeroDivisionError" in capfd.readouterr().err) == (status == 1)


CHANGES = {
    "write": lambda outside: (outside / "file").write_text("x"),
    "create": lambda outside: (outside / "new").touch(),
    "delete": lambda outside: (outside / "file").unlink(),
    "truncate": lambda outside: os.truncate(outside / "file", 0),
    "make a folder": lambda outside: (outside / "folder").mkdir(),
    "link": lambda outside: (outside / "link").symlink_to("/etc"),
    "rename": lambda outside: (outside / "file").rename(outside / "other"),
    "move out": lambda outside: (outside / "inside" / "own").rename(outside / "own"),
    "start a program": lambda outside: subprocess.run(["true"], check=True),
    "connect": lambda outside: socket.create_connection(("127.0.0.1", 1)),
}


@needs_landlock
@pytest.mark.parametrize("change", CHANGES)
def test_nothing_outside_of_the_folder_is_changed(run, tmp_path, change):
    (tmp_path / "file").write_text("content")
    (tmp_path / "inside" / "own").touch()

    def work():
        try:
            CHANGES[change](tmp_path)
        except PermissionError:
            return "refused"

    assert run(work) == "refused"
    assert (tmp_path / "file").read_text() == "content"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "inside"]


def test_the_folder_itself_is_written_as_usual(run, tmp_path):
    inside = tmp_path / "inside"

    def work():
        (inside / "a").mkdir()
        (inside / "a" / "b").write_text("content")
        (inside / "a" / "b").rename(inside / "c")
        (inside / "a").rmdir()

    run(work)
    assert (inside / "c").read_text() == "content"


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux says how much memory a process has")
def test_memory_is_bounded(run):
    def work():  # memory that was freed before may be taken again: more than that
        return len([np.empty(2**28, np.uint8) for _ in range(40)])

    with pytest.raises(
        UserError, match=r"not enough memory \(Unable to allocate .*\); a file of this size may take 64 MiB"
    ):
        run(work)


def test_time_is_bounded(run):
    def work():
        while True:
            pass

    with pytest.raises(UserError, match="no result within 1 s of processor time"):
        run(work)


def test_files_are_bounded(run, tmp_path):
    def work():
        with open(tmp_path / "inside" / "large", "wb") as file:
            try:
                file.truncate(2**26 + 1)  # sparse
            except OSError as error:
                return error.strerror

    assert run(work) == "File too large"
    assert run(lambda: resource.getrlimit(resource.RLIMIT_NOFILE)[1]) == module.MOST_FILES


@pytest.mark.parametrize("at_once", [False, True], ids=["while it is waited for", "as soon as it is there"])
def test_an_interrupt_ends_the_process(run, tmp_path, monkeypatch, at_once):
    place, told, fork = tmp_path / "inside" / "pid", tmp_path / "inside" / "told", os.fork

    def work():
        place.write_text(str(os.getpid()))
        os.kill(os.getppid(), signal.SIGINT)
        told.touch()
        time.sleep(60)

    def fork_and_wait():
        pid = fork()
        while pid and not told.exists():
            time.sleep(0.001)
        return pid

    if at_once:
        monkeypatch.setattr(os, "fork", fork_and_wait)
    with interrupting(), pytest.raises(KeyboardInterrupt):
        run(work)
    assert not Path(f"/proc/{place.read_text()}").exists()


def test_nothing_is_left_open(run):
    before = os.listdir("/proc/self/fd")
    run(lambda: None)
    assert os.listdir("/proc/self/fd") == before


@pytest.mark.skipif(not hasattr(os, "O_PATH"), reason="only Linux forbids changes elsewhere")
def test_a_system_that_fails_to_confine_is_told_in_a_sentence(run, monkeypatch, capfd):
    def failing(folder):
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(module, "_forbid_changes", failing)
    with pytest.raises(UserError, match=f"cannot confine the process .*: {os.strerror(errno.EIO)}"):
        run(lambda: 1)
    assert capfd.readouterr().err == ""
