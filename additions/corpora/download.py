"""Download the files of public corpora: whole or not at all, and verified where their checksum is known."""

from __future__ import annotations

import hashlib
import http.client
import itertools
import re
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any
from urllib.parse import urlsplit

from tqdm import tqdm

from minitf.errors import UserError, shortened
from minitf.system.files import atomic_write, locked, os_errors_explained, sha256_of

ATTEMPTS = 5
TIMEOUT_S = 60
"""The time for a connection, and for each part of an answer."""
BLOCK_BYTES = 2**18

Say = Callable[[str], None]


@dataclass(frozen=True)
class Remote:
    """A file on a server, with its SHA-256 if that is known."""

    url: str
    sha256: str | None = None

    @property
    def name(self) -> str:
        """The name under which the file is stored."""
        return self.url.rpartition("/")[2]


class _BrokenOffError(Exception):
    """The connection ended before the file did."""


def fetch(remote: Remote, folder: Path, say: Say) -> Path:
    """Download the file unless the folder has it, and verify it.

    Raises: UserError if it cannot be downloaded, and where its checksum is not the known one.
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
    """Raises: UserError for a file whose SHA-256 is not the known one."""
    if known is not None and (found := sha256_of(path)) != known:
        raise UserError(
            f"{path} has SHA-256 {found}, but {known} is known: its bytes are not those expected; delete it to "
            "download it again"
        )


def _download(remote: Remote, path: Path, say: Say) -> None:
    """Write the file; what has arrived before a connection breaks off is not asked for again."""
    digest, tag = hashlib.sha256(), ""
    with atomic_write(path) as file:
        for attempt in itertools.count(1):
            try:
                with _opened(remote.url, file.tell(), tag, path.parent) as response:
                    if response.status != 206:  # the whole file, for the first time or of another version
                        file.seek(0)
                        file.truncate()
                        digest, tag = hashlib.sha256(), response.headers["ETag"] or ""
                    _copy(response, file, digest, remote.url, say)
                break
            except _BrokenOffError as broken:
                if attempt == ATTEMPTS:
                    raise UserError(f"cannot download {remote.url}: {broken}, {ATTEMPTS} times; try again") from broken
                say(f"{remote.url}: {broken}; resuming")
        if remote.sha256 not in (None, digest.hexdigest()):
            raise UserError(
                f"the download of {remote.url} has SHA-256 {digest.hexdigest()}, but {remote.sha256} is known: it is "
                f"another file or was damaged in transit; try again, or put the right file into {path.parent}"
            )


def _opened(url: str, have: int, tag: str, folder: Path) -> Any:
    """Ask for a file, or for the bytes after the first `have` of the version `tag` of it; return the answer.

    Raises: UserError if the server refuses or cannot be reached, _BrokenOffError for an answer that does not fit
    """
    request = urllib.request.Request(url, headers={"User-Agent": "minitf"})
    if have and tag.startswith('"'):  # a weak tag, W/"…", promises the same meaning, not the same bytes
        request.add_header("Range", f"bytes={have}-")
        request.add_header("If-Range", tag)
    by_hand = f"check the connection, or put the file into {folder} by hand (--data-dir takes another folder)"
    try:
        response = urllib.request.build_opener(_Redirections).open(request, timeout=TIMEOUT_S)
    except urllib.error.HTTPError as error:
        error.close()
        raise UserError(f"cannot download {url}: the server answers {error.code} {error.reason}; {by_hand}") from error
    except (OSError, http.client.HTTPException) as error:
        raise UserError(f"cannot download {url}: {getattr(error, 'reason', error)}; {by_hand}") from error
    sent = response.headers["Content-Range"] or ""
    if response.status == 206 and not (have and re.match(rf"bytes {have}-", sent) and response.headers["ETag"] == tag):
        response.close()
        raise UserError(f"cannot download {url}: the server sends {sent[:80]!r} of a version that was not asked for")
    return response


def _copy(response: Any, file: IO[bytes], digest: Any, url: str, say: Say) -> None:
    """Append an answer to the file.  Raises: _BrokenOffError if reading fails or ends too early"""
    start, length = file.tell(), response.headers["Content-Length"] or ""
    total = start + int(length) if re.fullmatch(r"\d{1,18}", length, re.ASCII) else None
    size = "" if total is None else f" ({total / 1e6:,.1f} MB)"
    say(f"downloading {url}{size}" + (f" from byte {start:,} on" if start else ""))
    failure = ""
    with tqdm(total=total, initial=start, unit="B", unit_scale=True, dynamic_ncols=True, disable=None) as bar:
        while not failure:
            try:
                block = response.read1(BLOCK_BYTES)  # not `read`, which waits for all of them
            except (OSError, http.client.HTTPException) as error:  # timeouts and failures of encryption too
                block, failure = b"", f" ({error or type(error).__name__})"
            if not block:
                break
            file.write(block)
            digest.update(block)
            bar.update(len(block))
    is_whole = file.tell() == total if total is not None else file.tell() > 0  # of a head that was cut, nothing tells
    if failure or not is_whole:
        of = "" if total is None else f" of {total:,}"
        raise _BrokenOffError(f"the connection ended after {file.tell():,}{of} bytes{failure}")


class _Redirections(urllib.request.HTTPRedirectHandler):
    """Follow redirections to encrypted addresses, and to others of the same host and port where none was encrypted."""

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
