"""Write files and folders completely or not at all, and lock files."""

from __future__ import annotations

import errno
import os
import re
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from minitf.errors import UserError
from minitf.system.files import os_errors_explained

__all__ = ["atomic_write", "locked", "new_folder", "remove_leftovers", "require_new"]

LEFTOVER = re.compile(r"\..+\.[0-9a-f]{8}\.partial", re.DOTALL)


@contextmanager
def atomic_write(
    path: str | os.PathLike[str],
    mode: str = "wb",
    *,
    chosen: bool = False,
    action: str = "",
    kind: type[UserError] = UserError,
) -> Iterator[IO[Any]]:
    """Open a file for writing that replaces `path` once it is complete and durable, or not at all.

    Bytes are written to a temporary file in the same folder (a rename is atomic only within a file system) and flushed
    to the disk, and the file is renamed: a link at `path` is replaced, not followed. The folder is flushed too:
    otherwise a power failure may undo the rename. The mode of an earlier file is kept.

    mode: "wb", or "w" for UTF-8 with `\\n` written as it is
    chosen: the user has named this very file: a link is followed, and a device or pipe such as `/dev/stdout`, onto
        which no file can be renamed, is written to
    action: the action that error messages name; default: `write <path>`

    Raises: `kind` where the system refuses, after removing the temporary file. A killed process leaves it behind, for
    `remove_leftovers`.
    """
    action = action or f"write {os.fspath(path)}"
    target = Path(os.path.realpath(path) if chosen else path)
    text: dict[str, Any] = {} if "b" in mode else {"encoding": "utf-8", "newline": "\n"}
    with os_errors_explained(action, kind):
        if target.is_dir():
            raise IsADirectoryError(errno.EISDIR, "it is a directory")
        if chosen and target.exists() and not target.is_file():
            with open(target, mode, **text) as file:
                yield file
            return
        temporary = partial_name(target)
        try:  # begins before the file exists: an interrupt may arrive before `file` is assigned
            with open(temporary, mode.replace("w", "x"), **text) as file:
                yield file
                file.flush()
                with suppress(FileNotFoundError):
                    os.chmod(temporary, stat.S_IMODE(os.stat(target, follow_symlinks=False).st_mode) & 0o777)
                os.fsync(file.fileno())
            os.replace(temporary, target)
        except BaseException:  # an interrupt must not leave a partial file either
            with suppress(OSError):
                temporary.unlink()
            raise
        sync_folder(target.parent)


def partial_name(path: Path) -> Path:
    """Return the name, new each time, of a file or folder that will become `path`.

    It holds 50 characters of the name, of at most 4 bytes each: a name may have 255 bytes.
    """
    return path.with_name(f".{path.name[:50]}.{os.urandom(4).hex()}.partial")


def sync_folder(folder: Path) -> None:
    """Flush a folder to the disk, so that renames in it are durable. Windows opens none, and keeps a journal."""
    if not hasattr(os, "O_DIRECTORY"):
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        # Some network file systems cannot flush a folder and return one of these errors; their server flushes it.
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
    finally:
        os.close(descriptor)


def remove(path: Path) -> None:
    """Delete a file, a link, or a folder and all that is in it, unless it has gone."""
    with suppress(FileNotFoundError):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()


def remove_leftovers(folder: Path) -> None:
    """Delete what killed processes have left half-written in a folder; no other process may write there."""
    for path in [*folder.iterdir()]:
        if LEFTOVER.fullmatch(path.name):
            remove(path)


# ---- Folders ----


def require_new(folder: Path) -> None:
    """Raises: UserError unless `folder` can be made: there is nothing of its name, or an empty folder."""
    if folder.name in ("", ".."):
        raise UserError(f"{folder} is not the name of a new directory; give one")
    with os_errors_explained(f"look at {folder}"):
        if folder.is_symlink() or (folder.exists() and (not folder.is_dir() or any(folder.iterdir()))):
            raise UserError(f"{folder} already exists and is not an empty directory; give a new one")


@contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """Yield a temporary folder that becomes `path` at the end of the `with` block, or is deleted after an error.

    Raises: UserError if `path` is not new, and where the system refuses
    """
    require_new(path)
    temporary = partial_name(path)
    with os_errors_explained(f"create the folder {path}"):
        temporary.mkdir(parents=True)
        try:
            yield temporary
            os.replace(temporary, path)
        except BaseException:  # not after the rename: a network file system may show the old name for a while
            shutil.rmtree(temporary, ignore_errors=True)
            raise
        sync_folder(path.parent)


# ---- Locks ----


@contextmanager
def locked(path: Path, wait_s: float = -1) -> Iterator[bool]:
    """Hold a lock file; the system releases it when the process ends, however it ends. Yields whether it is held.

    wait_s: time to wait until another process has released it; -1: without end
    """
    from filelock import FileLock, Timeout  # deferred: only what trains or downloads needs it

    lock = FileLock(path)
    with os_errors_explained(f"lock {path}"):
        try:
            lock.acquire(timeout=wait_s)
            held = True
        except Timeout:
            held = False
    try:
        yield held
    finally:
        lock.release()
