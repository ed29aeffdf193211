"""Each message of docs/troubleshooting.md is what the command or the code above it prints."""

import os
import re
import shlex
import shutil
import subprocess
import sys
import warnings
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest

from minitf import __main__ as commands
from minitf.config import PRESETS
from minitf.parallel import launch
from minitf.storage.run_directory import CONFIG_NAME, RunDirectory, load_config
from minitf.system.process import run_command
from tests.helpers.fixtures import make_run, tiny_vocabulary
from tests.helpers.runs import Child

__all__ = ["make_run", "tiny_vocabulary"]

pytestmark = pytest.mark.heavy  # a process each

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "troubleshooting.md").read_text("utf-8")
PARTS = PAGE.split("\n### ")[1:]
ENTRY = re.compile(r"```(sh|py)\n(.*?)```\n\n```text\n(.*?)\n```", re.DOTALL)
SMALL = ["--model.layers", "1", "--model.d-model", "16", "--model.d-ff", "32", "--max-extra-length", "2"]
ABSENT = {"CuPy is missing": "cupy", "Numba is missing": "numba", "huggingface_hub is missing": "huggingface_hub"}


@pytest.fixture(scope="module")
def folder(make_run, tmp_path_factory):
    """A folder with a corpus and a run, as the page's commands name them."""
    folder = tmp_path_factory.mktemp("folder")
    (folder / "mine.en").write_text("a cat\na dog\na house\n" * 50)
    (folder / "mine.de").write_text("eine Katze\nein Hund\nein Haus\n" * 50)
    (folder / "short.de").write_text("eine Katze\n" * 149)
    (folder / "latin1.de").write_bytes("eine Tür\n".encode("latin1") * 150)
    model = replace(PRESETS["tiny"].model, layers=1, d_model=16, d_ff=32)
    shutil.copytree(make_run(model=model), folder / "runs" / "x")
    (folder / "absent").mkdir()
    for name in ("python", "minitf"):
        program = folder / "bin" / name
        program.parent.mkdir(exist_ok=True)
        program.write_text(f'#!/bin/sh\nexec {sys.executable} $PYTHON_FLAGS {"-m minitf " * (name == "minitf")}"$@"\n')
        program.chmod(0o755)
    shutil.copy(ROOT / "train.py", folder)
    return folder


def printed(folder, language, code, **environment):
    """What a shell, or Python after the page's first lines, prints on standard error."""
    if language == "py":
        (begin,) = re.findall(r"All examples start with:\n\n```py\n(.*?)```", PAGE, re.DOTALL)
        code = begin + code
    if not environment and (language == "py" or code.startswith("minitf ")):
        return answered(folder, code)
    path = f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT), "OPENBLAS_NUM_THREADS": "1", **environment}
    command = ["python" if language == "py" else "sh", "-c", code]
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=folder, env=environment, stdin=subprocess.DEVNULL, timeout=100
    )
    return done.stderr


def answered(folder, code):
    """What a command or Python prints, in a fork of this process, which has imported everything already."""

    def work():
        os.chdir(folder)
        warnings.resetwarnings()
        if code.startswith("minitf "):
            words = shlex.split(code)[1:]
            return run_command(commands.run, [*words, *SMALL] if "--max-steps" in words else words)
        return exec(code, {})  # Child prints the traceback

    child = Child(work)
    child.wait()
    return child.said()


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.partition("\n")[0])
def test_the_message_is_printed(folder, part, monkeypatch):
    title = part.partition("\n")[0]
    ((language, code, message),) = ENTRY.findall(part)
    environment = {}
    if title == "A package is not installed":
        environment["PYTHON_FLAGS"] = "-S"
    if title in ABSENT:
        name = ABSENT[title]
        (folder / "absent" / f"{name}.py").write_text(f"raise ModuleNotFoundError({name!r})")
        environment["PYTHONPATH"] = f"{folder / 'absent'}{os.pathsep}{ROOT}"
    if title == "MPI is missing":
        monkeypatch.setattr(launch, "find_mpiexec", lambda: None)
    run = folder / "runs" / "x"
    in_use = title == "The run is in use"
    with RunDirectory.resume(run, load_config(run / CONFIG_NAME)) if in_use else nullcontext():
        err = printed(folder, language, code, **environment)
    shutil.rmtree(folder / "runs" / "new", ignore_errors=True)
    pattern = ".*".join(re.escape(piece) for piece in message.split("…"))
    assert re.search(f"^{pattern}$", err, re.MULTILINE), err


def test_there_are_twenty():
    assert len(PARTS) >= 20
    for part in PARTS:
        ((_, _, message),) = ENTRY.findall(part)
        assert len(message.replace("…", "")) > 40, "most of a message is text"
