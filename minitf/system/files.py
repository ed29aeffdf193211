"""Read files that may come from anywhere, write files completely or not at all, lock files; errors of the system."""

import errno
import hashlib
import json
import os
import re
import shutil
import stat
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import BufferedReader
from pathlib import Path
from typing import IO, Any

from minitf.errors import UserError

__all__ = [
    "atomic_write", "locked", "open_regular", "os_errors_explained", "parse_json", "parse_json_object",
    "partial_name", "read_json_object", "read_small_file", "remove_leftovers", "require_regular", "sha256_of",
    "sync_folder",
]  # fmt: skip

MAX_JSON_BYTES = 2**20

ADVICE = {
    errno.ENOSPC: "free some space or choose another directory",
    errno.EDQUOT: "free some of your quota or choose another directory",
    errno.EFBIG: "increase the limit on the size of files (ulimit -f) or choose another directory",
    errno.EACCES: "check the permissions or choose another directory",
    errno.EPERM: "check the permissions or choose another directory",
    errno.EROFS: "choose a directory on a writable file system",
    errno.ENOENT: "check the path",
    errno.ENOTDIR: "check the path: one of its components is a file",
    errno.EEXIST: "a file has this name; choose another",
    errno.EISDIR: "give the path of a file",
    errno.EBADF: "it was closed when the program started; redirect it to a file",
    errno.EMFILE: "increase the limit on open files (ulimit -n)",
    errno.ENFILE: "close other programs, or increase the system's limit on open files",
    errno.ESTALE: "the directory was replaced on its file server; check it, then start again",
}


def explained(action: str, error: OSError) -> str:
    """Format an error: `cannot <action>: No space left on device; free some space or …`"""
    advice = ADVICE.get(error.errno or 0)
    return f"cannot {action}: {error.strerror or error}" + (f"; {advice}" if advice else "")


@contextmanager
def os_errors_explained(action: str, kind: type[UserError] = UserError) -> Iterator[None]:
    """Context manager that turns an OSError into `kind`, with the action that failed and advice.

    That the reader of standard output has gone is no failure of the action.
    """
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise kind(explained(action, error)) from error


def read_small_file(path: Path, most: int = MAX_JSON_BYTES) -> bytes:
    """Read a file that may come from anywhere.

    Raises: UserError for a pipe or device, which might never end, and for a file of more than `most` bytes.
    """
    with os_errors_explained(f"read {path}"), open_regular(path) as file:
        if os.fstat(file.fileno()).st_size > most:
            raise UserError(f"{path} has more than {most / 2**20:g} MiB, too much for such a file; check the path")
        return file.read(most)


def open_regular(path: Path) -> BufferedReader:
    """Open a file for reading.  Raises: UserError for a pipe, which might never be written to, or a device; OSError"""
    flag = getattr(os, "O_NONBLOCK", 0)
    file = open(path, "rb", opener=lambda name, flags: os.open(name, flags | flag))  # noqa: SIM115 (it is returned)
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise UserError(f"{path} is not a regular file but a pipe or device; give a file")
    return file


def require_no_links(folder: Path) -> None:
    """Raises: UserError if a folder, which may come from elsewhere, holds anything but regular files and folders

    A link would lead out of it, and a pipe would be waited for. The folder itself may be reached by a link.
    """
    with suppress(FileNotFoundError, NotADirectoryError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                require_no_links(Path(entry.path))
            elif not entry.is_file(follow_symlinks=False) and os.path.lexists(entry.path):  # it may just have gone
                what = "a symbolic link" if entry.is_symlink() else "a pipe or device"
                raise UserError(f"{entry.path} is {what}, which a run cannot hold; put the file itself in its place")


def require_regular(path: Path) -> None:
    """Raises: UserError for a pipe or a device: a corpus is read more than once."""
    with os_errors_explained(f"read {path}"):
        if path.exists() and not path.is_file() and not path.is_dir():
            raise UserError(f"{path} is a pipe or device, but a corpus is read more than once; save it to a file first")


def sha256_of(path: Path) -> str:
    """SHA-256 of a file, in hexadecimal digits."""
    with os_errors_explained(f"read {path}"), open_regular(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def parse_json(text: str | bytes) -> Any:
    """Parse a JSON text strictly.

    Raises: ValueError for text that is not UTF-8 or not JSON, for a key given twice (`json` would keep the last), for
    NaN and Infinity (`json` would accept them), and for nesting too deep to parse.
    """

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            (twice, _), *_ = Counter(key for key, _ in pairs).most_common(1)
            raise ValueError(f"the key {twice[:80]!r} is given twice")
        return found

    def refuse(constant: str) -> None:
        raise ValueError(f"{constant} is not JSON")

    try:
        decoded = text.decode("utf-8") if isinstance(text, bytes) else text
        return json.loads(decoded, object_pairs_hook=unique, parse_constant=refuse)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def parse_json_object(text: str | bytes) -> dict[str, Any]:
    """Parse a JSON object.  Raises: ValueError as `parse_json`, and for any other value"""
    found = parse_json(text)
    if not isinstance(found, dict):
        raise ValueError("it is not an object of names and values")
    return found


def read_json_object(path: Path) -> dict[str, Any]:
    """Read a file that holds a JSON object.  Raises: UserError if it cannot be read or does not hold one"""
    try:
        return parse_json_object(read_small_file(path))
    except ValueError as error:
        raise UserError(f"{path}: {error}") from error


LEFTOVER = re.compile(r"\..+\.[0-9a-f]{8}\.partial", re.DOTALL)


@contextmanager
def atomic_write(
    path: str | os.PathLike[str], mode: str = "wb", *, chosen: bool = False, action: str = ""
) -> Iterator[IO[Any]]:
    """Open a file for writing that replaces `path` once it is complete and durable, or not at all.

    Bytes are written to a temporary file in the same folder (a rename is atomic only within a file system) and flushed
    to the disk, and the file is renamed: a link at `path` is replaced, not followed. The folder is flushed too:
    otherwise a power failure may undo the rename. The mode of an earlier file is kept.

    mode: "wb", or "w" for UTF-8 with `\\n` written as it is
    chosen: the user has named this very file: a link is followed, and a device or pipe such as `/dev/stdout`, onto
        which no file can be renamed, is written to
    action: the action that error messages name; default: `write <path>`

    Raises: UserError where the system refuses, after removing the temporary file. A killed process leaves it behind,
    for `remove_leftovers`.
    """
    action = action or f"write {os.fspath(path)}"
    target = Path(path)
    text: dict[str, Any] = {} if "b" in mode else {"encoding": "utf-8", "newline": "\n"}
    with os_errors_explained(action):
        if target.is_dir():
            raise IsADirectoryError(errno.EISDIR, "it is a directory")
        if chosen and target.exists() and not target.is_file():
            with open(target, mode, **text) as file:
                yield file
            return
        target = Path(os.path.realpath(target) if chosen else target)
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
