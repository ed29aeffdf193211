"""Whole commands on the real CuPy over a stub of CUDA, computed on the CPU: no card is needed.

The environment has CuPy and CUDA's libraries, 2.3 GB: `make real-cupy` makes it and runs these tests.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from additions.pages.run_log import read_log
from tests.helpers.runs import FLAGS, write_corpus

ROOT = Path(__file__).parents[2]
SITE = ROOT / "tests" / "emulation" / "real_cupy" / "site"  # its sitecustomize.py installs the stub
PYTHON = Path(os.environ.get("REAL_CUPY_PYTHON", ROOT / "build" / "real-cupy" / "venv" / "bin" / "python"))
pytestmark = [
    pytest.mark.real_cupy,
    pytest.mark.heavy,
    pytest.mark.skipif(
        not PYTHON.exists(), reason="needs an environment with CuPy and CUDA's libraries: make real-cupy"
    ),
]
COMPILED = 900  # seconds: a kernel takes one or two the first time


def run(*command: str, stub: str = "numbers", limit_s: float = COMPILED, **environment: str) -> Any:
    """Run a Python command of the environment with the card that is none."""
    found = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "CUDA", "STUB"))}
    found |= {"PYTHONPATH": f"{SITE}:{ROOT}", "STUB_PROJECT": str(ROOT), "STUB": stub}
    found |= {"AUTOGRAD_SELF_TEST": "0"} if stub == "counts" else {}  # nothing is computed
    found |= {"OPENBLAS_NUM_THREADS": "1", "PYTHONWARNINGS": "error", **environment}
    return subprocess.run([PYTHON, *command], env=found, cwd=ROOT, capture_output=True, text=True, timeout=limit_s)


def train(folder: Path, *flags: str, **settings: Any) -> list[dict[str, Any]]:
    """A run of `minitf train`; its log."""
    corpus = folder.parent / "texts"
    corpus.mkdir(exist_ok=True)
    done = run("-m", "minitf", "train", *write_corpus(corpus), *FLAGS, *flags, "--output", str(folder), **settings)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "card that is none" not in done.stdout + done.stderr, done.stdout + done.stderr
    return [record for record in read_log(folder / "log.jsonl") if "loss" in record]


def assert_same_run(ours: list[dict[str, Any]], theirs: list[dict[str, Any]], tolerance: float) -> None:
    assert [each["step"] for each in ours] == [each["step"] for each in theirs]
    for one, other in zip(ours, theirs, strict=True):
        for name in ("loss", "gradient_norm", "target_tokens"):
            assert one[name] == pytest.approx(other[name], rel=tolerance), (one["step"], name)


@pytest.mark.parametrize(("precision", "tolerance"), [("float32", 1e-5), ("bf16", 0.02)])
def test_a_run_is_that_of_a_cpu(tmp_path: Path, precision: str, tolerance: float) -> None:
    """Training with CUDA graphs, validation, checkpoints, beam search, and a run that is resumed."""
    flags = ["--accumulate", "1", "--max-tokens-per-batch", "400", "--max-steps", "9", "--log-every", "1"]
    on_cpu = train(tmp_path / "cpu", *flags, stub="")
    gpu = ["--device", "cuda", "--precision", precision]
    assert_same_run(train(tmp_path / "gpu", *flags, *gpu), on_cpu, tolerance)
    done = run("-m", "minitf", "train", "--resume", str(tmp_path / "gpu"), "--max-steps", "11")
    assert done.returncode == 0, done.stderr
    for folder, device in (("gpu", "cuda"), ("cpu", "cpu")):
        command = ["-m", "minitf", "translate", str(tmp_path / "gpu"), "--device", device, "--precision", "float32"]
        command += ["--input", str(tmp_path / "texts" / "test.en"), "--output", str(tmp_path / folder / "out")]
        done = run(*command)
        assert done.returncode == 0, done.stderr
    assert (tmp_path / "gpu" / "out").read_text() == (tmp_path / "cpu" / "out").read_text()


@pytest.mark.parametrize("seen", ["2", "1"])
def test_two_cards_train_as_one(tmp_path: Path, seen: str) -> None:
    """Each with graphs of its own; NCCL's sums go through memory that both processes have.

    seen: cards that a process sees; a batch system may show each its own alone, which is cuda:0 in both
    """
    machine = {"STUB_DEVICES": "2", "STUB_DEVICES_OF_RANKS": seen}
    flags = ["--accumulate", "2", "--max-tokens-per-batch", "300", "--max-steps", "9", "--log-every", "1"]
    alone = train(tmp_path / "one", *flags, stub="")
    together = train(tmp_path / "two", *flags, "--devices", "2", **machine)
    assert_same_run(together, alone, 1e-5)


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("hang", "waited 4 seconds for another rank, in the sum of gradients"),
        ("error", r"NCCL cannot sum gradients: .*remote process exited"),
    ],
)
def test_sums_that_never_end_end_the_job(tmp_path: Path, fault: str, said: str) -> None:
    """Instead of waiting where nothing ends it."""
    flags = [*write_corpus(tmp_path), *FLAGS, "--devices", "cuda:2"]
    machine = {"STUB_DEVICES": "2", "STUB_NCCL": fault, "MINITF_COLLECTIVE_TIMEOUT_S": "4"}
    done = run(
        "-m", "minitf", "train", *flags, "--output", str(tmp_path / "run"), stub="counts", limit_s=240, **machine
    )
    assert done.returncode == 1
    assert re.search(said, done.stderr), done.stderr


def step(*flags: str, **settings: Any) -> dict[str, Any]:
    done = run("-m", "tests.emulation.real_cupy.step", *flags, **{"stub": "counts", "limit_s": 300, **settings})
    assert done.returncode == 0, done.stderr
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    assert not result["faults"], done.stderr
    return result


@pytest.mark.parametrize(
    ("flags", "most"),
    [((), 411), (("--graphs",), 4), (("--graphs", "--processes"), 22)],
    ids=["eager", "graph", "processes"],
)
def test_launches_of_a_step_of_base(flags: tuple[str, ...], most: int, record_property: Any) -> None:
    """No launch is beyond a card's limits, and none is illegal in a capture."""
    result = step(*flags)
    record_property("host_ms", result["host_ms"])
    assert 0 < result["launches"] <= most, result["calls"]
    assert not {"attribute of a kernel set", "heuristic asked"} & {*result["calls"]}, "what was done in the first step"


def test_nvrtc_compiles_every_kernel_of_a_step(tmp_path: Path) -> None:
    """The project's, and those that CuPy makes of its own functions of bfloat16."""
    step("--steps", "4", stub="compiles", limit_s=COMPILED, AUTOGRAD_SELF_TEST="0", CUPY_CACHE_DIR=str(tmp_path))
    assert len([*tmp_path.glob("*.cubin")]) >= 20


@pytest.mark.slow
def test_what_needs_a_gpu_passes() -> None:
    """Kernels, whole models and graphs: what `pytest -m gpu` runs on a card."""
    tests = ["tests/autograd/fast", "tests/minitf/test_on_gpu.py", "tests/minitf/fast/test_step_graphs.py"]
    done = run("-m", "pytest", "-m", "gpu", "-n", "2", "-p", "no:cacheprovider", *tests, limit_s=7200)
    assert done.returncode == 0, done.stdout[-3000:]
    assert "skipped" not in done.stdout.lower(), done.stdout[-3000:]


@pytest.mark.slow
def test_every_case_passes_its_gradient_check() -> None:
    """Of ops, layers and whole models."""
    done = run("-m", "tests.cases", "--device", "cuda", limit_s=7200)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert "the card that is none" not in done.stderr, done.stderr[-3000:]
