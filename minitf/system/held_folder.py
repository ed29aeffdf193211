"""Folders that this process has locked: written, renamed and deleted in through a descriptor, never by path alone.

While a process works, its folder may be moved, or deleted with another run started in its place: its path would lead to
the files of that run. In a folder that came from elsewhere, a symbolic link may lead out of it. So every change of a
file opens the folder around it with `opened`. Inside a held folder, this checks that the path still leads to the folder
that was locked, and follows no link; anywhere else, it opens the folder as usual.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Self

from minitf.errors import UserError

FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
ADVICE = "it was moved, deleted or replaced while this process was using it; resume the run from where it is now"
OWNER_BYTES = 500  # read of a lock file


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
        os.pwrite(self.lock, self._written, 0)
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
