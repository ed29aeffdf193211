"""New folders, complete or not at all, and copies of what lies in another folder."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from minitf.errors import UserError
from minitf.system.files import open_regular, os_errors_explained
from minitf.system.writing import sync_folder


def require_new(folder: Path) -> None:
    """Raises: UserError unless `folder` can be made: there is nothing of its name, or an empty folder."""
    if folder.name in ("", ".."):
        raise UserError(f"{folder} is not the name of a new directory; give one")
    with os_errors_explained(f"look at {folder}"):
        if folder.is_symlink() or (folder.exists() and (not folder.is_dir() or any(folder.iterdir()))):
            raise UserError(f"{folder} already exists and is not an empty directory; give a new one")
        if os.path.ismount(folder):
            raise UserError(f"{folder} is a mount point, which cannot be replaced; give a new directory in it")


@contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """Yield a temporary folder that becomes `path` at the end of the `with` block, or is deleted after an error.

    Raises: UserError if `path` is not new, and where the system refuses
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


def require_inside(path: Path, folder: Path) -> None:
    """Raises: UserError for a path in a folder that a symbolic link leads out of it; OSError if there is nothing"""
    real = Path(os.path.realpath(path, strict=True))
    if not real.is_relative_to(os.path.realpath(folder, strict=True)):
        raise UserError(
            f"{path} leads to {real}, outside {folder}, and files outside that directory are not copied; put the file "
            "itself in its place"
        )
