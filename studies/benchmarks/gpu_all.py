"""All checks and measurements on a GPU in one command, in the order of what they tell in the first minutes.

    python studies/benchmarks/gpu_all.py results --peer studies/benchmarks/peers/torch_transformer.py --minutes 28

Each part is a process of its own with its own time limit; one that fails does not stop the others.  A part has passed
if it ran to its end, skipped nothing and found nothing wrong; a part that runs tests, only if at least one of them
passed.  After each part, results/results.json and results/summary.txt are written again; results/PART.log has its
output.  A second call with `--only PART …` runs these parts and keeps the results of the others.

The exit status is 0 only if at least one part has passed and none has failed.  What no part can do without (CuPy and a
GPU, say) is reported by the first, `card`.
"""

from __future__ import annotations

import argparse
import collections
import json
import math
import os
import shutil
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))  # also where it is imported, by its tests

from gpu_text import write_text

ROOT = Path(__file__).resolve().parents[2]
PYTHON = sys.executable
PASSED = "passed"
PRECISIONS = ("float32", "bf16", "tf32")
CURVES_APART = 0.05  # relative difference of losses between precisions that is an error, not rounding


@dataclass(frozen=True)
class Outcome:
    """What came of a part: whether it passed, and why not or with which figures."""

    verdict: str  # "passed", "absent" or what went wrong
    reasons: tuple[str, ...] = ()

    @property
    def failed(self) -> bool:
        return self.verdict not in (PASSED, "absent")


Judge = Callable[[Path], Outcome]


@dataclass(frozen=True)
class Part:
    """Commands, run one after the other within a time limit, and the judge of what they have left in the results."""

    name: str
    limit_s: float
    commands: Sequence[Sequence[str]]
    judge: Judge = lambda _: Outcome(PASSED)
    absent: str = ""  # why there is nothing to run, if so


def main(arguments: Sequence[str] | None = None) -> int:
    args = parse(arguments)
    output = args.output.absolute()
    output.mkdir(parents=True, exist_ok=True)
    parts = all_parts(output, args)
    unknown = {*(args.only or ())} - {part.name for part in parts}
    if unknown:
        print(f"--only: no part {', '.join(sorted(unknown))}; there are {', '.join(part.name for part in parts)}")
        return 2
    end = time.monotonic() + 60 * args.minutes
    run = []
    for part in parts:
        if not args.only or part.name in args.only:
            run.append(run_part(part, output, end))
            save(output, part.name, run[-1], [each.name for each in parts])
    return 0 if any(each["verdict"] == PASSED for each in run) and not any(each["failed"] for each in run) else 1


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output", type=Path, help="directory of the results")
    parser.add_argument("--peer", type=Path, help="the PyTorch program to compare with")
    parser.add_argument("--multi30k", type=Path, metavar="DIR", help="the directory of Multi30k's texts, for its BLEU")
    parser.add_argument("--steps", type=int, default=500, help="of the loss curves (default: 500)")
    parser.add_argument("--minutes", type=float, default=math.inf, help="time for all parts (default: no limit)")
    parser.add_argument("--only", nargs="+", metavar="PART", help="run these parts and keep the results of the others")
    return parser.parse_args(arguments)


# ---- The parts -------------------------------------------------------------------------------------------------------


def all_parts(output: Path, args: argparse.Namespace) -> list[Part]:
    """The cheapest and most telling first; their limits add up to half an hour."""
    kernels, attention = "tests/autograd/fast/test_cuda.py", "attention_in_float32 or tensor_cores"
    peer = [] if args.peer is None else ["--peer", str(args.peer.absolute())]
    bench = [PYTHON, "studies/benchmarks/gpu.py", *peer]
    step = [PYTHON, "studies/benchmarks/gpu.py", "--precision", "bf16", "--runs", "3", "--warmup", "1"]
    gradients = [PYTHON, "-m", "tests.cases", "--ops", "--device", "cuda", "--examples", "1"]
    return [
        Part("card", 60, [[PYTHON, "studies/benchmarks/gpu_card.py"]]),
        Part("kernels", 180, [pytest(output, "kernels", kernels)], judge_tests),
        sanitizer("memcheck", output, kernels, attention),
        sanitizer("racecheck", output, kernels, attention),
        Part("step", 90, [[*step, "--json", str(output / "step.json")]], rows_are_good),
        Part("models", 90, [pytest(output, "models", "tests/minitf/test_on_gpu.py")], judge_tests),
        Part("graphs", 30, [pytest(output, "graphs", "tests/minitf/fast/test_step_graphs.py")], judge_tests),
        Part("gradients", 120, [gradients]),
        Part("curves", 270, curves(output, args.steps), curves_agree),
        Part("base", 210, [[*bench, "--json", str(output / "base.json")]], rows_are_good),
        Part(
            "big", 150, [[*bench, "--config", "big", "--precision", "bf16", "--json", str(output / "big.json")]],
            rows_are_good,
        ),
        Part("overlap", 60, [[PYTHON, "studies/benchmarks/gpu_overlap.py", "--json", str(output / "overlap.json")]]),
        bleu(output, args.multi30k),
    ]  # fmt: skip


def pytest(output: Path, name: str, *tests: str) -> list[str]:
    """The command that runs tests on the GPU; warnings, also of imports, do not decide what runs."""
    return [PYTHON, "-m", "pytest", *pytest_flags(output, name), *tests]


def pytest_flags(output: Path, name: str) -> list[str]:
    report = str(output / f"{name}.xml")
    return ["-q", "-m", "gpu", "-rs", "-p", "no:cacheprovider", "-W", "default", "--junitxml", report]


def sanitizer(tool: str, output: Path, tests: str, which: str) -> Part:
    """Attention under compute-sanitizer; without CuPy's memory pool, in which arrays lie side by side unchecked."""
    if shutil.which("compute-sanitizer") is None:
        return Part(tool, 0, [], absent="compute-sanitizer is not installed")
    flags = [*pytest_flags(output, tool), tests, "-k", which]
    program = f"import cupy, pytest; cupy.cuda.set_allocator(None); raise SystemExit(pytest.main({flags!r}))"
    command = ["compute-sanitizer", "--tool", tool, "--error-exitcode", "9", PYTHON, "-c", program]
    return Part(tool, 120, [command], judge_tests)


def curves(output: Path, steps: int) -> list[list[str]]:
    """The same training in every precision: one seed, one text (made up here), the same dropout masks."""
    text = [str(path) for path in write_text(output / "text", pairs=20_000)]
    return [
        [PYTHON, "train.py", "--preset", "small", "--device", "cuda", "--precision", precision, "--train", *text,
         "--vocab-size", "4000", "--max-steps", str(steps), "--log-every", "20", "--valid-every", "100000",
         "--save-every", "100000", "--output", str(output / f"curve-{precision}-{time.time_ns()}")]
        for precision in PRECISIONS
    ]  # fmt: skip


def bleu(output: Path, texts: Path | None) -> Part:
    """Train Transformer-Tiny on Multi30k, and translate its test set."""
    if texts is None:
        return Part("bleu", 0, [], absent="--multi30k DIR was not given")
    run = output / f"multi30k-{time.time_ns()}"
    train = ["--preset", "multi30k-transformer-tiny", "--data-dir", str(texts.absolute()), "--output", str(run)]
    device = ["--device", "cuda", "--precision", "bf16"]
    english, german = (str(text_of_the_test_set(texts.absolute(), language)) for language in ("en", "de"))
    files = ["--input", english, "--reference", german, "--output", str(run / "test.de")]
    train = [PYTHON, "train.py", *train, *device, "--max-minutes", "4"]
    return Part("bleu", 300, [train, [PYTHON, "translate.py", str(run), *files, *device]])


def text_of_the_test_set(texts: Path, language: str) -> Path:
    """The test set under the name of its publisher, or under a short one."""
    names = (f"test_2016_flickr.lc.norm.tok.{language}", f"test_2016_flickr.{language}")
    return next((texts / name for name in names if (texts / name).exists()), texts / names[0])


# ---- Running a part ----------------------------------------------------------------------------------------------


def run_part(part: Part, output: Path, end: float = math.inf) -> dict[str, Any]:
    """Run the commands of a part, judge and print; the result as it is saved."""
    start = time.monotonic()
    log = output / f"{part.name}.log"
    for earlier in (".log", ".xml", ".json"):  # an earlier call's report must not be judged in place of this one's
        (output / f"{part.name}{earlier}").unlink(missing_ok=True)
    outcome = Outcome("absent", (part.absent,))
    if not part.absent:
        outcome = run_commands(part, log, min(end, start + part.limit_s))
    if outcome.verdict == PASSED:
        try:
            outcome = part.judge(output / part.name)
        except Exception as error:
            outcome = Outcome("no result", (f"{type(error).__name__}: {error}",))
    seconds = time.monotonic() - start
    print(line_of(part.name, {"verdict": outcome.verdict, "seconds": seconds, "reasons": outcome.reasons}), flush=True)
    if outcome.failed and log.exists():
        print("".join(f"    | {line}\n" for line in log.read_text("utf-8", "replace").splitlines()[-15:]), flush=True)
    return {"verdict": outcome.verdict, "failed": outcome.failed, "seconds": seconds, "reasons": list(outcome.reasons)}


def run_commands(part: Part, log: Path, end: float) -> Outcome:
    """Run commands one after the other until `end`, with their output in `log`."""
    with log.open("w", encoding="utf-8") as file:
        for command in part.commands:
            left = end - time.monotonic()
            if left <= 0:
                return Outcome("no time left")
            file.write(f"$ {' '.join(command)}\n")
            file.flush()
            try:
                process = subprocess.Popen(
                    command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT,
                    start_new_session=True,
                )  # fmt: skip
            except OSError as error:
                return Outcome("cannot start", (str(error),))
            try:
                status = process.wait(left)
            except subprocess.TimeoutExpired:
                return Outcome("timed out", (f"after {part.limit_s:.0f} s",))
            finally:  # also what the command has started: a peer that runs on would slow the next part down
                kill_group(process)
            if status:
                return Outcome(f"exit {status}", tuple(skips_and_failures(log.with_suffix(".xml"))))
    return Outcome(PASSED)


def kill_group(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


# ---- Judging -----------------------------------------------------------------------------------------------------


def judge_tests(place: Path) -> Outcome:
    """Tests have passed if at least one did, and none failed or was skipped."""
    cases = ElementTree.parse(place.with_suffix(".xml")).getroot().findall(".//testcase")
    reasons = skips_and_failures(place.with_suffix(".xml"))
    passed = sum(not [each for each in case if each.tag in ("skipped", "failure", "error")] for case in cases)
    if not passed:
        return Outcome("no test passed", tuple(reasons))
    return Outcome(
        f"{len(cases) - passed} tests did not pass" if reasons else PASSED, (f"{passed} tests passed", *reasons)
    )


def skips_and_failures(report: Path) -> list[str]:
    """Why tests were skipped or failed, each reason once with the number of its tests."""
    if not report.exists():
        return []
    found: collections.Counter[str] = collections.Counter()
    for case in ElementTree.parse(report).getroot().findall(".//testcase"):
        for each in case:
            if each.tag in ("skipped", "failure", "error"):
                found[f"{each.tag}: {(each.get('message') or 'no reason given').splitlines()[0][:200]}"] += 1
    return [f"{count} × {reason}" for reason, count in found.most_common()]


def rows_are_good(place: Path) -> Outcome:
    """Every row of studies/benchmarks/gpu.py has a time."""
    rows = json.loads(place.with_suffix(".json").read_text("utf-8"))["rows"]
    errors = [f"{row['who']}, {row['precision']}: {row['error']}" for row in rows if "error" in row]
    times = [f"{row['who']}, {row['precision']}: {1000 * row['seconds']:.2f} ms" for row in rows if "error" not in row]
    if not times:
        return Outcome("nothing was measured", tuple(errors))
    return Outcome("rows failed" if errors else PASSED, (*times, *errors))


def curves_agree(place: Path) -> Outcome:
    """The losses of every precision are finite and near those of float32, in every interval of the log."""
    losses: dict[str, list[float]] = {}
    for precision in PRECISIONS:
        newest = sorted(place.parent.glob(f"curve-{precision}-*"))[-1]
        records = [json.loads(line) for path in newest.glob("*.jsonl") for line in path.read_text("utf-8").splitlines()]
        losses[precision] = [record["loss"] for record in records if "loss" in record]
    reasons, agree = [], bool(losses["float32"])
    for precision in PRECISIONS[1:]:
        if len(losses[precision]) != len(losses["float32"]) or not losses[precision]:
            return Outcome("curves of other lengths", (f"{ {name: len(each) for name, each in losses.items()} }",))
        apart = [abs(a - b) / abs(b) for a, b in zip(losses[precision], losses["float32"], strict=True)]
        worst = max(apart, key=lambda x: math.inf if math.isnan(x) else x)
        agree = agree and worst <= CURVES_APART
        reasons.append(f"{precision}: within {100 * worst:.2f} % of float32's loss over {len(apart)} intervals")
    return Outcome(PASSED if agree else "curves differ", tuple(reasons))


# ---- Saving ------------------------------------------------------------------------------------------------------


def save(output: Path, name: str, result: dict[str, Any], order: Sequence[str]) -> None:
    """Add a result to those of earlier parts and calls."""
    path = output / "results.json"
    results = json.loads(path.read_text("utf-8")) if path.exists() else {}
    results[name] = result
    partial = path.with_suffix(".part")
    partial.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    partial.replace(path)
    lines = [line_of(each, results[each]) for each in order if each in results]
    (output / "summary.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


def line_of(name: str, result: dict[str, Any]) -> str:
    head = f"{name:12}{result['verdict']:24}{result['seconds']:8.1f} s"
    return "\n".join([head, *[f"    {reason}" for reason in result["reasons"]]])


if __name__ == "__main__":
    sys.exit(main())
