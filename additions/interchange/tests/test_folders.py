"""Folders that are there whole, or not at all."""

import os
import shutil
from pathlib import Path

import pytest

from additions.interchange.folders import new_folder
from minitf.errors import UserError
from tests.helpers.patching import record_flushes


def make_new(path, afterwards=None):
    with new_folder(path) as folder:
        (folder / "a").write_text("a")
        if afterwards:
            afterwards()


def test_a_new_folder_is_there_whole_and_its_name_is_durable(tmp_path, monkeypatch):
    done = record_flushes(monkeypatch, tmp_path)
    (tmp_path / "new").mkdir()
    with new_folder(tmp_path / "new") as folder:
        (folder / "a").write_text("a")
        assert list((tmp_path / "new").iterdir()) == []
    assert (tmp_path / "new" / "a").read_text() == "a"
    assert [path.name for path in tmp_path.iterdir()] == ["new"]
    assert done == ["rename", "flush folder"]


@pytest.mark.parametrize("error", [OSError(5, "Input/output error"), KeyboardInterrupt()])
@pytest.mark.parametrize("moment", ["within", "rename"])
def test_nothing_is_left_of_a_new_folder_after_an_error(tmp_path, monkeypatch, error, moment):
    def fail(*_):
        raise error

    with monkeypatch.context() as patched:
        if moment == "rename":
            patched.setattr(os, "replace", fail)
        with pytest.raises((UserError, type(error))):
            make_new(tmp_path / "new", fail if moment == "within" else None)
    assert list(tmp_path.iterdir()) == []


def test_what_was_renamed_is_not_deleted_after_a_later_error(tmp_path, monkeypatch):
    """A network file system may show the old name for a while, under which the new folder would be deleted."""

    def fail(*_):
        raise OSError(5, "Input/output error")

    deleted = []
    monkeypatch.setattr("additions.interchange.folders.sync_folder", fail)
    monkeypatch.setattr(shutil, "rmtree", lambda path, **_: deleted.append(path))
    with pytest.raises(UserError, match=r"cannot create the folder .*new: Input/output error"):
        make_new(tmp_path / "new")
    assert deleted == []
    assert (tmp_path / "new" / "a").read_text() == "a"


@pytest.mark.parametrize("kind", ["file", "full", "link", "dangling", ".", "..", "missing/.."])
def test_what_is_not_a_new_folder_is_refused(tmp_path, monkeypatch, kind):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "a").write_text("mine")
    (tmp_path / "file").write_text("mine")
    (tmp_path / "link").symlink_to("empty")
    (tmp_path / "dangling").symlink_to("nowhere")
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(UserError, match=r"; give (a new )?one$"), new_folder(Path(kind)):
        raise AssertionError("not reached")
    assert sorted(tmp_path.rglob("*")) == before
