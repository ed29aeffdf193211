"""The house without its additions, and the engine without other packages than NumPy."""

import os
import re
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
ADDITIONS = sorted(path.parent.name for path in (ROOT / "additions").glob("*/__init__.py"))
WITHOUT = """
import sys
from importlib.abc import MetaPathFinder

class Without(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {tops!r} or any(f"{{name}}.".startswith(f"{{gone}}.") for gone in {gone!r}):
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Without())
"""


def run_without(program: str, *, tops: tuple[str, ...] = (), gone: tuple[str, ...] = (), status: int = 0) -> str:
    """Run a program for which packages (`tops`) or parts of ours (`gone`) are not installed; return what it prints."""
    script = WITHOUT.format(tops=tops, gone=gone) + program
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (ROOT, *sys.path)))}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=environment)
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout + done.stderr


MINITF = "from minitf.__main__ import main; sys.exit(main({words!r}))"
SEVERAL = """
from minitf.__main__ import main
for words in {commands!r}:
    print(words, "gives", main([words]))
    sys.stdout.flush()
"""


@pytest.fixture(scope="module")
def listed():
    """The lines of `minitf --help` where every addition is there."""
    return run_without(MINITF.format(words=["--help"])).splitlines()


@pytest.mark.parametrize("addition", ADDITIONS)
def test_an_addition_may_be_missing(addition, listed):
    names = entry_points(group="minitf.commands")
    commands = sorted(each.name for each in names if each.value.startswith(f"additions.{addition}."))
    assert commands or addition == "inspect"  # which has none
    said = run_without(SEVERAL.format(commands=["--help", *commands]), gone=(f"additions.{addition}",))
    help_text, errors = said.split("--help gives 0\n")
    missing = {line.split()[0] for line in listed if line.startswith("  ") and line not in help_text.splitlines()}
    assert missing == {*commands}
    for command in commands:
        error = f"error: minitf {command} is in additions.{addition}, which is not installed; .*\n"
        assert re.search(error, errors), errors
    assert errors.count("\n") == 2 * len(commands) == 2 * errors.count("gives 2\n")


@pytest.mark.slow  # test_rooms.py reads the imports; entry points are looked up as it runs
def test_training_and_translation_need_no_addition(tmp_path):
    gone = tuple(f"additions.{addition}" for addition in ADDITIONS)
    small = ["--model.layers", "1", "--model.d-model", "16", "--model.d-ff", "32", "--max-extra-length", "2"]
    words = ["train", "--max-steps", "2", "--vocab-size", "500", *small, "--output", str(tmp_path / "run")]
    run_without(MINITF.format(words=words), gone=gone)
    (tmp_path / "line").write_text("twenty-one\n")
    words = ["translate", str(tmp_path / "run"), "--input", str(tmp_path / "line"), "--output", str(tmp_path / "out")]
    run_without(MINITF.format(words=words), gone=gone)
    assert (tmp_path / "out").read_text().count("\n") == 1


OTHERS = (  # packages that the engine and its checker do not need
    *("cupy", "filelock", "hypothesis", "llvmlite", "matplotlib", "minitf", "ml_dtypes", "mpi4py", "numba"),
    *("sacrebleu", "sacremoses", "safetensors", "scipy", "sentencepiece", "threadpoolctl", "torch", "tqdm"),
)


def test_the_engine_and_its_checker_need_only_numpy():
    program = """
import numpy as np
import autograd as ag

x = ag.Tensor(np.ones((2, 3)), requires_grad=True)
(ag.softmax(x @ np.ones((3, 4))) * ag.tanh(x).sum()).sum().backward()
assert ag.gradcheck(lambda x: ag.layer_norm(x, np.ones(3), np.zeros(3)), [np.arange(6.0).reshape(2, 3) ** 2])
assert ag.hessian(lambda x: (x**3).sum())(np.ones(2)).shape == (2, 2)
from autograd.gradcheck import from_vjp
"""
    run_without(program, tops=OTHERS)
