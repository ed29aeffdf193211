"""What is timed, and how: the models, batches of full rows, medians of runs, the same for ours and for every peer."""

from __future__ import annotations

import argparse
import itertools
import json
import resource
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

FIELDS = ("layers", "d_model", "d_ff", "heads", "dropout", "vocab_size")
CONFIGS = {
    "base": (6, 512, 2048, 8, 0.1, 37000),
    "big": (6, 1024, 4096, 16, 0.3, 37000),
    "opus-mt": (6, 512, 2048, 8, 0.1, 58000),
    "small": (3, 256, 1024, 4, 0.1, 8000),
    "multi30k-tiny": (4, 128, 256, 4, 0.3, 9712),
    "six-layers": (6, 256, 1024, 8, 0.1, 4000),
}
BATCHES = {
    "base": (64, 32),
    "big": (32, 32),
    "opus-mt": (64, 32),
    "small": (128, 16),
    "multi30k-tiny": (256, 16),
    "six-layers": (16, 32),
}  # sentences, tokens each


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """A model by name, any of its sizes by a flag, and the batch."""
    parser.add_argument("--config", default="base", choices=CONFIGS)
    for field in FIELDS:
        flag = "--" + field.replace("_", "-")
        parser.add_argument(flag, type=float if field == "dropout" else int, help="default: the config's")
    parser.add_argument("--batch", type=int, help="sentences; default: as many as suit the config")
    parser.add_argument("--length", type=int, help="tokens a sentence, source and target alike; default: likewise")


def add_corpus_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of a peer that translates an exported run."""
    parser.add_argument("exported", help="what `translate_ours.py export` wrote")
    parser.add_argument("--batches", type=int, nargs="+", default=[64], help="sentences at once")
    parser.add_argument("--beams", type=int, nargs="+", default=[4], help="1 is greedy search")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--tokens", type=Path, help="a file for the token ids of the translations")


def median_seconds(work: Callable[[], object], runs: int, warmup: int = 1) -> float:
    """Seconds of a call: the median of `runs`, after `warmup` more."""
    seconds = []
    for _ in range(warmup + runs):
        start = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds[warmup:])


def report(peer: str, mode: str, seconds: float, tokens: int, **more: Any) -> None:
    """Print one JSON line: seconds, tokens per second and peak memory in MiB, unless `more` has another."""
    speed = {"seconds": round(seconds, 5), "tokens_per_second": round(tokens / seconds, 1), "peak_mib": peak_mib()}
    print(json.dumps({"peer": peer, "mode": mode, **speed, **more}))


def peak_mib() -> int:
    """Of this process, so far."""
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


def resident_mib() -> int:
    """Of this process, now, on Linux."""
    return round(int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / 2**20)


def report_corpus(
    peer: str, args: argparse.Namespace, work: Callable[[Any, int, int], list[list[int]]], lines: Any, **more: Any
) -> None:
    """Print the speeds of `timed_settings` as one JSON line; write the tokens of the translations if asked to."""
    record, tokens = timed_settings(work, lines, args.beams, args.batches)
    if args.tokens:
        args.tokens.write_text(json.dumps(tokens))
    print(json.dumps({"peer": peer, "mode": "corpus", **more, **record}))


def timed_settings(
    work: Callable[[Any, int, int], list[list[int]]], lines: Any, beams: Sequence[int], batches: Sequence[int]
) -> tuple[dict[str, float], dict[str, list[list[int]]]]:
    """Output tokens per second (end tokens count) for every search and batch size, and the tokens of the translations.

    After a few lines of warm-up, a text is translated until 3 seconds have passed; the fastest time counts.

    work: (lines, beam, batch) -> the tokens of each translation
    """
    record: dict[str, float] = {}
    tokens = {}
    for beam, batch in itertools.product(beams, batches):
        work(lines[:20], beam, batch)
        seconds: list[float] = []
        while sum(seconds) < 3:
            start = time.perf_counter()
            found = work(lines, beam, batch)
            seconds.append(time.perf_counter() - start)
        setting = f"beam {beam}, batch {batch}"
        tokens[setting] = found
        record[setting] = round(sum(len(each) + 1 for each in found) / min(seconds), 1)
    record["peak_mib"] = peak_mib()
    return record, tokens


def chosen(args: argparse.Namespace) -> dict[str, Any]:
    """The sizes of the model, after filling in `args.batch` and `args.length`."""
    batch, length = BATCHES[args.config]
    args.batch, args.length = args.batch or batch, args.length or length
    given = dict(zip(FIELDS, CONFIGS[args.config], strict=True))
    return given | {field: getattr(args, field) for field in FIELDS if getattr(args, field) is not None}
