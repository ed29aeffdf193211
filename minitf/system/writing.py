"""Write files completely or not at all, and in a folder that this process has locked nowhere else.

While a process works, its folder may be moved, or deleted with another run started in its place: its path would lead to
the files of that run. In a folder that came from elsewhere, a symbolic link may lead out of it. So every change of a
file opens the folder around it with `opened`. Inside a held folder, this checks that the path still leads to the folder
that was locked, and follows no link; anywhere else, it opens the folder as usual.
"""

from __future__ import annotations

import errno
import fcntl
import io
import os
import re
import shutil
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO, Any, BinaryIO, Self

from minitf.errors import UserError
from minitf.system.files import BUFFER_BYTES, open_regular, open_stream, os_errors_explained, require_inside

FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
ADVICE = "it was moved, deleted or replaced while this process was using it; resume the run from where it is now"
OWNER_BYTES = 500  # read of a lock file


# ---- Files ----


@contextmanager
def write_atomically(path: str | os.PathLike[str], *, binary: bool = False, chosen: bool = False) -> Iterator[IO[Any]]:
    """Open a file for writing that appears at `path` only once it is complete and durable.

    The text is UTF-8, and `\\n` is written as it is. A failure in the `with` block or in writing leaves an earlier file
    at `path` as it was, and no other file behind.

    chosen: the user has named this very file. A link to a file is followed, and a device or pipe such as `/dev/stdout`,
        onto which no file can be renamed, is written to. A link, device or pipe at any other path, whose folder may
        come from elsewhere, or in a held folder, is replaced.

    Raises: UserError when the folder is missing or read-only, the disk is full, or `path` is a folder.
    """
    action = f"write {os.fspath(path)}"
    if is_held(Path(path)) or not chosen:
        target, is_device = Path(path), False
        is_folder = target.is_dir() and not target.is_symlink()
        with suppress(OSError):
            if stat.S_IFMT(os.lstat(target).st_mode) in (stat.S_IFCHR, stat.S_IFBLK):
                raise UserError(f"cannot {action}: it is a device; give the name of a file")
    else:
        target = Path(os.path.realpath(path))  # replace the file that a link points to, not the link
        is_folder = target.is_dir()
        is_device = target.exists() and not target.is_file()
    if is_folder:
        raise UserError(f"cannot {action}: it is a folder; give the name of a file")
    if not target.parent.is_dir():
        raise UserError(f"cannot {action}: there is no folder {target.parent}; create it first")
    with open_device(target, action) if is_device else atomic_write(target, action) as file:
        if binary:
            yield file
        else:
            text = io.TextIOWrapper(file, encoding="utf-8", newline="\n")
            yield text
            text.flush()


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
                descriptor = open_stream(Path(path), flags)
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
            plain = stack.enter_context(ReportingFile(temporary, action, kind, folder=folder))
            file = io.BufferedWriter(plain, BUFFER_BYTES)
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


def require_new(folder: Path) -> None:
    """Raises: UserError unless `folder` can be made: there is nothing of its name, or an empty folder."""
    if folder.name in ("", ".."):
        raise UserError(f"{folder} is not the name of a new folder; give one")
    with os_errors_explained(f"look at {folder}"):
        if folder.is_symlink() or (folder.exists() and (not folder.is_dir() or any(folder.iterdir()))):
            raise UserError(f"{folder} already exists, and is not an empty folder; give a new one")


@contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """Yield a temporary folder that becomes `path` at the end of the `with` block, or is deleted after an error.

    Raises: UserError where `path` is not new, and where the system refuses
    """
    require_new(path)
    temporary = path.with_name(f".{path.name[:50]}.{os.urandom(4).hex()}.partial")
    try:
        with os_errors_explained(f"create the folder {path}"):
            temporary.mkdir(parents=True)
        yield temporary
        with os_errors_explained(f"create the folder {path}"):
            os.replace(temporary, path)
    except BaseException:  # not after the rename: a network file system may show the old name for a while
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    with os_errors_explained(f"write the folder {path}"):
        sync_folder(path.parent)


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


# ---- Held folders ----


class HeldFolder:
    """A folder and the lock file in it, both open; held until `close`."""

    _all: list[HeldFolder] = []  # noqa: RUF012 (of the process, as are its locks)

    def __init__(self, path: Path, lock_name: str) -> None:
        """Open the folder, and its lock file, which is created where it is missing.

        Raises: UserError where the lock file is a link or not a file; OSError.
        """
        self.path, self.lock_path = path, path / lock_name
        self._written = b""
        self.descriptor = os.open(path, FOLDER)
        try:
            self.lock = open_own_file(self.lock_path, os.O_RDWR | os.O_CREAT, self.descriptor)
        except BaseException:
            os.close(self.descriptor)
            raise

    def hold(self, owner: str) -> None:
        """Write who holds the lock into its file, and begin to check and to confine what is written in the folder."""
        self._written = f"{owner}\n{os.urandom(8).hex()}\n".encode()  # processes of two hosts may have one name
        os.ftruncate(self.lock, 0)
        at = 0
        while at < len(self._written):  # where the disk is nearly full, a part is written, and only the rest fails
            at += os.pwrite(self.lock, self._written[at:], at)
        self._all.append(self)
        self.check()

    def check(self) -> None:
        """Check that this process still has the folder.

        Raises: UserError unless the path leads to the open folder, the lock file in it is the open one, and no other
        process has written its name into that, as where a file system grants everybody a lock.
        """
        if not _leads_to(self.path, self.descriptor):
            raise UserError(f"{self.path} is no longer the folder that this process has locked: {ADVICE}")
        if not _leads_to(self.lock_path.name, self.lock, self.descriptor):
            raise UserError(f"{self.lock_path} is no longer the lock that this process holds: {ADVICE}")
        if (found := os.pread(self.lock, OWNER_BYTES, 0)) != self._written:
            other = owner_in(found) or "another process"
            raise UserError(
                f"{other} has taken {self.path} from this process: locks have no effect on this file system; keep runs "
                "where they have, or start one process at a time"
            )

    def close(self) -> None:
        """Release the lock."""
        if self in self._all:
            self._all.remove(self)
        os.close(self.lock)
        os.close(self.descriptor)

    @classmethod
    def around(cls, path: Path) -> Self | None:
        """Return the held folder that contains a path."""
        found = [each for each in cls._all if path.is_relative_to(each.path)]
        return max(found, key=lambda each: len(each.path.parts), default=None)  # type: ignore[return-value]


@contextmanager
def opened(folder: Path, *, create: bool = False) -> Iterator[int]:
    """Open a folder; yield the descriptor, for the `dir_fd` of functions of `os`.

    create: make the folder, and those around it, where they are missing

    Raises: UserError where a held folder has been moved, or a part of a path inside one is a link; OSError.
    """
    held = HeldFolder.around(folder)
    try:
        with _opened(folder, held, create) as descriptor:
            check_place(folder)  # again: what was opened is a part of the folder that was locked
            yield descriptor
    except (OSError, UserError):
        check_place(folder)  # the reason why something was missing, or already there
        raise


@contextmanager
def _opened(folder: Path, held: HeldFolder | None, create: bool) -> Iterator[int]:
    if held is None:
        if create:
            folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(folder, FOLDER)
    else:
        held.check()
        descriptor = _descend(held, folder, create)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def is_held(path: Path) -> bool:
    """Whether a path is in a folder that this process has locked."""
    return HeldFolder.around(path) is not None


def check_place(path: Path) -> None:
    """Raises: UserError where a path in a held folder no longer leads there."""
    if held := HeldFolder.around(path):
        held.check()


def owner_in(content: bytes) -> str:
    """The owner that a lock file names."""
    return content.decode(errors="replace").partition("\n")[0]


def open_own_file(path: Path, flags: int, folder: int) -> int:
    """Open a file that is changed in place, in an open folder.

    Raises: UserError where the path leads to a file of another place or to a device, or the file may belong to another
    run, which has taken the place of the one in a held folder; OSError.
    """
    try:
        descriptor = os.open(path.name, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o666, dir_fd=folder)
    except OSError as error:
        raise _explained(path, error) from error
    found = os.fstat(descriptor)
    try:
        check_place(path)  # after it was opened: it was in the folder that is locked
        if stat.S_ISREG(found.st_mode) and found.st_nlink <= 1:
            return descriptor
    except BaseException:
        os.close(descriptor)
        raise
    os.close(descriptor)
    what = f"has {found.st_nlink} names (hard links)" if stat.S_ISREG(found.st_mode) else "is not a regular file"
    raise UserError(f"{path} {what}, and writing to it would change something elsewhere; put a copy in its place")


def _descend(held: HeldFolder, folder: Path, create: bool) -> int:
    """Open a folder inside a held one, part by part, without following links."""
    descriptor = os.dup(held.descriptor)
    place = held.path
    for part in folder.relative_to(held.path).parts:
        place = place / part
        try:
            if create:
                with suppress(FileExistsError):
                    os.mkdir(part, dir_fd=descriptor)
            inner = os.open(part, FOLDER | os.O_NOFOLLOW, dir_fd=descriptor)
        except OSError as error:
            raise _explained(place, error) from error
        finally:
            os.close(descriptor)
        descriptor = inner
    return descriptor


def _explained(path: Path, error: OSError) -> Exception:
    """The error to raise in place of one that a symbolic link has caused."""
    if error.errno in (errno.ELOOP, errno.ENOTDIR) and path.is_symlink():
        return UserError(
            f"{path} is a symbolic link, and a run writes to nothing outside its folder; put the file or folder itself "
            "in its place"
        )
    return error


def _leads_to(path: Path | str, descriptor: int, folder: int | None = None) -> bool:
    try:
        found = os.stat(path, dir_fd=folder, follow_symlinks=folder is None)
    except (FileNotFoundError, NotADirectoryError):
        return False
    return os.path.samestat(found, os.fstat(descriptor))
