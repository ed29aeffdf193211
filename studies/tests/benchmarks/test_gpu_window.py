"""The harness for a GPU: with programs that only end, and every program with small sizes over a stub of CUDA."""

import os
import re
import subprocess
import tarfile
from pathlib import Path

import pytest

from tests.minitf.test_on_real_cupy import PYTHON, SITE

ROOT = Path(__file__).parents[3]
WINDOW = ROOT / "studies" / "benchmarks" / "gpu_window" / "window.sh"


def window(folder: Path, python: Path, *parts: str, **environment: str) -> tuple[int, str]:
    """The exit status, and the summary."""
    found = os.environ | {
        "OUT": str(folder / "out"),
        "PYTHON": str(python),
        "CUPY_CACHE_DIR": str(folder),
        "CARRIED": str(folder / "none"),
        **environment,
    }
    done = subprocess.run(["bash", WINDOW, *parts], env=found, capture_output=True, text=True, check=False)
    assert sorted(path.name for path in (folder / "out").iterdir()) == ["logs.tgz", "results.jsonl", "summary.txt"]
    return done.returncode, (folder / "out" / "summary.txt").read_text() + done.stderr


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("program", "parts", "status", "said"),
    [
        ("exit 0", ("card", "step"), 0, "failed: nothing"),
        ('case "$*" in *step.py) echo no; exit 3 ;; esac', ("card", "step"), 1, r"step: exit 3 .*no\n[^$]*failed: step"),
        ("""echo '{"what": "x", "right": false}' >> $RESULTS""", ("card",), 1, "failed: .a wrong number"),
        ("exit 0", ("no-such-part",), 1, "nothing ran: there is no part no-such-part"),
        ("sleep 60", ("card", "step"), 1, "card: exit 124 .* of [3-6][^$]*step: no time left"),
    ],
)  # fmt: skip
def test_what_failed_is_said(tmp_path: Path, program: str, parts: tuple[str, ...], status: int, said: str) -> None:
    """A harness in which nothing ran has not passed."""
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\n{program}\n")
    python.chmod(0o755)
    found, summary = window(tmp_path, python, *parts, END="6")
    assert found == status, summary
    assert re.search(said, summary), summary


@pytest.mark.real_cupy
@pytest.mark.slow
@pytest.mark.skipif(not PYTHON.exists(), reason="needs an environment with CuPy and CUDA's libraries: make real-cupy")
def test_every_program_runs_over_the_stub(tmp_path: Path) -> None:
    stub = {"PYTHONPATH": f"{SITE}:{ROOT}", "STUB_PROJECT": str(ROOT), "STUB": "numbers", "SMALL": "1"}
    status, summary = window(
        tmp_path, PYTHON, "card", "curves", "suspects", "nccl", "step", "rates", END="100000", SLOWLY="20", **stub
    )
    rows = (tmp_path / "out" / "results.jsonl").read_text()
    assert status == 0, summary
    assert all('"epilogues": true' in row for row in rows.splitlines()), rows
    for what in (
        "step, graph",
        "curve, bf16",
        "suspect, same_bits",
        "buckets",
        "rate, adam_",
        "product, forward, BIAS",
    ):
        assert f'"{what}' in rows, rows
    with tarfile.open(tmp_path / "out" / "logs.tgz") as logs:
        assert "./rates.log" in logs.getnames()
