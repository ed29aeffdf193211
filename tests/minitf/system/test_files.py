"""Whole files or none, strict JSON, and system errors in words."""

import errno
import gc
import inspect
import itertools
import os
import resource
import signal
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from minitf.errors import UserError
from minitf.system import files
from minitf.system.files import open_text, os_errors_explained, parse_json
from minitf.system.writing import atomic_write, open_device, remove_leftovers
from tests.helpers.patching import record_flushes

SYSTEM = Path(files.__file__).parent


def names(folder):
    return sorted(os.listdir(folder))


def test_the_file_appears_only_at_the_end(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(b"old")
    with atomic_write(path) as file:
        file.write(b"new")
        assert path.read_bytes() == b"old"
    assert path.read_bytes() == b"new"
    assert names(tmp_path) == ["a"]


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "full"), KeyboardInterrupt(), ZeroDivisionError()])
def test_an_error_leaves_the_old_file_and_nothing_else(tmp_path, error):
    path = tmp_path / "a"
    path.write_bytes(b"old")

    def write():
        with atomic_write(path) as file:
            file.write(b"half")
            raise error

    with pytest.raises(type(error)):
        write()
    assert path.read_bytes() == b"old"
    assert names(tmp_path) == ["a"]


class InterruptAt:
    """Inside its `with` block, Ctrl-C at the n-th place: a line of minitf/system or contextlib.py, or its return.

    A generator that yields is none of these places, as Python looks for signals only after that. No garbage is
    collected meanwhile: finalizers would be counted by chance, and Python swallows what is raised in them.
    """

    def __init__(self, number, path):
        self.left, self.path, self.content = number, path, None

    def __enter__(self):
        self._previous, self._collects = sys.gettrace(), gc.isenabled()
        gc.disable()
        sys.settrace(self._trace)
        return self

    def __exit__(self, *_):
        sys.settrace(self._previous)
        if self._collects:
            gc.enable()

    def _trace(self, frame, event, _):
        place = Path(frame.f_code.co_filename)
        if place.parent != SYSTEM and place.name != "contextlib.py":
            return None
        yields = event == "return" and frame.f_code.co_flags & inspect.CO_GENERATOR
        if event in ("line", "return") and not yields:
            self.left -= 1
            if not self.left:
                self.content = self.path.read_bytes()
                raise KeyboardInterrupt
        return self._trace


@pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")  # by Python, if interrupted before we hold it
def test_an_interrupt_anywhere_leaves_the_old_file_or_the_new_one_and_nothing_else(tmp_path):
    path = tmp_path / "a"
    found = Counter()

    def write():
        with atomic_write(path) as file:
            file.write(b"new")

    for number in itertools.count(1):
        path.write_bytes(b"old")
        try:
            with InterruptAt(number, path) as interrupt:
                write()
        except KeyboardInterrupt:
            pass
        assert names(tmp_path) == ["a"], f"interrupted at place {number}"
        if interrupt.left > 0:
            break
        assert path.read_bytes() == interrupt.content, f"interrupted at place {number}"  # a renamed file stays
        found[interrupt.content] += 1
    assert path.read_bytes() == b"new"
    assert set(found) == {b"old", b"new"}
    assert min(found.values()) > 10, found


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_disk_that_fails_late_leaves_the_old_file(tmp_path, monkeypatch, step):
    path = tmp_path / "a"
    path.write_bytes(b"old")

    def fail(*_, **__):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, step, fail)
    with pytest.raises(UserError, match=r"cannot write .*a: Input/output"), atomic_write(path) as file:
        file.write(b"new")
    assert path.read_bytes() == b"old"
    assert names(tmp_path) == ["a"]


def test_bytes_are_durable_before_the_name_and_the_name_before_the_end(tmp_path, monkeypatch):
    done = record_flushes(monkeypatch, tmp_path)
    with atomic_write(tmp_path / "a") as file:
        file.write(b"12345")
    assert done == ["flush 5 bytes", "rename", "flush folder"]


def test_a_kill_between_writing_and_renaming_leaves_the_old_file(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(b"old")
    program = f"""
import os, signal, pathlib
from minitf.system.writing import atomic_write
os.replace = lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL)
with atomic_write(pathlib.Path({str(path)!r})) as file:
    file.write(b"new")
"""
    ended = subprocess.run([sys.executable, "-c", program], check=False)
    assert ended.returncode == -signal.SIGKILL
    assert path.read_bytes() == b"old"
    assert len(names(tmp_path)) == 2
    remove_leftovers(tmp_path, "b")
    assert len(names(tmp_path)) == 2
    remove_leftovers(tmp_path, "a")
    assert names(tmp_path) == ["a"]


def test_only_leftovers_are_removed(tmp_path):
    kept = ["a", ".a.partial", "a.12345678.partial", ".12345678.partial", ".a.1234567g.partial"]
    for name in [*kept, ".a.12345678.partial", ".a b\n.0000ffff.partial"]:
        (tmp_path / name).touch()
    remove_leftovers(tmp_path)
    assert names(tmp_path) == sorted(kept)


def test_a_failing_write_deep_in_a_buffer_is_told_by_the_name_of_the_action(tmp_path):
    class KeepingError(UserError):
        pass

    def write():
        with atomic_write(tmp_path / "a", "keep it", KeepingError) as file:
            file.write(bytes(100_001))
            file.seek(0)  # empties the buffer
            pytest.fail("the buffer was not written")

    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
    try:
        with pytest.raises(KeepingError, match="cannot keep it: File too large"):
            write()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert names(tmp_path) == []


def test_the_mode_of_the_old_file_stays(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(b"old")
    path.chmod(0o604)
    with atomic_write(path) as file:
        file.write(b"new")
    assert path.stat().st_mode & 0o777 == 0o604


@pytest.mark.parametrize(
    ("number", "advice"),
    [(errno.ENOSPC, "free some space"), (errno.EROFS, "writable"), (errno.EACCES, "permissions")],
)
def test_system_errors_say_what_to_do(number, advice):
    message = f"^cannot write it: {os.strerror(number)}; .*{advice}"
    with pytest.raises(UserError, match=message), os_errors_explained("write it"):
        raise OSError(number, os.strerror(number))


def test_a_system_error_without_advice_is_still_told():
    with pytest.raises(UserError, match=r"^cannot write it: Input/output error$"), os_errors_explained("write it"):
        raise OSError(errno.EIO, os.strerror(errno.EIO))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"a": 1, "b": 2, "a": 1}', "'a' is given twice"),
        ('[{"a": {"x": 1, "x": 2}}]', "'x' is given twice"),
        ("NaN", "NaN is not JSON"),
        ("[-Infinity]", "-Infinity is not JSON"),
        ("[" * 200_000, "nested too deeply"),
        ('{"a":' * 200_000, "nested too deeply"),
        (b'"\xff"', "utf-8"),
        ('{"a": 1', "delimiter"),
        ("", "Expecting value"),
    ],
)
def test_json_that_is_refused(text, message):
    with pytest.raises(ValueError, match=message):
        parse_json(text)


def test_json_that_is_read():
    assert parse_json('{"a": [1, 2.5, null, true, "ü"], "b": {"a": -1e3}}') == {
        "a": [1, 2.5, None, True, "ü"],
        "b": {"a": -1000.0},
    }


# ---- Pipes and devices --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("writing", [False, True])
def test_the_other_end_of_a_pipe_is_waited_for_but_not_for_ever(tmp_path, monkeypatch, writing):
    monkeypatch.setattr(files, "PIPE_WAIT_S", 0.05)
    os.mkfifo(tmp_path / "pipe")
    doing = "read it" if writing else "written to it"
    act = open_device(tmp_path / "pipe", "write").__enter__ if writing else lambda: open_text(tmp_path / "pipe")
    with pytest.raises(UserError, match=rf"pipe is a pipe, and in 0.05 s no process has {doing}; start one first"):
        act()


def test_a_pipe_with_a_writer_is_read(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit((tmp_path / "pipe").write_bytes, b"text")
        with open_text(tmp_path / "pipe") as file:
            assert file.read() == b"text"
        assert writing.result() == 4


def test_a_device_that_may_have_no_end_is_refused():
    with pytest.raises(UserError, match="/dev/zero is a device, which may have no end; give a file or a pipe"):
        open_text(Path("/dev/zero"))
    with open_text(Path("/dev/null")) as file:
        assert file.read() == b""
