"""Each example runs without a warning and prints what it says that it shows."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted({*(ROOT / "examples").glob("*.py")} - {ROOT / "examples/one_file.py"})  # it has tests of its own


def run(name, *arguments, text="", warnings="error"):
    """What an example prints."""
    command = [sys.executable, *("-W", warnings), "-m", f"examples.{name}", *arguments]
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "PYTHONIOENCODING": "utf-8"}
    done = subprocess.run(
        command, input=text, capture_output=True, text=True, encoding="utf-8", cwd=ROOT, env=environment
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_is_short(path):
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 60


def test_a_tensor_and_its_gradient():
    out = run("tensor")
    assert "d(x·x)/dx   [2. 4. 6.]" in out
    assert "fitted      y = 3.00x -1.00" in out


def test_an_op_of_ones_own_is_proven_and_a_wrong_one_is_found():
    out = run("own_op")
    assert "right: True" in out
    assert "in a network: True" in out
    assert "wrong: wrong gradient of the input" in out
    assert "sign" in out


@pytest.mark.slow
def test_a_model_of_ones_own_learns_the_characters_of_a_text():
    """Far below the entropy of single characters, 3.3 nats in this text, after a few seconds."""
    out = run("own_model", "docs/learn.md")
    assert float(out.split("step 600  loss ")[1].split()[0]) < 2.4


@pytest.mark.slow
def test_a_tiny_task_is_learned():
    right = run("tiny_task").splitlines()[-1]
    assert int(right.split()[0]) >= 195, right


@pytest.mark.heavy
def test_a_trained_run_translates(tiny_run):
    """The run of the tests has learned nothing, which the translator warns of; its words are not looked at."""
    out = run("translate", str(tiny_run), text="a cat\n\n", warnings="ignore")
    assert out.count("  → ") == 2
    assert out.endswith("\n\n")  # the blank line stays blank
