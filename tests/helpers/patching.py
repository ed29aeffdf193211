"""Replacing functions, of the system and in modules that have imported them."""

import os
import sys


def patch_everywhere(monkeypatch, function, replacement):
    """Replace a function in every module of minitf that has its name."""
    name = function.__name__
    for module in [module for path, module in sys.modules.items() if path.startswith("minitf.")]:
        if getattr(module, name, None) is function:
            monkeypatch.setattr(module, name, replacement)


def record_flushes(monkeypatch, folder):
    """A list that gets each flush of a file to the disk, with its size, or of `folder`, and each replacement."""
    done, fsync, replace = [], os.fsync, os.replace

    def spy_fsync(descriptor):
        status = os.fstat(descriptor)
        is_folder = os.path.samestat(status, os.stat(folder))
        done.append("flush folder" if is_folder else f"flush {status.st_size} bytes")
        fsync(descriptor)

    def spy_replace(*names, **folders):
        done.append("rename")
        replace(*names, **folders)

    monkeypatch.setattr(os, "fsync", spy_fsync)
    monkeypatch.setattr(os, "replace", spy_replace)
    return done
