"""Downloads from the Hugging Face Hub: names, a missing package, and a server of our own in the Hub's place."""

import hashlib
import json
import os
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar

import pytest

from minitf.convert.formats import write_foreign
from minitf.convert.hub import downloaded
from minitf.errors import UserError
from tests.helpers.foreign_models import learned_model

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.mark.parametrize("name", ["hf:", "hf:one", "hf:a/b/c", "hf:../../etc", "hf:a/..", "hf:-/b c", "hf:a/b@c/d"])
def test_names_that_are_none_are_refused_before_anything_is_asked(name):
    with pytest.raises(UserError, match="write hf:OWNER/NAME"):
        downloaded(name)


def test_without_the_package_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(UserError, match="install this project's extra `hub`"):
        downloaded("hf:Helsinki-NLP/opus-mt-en-de")


class Hub(BaseHTTPRequestHandler):
    """The two kinds of requests of a download: facts of a model, and its files."""

    folder = None
    asked: ClassVar[list[str]] = []

    def do_HEAD(self):
        self.do_GET()

    def do_GET(self):
        path = self.path.split("?")[0]
        type(self).asked.append(path)
        if path.startswith("/api/models/org/model") and "missing" not in path:
            files = sorted(self.folder.iterdir())
            if "/tree/" in path:  # newer clients list the files of a revision
                listed = [
                    {"type": "file", "path": each.name, "size": each.stat().st_size, "oid": "0"} for each in files
                ]
                return self.answer(json.dumps(listed).encode(), "application/json")
            siblings = [{"rfilename": each.name} for each in files]
            facts = {
                "id": "org/model",
                "sha": COMMIT,
                "private": False,
                "siblings": siblings,
                "tags": [],
                "downloads": 0,
            }
            return self.answer(json.dumps(facts).encode(), "application/json")
        name = path.rpartition("/")[2]
        if path == f"/org/model/resolve/{COMMIT}/{name}" and (self.folder / name).is_file():
            return self.answer((self.folder / name).read_bytes(), "application/octet-stream")
        self.send_error(404)

    def answer(self, content, kind):
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("ETag", f'"{hashlib.sha1(content).hexdigest()}"')
        self.send_header("X-Repo-Commit", COMMIT)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(content)

    def log_message(self, *arguments):
        pass


@pytest.fixture
def hub(tmp_path):
    pytest.importorskip("huggingface_hub", reason="huggingface_hub is not installed: the extra `hub`")
    write_foreign(learned_model(norm_epsilon=1e-5), tmp_path / "model", "huggingface")
    (tmp_path / "model" / "training_script.py").write_text("raise SystemExit('executed')")
    Hub.folder, Hub.asked = tmp_path / "model", []
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


def run(arguments, tmp_path, endpoint):
    """A command in a process of its own: huggingface_hub reads its variables when it is imported."""
    local = {"HF_ENDPOINT": endpoint, "HF_HOME": str(tmp_path / "cache"), "HF_HUB_DISABLE_XET": "1", "NO_PROXY": "*"}
    environment = {**os.environ, **local, "HF_HUB_DISABLE_TELEMETRY": "1", "HF_HUB_DISABLE_PROGRESS_BARS": "1"}
    command = [sys.executable, "-m", "minitf", *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)


@pytest.mark.heavy
def test_model_of_the_hub_becomes_a_run(hub, tmp_path):
    done = run(["import", "hf:org/model", str(tmp_path / "run")], tmp_path, hub)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "run" / "checkpoints" / "step-00000000.safetensors").is_file()
    files = {path.rpartition("/")[2] for path in Hub.asked if "resolve" in path}
    assert {"config.json", "model.safetensors", "vocab.json"} <= files
    assert "training_script.py" not in files


@pytest.mark.heavy
def test_missing_model_is_one_sentence(hub, tmp_path):
    done = run(["import", "hf:org/missing", str(tmp_path / "run")], tmp_path, hub)
    assert done.returncode == 2
    assert done.stderr.startswith("error: cannot download org/missing: ")
    assert len(done.stderr.splitlines()) == 1
    assert not (tmp_path / "run").exists()
