"""Whole files and folders or none, and locks."""

import errno
import os
import resource
import signal
import subprocess
import sys

import pytest

from minitf.errors import UserError
from minitf.system.files import atomic_write, locked, remove_leftovers
from tests.helpers.patching import record_flushes


def names(folder):
    return sorted(os.listdir(folder))


@pytest.mark.parametrize("error", [BrokenPipeError(), KeyboardInterrupt(), ZeroDivisionError()])
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
from minitf.system.files import atomic_write
os.replace = lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL)
with atomic_write(pathlib.Path({str(path)!r})) as file:
    file.write(b"new")
"""
    ended = subprocess.run([sys.executable, "-c", program], check=False)
    assert ended.returncode == -signal.SIGKILL
    assert path.read_bytes() == b"old"
    assert len(names(tmp_path)) == 2
    remove_leftovers(tmp_path)
    assert names(tmp_path) == ["a"]


def test_only_leftovers_are_removed(tmp_path):
    kept = ["a", ".a.partial", "a.12345678.partial", ".12345678.partial", ".a.1234567g.partial"]
    for name in [*kept, ".a.12345678.partial", ".a b\n.0000ffff.partial"]:
        (tmp_path / name).touch()
    remove_leftovers(tmp_path)
    assert names(tmp_path) == sorted(kept)


def test_a_failing_write_deep_in_a_buffer_is_told_by_the_name_of_the_action(tmp_path):
    def write():
        with atomic_write(tmp_path / "a", action="keep it") as file:
            file.write(bytes(100_001))
            file.seek(0)  # empties the buffer
            pytest.fail("the buffer was not written")

    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
    try:
        with pytest.raises(UserError, match="cannot keep it: File too large"):
            write()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert names(tmp_path) == []


def test_the_mode_of_a_replaced_file_stays_and_a_new_one_follows_the_umask(tmp_path):
    path = tmp_path / "old"
    path.touch()
    path.chmod(0o604)
    before = os.umask(0o027)
    try:
        for name in ("old", "new"):
            with atomic_write(tmp_path / name, "w") as file:
                file.write("x")
    finally:
        os.umask(before)
    assert path.stat().st_mode & 0o777 == 0o604
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o640


def test_a_link_keeps_pointing_at_the_file_that_was_rewritten(tmp_path):
    (tmp_path / "file").write_text("old")
    (tmp_path / "link").symlink_to(tmp_path / "file")
    with atomic_write(tmp_path / "link", "w", chosen=True) as file:
        file.write("new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "file").read_text() == "new"


def test_a_link_that_the_user_has_not_named_is_replaced(tmp_path):
    (tmp_path / "outside").write_text("precious")
    (tmp_path / "link").symlink_to(tmp_path / "outside")
    with atomic_write(tmp_path / "link", "w") as file:
        file.write("new")
    assert not (tmp_path / "link").is_symlink()
    assert (tmp_path / "outside").read_text() == "precious"


@pytest.mark.parametrize(
    ("name", "reason"),
    [("missing/out", "No such file or directory"), ("folder", "it is a directory"), ("file/out", "Not a directory")],
)
def test_unwritable_paths(tmp_path, name, reason):
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match=f"cannot write .*{name}: {reason}"), atomic_write(tmp_path / name, "w"):
        pytest.fail("the block must not be entered")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
@pytest.mark.parametrize("size", [1, 1_000_000])
def test_a_full_device(monkeypatch, size):
    # Were it ever treated as a file, the rename would replace the machine's device.
    monkeypatch.setattr(os, "replace", lambda *_, **__: pytest.fail("renamed onto a device"))
    with (
        pytest.raises(UserError, match="cannot write /dev/full: No space left"),
        atomic_write("/dev/full", "w", chosen=True) as file,
    ):
        file.write("x" * size)


# ---- Locks ----


def test_a_lock_is_held_by_one_and_free_again_after_a_kill(tmp_path):
    program = f"""
import os, signal, time
from pathlib import Path
from minitf.system.files import locked
with locked(Path({str(tmp_path / "lock")!r})):
    print("held", flush=True)
    time.sleep(60)
"""
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout.readline() == "held\n"
        with locked(tmp_path / "lock", wait_s=0) as held:
            assert not held
        holder.send_signal(signal.SIGKILL)
        holder.wait()
    with locked(tmp_path / "lock") as held:
        assert held
