"""Preparing a corpus against sentencepiece alone: seconds, their ratio, and the memory that preparing takes.

    python studies/benchmarks/prepare.py T.en T.fr --vocab-size 16000 --pairs 400000

Text becomes token ids on disk (`minitf.data.prepared`).  Beside it, sentencepiece encodes the same lines, all of them
in one call per side, from a list in memory, without reading, checking and writing them.
Each is a process of its own, so that the peaks of memory are their own.  Then one epoch of batches is drawn, as
training does: target tokens per second, to hold against what a model trains in.  Prints one JSON line.
"""

from __future__ import annotations

import argparse
import itertools
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # also without an installation

from minitf.data.batches import Batches
from minitf.data.prepared import prepare
from minitf.data.text import read_pairs
from minitf.data.vocabulary import Vocabulary


def peak_mib() -> int:
    """Of this process alone; getrusage gives that of the parent, which had all lines, if it was higher."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return round(next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) / 1024)


def ours(folder: Path) -> dict[str, float]:
    vocabulary = Vocabulary.load(folder / "vocabulary.model")
    start = time.perf_counter()
    corpus = prepare(folder / "source", folder / "target", vocabulary, folder / "prepared")
    seconds, peak = time.perf_counter() - start, peak_mib()
    start, tokens = time.perf_counter(), 0
    batches = Batches(corpus, max_tokens_per_batch=4096)
    for _ in range(batches.per_epoch):
        tokens += next(batches).target_tokens
    batch_tokens_per_second = round(tokens / (time.perf_counter() - start))
    return {
        "seconds": seconds,
        "peak_mib": peak,
        "pairs": len(corpus),
        "batch_target_tokens_per_second": batch_tokens_per_second,
    }


def sentencepiece_alone(folder: Path) -> dict[str, float]:
    vocabulary = Vocabulary.load(folder / "vocabulary.model")
    pairs = list(read_pairs(folder / "source", folder / "target"))
    sides = [source for source, _ in pairs], [target for _, target in pairs]
    start = time.perf_counter()
    for lines in sides:
        vocabulary._processor.encode(lines)
    return {"seconds": time.perf_counter() - start, "peak_mib": peak_mib()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=Path)
    parser.add_argument("target", type=Path)
    parser.add_argument("--vocab-size", type=int, default=16000)
    parser.add_argument("--pairs", type=int, default=400_000)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        pairs = list(itertools.islice(read_pairs(args.source, args.target), args.pairs))
        for side, lines in zip(("source", "target"), zip(*pairs, strict=True), strict=True):
            (folder / side).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        lines = itertools.chain.from_iterable(pairs)
        Vocabulary.train(lines, args.vocab_size, folder / "vocabulary.model")
        del pairs
        best: dict[str, dict[str, float]] = {}
        for _ in range(args.rounds):
            for what in ("ours", "sentencepiece_alone"):
                found = in_a_process(what, folder)
                best[what] = min(best.get(what, found), found, key=lambda record: record["seconds"])
            for path in (folder / "prepared").iterdir():
                path.unlink()
    ratio = best["sentencepiece_alone"]["seconds"] / best["ours"]["seconds"]
    print(json.dumps(best | {"speed of sentencepiece": round(ratio, 3)}))


def in_a_process(what: str, folder: Path) -> dict[str, float]:
    program = (
        "import json, sys; from pathlib import Path; sys.path.insert(0, sys.argv[1]); import prepare; "
        "print(json.dumps(getattr(prepare, sys.argv[2])(Path(sys.argv[3]))))"
    )
    here = str(Path(__file__).resolve().parent)
    command = [sys.executable, "-c", program, here, what, str(folder)]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


if __name__ == "__main__":
    main()
