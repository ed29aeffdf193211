"""HIPS autograd has the import name of this project's autograd: where the two meet, one sentence says what to do."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.heavy

ROOT = Path(__file__).parent.parent
ADVICE = "run `pip uninstall autograd` and install this project again with `pip install --force-reinstall --no-deps`"


def last_line_of_importing(name, *path):
    """What Python prints last when it imports a package with these folders first on its path."""
    search = os.pathsep.join(map(str, path))
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", f"import {name}"],
        cwd=path[0], env={**os.environ, "PYTHONPATH": search}, capture_output=True, text=True,
    )  # fmt: skip
    return "".join(done.stderr.splitlines()[-1:])


@pytest.fixture
def packages(tmp_path):
    """A folder with the two packages of this project, as installed."""
    for name in ("autograd", "minitf"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path


def test_installed_under_this_project(packages):
    """`pip install autograd`, then this project: its files are beside ours."""
    (packages / "autograd" / "tracer.py").touch()
    line = last_line_of_importing("autograd", packages)
    assert line.startswith(f"ImportError: the files in {packages / 'autograd'} are mixed with those of HIPS autograd")
    assert line.endswith(ADVICE)
    assert "has changed its files" in last_line_of_importing("minitf", packages)


def test_installed_over_this_project(packages):
    """This project, then `pip install autograd`: `import autograd` is HIPS's, so `import minitf` has to say it."""
    (packages / "autograd" / "tracer.py").touch()
    (packages / "autograd" / "__init__.py").write_text("", encoding="utf-8")
    line = last_line_of_importing("minitf", packages)
    assert line.startswith(f"ImportError: autograd in {packages / 'autograd'} is not this project's package, or HIPS")
    assert line.endswith(ADVICE)


def test_found_before_this_project(packages, tmp_path_factory):
    """This project is installed as editable, and site-packages comes first."""
    other = tmp_path_factory.mktemp("site-packages")
    (other / "autograd").mkdir()
    for name in ("__init__.py", "tracer.py"):
        (other / "autograd" / name).touch()
    assert last_line_of_importing("minitf", other, packages).startswith(
        f"ImportError: autograd in {other / 'autograd'}"
    )
    assert last_line_of_importing("minitf, autograd", packages, other) == ""
