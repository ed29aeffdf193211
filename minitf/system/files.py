"""Files that are whole or absent, JSON without surprises, and operating-system errors in plain words."""

import errno
import fcntl
import hashlib
import io
import json
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from minitf.errors import UserError

BUFFER_BYTES = 1 << 16

ADVICE = {
    errno.ENOSPC: "free some space or choose another folder",
    errno.EDQUOT: "free some of your quota or choose another folder",
    errno.EFBIG: "raise the limit on the size of files (ulimit -f) or choose another folder",
    errno.EACCES: "check the permissions or choose another folder",
    errno.EPERM: "check the permissions or choose another folder",
    errno.EROFS: "choose a folder on a file system that can be written",
    errno.ENOENT: "check the path",
    errno.ENOTDIR: "check the path: one of its parts is a file",
    errno.EISDIR: "give the path of a file",
}


def explained(action: str, error: OSError) -> str:
    """`cannot <action>: No space left on device; free some space or …`"""
    advice = ADVICE.get(error.errno or 0)
    return f"cannot {action}: {error.strerror or error}" + (f"; {advice}" if advice else "")


@contextmanager
def os_errors_explained(action: str, kind: type[UserError] = UserError) -> Iterator[None]:
    """Turn an OSError of the block into `kind`, in words."""
    try:
        yield
    except OSError as error:
        raise kind(explained(action, error)) from error


class ReportingFile(io.FileIO):
    """A file to write to whose failures are told as `kind`, however deep in buffers they happen, and no others are."""

    def __init__(self, path: Path, action: str, kind: type[UserError] = UserError, *, new: bool = True):
        self._action, self._kind = action, kind
        with os_errors_explained(action, kind):
            flags = os.O_WRONLY | os.O_CLOEXEC | (os.O_CREAT | os.O_EXCL if new else 0)
            super().__init__(os.open(path, flags, 0o666), "w")

    def write(self, data: Any) -> int:
        with os_errors_explained(self._action, self._kind):
            return super().write(data)


@contextmanager
def atomic_write(path: Path, action: str = "", kind: type[UserError] = UserError) -> Iterator[BinaryIO]:
    """A file that appears at `path` complete and durable, or not at all; what stood there before stays until then.

    Bytes go to a temporary file in the same folder (a rename is atomic only within a file system), are flushed to the
    disk, and the file is renamed. The folder is flushed too: without that, a power failure may forget the rename
    although the bytes are safe. The mode of a file that was there stays.

    action: what it is that fails where the system refuses; default: `write <path>`

    Raises: `kind`, after removing the temporary file. A killed process leaves it behind; `remove_leftovers` finds it.
    """
    action = action or f"write {path}"
    # 50 characters of at most 4 bytes: a name may have 255 bytes
    temporary = path.with_name(f".{path.name[:50]}.{os.urandom(4).hex()}.partial")
    file = None
    try:  # from before the file is there: an interrupt may come before we hold it
        file = io.BufferedWriter(ReportingFile(temporary, action, kind), BUFFER_BYTES)
        yield file
        file.flush()
        with os_errors_explained(action, kind):
            if path.exists():
                os.fchmod(file.fileno(), stat.S_IMODE(path.stat().st_mode))
            os.fsync(file.fileno())
            file.close()
            os.replace(temporary, path)
    except BaseException:  # an interrupt must not leave half a file either
        with suppress(OSError, UserError):  # the error that brought us here is the one to report
            if file is not None:
                file.close()
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise
    with os_errors_explained(action, kind):
        sync_folder(path.parent)


@contextmanager
def open_device(path: Path, action: str) -> Iterator[BinaryIO]:
    """A device or pipe to write to.  Raises: UserError where the system refuses."""
    with io.BufferedWriter(ReportingFile(path, action, new=False), BUFFER_BYTES) as file:
        yield file


LEFTOVER = re.compile(r"\.(.+)\.[0-9a-f]{8}\.partial", re.DOTALL)


def remove_leftovers(folder: Path, names: str = ".*") -> None:
    """Delete what killed processes left of files that `atomic_write` was to make in `folder`; none may be at work.

    names: a regular expression for the beginning of the files' names
    """
    for name in os.listdir(folder):
        if (match := LEFTOVER.fullmatch(name)) and re.match(names, match[1]):
            (folder / name).unlink(missing_ok=True)


def sync_folder(folder: Path) -> None:
    """Make the names in `folder` durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        # Some network file systems cannot flush a folder, and say so in one of these ways; their server does it.
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
    finally:
        os.close(descriptor)


@contextmanager
def exclusive_lock(path: Path) -> Iterator[None]:
    """Wait for a lock file and hold it; the kernel releases it when the process ends, however it ends."""
    with os_errors_explained(f"lock {path}"):
        file = open(path, "w")  # noqa: SIM115 (closed below)
    with file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def sha256_of(path: Path) -> str:
    """SHA-256 of a file, in hexadecimal digits."""
    with os_errors_explained(f"read {path}"), open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def parse_json(text: str | bytes) -> Any:
    """The value of a JSON text, refusing what Python's reader lets pass.

    Raises: ValueError for text that is not UTF-8 or not JSON, for a key given twice (the reader would keep the last),
    for NaN and Infinity (not JSON), and for nesting too deep to read.
    """

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, value in pairs:
            if key in found:
                raise ValueError(f"the key {key[:80]!r} is given twice")
            found[key] = value
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
    """Read a file that holds a JSON object.  Raises: UserError where it cannot be read or does not hold one"""
    with os_errors_explained(f"read {path}"):
        content = path.read_bytes()
    try:
        return parse_json_object(content)
    except ValueError as error:
        raise UserError(f"{path}: {error}") from error
