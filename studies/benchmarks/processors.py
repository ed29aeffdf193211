"""Which bits of a run and of its translations depend on the processor, as far as one machine can stand in for others.

    OPENBLAS_NUM_THREADS=1 python -m studies.benchmarks.processors

Each process trains with the code that OpenBLAS, NumPy or Numba chooses for another processor, and translates with the
run of this one. Prints the table of docs/training.md.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # the helpers of the tests, too

import numpy as np

from additions.pages.run_log import read_log
from minitf import __main__ as commands
from minitf.storage import checkpoints
from minitf.system.process import run_command
from minitf.training.state import CLOCK_KEYS
from tests.helpers.runs import ENGLISH, call, write_corpus

STEPS, LINES = 30, 60
FLAGS = [
    *("--threads", "1", "--vocab-size", "320", "--max-length", "32", "--max-tokens-per-batch", "256"),
    *("--model.dropout", "0.1", "--model.layers", "2", "--model.d-model", "64", "--model.d-ff", "256"),
    *("--model.heads", "4", "--optimizer.warmup-steps", "10", "--optimizer.peak-learning-rate", "0.003"),
    *("--max-steps", str(STEPS), "--log-every", "1", "--valid-every", "10", "--save-every", str(STEPS)),
    *("--average-checkpoints", "1", "--beam", "4", "--max-extra-length", "8"),
]
WAYS = {
    "float32": [],
    "float32, `--kernels numba`": ["--kernels", "numba"],
    "float64": ["--precision", "float64"],
}
PROCESSORS = {
    "the same processor, again": {},
    "the same processor, 2 threads": {"THREADS": "2"},
    **{
        f"OpenBLAS for {name}": {"OPENBLAS_CORETYPE": name}
        for name in ("SkylakeX", "Haswell", "Sandybridge", "Prescott")
    },
    "NumPy without AVX-512": {"NPY_DISABLE_CPU_FEATURES": "X86_V4 AVX512_ICL"},
    "NumPy without AVX2 and AVX-512": {"NPY_DISABLE_CPU_FEATURES": "X86_V3 X86_V4 AVX512_ICL"},
    "Numba for Haswell": {"NUMBA_CPU_NAME": "haswell", "NUMBA_CPU_FEATURES": "+avx2,+fma"},
    "Numba for any x86-64": {"NUMBA_CPU_NAME": "x86-64", "NUMBA_CPU_FEATURES": ""},
}


def work(folder: Path, run: Path, way: str) -> int:
    """Train a run in `folder`, and translate with `run`, in this process."""
    texts = write_corpus(folder)
    flags = [*FLAGS, *WAYS[way], "--threads", os.environ.get("THREADS", "1")]
    status = call([*texts, *flags, "--output", str(folder / "run")])
    draw = random.Random(0)
    source = folder / "source.en"
    source.write_text("".join(" ".join(draw.choices(ENGLISH, k=draw.randint(1, 12))) + "\n" for _ in range(LINES)))
    more = [*WAYS[way], "--threads", os.environ.get("THREADS", "1"), "--quiet", "--format", "jsonl"]
    words = ["translate", str(run), "--input", str(source), "--output", str(folder / "translated"), *more]
    return status or run_command(commands.run, words)


def translations(path: Path) -> list[tuple[str, float]]:
    """The text and the score of each line."""
    rows = [json.loads(line)["translations"][0] for line in path.read_text("utf-8").splitlines()]
    return [(row["text"], row["score"]) for row in rows]


def compared(ours: Path, theirs: Path) -> tuple[str, str]:
    """What differs in training, and in translations."""
    logs = [
        [
            {key: value for key, value in each.items() if key not in CLOCK_KEYS}
            for each in read_log(path / "run/log.jsonl")
        ]
        for path in (ours, theirs)
    ]
    name = f"run/checkpoints/step-{STEPS:08}.safetensors"
    weights, others = (checkpoints.load(path / name, "model.")[0] for path in (ours, theirs))
    if logs[0] == logs[1] and all(weights[each].tobytes() == others[each].tobytes() for each in others):
        trained = "same bits"
    else:
        names = [each for each in others if not each.endswith("key.bias")]  # softmax cancels it: its gradient is 0
        apart = max(float(np.abs(weights[each] - others[each]).max()) for each in names)
        trained = f"weights up to {apart:.0e} apart"
    pairs = list(zip(translations(ours / "translated"), translations(theirs / "translated"), strict=True))
    texts = sum(one[0] == other[0] for one, other in pairs)
    equal = all(one == other for one, other in pairs)
    return trained, "same bits" if equal else f"{texts} of {LINES} texts, other scores"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", nargs="*", help=argparse.SUPPRESS)  # of one process, see `train`
    if given := parser.parse_args().work:
        folder, run, way = given
        return work(Path(folder), Path(run), way)
    print("| | " + " | ".join(WAYS) + " |\n|---|" + "---|" * len(WAYS))
    with tempfile.TemporaryDirectory() as name:
        for number, (processor, variables) in enumerate(PROCESSORS.items()):
            cells = []
            for place, way in enumerate(WAYS):
                first, folder = Path(name, f"0-{place}"), Path(name, f"{number}-{place}")
                if "Numba" in processor and "numba" not in way:
                    cells.append("")
                    continue
                if not number:
                    train(first, first / "run", way, {})
                    folder = Path(name, f"again-{place}")
                train(folder, first / "run", way, variables)
                trained, translated = compared(folder, first)
                cells.append(trained if trained == translated else f"{trained}; {translated}")
            print(f"| {processor} | " + " | ".join(cells) + " |", flush=True)
    return 0


def train(folder: Path, run: Path, way: str, variables: dict[str, str]) -> None:
    """`work`, in a process with these environment variables; Numba's cache tells processors apart."""
    folder.mkdir()
    environment = {**os.environ, **variables, "NUMBA_CACHE_DIR": str(folder.parent)}
    words = [sys.executable, "-m", "studies.benchmarks.processors", str(folder), str(run), way]
    subprocess.run(words, env=environment, check=True, stderr=subprocess.DEVNULL)


if __name__ == "__main__":
    sys.exit(main())
