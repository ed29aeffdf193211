"""Downloads from a server on this machine: resumed, checked, cached, and one sentence for all that goes wrong."""

import hashlib
import http.client
import io
import json
import socket
import ssl
import threading
import urllib.request

import pytest

from minitf.data import download
from minitf.data.download import Remote, fetch
from minitf.errors import UserError
from minitf.system.files import sha256_of
from tests.helpers.server import serving

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
    assert json.loads((folder / "checksums.json").read_text()) == {"a.bin": SHA256}
    assert said == [f"downloading {server.url()} (1.3 MB)"]
    server.shutdown()
    assert get(server, folder, said) == path  # without a connection
    assert len(server.asked) == 1
    assert not list(folder.glob("*.part*"))


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


def test_a_later_command_goes_on_too(server, tmp_path, said):
    server.break_after = [1000] * download.ATTEMPTS
    with pytest.raises(
        UserError, match=r"cannot download http.*: the connection ended after 5,000 of 1,280,000 bytes, "
    ):
        get(server, tmp_path, said)
    assert (tmp_path / "a.bin.part").stat().st_size == 5000
    assert not (tmp_path / "a.bin").exists()
    assert get(server, tmp_path, said).read_bytes() == CONTENT
    assert server.asked[-1] == ("/a.bin", "bytes=5000-")
    assert said[-1].endswith("(1.3 MB) from byte 5,000 on")


def test_a_server_that_knows_no_ranges_sends_all_again(server, tmp_path, said):
    server.ranges, server.break_after = False, [1000]
    assert get(server, tmp_path, said, SHA256).read_bytes() == CONTENT
    assert len(server.asked) == 2


def test_a_file_that_changed_meanwhile_is_not_patched_together(server, tmp_path, said):
    server.break_after = [1000] * download.ATTEMPTS
    with pytest.raises(UserError):
        get(server, tmp_path, said)
    other = CONTENT[::-1]
    server.files["/a.bin"], server.etag = other, '"v2"'
    assert get(server, tmp_path, said).read_bytes() == other


def test_without_a_version_nothing_is_resumed(server, tmp_path, said):
    server.etag, server.break_after = "", [1000]
    assert get(server, tmp_path, said, SHA256).read_bytes() == CONTENT
    assert [wanted for _, wanted in server.asked] == [None, None]


def test_a_part_that_is_longer_than_the_file(server, tmp_path, said):
    (tmp_path / "a.bin.part").write_bytes(CONTENT + b"more")
    (tmp_path / "a.bin.part.version").write_text('"v1"')
    assert get(server, tmp_path, said, SHA256).read_bytes() == CONTENT


def test_a_server_that_sends_another_range(server, tmp_path, said):
    server.break_after, server.wrong_range = [1000], True
    with pytest.raises(
        UserError, match="asked for the bytes from 1000 on, the server sends 'bytes 1001-1279999/1280000'"
    ):
        get(server, tmp_path, said)


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


def test_an_unknown_checksum_is_recorded_and_verified_afterwards(server, tmp_path, said):
    path = get(server, tmp_path, said)
    path.write_bytes(CONTENT[:-1] + b"x")
    with pytest.raises(UserError, match=f"{path} has SHA-256 .*, but {SHA256} is recorded in .*checksums.json"):
        get(server, tmp_path, said)
    path.unlink()
    assert get(server, tmp_path, said).read_bytes() == CONTENT


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


def test_a_damaged_record_is_named(server, tmp_path, said):
    get(server, tmp_path, said)
    (tmp_path / "checksums.json").write_text("[]")
    with pytest.raises(UserError, match=r"checksums.json is damaged \(it is not an object .*\); delete it"):
        get(server, tmp_path, said)


def test_two_at_once_fetch_it_once(server, tmp_path, said):
    """Threads stand in for processes: each opens the lock anew."""
    paths = []
    threads = [threading.Thread(target=lambda: paths.append(get(server, tmp_path, said))) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert len(paths) == 4
    assert len(server.asked) == 1


def test_names():
    assert Remote("https://host/path/a%20b.tgz").name == "a b.tgz"


def test_checksum(tmp_path):
    (tmp_path / "x").write_bytes(b"abc")
    assert sha256_of(tmp_path / "x") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"


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


@pytest.mark.parametrize("url", ["file:///etc/passwd", "ftp://127.0.0.1/x", "data:,hello"])
def test_other_protocols_are_not_spoken(tmp_path, said, url):
    with pytest.raises(UserError, match=r"cannot download .*: unknown url type"):
        fetch(Remote(url), tmp_path, said.append)


@pytest.mark.parametrize(
    ("headers", "words"),
    [
        ({"Content-Length": "many"}, "states a length of many"),
        ({"Content-Length": "-1"}, "states a length of -1"),
        ({"Content-Length": "9" * 5000}, "states a length of"),
        ({"Content-Length": str(10**17)}, "sends 100,000,000,000,000,000 bytes, and at most 20,000,000,000"),
        ({"Content-Length": str(len(CONTENT) + 1)}, "the connection ended after 1,280,000 of 1,280,001 bytes"),
        ({"ETag": '"v1"\r\nContent-Encoding: gzip'}, "in the encoding gzip"),
    ],
)
def test_lengths_and_encodings_that_are_wrong(server, tmp_path, said, headers, words):
    server.headers = headers
    with pytest.raises(UserError, match=words):
        get(server, tmp_path, said)
    assert not (tmp_path / "a.bin").exists()


def test_a_shorter_length_is_found_by_the_checksum(server, tmp_path, said):
    server.headers = {"Content-Length": "1000"}
    with pytest.raises(UserError, match="has SHA-256"):
        get(server, tmp_path, said, SHA256)
    assert list(tmp_path.glob("a.bin*")) == []


@pytest.mark.parametrize(
    ("content_range", "words"),
    [
        ("bytes 1000-2000/1280000", "asked for all bytes from 1000 on, the server sends"),
        ("bytes 0-1279999/1280000", "asked for the bytes from 1000 on, the server sends"),
        ("garbage" * 999, "asked for the bytes from 1000 on, the server sends 'garbage"),
    ],
)
def test_ranges_that_were_not_asked_for(server, tmp_path, said, content_range, words):
    server.break_after, server.headers = [1000], {"Content-Range": content_range}
    with pytest.raises(UserError, match=words) as found:
        get(server, tmp_path, said)
    assert len(str(found.value)) < 400


def test_a_part_of_a_file_that_nobody_asked_for(server, tmp_path, said):
    server.etag, server.answer = "", 206
    with pytest.raises(UserError, match="asked for the whole file, the server sends"):
        get(server, tmp_path, said)


def test_a_server_that_goes_on_with_another_version(server, tmp_path, said):
    """It ignores If-Range; the bytes of two versions must not be joined."""
    server.break_after, server.ignores_version = [1000], True
    server.files_then, server.etag_then = CONTENT[::-1], '"v2"'
    assert get(server, tmp_path, said).read_bytes() == CONTENT[::-1]
    assert any("the server has another file by now" in each for each in said)


def test_a_server_that_drips(server, tmp_path, said, monkeypatch):
    monkeypatch.setattr(download, "SLOW_S", 0.2)
    monkeypatch.setattr(download, "ATTEMPTS", 2)
    server.pause_s = 0.02
    with pytest.raises(UserError, match="less than 1,000 bytes a second"):
        get(server, tmp_path, said)


def test_a_server_whose_answer_never_begins(server, tmp_path, said, monkeypatch):
    """Its bytes come soon enough, one by one."""
    monkeypatch.setattr(download, "TIMEOUT_S", 0.3)
    with pytest.raises(UserError, match=r"the server did not answer within 0.3 s; check the connection"):
        get(server, tmp_path, said, path="/hesitant")


def test_an_answer_that_is_cut_within_its_head(server, tmp_path, said, monkeypatch):
    monkeypatch.setattr(download, "ATTEMPTS", 2)
    with pytest.raises(UserError, match="the connection ended after 0 bytes, 2 times"):
        get(server, tmp_path, said, path="/cut")


def test_a_body_without_end(server, tmp_path, said, monkeypatch):
    monkeypatch.setattr(download, "MOST_BYTES", 3_000_000)
    server.with_length, server.endless = False, True
    with pytest.raises(UserError, match="the server sends no end, and at most 3,000,000 are expected"):
        get(server, tmp_path, said)
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) < 1000
