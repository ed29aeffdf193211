"""Strict JSON, files that may come from anywhere, and system errors in words."""

import errno
import os

import pytest

from minitf.errors import UserError
from minitf.system.files import open_regular, os_errors_explained, parse_json


@pytest.mark.parametrize(
    ("number", "advice"), [(errno.ENOSPC, "free some space"), (errno.EROFS, "writable"), (errno.EACCES, "permissions")]
)
def test_system_errors_say_what_to_do(number, advice):
    message = f"^cannot write it: {os.strerror(number)}; .*{advice}"
    with pytest.raises(UserError, match=message), os_errors_explained("write it"):
        raise OSError(number, os.strerror(number))


def test_a_system_error_without_advice_is_still_told():
    with pytest.raises(UserError, match=r"^cannot write it: Input/output error$"), os_errors_explained("write it"):
        raise OSError(errno.EIO, os.strerror(errno.EIO))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"a": 1, "b": 2, "a": 1}', "'a' is given twice"),
        ('[{"a": {"x": 1, "x": 2}}]', "'x' is given twice"),
        ("NaN", "NaN is not JSON"),
        ("[-Infinity]", "-Infinity is not JSON"),
        ("[" * 200_000, "nested too deeply"),
        ('{"a":' * 200_000, "nested too deeply"),
        (b'"\xff"', "utf-8"),
        ('{"a": 1', "delimiter"),
        ("", "Expecting value"),
    ],
)
def test_json_that_is_refused(text, message):
    with pytest.raises(ValueError, match=message):
        parse_json(text)


# ---- Pipes, devices and links -------------------------------------------------------------------------------------


def test_a_pipe_or_a_device_is_not_opened(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", "/dev/zero"):
        with pytest.raises(UserError, match=f"{path} is not a regular file but a pipe or device; give a file"):
            open_regular(path)
    with pytest.raises(IsADirectoryError):
        open_regular(tmp_path)
    (tmp_path / "text").write_bytes(b"text")
    with open_regular(tmp_path / "text") as file:
        assert file.read() == b"text"
