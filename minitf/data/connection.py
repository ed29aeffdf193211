"""HTTP requests to servers that are not trusted: where they may redirect to, and how long they may take to answer."""

from __future__ import annotations

import http.client
import socket
import ssl
import threading
import urllib.request
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

from minitf.config.options import shortened
from minitf.errors import UserError

TIMEOUT_S = 60
"""For a connection, for the head of an answer, and for each part of its body."""
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
