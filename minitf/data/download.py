"""Download files into a folder: resumed after a broken connection, and verified at every use.

The file `checksums.json` of the folder records the SHA-256 of all downloads. A file is verified against its checksum
where that is known in advance, else against the one recorded at its download. A file that is already there is used
without any connection.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import re
import socket
import ssl
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import urlsplit

from tqdm import tqdm

from minitf.errors import UserError, shortened
from minitf.system.files import os_errors_explained, parse_json_object, sha256_of
from minitf.system.writing import atomic_write, locked, sync_folder

CHECKSUMS_NAME = "checksums.json"
BLOCK_BYTES = 1 << 20
MOST_BYTES = 20 * 10**9
"""The largest file; the largest archive of a known corpus has 2.6 GB."""
SLOWEST, SLOW_S = 1000, 60.0
"""A server that sends less than `SLOWEST` bytes a second for `SLOW_S` seconds is given up."""
ATTEMPTS = 5
"""Connections per file before giving up; each resumes where the one before ended."""

Say = Callable[[str], None]


@dataclass(frozen=True)
class Remote:
    """A file on a server."""

    url: str
    sha256: str | None = None  # None: not known in advance

    @property
    def name(self) -> str:
        """The file's name: the last part of its address."""
        return urllib.parse.unquote(self.url.rpartition("/")[2])


class _BrokenOffError(Exception):
    """The connection ended too early; the bytes received are kept."""


def fetch(remote: Remote, folder: Path, say: Say) -> Path:
    """Download the file unless the folder has it, and verify it.

    Raises: UserError if it cannot be downloaded, and where its checksum is not the known or recorded one.
    """
    path = folder / remote.name
    if not path.exists():
        with os_errors_explained(f"create the folder {folder}"):
            folder.mkdir(parents=True, exist_ok=True)
        with locked(folder / f".{remote.name}.lock"):
            if not path.exists():  # another process may have fetched it meanwhile
                _download(remote, path, say)
    verify(path, remote.sha256)
    return path


def verify(path: Path, known: str | None) -> None:
    """Check a file against its checksum, known or recorded at its download; a file put there by a user has none.

    Raises: UserError if it differs.
    """
    record = path.parent / CHECKSUMS_NAME
    expected = known or _read_checksums(record).get(path.name)
    if expected is not None and (found := sha256_of(path)) != expected:
        whose = "known" if known else f"recorded in {record}"
        raise UserError(
            f"{path} has SHA-256 {found}, but {expected} is {whose}: its bytes are not those expected; delete it to "
            "download it again"
        )


def _read_checksums(record: Path) -> dict[str, str]:
    if not record.exists():
        return {}
    with os_errors_explained(f"read {record}"):
        content = record.read_bytes()
    try:
        found = parse_json_object(content)
        if not all(isinstance(each, str) for each in found.values()):
            raise ValueError("not all of its values are checksums")
    except ValueError as error:
        raise UserError(f"{record} is damaged ({error}); delete it to record the checksums again") from error
    return found


def _write_checksums(record: Path, checksums: dict[str, str]) -> None:
    with atomic_write(record) as file:
        file.write((json.dumps(checksums, indent=2, sort_keys=True) + "\n").encode())


# ---- Downloading -------------------------------------------------------------------------------------------------


def _download(remote: Remote, path: Path, say: Say) -> None:
    """Download the file as `<name>.part`, which a later attempt resumes, and rename it."""
    part = path.with_name(path.name + ".part")
    for attempt in range(1, ATTEMPTS + 1):
        try:
            _receive(remote.url, part, say)
            break
        except _BrokenOffError as broken:
            if attempt == ATTEMPTS:
                raise UserError(
                    f"cannot download {remote.url}: {broken}, {ATTEMPTS} times; the bytes received are kept in {part}: "
                    "run the command again to resume"
                ) from broken
            say(f"{remote.url}: {broken}; resuming")
    found = sha256_of(part)
    if remote.sha256 not in (None, found):
        part.unlink()
        _version_path(part).unlink(missing_ok=True)
        raise UserError(
            f"the download of {remote.url} has SHA-256 {found}, but {remote.sha256} is known: it is another file or "
            f"was damaged in transit; run the command again, or put the right file into {path.parent}"
        )
    record = path.parent / CHECKSUMS_NAME
    with locked(path.parent / ".checksums.lock"):
        _write_checksums(record, {**_read_checksums(record), path.name: found})
    with os_errors_explained(f"write {path}"):
        os.replace(part, path)
        sync_folder(path.parent)
        _version_path(part).unlink(missing_ok=True)


def _receive(url: str, part: Path, say: Say) -> None:
    """Append the missing rest of the file at `url` to `part`.

    Raises: UserError if the server refuses or cannot be reached, _BrokenOffError where the connection ends early.
    """
    with os_errors_explained(f"write {part}"):
        have = part.stat().st_size if part.exists() else 0
    version = _version_path(part).read_text() if have and _version_path(part).exists() else ""
    request = urllib.request.Request(url, headers={"User-Agent": "minitf"})
    if have and version:  # without a version, the rest might belong to another one
        request.add_header("Range", f"bytes={have}-")
        request.add_header("If-Range", version)
    with _opened(request, url, part) as response:
        start = _start_of(response, have, version, url, part)
        total = _total_of(response, start, url)
        size = "" if total is None else f" ({total / 1e6:,.1f} MB)"
        say(f"downloading {url}{size}" + (f" from byte {start:,} on" if start else ""))
        with os_errors_explained(f"write {part}"), open(part, "ab" if start else "wb") as file:
            _remember_version(part, response)  # after the bytes of another version are gone
            _copy(response, file, start, total, url)
            file.flush()
            os.fsync(file.fileno())


@contextlib.contextmanager
def _opened(request: urllib.request.Request, url: str, part: Path) -> Iterator[Any]:
    by_hand = f"check the connection, or put the file into {part.parent} by hand (--data-dir takes another folder)"
    try:
        response = open_url(request)
    except urllib.error.HTTPError as error:
        error.close()
        if error.code == 416:  # more bytes are there than the file has, so they are of another one
            raise _another_file(part) from error
        raise UserError(f"cannot download {url}: the server answers {error.code} {error.reason}; {by_hand}") from error
    except (urllib.error.URLError, OSError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", error)
        raise UserError(f"cannot download {url}: {reason}; {by_hand}") from error
    with response:
        yield response


def _another_file(part: Path) -> _BrokenOffError:
    part.unlink()
    return _BrokenOffError("the server has another file by now")


def _start_of(response: Any, have: int, version: str, url: str, part: Path) -> int:
    """The offset that the response begins at: `have`, or 0 where the server sends the whole file.

    Raises: _BrokenOffError for a part of another version of the file.
    """
    if response.status == 200:
        return 0
    sent = response.headers["Content-Range"] or ""
    match = re.fullmatch(r"bytes (\d{1,18})-(\d{1,18})/(\d{1,18}|\*)", sent, re.ASCII)
    if response.status != 206 or not have or not match or int(match[1]) != have:
        wanted = f"the bytes from {have} on" if have else "the whole file"
        what = repr(sent[:80]) if response.status == 206 else f"status {response.status}"
        raise UserError(f"cannot download {url}: asked for {wanted}, the server sends {what}")
    if match[3] != "*" and int(match[2]) + 1 != int(match[3]):
        raise UserError(f"cannot download {url}: asked for all bytes from {have} on, the server sends {sent!r}")
    tag = response.headers["ETag"]
    if version.startswith('"') and tag is not None and tag != version:
        raise _another_file(part)
    return have


def _total_of(response: Any, start: int, url: str) -> int | None:
    """The size of the whole file, where the server states it."""
    stated = response.headers["Content-Length"]
    encoding = response.headers["Content-Encoding"] or "identity"
    if encoding != "identity":
        raise UserError(f"cannot download {url}: the server sends it in the encoding {shortened(encoding)}")
    if stated is None:
        return None
    if not re.fullmatch(r"[0-9]{1,18}", stated):
        raise UserError(f"cannot download {url}: the server states a length of {shortened(stated)}")
    if start + int(stated) > MOST_BYTES:
        raise _too_long(url, f"{start + int(stated):,} bytes")
    return start + int(stated)


def _too_long(url: str, what: str) -> UserError:
    return UserError(f"cannot download {url}: the server sends {what}, and at most {MOST_BYTES:,} are expected")


def _copy(response: Any, file: BinaryIO, start: int, total: int | None, url: str) -> None:
    """Raises: _BrokenOffError if reading fails or ends too early; what has been read is written."""
    place = since_place = start
    since = time.monotonic()
    with tqdm(total=total, initial=start, unit="B", unit_scale=True, dynamic_ncols=True, disable=None) as bar:
        while True:
            block, failure = _read(response)
            file.write(block)
            place += len(block)
            bar.update(len(block))
            if place > MOST_BYTES:
                file.truncate(0)
                raise _too_long(url, "no end")
            if (duration_s := time.monotonic() - since) >= SLOW_S:
                if place - since_place < SLOWEST * duration_s and not failure:
                    failure = f"less than {SLOWEST:,} bytes a second"
                since, since_place = time.monotonic(), place
            if failure or not block:
                break
    file.flush()
    if failure or total not in (None, place) or (total is None and not place):  # a head that was cut is not noticed
        of = "" if total is None else f" of {total:,}"
        raise _BrokenOffError(f"the connection ended after {place:,}{of} bytes" + (f" ({failure})" if failure else ""))


def _read(response: Any) -> tuple[bytes, str]:
    """Read the next bytes; return them and the error, if any. Errors of writing are not caught here."""
    try:
        return response.read1(BLOCK_BYTES), ""  # not `read`, which waits for all of them
    except http.client.IncompleteRead as error:
        return error.partial, "it was cut short"
    except (OSError, http.client.HTTPException) as error:  # timeouts and failures of encryption too
        return b"", str(error) or type(error).__name__


def _version_path(part: Path) -> Path:
    return part.with_name(part.name + ".version")


def _remember_version(part: Path, response: Any) -> None:
    """Store the version of the file that the part belongs to: its ETag, or the time of its last change."""
    tag = response.headers["ETag"] or ""
    weak = not tag or tag.startswith("W/")  # a weak ETag promises the same meaning, not the same bytes
    with atomic_write(_version_path(part)) as file:
        file.write((response.headers["Last-Modified"] or "" if weak else tag).encode())


TIMEOUT_S = 60
"""The time for a connection, for the head of an answer, and for each part of its body."""
MAX_REDIRECTIONS = 5


class _InTime:
    """A connection whose answer begins within TIMEOUT_S; a socket's own timeout begins again with every byte."""

    sock: socket.socket
    _is_late = False

    def getresponse(self) -> Any:
        timer = threading.Timer(TIMEOUT_S, self._give_up)
        timer.daemon = True
        timer.start()
        try:
            return super().getresponse()  # type: ignore[misc]  # what it has read of a head, it takes for the whole
        finally:
            timer.cancel()
            if self._is_late:
                raise TimeoutError(f"the server did not answer within {TIMEOUT_S:g} s")

    def _give_up(self) -> None:
        self._is_late = True
        with suppress(OSError):  # it has just ended
            socket.socket.shutdown(self.sock, socket.SHUT_RDWR)


class _Connection(_InTime, http.client.HTTPConnection):
    pass


class _EncryptedConnection(_InTime, http.client.HTTPSConnection):
    pass


class _Plain(urllib.request.HTTPHandler):
    def http_open(self, request: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(_Connection, request)


class _Encrypted(urllib.request.HTTPSHandler):
    def https_open(self, request: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(_EncryptedConnection, request, context=ssl.create_default_context())


class _Redirections(urllib.request.HTTPRedirectHandler):
    """Follow redirections to encrypted addresses, and to others of the same host and port where none was encrypted."""

    max_redirections = MAX_REDIRECTIONS

    def redirect_request(
        self, request: urllib.request.Request, answer: Any, code: int, message: str, headers: Any, url: str
    ) -> urllib.request.Request | None:
        here, there = urlsplit(request.full_url), urlsplit(url)
        if there.scheme != "https" and (here.scheme, here.netloc) != (there.scheme, there.netloc):
            answer.close()
            raise UserError(
                f"cannot download {request.full_url}: the server redirects to {shortened(url)}, which is not "
                "encrypted; fetch the file by hand if you trust that place"
            )
        return super().redirect_request(request, answer, code, message, headers, url)


def open_url(request: urllib.request.Request) -> Any:
    """Send a request over HTTP or HTTPS, no other protocol.

    Raises: UserError for a redirection to anything unencrypted elsewhere; as `urllib.request.urlopen`.
    """
    opener = urllib.request.OpenerDirector()
    for handler in (
        urllib.request.ProxyHandler(),
        _Plain(),
        _Encrypted(),
        _Redirections(),
        urllib.request.HTTPDefaultErrorHandler(),
        urllib.request.HTTPErrorProcessor(),
        urllib.request.UnknownHandler(),
    ):
        opener.add_handler(handler)
    return opener.open(request, timeout=TIMEOUT_S)
