"""New folders that are complete, or not there."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from minitf.errors import UserError
from minitf.system.files import os_errors_explained, partial_name, sync_folder


def require_new(folder: Path) -> None:
    """Raises: UserError unless `folder` can be made: there is nothing of its name, or an empty folder."""
    if folder.name in ("", ".."):
        raise UserError(f"{folder} is not the name of a new directory; give one")
    with os_errors_explained(f"look at {folder}"):
        if folder.is_symlink() or (folder.exists() and (not folder.is_dir() or any(folder.iterdir()))):
            raise UserError(f"{folder} already exists and is not an empty directory; give a new one")


@contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """Yield a temporary folder that becomes `path` at the end of the `with` block, or is deleted after an error.

    Raises: UserError if `path` is not new, and where the system refuses
    """
    require_new(path)
    temporary = partial_name(path)
    with os_errors_explained(f"create the folder {path}"):
        temporary.mkdir(parents=True)
        try:
            yield temporary
            os.replace(temporary, path)
        except BaseException:  # not after the rename: a network file system may show the old name for a while
            shutil.rmtree(temporary, ignore_errors=True)
            raise
        sync_folder(path.parent)
