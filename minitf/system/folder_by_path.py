"""Open folders on Windows, whose functions take no descriptor of a folder."""

from __future__ import annotations

import errno
import os
import shutil
import stat
from pathlib import Path

from minitf.system.portable import Folder


class FolderByPath(Folder):
    """A folder where functions take no folder's descriptor: its path, and its status when it was opened."""

    def __init__(self, path: Path, *, follow_symlinks: bool = True) -> None:
        self.path = Path(path).absolute()
        self._status = os.stat(path, follow_symlinks=follow_symlinks)
        if not stat.S_ISDIR(self._status.st_mode):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), os.fspath(path))

    def open(self, name: str, flags: int) -> int:
        if (self.path / name).is_symlink():
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), name)
        return os.open(self.path / name, flags, 0o666)

    def open_folder(self, name: str) -> Folder:
        return FolderByPath(self.path / name, follow_symlinks=False)

    def again(self) -> Folder:
        return FolderByPath(self.path)

    def status(self) -> os.stat_result:
        return self._status

    def stat(self, name: str) -> os.stat_result:
        return os.lstat(self.path / name)

    def keep_mode(self, name: str, descriptor: int) -> None:
        self.stat(name)  # Windows has access lists, which a new file inherits from its folder

    def names(self) -> list[str]:
        return os.listdir(self.path)

    def mkdir(self, name: str) -> None:
        os.mkdir(self.path / name)

    def rename(self, name: str, other: str) -> None:
        os.rename(self.path / name, self.path / other)

    def replace(self, name: str, other: str) -> None:
        os.replace(self.path / name, self.path / other)

    def unlink(self, name: str) -> None:
        os.unlink(self.path / name)

    def remove_tree(self, name: str) -> None:
        shutil.rmtree(self.path / name)

    def flush(self) -> None:
        """Do nothing: Windows opens no folder, and NTFS keeps a journal of renames."""

    def close(self) -> None:
        pass
