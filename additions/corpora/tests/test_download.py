"""Downloads from a server on this machine: resumed, checked, cached, and one sentence for all that goes wrong."""

import hashlib
import http.client
import io
import socket
import ssl
import threading
import urllib.request

import pytest

from additions.corpora import download
from additions.corpora.download import Remote, fetch
from additions.corpora.tests.server import serving
from minitf.errors import UserError

CONTENT = bytes(range(256)) * 5_000  # 1.28 MB
SHA256 = hashlib.sha256(CONTENT).hexdigest()


@pytest.fixture
def server():
    with serving() as started:
        started.files["/a.bin"] = CONTENT
        yield started


@pytest.fixture
def said():
    return []


def get(server, folder, said, sha256=None, path="/a.bin"):
    return fetch(Remote(server.url(path), sha256), folder, said.append)


def test_a_file_arrives_and_is_kept(server, tmp_path, said):
    folder = tmp_path / "new" / "folder"
    path = get(server, folder, said)
    assert path == folder / "a.bin"
    assert path.read_bytes() == CONTENT
    assert said == [f"downloading {server.url()} (1.3 MB)"]
    server.shutdown()
    assert get(server, folder, said) == path  # without a connection
    assert len(server.asked) == 1
    assert [path.name for path in folder.iterdir() if path.suffix != ".lock"] == ["a.bin"]


def test_redirections_are_followed(server, tmp_path, said):
    assert get(server, tmp_path, said, path="/moved").read_bytes() == CONTENT


@pytest.mark.parametrize("cuts", [[1000], [1, 1, 1], [1_279_999], [700_000, 100_000]])
def test_what_has_arrived_is_not_asked_for_again(server, tmp_path, said, cuts):
    server.break_after = list(cuts)
    path = get(server, tmp_path, said, SHA256)
    assert path.read_bytes() == CONTENT
    starts = [sum(cuts[:n]) for n in range(len(cuts) + 1)]
    assert [wanted for _, wanted in server.asked] == [None, *(f"bytes={start}-" for start in starts[1:])]
    assert f"the connection ended after {cuts[0]:,} of 1,280,000 bytes; resuming" in said[1]


def test_a_server_that_knows_no_ranges_sends_all_again(server, tmp_path, said):
    server.ranges, server.break_after = False, [1000]
    assert get(server, tmp_path, said, SHA256).read_bytes() == CONTENT
    assert len(server.asked) == 2


def test_without_a_version_nothing_is_resumed(server, tmp_path, said):
    server.etag, server.break_after = "", [1000]
    assert get(server, tmp_path, said, SHA256).read_bytes() == CONTENT
    assert [wanted for _, wanted in server.asked] == [None, None]


@pytest.mark.parametrize("with_length", [True, False])
def test_a_connection_that_fails_is_not_the_end_of_the_file(server, tmp_path, said, monkeypatch, with_length):
    """Nor a failure to write; and without a length, nothing but the failure tells that there is more."""
    read = http.client.HTTPResponse.read1
    failures = [ssl.SSLError(1, "decryption failed")]

    def failing(response, amount=None):
        if failures and response.status == 200:
            if getattr(response, "asked", False):
                raise failures.pop()
            response.asked = True
            amount = 1000
        return read(response, amount)

    monkeypatch.setattr(http.client.HTTPResponse, "read1", failing)
    server.with_length = with_length
    assert get(server, tmp_path, said).read_bytes() == CONTENT
    of = " of 1,280,000" if with_length else ""
    assert f"the connection ended after 1,000{of} bytes (decryption failed); resuming" in said[1]
    assert server.asked[-1] == ("/a.bin", "bytes=1000-")


def test_a_known_checksum_is_verified(server, tmp_path, said):
    wrong = SHA256[::-1]
    with pytest.raises(UserError, match=f"has SHA-256 {SHA256}, but {wrong} is known"):
        get(server, tmp_path, said, wrong)
    assert list(tmp_path.glob("a.bin*")) == []
    path = get(server, tmp_path, said, SHA256)
    path.write_bytes(CONTENT[:-1] + b"x")
    with pytest.raises(
        UserError, match=f"{path} has SHA-256 .*, but {SHA256} is known.*delete it to download it again"
    ):
        get(server, tmp_path, said, SHA256)


def test_a_file_put_there_by_hand_is_taken_as_it_is(server, tmp_path, said):
    (tmp_path / "a.bin").write_bytes(b"mine")
    assert get(server, tmp_path, said).read_bytes() == b"mine"
    assert server.asked == []
    assert [path.name for path in tmp_path.iterdir()] == ["a.bin"]  # a folder of the user's is left as it was


@pytest.mark.parametrize("status", [403, 404, 500])
def test_a_server_that_refuses(server, tmp_path, said, status):
    server.status = status
    with pytest.raises(UserError, match=rf"cannot download http://127.*: the server answers {status} .*; .*by hand"):
        get(server, tmp_path, said)


def test_nobody_answers(tmp_path, said):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
    with pytest.raises(
        UserError, match=r"cannot download http.*: .*refused; check the connection, or put the file into"
    ):
        fetch(Remote(f"http://127.0.0.1:{port}/a.bin"), tmp_path, said.append)


def test_two_at_once_fetch_it_once(server, tmp_path, said):
    """Threads stand in for processes: each opens the lock again."""
    paths = []
    threads = [threading.Thread(target=lambda: paths.append(get(server, tmp_path, said))) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert len(paths) == 4
    assert len(server.asked) == 1


# ---- Servers that lie --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("to", "words"),
    [
        ("file:///etc/passwd", "is not allowed|which is not encrypted"),
        ("ftp://127.0.0.1/a.bin", "which is not encrypted"),
        ("data:text/plain,hello", "is not allowed"),
        ("http://localhost/a.bin", "which is not encrypted"),
        ("http://127.0.0.1:1/a.bin", "which is not encrypted"),
        ("gopher:" + "x" * 5000, "is not allowed"),
        ("/moved", "redirect"),
    ],
)
def test_redirections_to_other_protocols_hosts_and_in_circles(server, tmp_path, said, to, words):
    server.moved_to = to
    with pytest.raises(UserError, match=words):
        get(server, tmp_path, said, path="/moved")
    assert not any(path.stat().st_size for path in tmp_path.iterdir())


def redirected(old, new):
    request = urllib.request.Request(old)
    return download._Redirections().redirect_request(request, io.BytesIO(), 302, "Found", {}, new)


def test_encrypted_addresses_may_redirect_to_encrypted_ones_only():
    assert redirected("https://one/a", "https://two/b").full_url == "https://two/b"
    assert redirected("http://one/a", "https://one/a").full_url == "https://one/a"
    for new in ("http://one/a", "http://two/a", "ftp://one/a"):
        with pytest.raises(UserError, match="not encrypted"):
            redirected("https://one/a", new)


@pytest.mark.parametrize("length", ["many", str(len(CONTENT) + 1)])
def test_a_length_that_is_wrong(server, tmp_path, said, length):
    server.headers = {"Content-Length": length}
    if length == "many":
        assert get(server, tmp_path, said).read_bytes() == CONTENT
    else:
        with pytest.raises(UserError, match="the server answers 416"):
            get(server, tmp_path, said)
        assert not (tmp_path / "a.bin").exists()


def test_a_shorter_length_is_found_by_the_checksum(server, tmp_path, said):
    server.headers = {"Content-Length": "1000"}
    with pytest.raises(UserError, match="has SHA-256"):
        get(server, tmp_path, said, SHA256)
    assert list(tmp_path.glob("a.bin*")) == []


def test_a_server_that_goes_on_with_another_version(server, tmp_path, said):
    """It ignores If-Range; the bytes of two versions must not be joined."""
    server.break_after, server.ignores_version = [1000], True
    server.files_then, server.etag_then = CONTENT[::-1], '"v2"'
    with pytest.raises(UserError, match=r"the server sends 'bytes 1000-.* of a version that was not asked for"):
        get(server, tmp_path, said)
    assert not (tmp_path / "a.bin").exists()


@pytest.mark.parametrize("content_range", ["bytes 0-1279999/1280000", "garbage" * 999])
def test_ranges_that_were_not_asked_for(server, tmp_path, said, content_range):
    server.break_after, server.headers = [1000], {"Content-Range": content_range}
    with pytest.raises(UserError, match="of a version that was not asked for") as found:
        get(server, tmp_path, said)
    assert len(str(found.value)) < 400


def test_an_answer_that_is_cut_within_its_head(server, tmp_path, said, monkeypatch):
    monkeypatch.setattr(download, "ATTEMPTS", 2)
    with pytest.raises(UserError, match="the connection ended after 0 bytes, 2 times"):
        get(server, tmp_path, said, path="/cut")
