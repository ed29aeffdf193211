"""Read files that may come from anywhere, and explain errors of the system: no pipe is waited for, JSON is strict."""

import errno
import hashlib
import json
import os
import stat
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import BufferedReader
from pathlib import Path
from typing import Any

from minitf.errors import UserError

__all__ = [
    "os_errors_explained",
    "parse_json",
    "parse_json_object",
    "read_json_object",
    "read_small_file",
    "require_regular",
    "sha256_of",
]

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
