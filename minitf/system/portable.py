"""Features of POSIX systems that Windows lacks: locks, open folders, flags of `os.open`, positioned reads, limits.

No other module of this package imports `fcntl` or `resource`, or uses a flag that Windows lacks. On Windows, a folder
is identified by its path only: if the folder of a run is replaced during training, this is noticed, but not at once.
"""

from __future__ import annotations

import errno
import os
import shutil
import signal
import stat
import time
from pathlib import Path

try:
    import fcntl
except ImportError:
    fcntl = None  # type: ignore[assignment]
try:
    import resource
except ImportError:
    resource = None  # type: ignore[assignment]

# ---- Flags of os.open, and signals; 0 where a system lacks one ----

BINARY = getattr(os, "O_BINARY", 0)  # without it, Windows changes ends of lines
CLOEXEC = getattr(os, "O_CLOEXEC", 0) | BINARY
NONBLOCK = getattr(os, "O_NONBLOCK", 0)
NOCTTY = getattr(os, "O_NOCTTY", 0)
NOFOLLOW = getattr(os, "O_NOFOLLOW", 0)
DIRECTORY = getattr(os, "O_DIRECTORY", 0)

SIGNALS = tuple([getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)])
"""The signals that stop a command."""


def has_process_groups() -> bool:
    """Return whether processes can be started with the descriptors that they inherit, and be killed as a group."""
    return hasattr(os, "fork") and hasattr(os, "killpg")


def has_ended(process: int) -> bool:
    """Return whether there is no process of this number; False where the system does not tell."""
    if not has_process_groups():  # on Windows, `os.kill` would send it Ctrl-C
        return False
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return True
    except OSError:  # it belongs to another user
        pass
    return False


# ---- Files ----


def read_at(descriptor: int, count: int, offset: int) -> bytes:
    """Read up to `count` bytes from `offset` on."""
    if hasattr(os, "pread"):
        return os.pread(descriptor, count, offset)
    os.lseek(descriptor, offset, os.SEEK_SET)
    return os.read(descriptor, count)


def read_into(descriptor: int, memory: memoryview, offset: int) -> int:
    """Fill `memory` from `offset` on; return the number of bytes that were there."""
    if hasattr(os, "preadv"):
        return os.preadv(descriptor, [memory], offset)
    found = read_at(descriptor, len(memory), offset)
    memory[: len(found)] = found
    return len(found)


def write_at(descriptor: int, data: bytes, offset: int) -> int:
    """Write bytes from `offset` on; return how many were written."""
    if hasattr(os, "pwrite"):
        return os.pwrite(descriptor, data, offset)
    os.lseek(descriptor, offset, os.SEEK_SET)
    return os.write(descriptor, data)


LOCKED_BYTE, PAUSE_S = 2**30, 0.1  # Windows locks bytes, which nobody can read then: one beyond the end of the file


def lock(descriptor: int, *, shared: bool = False, wait: bool = False) -> None:
    """Lock an open file until it is closed.

    shared: others may have it, too, if theirs is shared (on Windows, no two have it)

    Raises: BlockingIOError if another process has the lock, unless `wait`; OSError
    """
    if fcntl is not None:
        fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | (0 if wait else fcntl.LOCK_NB))
        return
    import msvcrt

    while True:
        os.lseek(descriptor, LOCKED_BYTE, os.SEEK_SET)
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
            return
        except PermissionError as error:
            if not wait:
                raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN)) from error
            time.sleep(PAUSE_S)


# ---- Open folders ----


class Folder:
    """An open folder, which stays the same whatever its path leads to; names are of files in it, links not followed."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor

    def open(self, name: str, flags: int) -> int:
        """Open a file of the folder with flags of `os.open`; return its descriptor."""
        return os.open(name, flags, 0o666, dir_fd=self.descriptor)

    def open_folder(self, name: str) -> Folder:
        """Open a folder in this one.  Raises: OSError, also where it is a link"""
        return Folder(os.open(name, os.O_RDONLY | DIRECTORY | CLOEXEC | NOFOLLOW, dir_fd=self.descriptor))

    def again(self) -> Folder:
        """Return the folder opened once more, to be closed by itself."""
        return Folder(os.dup(self.descriptor))

    def is_at(self, path: Path) -> bool:
        """Return whether a path leads to this folder."""
        try:
            return os.path.samestat(os.stat(path), self.status())
        except (FileNotFoundError, NotADirectoryError):
            return False

    def status(self) -> os.stat_result:
        """Return the status of the folder."""
        return os.fstat(self.descriptor)

    def stat(self, name: str) -> os.stat_result:
        """Return the status of a file; of a link, its own."""
        return os.stat(name, dir_fd=self.descriptor, follow_symlinks=False)

    def keep_mode(self, name: str, descriptor: int) -> None:
        """Give an open file the mode of the file `name`.  Raises: OSError"""
        found = self.stat(name)
        if stat.S_ISREG(found.st_mode):
            os.fchmod(descriptor, stat.S_IMODE(found.st_mode))

    def names(self) -> list[str]:
        """Return the names of all that is in the folder."""
        return os.listdir(self.descriptor)

    def mkdir(self, name: str) -> None:
        """Make a folder in this one."""
        os.mkdir(name, dir_fd=self.descriptor)

    def rename(self, name: str, other: str) -> None:
        """Give a file, or a folder, another name; on Windows, none may have that name."""
        os.rename(name, other, src_dir_fd=self.descriptor, dst_dir_fd=self.descriptor)

    def replace(self, name: str, other: str) -> None:
        """Give a file another name; a file of that name is replaced."""
        os.replace(name, other, src_dir_fd=self.descriptor, dst_dir_fd=self.descriptor)

    def unlink(self, name: str) -> None:
        """Delete a file, or a link."""
        os.unlink(name, dir_fd=self.descriptor)

    def remove_tree(self, name: str) -> None:
        """Delete a folder and all that is in it."""
        shutil.rmtree(name, dir_fd=self.descriptor)

    def flush(self) -> None:
        """Flush the folder to the disk, so that renames in it are durable."""
        try:
            os.fsync(self.descriptor)
        except OSError as error:
            # Some network file systems cannot flush a folder and return one of these errors; their server flushes it.
            if error.errno not in (errno.EINVAL, errno.ENOTSUP):
                raise

    def close(self) -> None:
        """Close the folder, once."""
        os.close(self.descriptor)
