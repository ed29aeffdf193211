"""Files that are whole or absent, JSON without surprises, and operating-system errors in plain words."""

import errno
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from minitf.errors import UserError

ADVICE = {
    errno.ENOSPC: "free some space or choose another folder",
    errno.EDQUOT: "free some of your quota or choose another folder",
    errno.EFBIG: "raise the limit on the size of files (ulimit -f) or choose another folder",
    errno.EACCES: "check the permissions or choose another folder",
    errno.EPERM: "check the permissions or choose another folder",
    errno.EROFS: "choose a folder on a file system that can be written",
    errno.ENOENT: "check the path",
    errno.ENOTDIR: "check the path: one of its parts is a file",
    errno.EISDIR: "check the path",
}


@contextmanager
def os_errors_explained(action: str, kind: type[UserError] = UserError) -> Iterator[None]:
    """Turn an OSError of the block into `kind`: `cannot <action>: No space left on device; free some space or …`."""
    try:
        yield
    except OSError as error:
        advice = ADVICE.get(error.errno or 0)
        raise kind(f"cannot {action}: {error.strerror or error}" + (f"; {advice}" if advice else "")) from error


@contextmanager
def atomic_write(path: Path) -> Iterator[BinaryIO]:
    """A file that appears at `path` complete and durable, or not at all; what stood there before stays until then.

    Bytes go to a temporary file in the same folder, are flushed to the disk, and the file is renamed. The folder is
    flushed too: without that, a power failure may forget the rename although the bytes are safe.

    Raises: OSError, after removing the temporary file. A killed process leaves it behind, as `.<name>.<pid>.tmp`.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with open(temporary, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:  # an interrupt must not leave half a file either
        with suppress(OSError):  # the error that brought us here is the one to report
            temporary.unlink()
        raise
    sync_folder(path.parent)


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
