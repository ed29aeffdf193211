"""Fetch a file from its official place into a folder: resumed where it broke off, checked, and kept.

A folder remembers in `checksums.json` the SHA-256 of all it has fetched. A file whose checksum is known from the start
is held to it; of any other the checksum at first use is recorded, and every later use is held to that. What is there
is used without any connection.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import http.client
import json
import os
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from minitf.errors import UserError
from minitf.system.files import atomic_write, os_errors_explained, parse_json, sync_folder
from minitf.system.signals import uninterrupted

CHECKSUMS_NAME = "checksums.json"
BLOCK_BYTES = 1 << 20
TIMEOUT_S = 60
ATTEMPTS = 5
"""Connections made for one file before giving up; each goes on where the one before broke off."""

Say = Callable[[str], None]


@dataclass(frozen=True)
class Remote:
    """A file on a server."""

    url: str
    sha256: str | None = None  # None: nobody has told us

    @property
    def name(self) -> str:
        """What the file is called: the last part of its address."""
        return urllib.parse.unquote(self.url.rpartition("/")[2])


class _BrokenOffError(Exception):
    """The connection ended too early; what has arrived is kept."""


def fetch(remote: Remote, folder: Path, say: Say) -> Path:
    """The file in the folder, downloaded unless it is there.

    Raises: UserError where it cannot be had, and where its checksum is not the known or recorded one.
    """
    path = folder / remote.name
    if not path.exists():
        with os_errors_explained(f"create the folder {folder}"):
            folder.mkdir(parents=True, exist_ok=True)
        with _alone(folder / f".{remote.name}.lock"):
            if not path.exists():  # another process may have fetched it meanwhile
                _download(remote, path, say)
    verify(path, remote.sha256)
    return path


def verify(path: Path, known: str | None) -> None:
    """Hold a file to its checksum, known or recorded when it was downloaded. One that a user put there has none.

    Raises: UserError where it differs.
    """
    record = path.parent / CHECKSUMS_NAME
    expected = known or _read_checksums(record).get(path.name)
    if expected is not None and (found := sha256_of(path)) != expected:
        whose = "known" if known else f"recorded in {record}"
        raise UserError(
            f"{path} has SHA-256 {found}, but {expected} is {whose}: its bytes are not those expected; delete it to "
            "download it again"
        )


def sha256_of(path: Path) -> str:
    """SHA-256 of a file, in hexadecimal digits."""
    with os_errors_explained(f"read {path}"), open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _read_checksums(record: Path) -> dict[str, str]:
    if not record.exists():
        return {}
    with os_errors_explained(f"read {record}"):
        content = record.read_bytes()
    try:
        found = parse_json(content)
        if not isinstance(found, dict) or not all(isinstance(each, str) for each in found.values()):
            raise ValueError("it is no object of names and checksums")
    except ValueError as error:
        raise UserError(f"{record} is damaged ({error}); delete it to record the checksums anew") from error
    return found


def _write_checksums(record: Path, checksums: dict[str, str]) -> None:
    with atomic_write(record) as file:
        file.write((json.dumps(checksums, indent=2, sort_keys=True) + "\n").encode())


# ---- Downloading -------------------------------------------------------------------------------------------------


def _download(remote: Remote, path: Path, say: Say) -> None:
    """The file, by way of `<name>.part`, which a later attempt goes on with."""
    part = path.with_name(path.name + ".part")
    for attempt in range(1, ATTEMPTS + 1):
        try:
            _receive(remote.url, part, say)
            break
        except _BrokenOffError as broken:
            if attempt == ATTEMPTS:
                raise UserError(
                    f"cannot download {remote.url}: {broken}, {ATTEMPTS} times; what has arrived is kept in {part}: "
                    "run the command again to go on from there"
                ) from broken
            say(f"{remote.url}: {broken}; going on from there")
    found = sha256_of(part)
    if remote.sha256 not in (None, found):
        part.unlink()
        _version_path(part).unlink(missing_ok=True)
        raise UserError(
            f"what {remote.url} gave has SHA-256 {found}, but {remote.sha256} is known: it is another file or was "
            f"damaged on the way; run the command again, or put the right file into {path.parent}"
        )
    record = path.parent / CHECKSUMS_NAME
    with _alone(path.parent / ".checksums.lock"):
        _write_checksums(record, {**_read_checksums(record), path.name: found})
    with os_errors_explained(f"write {path}"):
        os.replace(part, path)
        sync_folder(path.parent)
        _version_path(part).unlink(missing_ok=True)


def _receive(url: str, part: Path, say: Say) -> None:
    """Append to `part` what it lacks of the file at `url`.

    Raises: UserError where the server refuses or cannot be reached, _BrokenOffError where the connection ends early.
    """
    with os_errors_explained(f"write {part}"):
        have = part.stat().st_size if part.exists() else 0
    version = _version_path(part).read_text() if have and _version_path(part).exists() else ""
    request = urllib.request.Request(url, headers={"User-Agent": "minitf"})
    if have and version:  # without one, the rest might be of another version of the file
        request.add_header("Range", f"bytes={have}-")
        request.add_header("If-Range", version)
    with _opened(request, url, part) as response:
        start = _start_of(response, have, url)
        total = start + int(response.headers["Content-Length"]) if response.headers["Content-Length"] else None
        size = "" if total is None else f" ({total / 1e6:,.1f} MB)"
        say(f"downloading {url}{size}" + (f" from byte {start:,} on" if start else ""))
        with os_errors_explained(f"write {part}"), open(part, "ab" if start else "wb") as file:
            _remember_version(part, response)  # when nothing of another version is there any more
            _copy(response, file, start, total)
            file.flush()
            os.fsync(file.fileno())


@contextlib.contextmanager
def _opened(request: urllib.request.Request, url: str, part: Path) -> Iterator[Any]:
    by_hand = f"check the connection, or put the file into {part.parent} by hand (--data-dir takes another folder)"
    try:
        response = urllib.request.urlopen(request, timeout=TIMEOUT_S)
    except urllib.error.HTTPError as error:
        error.close()
        if error.code == 416:  # what is there is longer than the file, so it is not the file's beginning
            part.unlink()
            raise _BrokenOffError("the server has another file by now") from error
        raise UserError(f"cannot download {url}: the server answers {error.code} {error.reason}; {by_hand}") from error
    except (urllib.error.URLError, OSError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", error)
        raise UserError(f"cannot download {url}: {reason}; {by_hand}") from error
    with response:
        yield response


def _start_of(response: Any, have: int, url: str) -> int:
    """The place in the file that the response begins at: `have`, or 0 where the server sends it whole."""
    if response.status != 206:
        return 0
    sent = response.headers["Content-Range"] or ""
    if not sent.startswith(f"bytes {have}-"):
        raise UserError(f"cannot download {url}: asked for the bytes from {have} on, the server sends {sent!r}")
    return have


def _copy(response: Any, file: BinaryIO, start: int, total: int | None) -> None:
    """Raises: _BrokenOffError where reading fails or ends too early; what has been read is written."""
    with uninterrupted():
        from tqdm import tqdm

    place = start
    with tqdm(total=total, initial=start, unit="B", unit_scale=True, dynamic_ncols=True, disable=None) as bar:
        while True:
            block, failure = _read(response)
            file.write(block)
            place += len(block)
            bar.update(len(block))
            if failure or not block:
                break
    file.flush()
    if failure or total not in (None, place):
        of = "" if total is None else f" of {total:,}"
        raise _BrokenOffError(f"the connection ended after {place:,}{of} bytes" + (f" ({failure})" if failure else ""))


def _read(response: Any) -> tuple[bytes, str]:
    """The next bytes, and what went wrong, if something did. Apart from writing, whose failures are other ones."""
    try:
        return response.read(BLOCK_BYTES), ""
    except http.client.IncompleteRead as error:
        return error.partial, "it was cut short"
    except (OSError, http.client.HTTPException) as error:  # timeouts and failures of encryption too
        return b"", str(error) or type(error).__name__


def _version_path(part: Path) -> Path:
    return part.with_name(part.name + ".version")


def _remember_version(part: Path, response: Any) -> None:
    """What tells the version of the file that the part is of: its ETag, or the time of its last change."""
    tag = response.headers["ETag"] or ""
    weak = not tag or tag.startswith("W/")  # good enough to say "the same meaning", not "the same bytes"
    with atomic_write(_version_path(part)) as file:
        file.write((response.headers["Last-Modified"] or "" if weak else tag).encode())


@contextlib.contextmanager
def _alone(lock_path: Path) -> Iterator[None]:
    """Keeps other processes out for as long as the block takes; the lock ends with the process, however that ends."""
    with os_errors_explained(f"lock {lock_path}"):
        lock = open(lock_path, "w")  # noqa: SIM115
    with lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
