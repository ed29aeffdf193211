"""A server on this machine that breaks off, refuses and changes its files as a test tells it."""

import re
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Server(ThreadingHTTPServer):
    """Serves `files`, remembers what was asked, and breaks off where asked to."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.files = {}  # path: bytes
        self.asked = []  # (path, Range)
        self.break_after = []  # bytes sent before each of the next connections ends; None: all
        self.ranges = True
        self.etag = '"v1"'
        self.status = None
        self.with_length = True
        self.headers = {}  # in place of those that would be right
        self.moved_to = "/a.bin"
        self.ignores_version = False
        self.files_then = self.etag_then = None  # from the second request on

    def url(self, path="/a.bin"):
        return f"http://127.0.0.1:{self.server_address[1]}{path}"

    def handle_error(self, request, client_address):
        pass  # a connection that the test broke off


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        server = self.server
        wanted = self.headers["Range"]
        server.asked.append((self.path, wanted))
        if self.path == "/cut":
            self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Le")
            return
        if server.status is not None:
            self.send_error(server.status)
            return
        if self.path == "/moved":
            self.send_response(302)
            self.send_header("Location", server.moved_to)
            self.end_headers()
            return
        if self.path not in server.files:
            self.send_error(404)
            return
        content, start = server.files[self.path], 0
        if server.files_then is not None and len(server.asked) > 1:
            content, server.etag = server.files_then, server.etag_then
        same = self.headers["If-Range"] in (None, server.etag) or server.ignores_version
        if wanted and server.ranges and same:
            start = int(re.fullmatch(r"bytes=(\d+)-", wanted)[1])
            if start >= len(content):
                self.send_error(416)
                return
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        else:
            self.send_response(200)
        if server.with_length:
            self.send_header("Content-Length", str(len(content) - start))
        if server.etag:
            self.send_header("ETag", server.etag)
        self.end_headers()
        count = server.break_after.pop(0) if server.break_after else None
        self.wfile.write(content[start:] if count is None else content[start : start + count])

    def send_header(self, name, value):
        super().send_header(name, self.server.headers.get(name, value))

    def log_message(self, *arguments):
        pass


@contextmanager
def serving():
    """A server at work."""
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
