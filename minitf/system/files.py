"""Atomic files, locks, checksums, strict JSON, and operating-system errors as UserError."""

import errno
import fcntl
import hashlib
import io
import json
import os
import re
import shutil
import stat
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from minitf.errors import UserError
from minitf.system.held_folder import check_place, open_own_file, opened

BUFFER_BYTES = 1 << 16
MAX_JSON_BYTES = 2**20

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
    errno.ESTALE: "the folder was replaced on its file server; check it, then start again",
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


class ReportingFile(io.FileIO):
    """File opened for writing whose own failures are raised as `kind`, also from inside buffers."""

    def __init__(
        self,
        path: Path | str,
        action: str,
        kind: type[UserError] = UserError,
        *,
        new: bool = True,
        folder: int | None = None,
    ):
        self._action, self._kind = action, kind
        with os_errors_explained(action, kind):
            flags = os.O_WRONLY | os.O_CLOEXEC
            if new:
                descriptor = os.open(path, flags | os.O_CREAT | os.O_EXCL, 0o666, dir_fd=folder)
            else:
                descriptor = _open_stream(Path(path), flags)
            super().__init__(descriptor, "w")

    def write(self, data: Any) -> int:
        with os_errors_explained(self._action, self._kind):
            return super().write(data)


@contextmanager
def atomic_write(path: Path, action: str = "", kind: type[UserError] = UserError) -> Iterator[BinaryIO]:
    """Open a file for writing that replaces `path` once it is complete and durable, or not at all.

    Bytes are written to a temporary file in the same folder (a rename is atomic only within a file system) and flushed
    to the disk, and the file is renamed. The folder is flushed too: otherwise a power failure may undo the rename. The
    mode of an earlier file is kept.

    action: the action that error messages name; default: `write <path>`

    Raises: `kind`, after removing the temporary file. A killed process leaves it behind, for `remove_leftovers`.
    """
    action = action or f"write {path}"
    # 50 characters of at most 4 bytes: a name may have 255 bytes
    temporary = f".{path.name[:50]}.{os.urandom(4).hex()}.partial"
    with ExitStack() as stack:
        with os_errors_explained(action, kind):
            folder = stack.enter_context(opened(path.parent))
        file = None
        try:  # begins before the file exists: an interrupt may arrive before `file` is assigned
            file = io.BufferedWriter(ReportingFile(temporary, action, kind, folder=folder), BUFFER_BYTES)
            yield file
            file.flush()
            with os_errors_explained(action, kind):
                _keep_mode(path.name, file.fileno(), folder)
                os.fsync(file.fileno())
                file.close()
                check_place(path)  # again, after what may have been minutes
                os.replace(temporary, path.name, src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:  # an interrupt must not leave a partial file either
            with suppress(OSError, UserError):  # the first error is the one to report
                if file is not None:
                    file.close()
            with suppress(OSError):
                os.unlink(temporary, dir_fd=folder)
            raise
        with os_errors_explained(action, kind):
            _flush_folder(folder)


def _keep_mode(name: str, descriptor: int, folder: int) -> None:
    """Give an open file the mode of the file that it replaces."""
    with suppress(FileNotFoundError):
        found = os.stat(name, dir_fd=folder, follow_symlinks=False)
        if stat.S_ISREG(found.st_mode):
            os.fchmod(descriptor, stat.S_IMODE(found.st_mode))


@contextmanager
def open_device(path: Path, action: str) -> Iterator[BinaryIO]:
    """Open a device or pipe for writing.  Raises: UserError where the system refuses"""
    with io.BufferedWriter(ReportingFile(path, action, new=False), BUFFER_BYTES) as file:
        yield file


LEFTOVER = re.compile(r"\.(.+)\.[0-9a-f]{8}\.partial", re.DOTALL)


def remove_leftovers(folder: Path, names: str = ".*") -> None:
    """Delete the temporary files that killed processes have left in `folder`; no other process may write there.

    names: regular expression for the beginning of the names of the final files
    """
    with opened(folder) as descriptor:
        for name in os.listdir(descriptor):
            if (match := LEFTOVER.fullmatch(name)) and re.match(names, match[1]):
                with suppress(FileNotFoundError):
                    _remove(name, descriptor)


def delete(path: Path, *, missing_ok: bool = False) -> None:
    """Delete a file; of a symbolic link, the link."""
    with opened(path.parent) as folder, suppress(*[FileNotFoundError] if missing_ok else []):
        os.unlink(path.name, dir_fd=folder)


def clear_away(path: Path) -> None:
    """Delete a file, or a folder and all that is in it, unless it has gone.

    It gets another name first: if another run has taken the place of a held folder since the last check, it gets its
    name back.
    """
    aside = f".{path.name[:50]}.{os.urandom(4).hex()}.partial"
    with opened(path.parent) as folder, suppress(FileNotFoundError):
        os.rename(path.name, aside, src_dir_fd=folder, dst_dir_fd=folder)
        try:
            check_place(path)
        except UserError:
            os.rename(aside, path.name, src_dir_fd=folder, dst_dir_fd=folder)
            raise
        _remove(aside, folder)


def _remove(name: str, folder: int) -> None:
    """Delete a file, or a folder and all that is in it, in an open folder; links are not followed."""
    if stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
        shutil.rmtree(name, dir_fd=folder)
    else:
        os.unlink(name, dir_fd=folder)


def rename(path: Path, name: str) -> None:
    """Give a file another name in its folder, durably; a file of that name is replaced."""
    with opened(path.parent) as folder:
        os.replace(path.name, name, src_dir_fd=folder, dst_dir_fd=folder)
        _flush_folder(folder)


def make_folder(folder: Path) -> None:
    """Make a folder, and those around it, where they are missing."""
    with opened(folder, create=True):
        pass


def sync_folder(folder: Path) -> None:
    """Flush a folder to the disk, so that renames in it are durable."""
    with opened(folder) as descriptor:
        _flush_folder(descriptor)


def _flush_folder(descriptor: int) -> None:
    try:
        os.fsync(descriptor)
    except OSError as error:
        # Some network file systems cannot flush a folder and return one of these errors; their server flushes it.
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise


@contextmanager
def exclusive_lock(path: Path) -> Iterator[None]:
    """Wait for a lock file and hold it; the kernel releases it when the process ends, however it ends."""
    with os_errors_explained(f"lock {path}"), opened(path.parent) as folder:
        descriptor = open_own_file(path, os.O_RDWR | os.O_CREAT, folder)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def read_small_file(path: Path, most: int = MAX_JSON_BYTES) -> bytes:
    """Read a file that may come from anywhere.

    Raises: UserError for a pipe or device, which might never end, and for a file of more than `most` bytes.
    """
    with os_errors_explained(f"read {path}"), open_regular(path) as file:
        if os.fstat(file.fileno()).st_size > most:
            raise UserError(f"{path} has more than {most / 2**20:g} MiB, which no such file has; check the path")
        return file.read(most)


def open_regular(path: Path) -> io.BufferedReader:
    """Open a file for reading.  Raises: UserError for a pipe, which might never be written to, or a device; OSError"""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISREG(mode):
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
    descriptor = _open_stream(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOCTTY)
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


def _open_stream(path: Path, flags: int) -> int:
    """Open a file.  Raises: UserError for a pipe whose other end no process opens; OSError"""
    try:
        is_pipe = stat.S_ISFIFO(os.stat(path).st_mode)
    except UnicodeEncodeError:
        raise UserError(f"{str(path)[:100]!a} holds half a surrogate pair, and cannot name a file") from None
    if not is_pipe:
        return os.open(path, flags)
    pool = ThreadPoolExecutor(1, "open")  # only this blocks until the other end is open, and says so at once
    opening = pool.submit(os.open, path, flags)
    try:
        return opening.result(PIPE_WAIT_S)
    except BaseException as error:
        with suppress(OSError):  # the thread must end: open the other end
            other = os.O_RDONLY if flags & os.O_WRONLY else os.O_WRONLY
            os.close(os.open(path, other | os.O_NONBLOCK))
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
            raise UserError(f"{path} is a pipe or device; a corpus is read more than once, so save it to a file first")


def require_inside(path: Path, folder: Path) -> None:
    """Raises: UserError for a path in a folder that a symbolic link leads out of it; OSError where there is nothing"""
    real = Path(os.path.realpath(path, strict=True))
    if not real.is_relative_to(os.path.realpath(folder, strict=True)):
        raise UserError(
            f"{path} leads to {real}, outside of {folder}, and what is not in that folder is not copied; put the file "
            "itself in its place"
        )


def copy_inside(path: Path, folder: Path, target: Path) -> None:
    """Copy a file, or a folder and all in it but locks and partial files, that lies in `folder`, with what links mean.

    Raises: UserError for a pipe or device, and where a link leads out of `folder`; OSError
    """
    require_inside(path, folder)
    if not path.is_dir():
        with open_regular(path) as source, open(target, "xb") as copy:
            shutil.copyfileobj(source, copy)
        return
    target.mkdir()
    for part in sorted(path.iterdir()):
        if part.suffix not in (".partial", ".lock"):
            copy_inside(part, folder, target / part.name)


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
    """Read a file that holds a JSON object.  Raises: UserError where it cannot be read or does not hold one"""
    try:
        return parse_json_object(read_small_file(path))
    except ValueError as error:
        raise UserError(f"{path}: {error}") from error
