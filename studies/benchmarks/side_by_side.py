"""Run programs in turn, several times, and compare the medians of what they print.

A program is any command whose last line of output is a JSON object with `tokens_per_second` and `peak_mib`.  Taking
turns spreads what else the machine does over all of them, and a ratio of medians is what is worth quoting: absolute
figures differ from hour to hour.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
BLAS_SETTINGS = ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")  # with them set, nobody gets what a user gets

AS_PROCESSOR: dict[str, str] = {}
"""Variables with which all programs choose the code for another processor."""


def without_avx512() -> dict[str, str]:
    """The variables with which the programs choose the code that they have for this processor without AVX-512."""
    program = "from numba.core.codegen import get_host_cpu_features as f; print(f())"
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    features = ("-" + each[1:] if each[1:].startswith("avx512") else each for each in done.stdout.strip().split(","))
    return {
        "NUMBA_CPU_NAME": "haswell",
        "NUMBA_CPU_FEATURES": ",".join(features),
        "OPENBLAS_CORETYPE": "Haswell",
        "NPY_DISABLE_CPU_FEATURES": "X86_V4 AVX512_ICL",
        "ATEN_CPU_CAPABILITY": "avx2",  # PyTorch's own loops, and its libraries
        "MKL_ENABLE_INSTRUCTIONS": "AVX2",
        "ONEDNN_MAX_CPU_ISA": "AVX2",
        "XLA_FLAGS": "--xla_cpu_max_isa=AVX2",
        "CT2_FORCE_CPU_ISA": "AVX2",
    }


@dataclass
class Contestant:
    name: str
    command: list[str]
    environment: dict[str, str] = field(default_factory=dict)
    records: list[dict[str, Any]] = field(default_factory=list)
    failure: str | None = None

    def run(self) -> None:
        """One more record; after a failure, none."""
        if self.failure is not None:
            return
        environment = {k: v for k, v in os.environ.items() if k not in BLAS_SETTINGS}
        environment |= AS_PROCESSOR | self.environment
        done = subprocess.run(self.command, capture_output=True, text=True, env=environment)
        lines = done.stdout.strip().splitlines()
        if done.returncode or not lines:
            self.failure = (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]
            print(f"{self.name}: {self.failure}", file=sys.stderr)
            return
        self.records.append(json.loads(lines[-1]))

    def median(self, key: str) -> float | None:
        """Of all records; None where the program does not print it."""
        values = [record[key] for record in self.records if record.get(key) is not None]
        return statistics.median(values) if values else None

    def spread(self, key: str) -> tuple[float, float]:
        values = [record[key] for record in self.records]
        return min(values), max(values)


def measured(parser: Any, name: str, python: str, arguments: list[str], *, sees_project: bool) -> Any:
    """What the running program, called with `--measure …` by another Python on one thread, prints as JSON."""
    environment = {k: v for k, v in os.environ.items() if k not in BLAS_SETTINGS}
    environment |= AS_PROCESSOR | {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "PYTHONSAFEPATH": "1"}
    environment |= {"PYTHONPATH": str(ROOT)} if sees_project else {}
    command = [python, str(Path(sys.argv[0]).resolve()), "--measure", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd="/")
    if done.returncode:
        parser.error(f"{name}: {(done.stderr.strip().splitlines() or ['no word'])[-1]}")
    return json.loads(done.stdout.splitlines()[-1])


def publish(lines: list[str], path: Path | None, head: str = "") -> None:
    """Print lines, and write them to a file if one is given, below `head`."""
    print("\n".join(lines))
    if path is not None:
        path.write_text(head + "\n".join(lines) + "\n", encoding="utf-8")


def ours(script: str, *arguments: str) -> list[Contestant]:
    """minitf with compiled kernels, where Numba is installed, and with NumPy alone."""
    command = [sys.executable, str(HERE / script), *arguments]
    if find_spec("numba") is None:
        return [Contestant("minitf, NumPy", command)]
    return [Contestant("minitf, Numba", [*command, "--kernels", "numba"]), Contestant("minitf, NumPy", command)]


def take_turns(contestants: list[Contestant], rounds: int, what: str) -> None:
    """Run each of them once a round."""
    for number in range(1, rounds + 1):
        for contestant in contestants:
            print(f"{what}, round {number} of {rounds}: {contestant.name}", file=sys.stderr)
            contestant.run()


def table(contestants: list[Contestant], key: str = "tokens_per_second", unit: str = "tokens/s") -> str:
    """A Markdown table: median, range, ours ÷ theirs, peak memory.  The first contestant is ours."""
    ours = contestants[0].median(key)
    rows = [f"| | {unit} (median) | range | ours ÷ this | peak MiB |", "|---|---|---|---|---|"]
    for contestant in contestants:
        median = contestant.median(key)
        if median is None:
            rows.append(f"| {contestant.name} | failed: {contestant.failure} | | | |")
            continue
        low, high = contestant.spread(key)
        ratio = "" if ours is None or contestant is contestants[0] else f"{ours / median:.2f}"
        peak = contestant.median("peak_mib")
        cells = [f"{median:,.0f}", f"{low:,.0f} to {high:,.0f}", ratio, "" if peak is None else f"{peak:,.0f}"]
        rows.append(f"| {contestant.name} | {' | '.join(cells)} |")
    return "\n".join(rows)


def machine() -> str:
    """One line: processor, cores, memory, system, versions."""
    model = platform.processor() or platform.machine()
    if Path("/proc/cpuinfo").exists():
        named = [line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
        model = named[0].partition(":")[2].strip() if named else model
        wide = [
            name for name in ("avx2", "avx512f", "avx512_bf16") if name in Path("/proc/cpuinfo").read_text().split()
        ]
        model += f" ({', '.join(wide)})" if wide else ""
        model += ", as without AVX-512" if AS_PROCESSOR else ""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    versions = [f"Python {platform.python_version()}"]
    for package in ("numpy", "numba"):
        try:
            versions.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            continue
    return f"{model}, {os.cpu_count()} cores, {memory:.0f} GiB, {platform.system()}; {', '.join(versions)}"


def add_arguments(parser: Any) -> None:
    """Where the peers are, how often, and where the result goes."""
    parser.add_argument(
        "--peer",
        action="append",
        default=[],
        metavar="NAME=PYTHON",
        help="a peer (pytorch, jax, ctranslate2) and the Python that has it, e.g. jax=envs/jax/bin/python; repeatable",
    )
    parser.add_argument("--rounds", type=int, default=3, help="how often each program runs")
    parser.add_argument("--write", type=Path, help="also write the result to this file")
    parser.add_argument("--without-avx512", action=WithoutAvx512, nargs=0, help="measure as on a processor without it")


class WithoutAvx512(argparse.Action):
    """From here on, all programs run as on a processor without AVX-512."""

    def __call__(self, *_: Any) -> None:
        AS_PROCESSOR.update(without_avx512())


def peers_given(parser: Any, given: list[str], known: tuple[str, ...]) -> dict[str, str]:
    """{"pytorch": "envs/torch/bin/python", …}"""
    peers = dict(entry.partition("=")[::2] for entry in given)
    for name, python in peers.items():
        if name not in known:
            parser.error(f"--peer {name}=…: unknown; the peers here are {', '.join(known)}")
        if not python:
            parser.error(f"--peer {name}: add =PYTHON, the interpreter of an environment that has it")
    return peers
