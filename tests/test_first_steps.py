"""What somebody meets who has the sources and a Python, but not the packages: one sentence and exit status 2."""

import ast
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def run_bare(*words, cwd=ROOT):
    """Run this Python without its packages; return its exit status and its standard error."""
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-S", *words]
    done = subprocess.run(command, capture_output=True, text=True, cwd=cwd, env=environment)
    return done.returncode, done.stderr


@pytest.mark.heavy
@pytest.mark.parametrize(
    "words",
    [
        ["train.py"],
        ["translate.py", "runs/demo"],
        ["-m", "minitf", "train", "--max-steps", "3"],
        ["-m", "examples.tensor"],
        ["-c", "import autograd"],
        ["-c", "import autograd.ops.nn"],
        ["-c", "from minitf import Translator"],
    ],
    ids=" ".join,
)
def test_without_its_packages_everything_ends_in_one_sentence(words):
    status, err = run_bare(*words)
    assert status == 2
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert f"not installed for {sys.executable}; " in err
    assert "pip install ." in err or f". {ROOT}/.venv/bin/activate" in err


def test_help_needs_no_packages():
    for words in (["train.py", "--help"], ["-m", "minitf", "--help"]):
        assert run_bare(*words) == (0, "")


@pytest.mark.parametrize("module", ["autograd", "minitf", "minitf.__main__"])
def test_an_older_python_is_refused_in_one_sentence(module):
    program = f"import sys; sys.version_info = (3, 10, 12, 'final', 0); import {module}"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT)
    expected = f"error: Python 3.10 at {sys.executable} is too old; use Python 3.11 to 3.14, such as python3.11\n"
    assert (done.returncode, done.stderr) == (2, expected)


@pytest.mark.parametrize(
    "name", ["train.py", "translate.py", "autograd/__init__.py", "autograd/check_install.py", "minitf/__init__.py"]
)
def test_what_an_older_python_reads_it_can_parse(name):
    ast.parse((ROOT / name).read_text("utf-8"), feature_version=(3, 8))


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
@pytest.mark.parametrize("target", ["demo"])
def test_make_checks_the_version_of_python_before_anything_else(tmp_path, target):
    old = tmp_path / "python3.10"
    old.write_text(
        f'#!/bin/sh\n[ "$1" = --version ] && echo Python 3.10.12 && exit\nexec {sys.executable} -c '
        f'"import sys; sys.version_info = (3, 10, 12); exec(sys.argv[1])" "$2"\n'
    )
    old.chmod(0o755)
    command = ["make", target, f"PYTHON={old}", f"VENV={tmp_path / 'venv'}"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 2
    assert f"error: {old} is Python 3.10.12; Python 3.11 to 3.14 is needed: make PYTHON=python3.12" in done.stdout
    assert not (tmp_path / "venv").exists()
