"""Write files completely or not at all, and in a folder that this process has locked nowhere else.

While a process works, its folder may be moved, or deleted with another run started in its place: its path would lead to
the files of that run. In a folder that came from elsewhere, a symbolic link may lead out of it. So every change of a
file opens the folder around it with `opened`. Inside a held folder, this checks that the path still leads to the folder
that was locked, and follows no link; anywhere else, it opens the folder as usual.
"""

from __future__ import annotations

import errno
import io
import os
import re
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO, Any, BinaryIO, Self

from minitf.errors import UserError
from minitf.system import portable
from minitf.system.files import BUFFER_BYTES, open_stream, os_errors_explained
from minitf.system.folder_by_path import FolderByPath
from minitf.system.portable import Folder

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
        raise UserError(f"cannot {action}: it is a directory; give the name of a file")
    if not target.parent.is_dir():
        raise UserError(f"cannot {action}: there is no directory {target.parent}; create it first")
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
        folder: Folder | None = None,
    ):
        self._action, self._kind = action, kind
        with os_errors_explained(action, kind):
            flags = os.O_WRONLY | portable.CLOEXEC
            if not new:
                descriptor = open_stream(Path(path), flags)
            elif folder is None:
                descriptor = os.open(path, flags | os.O_CREAT | os.O_EXCL, 0o666)
            else:
                descriptor = folder.open(os.fspath(path), flags | os.O_CREAT | os.O_EXCL)
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
                with suppress(FileNotFoundError):
                    folder.keep_mode(path.name, file.fileno())
                os.fsync(file.fileno())
                file.close()
                check_place(path)  # again, after what may have been minutes
                folder.replace(temporary, path.name)
        except BaseException:  # an interrupt must not leave a partial file either
            with suppress(OSError, UserError):  # the first error is the one to report
                if file is not None:
                    file.close()
            with suppress(OSError):
                folder.unlink(temporary)
            raise
        with os_errors_explained(action, kind):
            folder.flush()


@contextmanager
def open_device(path: Path, action: str) -> Iterator[BinaryIO]:
    """Open a device or pipe for writing.  Raises: UserError if the system refuses"""
    with io.BufferedWriter(ReportingFile(path, action, new=False), BUFFER_BYTES) as file:
        yield file


LEFTOVER = re.compile(r"\.(.+)\.[0-9a-f]{8}\.partial", re.DOTALL)


def remove_leftovers(folder: Path, names: str = ".*") -> None:
    """Delete the temporary files that killed processes have left in `folder`; no other process may write there.

    names: regular expression for the beginning of the names of the final files
    """
    with opened(folder) as found:
        for name in found.names():
            if (match := LEFTOVER.fullmatch(name)) and re.match(names, match[1]):
                with suppress(FileNotFoundError):
                    _remove(name, found)


def delete(path: Path, *, missing_ok: bool = False) -> None:
    """Delete a file; of a symbolic link, the link."""
    with opened(path.parent) as folder, suppress(*[FileNotFoundError] if missing_ok else []):
        folder.unlink(path.name)


def clear_away(path: Path) -> None:
    """Delete a file, or a folder and all that is in it, unless it has gone.

    It gets another name first: if another run has taken the place of a held folder since the last check, it gets its
    name back.
    """
    aside = f".{path.name[:50]}.{os.urandom(4).hex()}.partial"
    with opened(path.parent) as folder, suppress(FileNotFoundError):
        folder.rename(path.name, aside)
        try:
            check_place(path)
        except UserError:
            folder.rename(aside, path.name)
            raise
        _remove(aside, folder)


def _remove(name: str, folder: Folder) -> None:
    """Delete a file, or a folder and all that is in it, in an open folder; links are not followed."""
    if stat.S_ISDIR(folder.stat(name).st_mode):
        folder.remove_tree(name)
    else:
        folder.unlink(name)


def rename(path: Path, name: str) -> None:
    """Give a file another name in its folder, durably; a file of that name is replaced."""
    with opened(path.parent) as folder:
        folder.replace(path.name, name)
        folder.flush()


def make_folder(folder: Path) -> None:
    """Make a folder, and those around it, where they are missing."""
    with opened(folder, create=True):
        pass


def sync_folder(folder: Path) -> None:
    """Flush a folder to the disk, so that renames in it are durable."""
    with opened(folder) as found:
        found.flush()


@contextmanager
def exclusive_lock(path: Path) -> Iterator[None]:
    """Wait for a lock file and hold it; the kernel releases it when the process ends, however it ends."""
    with os_errors_explained(f"lock {path}"), opened(path.parent) as folder:
        descriptor = open_own_file(path, os.O_RDWR | os.O_CREAT, folder)
    try:
        portable.lock(descriptor, wait=True)
        yield
    finally:
        os.close(descriptor)


# ---- Held folders ----


class HeldFolder:
    """A folder and the lock file in it, both open; held until `close`."""

    _all: list[HeldFolder] = []  # noqa: RUF012 (of the process, as are its locks)

    def __init__(self, path: Path, lock_name: str) -> None:
        """Open the folder, and its lock file, which is created where it is missing.

        Raises: UserError if the lock file is a link or not a file; OSError.
        """
        self.path, self.lock_path = path, path / lock_name
        self._written = b""
        self.folder = _open_folder(path)
        try:
            self.lock = open_own_file(self.lock_path, os.O_RDWR | os.O_CREAT, self.folder)
        except BaseException:
            self.folder.close()
            raise

    def hold(self, owner: str) -> None:
        """Write who holds the lock into its file, and begin to check and to confine what is written in the folder."""
        self._written = f"{owner}\n{os.urandom(8).hex()}\n".encode()  # processes of two hosts may have one name
        os.ftruncate(self.lock, 0)
        at = 0
        while at < len(self._written):  # where the disk is nearly full, a part is written, and only the rest fails
            at += portable.write_at(self.lock, self._written[at:], at)
        self._all.append(self)
        self.check()

    def check(self) -> None:
        """Check that this process still has the folder.

        Raises: UserError unless the path leads to the open folder, the lock file in it is the open one, and no other
        process has written its name into that, as where a file system grants everybody a lock.
        """
        if not self.folder.is_at(self.path):
            raise UserError(f"{self.path} is no longer the directory that this process has locked: {ADVICE}")
        if not _is_open(self.lock, self.lock_path.name, self.folder):
            raise UserError(f"{self.lock_path} is no longer the lock that this process holds: {ADVICE}")
        if (found := portable.read_at(self.lock, OWNER_BYTES, 0)) != self._written:
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
        self.folder.close()

    @classmethod
    def around(cls, path: Path) -> Self | None:
        """Return the held folder that contains a path."""
        found = [each for each in cls._all if path.is_relative_to(each.path)]
        return max(found, key=lambda each: len(each.path.parts), default=None)  # type: ignore[return-value]


@contextmanager
def opened(folder: Path, *, create: bool = False) -> Iterator[Folder]:
    """Open a folder, to change what is in it.

    create: make the folder, and those around it, where they are missing

    Raises: UserError if a held folder has been moved, or a part of a path inside one is a link; OSError.
    """
    held = HeldFolder.around(folder)
    try:
        with _opened(folder, held, create) as found:
            check_place(folder)  # again: what was opened is a part of the folder that was locked
            yield found
    except (OSError, UserError):
        check_place(folder)  # the reason why something was missing, or already there
        raise


@contextmanager
def _opened(folder: Path, held: HeldFolder | None, create: bool) -> Iterator[Folder]:
    if held is None:
        if create:
            folder.mkdir(parents=True, exist_ok=True)
        found = _open_folder(folder)
    else:
        held.check()
        found = _descend(held, folder, create)
    try:
        yield found
    finally:
        found.close()


def _open_folder(path: Path) -> Folder:
    if os.open in os.supports_dir_fd and portable.DIRECTORY:
        return Folder(os.open(path, os.O_RDONLY | portable.DIRECTORY | portable.CLOEXEC))
    return FolderByPath(path)


def is_held(path: Path) -> bool:
    """Return whether a path is in a folder that this process has locked."""
    return HeldFolder.around(path) is not None


def check_place(path: Path) -> None:
    """Raises: UserError if a path in a held folder no longer leads there."""
    if held := HeldFolder.around(path):
        held.check()


def owner_in(content: bytes) -> str:
    """Return the owner that a lock file names."""
    return content.decode(errors="replace").partition("\n")[0]


def open_own_file(path: Path, flags: int, folder: Folder) -> int:
    """Open a file that is changed in place, in an open folder.

    Raises: UserError if the path leads to a file of another place or to a device, or the file may belong to another
    run, which has taken the place of the one in a held folder; OSError.
    """
    try:
        descriptor = folder.open(path.name, flags | portable.NOFOLLOW | portable.NONBLOCK | portable.CLOEXEC)
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
    raise UserError(f"{path} {what}, and writing to it would change a file elsewhere; replace it with a copy")


def _descend(held: HeldFolder, folder: Path, create: bool) -> Folder:
    """Open a folder inside a held one, part by part, without following links."""
    outer = held.folder.again()
    place = held.path
    for part in folder.relative_to(held.path).parts:
        place = place / part
        try:
            if create:
                with suppress(FileExistsError):
                    outer.mkdir(part)
            inner = outer.open_folder(part)
        except OSError as error:
            raise _explained(place, error) from error
        finally:
            outer.close()
        outer = inner
    return outer


def _explained(path: Path, error: OSError) -> Exception:
    """Return the error to raise in place of one that a symbolic link has caused."""
    if error.errno in (errno.ELOOP, errno.ENOTDIR) and path.is_symlink():
        return UserError(
            f"{path} is a symbolic link, and a run writes to nothing outside its folder; put the file or folder itself "
            "in its place"
        )
    return error


def _is_open(descriptor: int, name: str, folder: Folder) -> bool:
    """Return whether an open file is the one of this name in a folder."""
    try:
        return os.path.samestat(folder.stat(name), os.fstat(descriptor))
    except (FileNotFoundError, NotADirectoryError):
        return False
