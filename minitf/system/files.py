"""Read files that may come from anywhere, and explain errors of the system: no pipe is waited for, JSON is strict."""

import errno
import hashlib
import io
import json
import os
import stat
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from minitf.errors import UserError
from minitf.system import portable

BUFFER_BYTES = 1 << 16
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
    errno.EISDIR: "give the path of a file",
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
    """Context manager that turns an OSError into `kind`, with the action that failed and advice."""
    try:
        yield
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


def open_regular(path: Path) -> io.BufferedReader:
    """Open a file for reading.  Raises: UserError for a pipe, which might never be written to, or a device; OSError"""
    descriptor = os.open(path, os.O_RDONLY | portable.NONBLOCK | portable.CLOEXEC)
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISREG(mode):
        if portable.NONBLOCK:
            os.set_blocking(descriptor, True)
        return open(descriptor, "rb")
    os.close(descriptor)
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fspath(path))
    raise UserError(f"{path} is not a regular file but a pipe or device; give a file")


def open_text(path: Path) -> BinaryIO:
    """Open a file, a pipe, a terminal or the null device, to be read once, for reading.

    Raises: UserError for a pipe to which no process writes, and for another device, such as /dev/zero, which may have
    no end; OSError
    """
    descriptor = open_stream(path, os.O_RDONLY | portable.CLOEXEC | portable.NOCTTY)
    found = os.fstat(descriptor)
    is_null = stat.S_ISCHR(found.st_mode) and found.st_rdev == os.stat(os.devnull).st_rdev
    if stat.S_ISREG(found.st_mode) or stat.S_ISFIFO(found.st_mode) or is_null or os.isatty(descriptor):
        return open(descriptor, "rb", buffering=BUFFER_BYTES)
    os.close(descriptor)
    if stat.S_ISDIR(found.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fspath(path))
    raise UserError(f"{path} is a device, which may have no end; give a file or a pipe")


PIPE_WAIT_S = 10.0
"""Time to wait for the other end of a named pipe. Those of process substitution, such as <(zcat x.gz), are open."""


def open_stream(path: Path, flags: int) -> int:
    """Open a file.  Raises: UserError for a pipe whose other end no process opens; OSError"""
    try:
        is_pipe = stat.S_ISFIFO(os.stat(path).st_mode)
    except UnicodeEncodeError:
        raise UserError(
            f"{str(path)[:100]!a} contains half a surrogate pair and cannot be the name of a file"
        ) from None
    if not is_pipe:
        return os.open(path, flags)
    pool = ThreadPoolExecutor(1, "open")  # only this blocks until the other end is open, and says so at once
    opening = pool.submit(os.open, path, flags)
    try:
        return opening.result(PIPE_WAIT_S)
    except BaseException as error:
        with suppress(OSError):  # the thread must end: open the other end
            other = os.O_RDONLY if flags & os.O_WRONLY else os.O_WRONLY
            os.close(os.open(path, other | portable.NONBLOCK))
        with suppress(OSError):
            os.close(opening.result())
        if isinstance(error, TimeoutError):
            what = "has read it" if flags & os.O_WRONLY else "has written to it"
            raise UserError(f"{path} is a pipe, and in {PIPE_WAIT_S:g} s no process {what}; start one first") from None
        raise
    finally:
        pool.shutdown()


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
