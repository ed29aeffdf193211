"""The command `minitf`: its table of commands, how it refuses others, and what it loads."""

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import autograd
import minitf
from minitf.__main__ import COMMANDS, GROUPS, run
from minitf.system.environment import VERSION
from minitf.system.process import run_command, shell_command
from tests.helpers.marks import parametrize_some

ROOT = Path(__file__).parents[3]
HEAVY = {"autograd", "numpy", "sacrebleu", "safetensors", "sentencepiece", "tqdm", "numba"}


def test_help_lists_every_command(capsys):
    assert run_command(run, ["--help"]) == 0
    text = capsys.readouterr().out
    assert run_command(run, []) == 0
    assert capsys.readouterr().out == text
    lines = text.splitlines()
    assert [line.split()[0] for line in lines if line.startswith("  ")] == list(COMMANDS)
    assert [line for line in lines[1:] if line and line[0] != " "] == list(GROUPS)
    assert all(len(line) <= 100 for line in lines)


def test_version(capsys):
    assert run_command(run, ["--version"]) == 0
    assert capsys.readouterr().out == f"minitf {VERSION}\n"


def test_packages_and_changelog_are_of_one_version():
    assert autograd.__version__ == minitf.__version__ == VERSION
    heads = re.findall(r"^## \[(.+?)\]", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert heads[0] in ("Unreleased", VERSION)
    assert "version" not in tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]  # it is read from there


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["trian"], "unknown command trian; did you mean train?"),
        (["--beam"], "unknown command --beam; minitf --help lists all commands"),
        (["report"], "required: RUN (run directory); minitf report --help describes all arguments"),
        (["bleu", "a", "b", "--resample", "3"], "unknown flag --resample; --help lists all flags"),
    ],
)
def test_what_is_no_command_is_refused_in_one_sentence(words, message, capsys):
    assert run_command(run, words) == 2
    assert capsys.readouterr().err == f"error: {message}\n"


def test_the_exit_status_is_the_commands(tmp_path):
    command = [sys.executable, "-W", "error", "-m", "minitf", "translate", str(tmp_path / "nowhere")]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, cwd=ROOT)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: ")


def loaded_by(*words):
    """Run Python with these words; return which heavy modules it has imported."""
    command = [sys.executable, "-X", "importtime", *words]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=True)
    return HEAVY & {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}


def test_help_loads_nothing_heavy():
    assert loaded_by("-m", "minitf", "--help") == set()


@pytest.mark.heavy
@parametrize_some("name", COMMANDS, keep=range(0, len(COMMANDS), 4))
def test_help_of_a_command_loads_nothing_heavy(name):
    assert loaded_by("-m", "minitf", name, "--help") == set()


@pytest.mark.parametrize("script", ["train.py", "translate.py"])
def test_help_of_a_script_loads_nothing_heavy(script):
    assert loaded_by(script, "--help") == set()


def test_importing_the_package_loads_nothing_heavy():
    assert loaded_by("-c", "import minitf") == set()
    assert "numpy" in loaded_by("-c", "from minitf import Translator")


def test_usage_names_the_program_as_it_was_started(monkeypatch):
    for argv0, expected in (
        ("translate.py", "python translate.py"),
        ("/x/translate.py", "python translate.py"),
        ("/usr/bin/minitf", "minitf translate"),
        ("/x/minitf/__main__.py", "minitf translate"),
    ):
        monkeypatch.setattr(sys, "argv", [argv0])
        assert shell_command("translate") == expected


def test_the_wheel_installs_the_command_and_no_module_beside_the_packages():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert project["project"]["scripts"] == {"minitf": "minitf.__main__:main"}
    assert "py-modules" not in project["tool"]["setuptools"]


@pytest.mark.parametrize("package", ["autograd", "minitf"])
def test_the_wheel_holds_every_file_of_the_packages(package):
    """Kernels, pages and corpora are named in pyproject.toml, code by the `__init__.py` beside it; not so READMEs."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]
    patterns = settings["package-data"][package]
    named = {pattern: {path for path in (ROOT / package).glob(pattern) if path.is_file()} for pattern in patterns}
    assert all(named.values()), named
    files = {path for path in (ROOT / package).rglob("*") if path.is_file() and "__pycache__" not in path.parts}
    code = {path for path in files if path.suffix == ".py" and (path.parent / "__init__.py") in files}
    missing = files - code - set().union(*named.values())
    assert {path for path in missing if path.name != "README.md"} == set()


@pytest.mark.skipif(shutil.which("make") is None, reason="needs make")
def test_make_refuses_to_install_beside_hips_autograd(tmp_path):
    """With a `pip` that finds the distribution autograd, the first step ends in one sentence."""
    (tmp_path / "venv" / "bin").mkdir(parents=True)
    python = tmp_path / "venv" / "bin" / "python"
    python.write_text('#!/bin/sh\n[ "$3" = show ]\n')
    python.chmod(0o755)
    done = subprocess.run(
        ["make", "-s", f"VENV={tmp_path / 'venv'}", f"{tmp_path / 'venv'}/.installed"],
        capture_output=True, text=True, cwd=ROOT,
    )  # fmt: skip
    assert done.returncode == 2
    assert "contains HIPS autograd" in done.stdout
    assert not (tmp_path / "venv" / ".installed").exists()


def test_public_names_are_there_and_listed():
    assert sorted(minitf.__all__) == [name for name in dir(minitf) if name in minitf.__all__]
    assert all(getattr(getattr(minitf, name), "__name__", name) == name for name in minitf.__all__)
    assert {"Transformer", "TransformerConfig", "Translator", "Adam"} <= {*minitf.__all__}
    with pytest.raises(AttributeError, match="module 'minitf' has no attribute 'Translater'"):
        _ = minitf.Translater
