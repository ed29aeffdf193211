"""The harness for GPUs reports what happened: with fake parts, without a GPU."""

import json
import math
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from studies.benchmarks import gpu_all, gpu_text
from studies.benchmarks.gpu_all import Outcome, Part, curves_agree, judge_tests, rows_are_good, run_part

pytestmark = pytest.mark.heavy

ROOT = Path(__file__).parents[3]


def command(program):
    return [sys.executable, "-c", program]


def run(tmp_path, part, **given):
    return run_part(part, tmp_path, **given)


def report(cases):
    return (
        f"<testsuites><testsuite>{''.join(f'<testcase>{case}</testcase>' for case in cases)}</testsuite></testsuites>"
    )


def write(path, text):
    return command(f"open({str(path)!r}, 'w').write({text!r})")


# ---- Tests ----

SKIPPED, FAILED = '<skipped message="needs CuPy and a GPU"/>', '<failure message="assert 1 == 2"/>'


@pytest.mark.parametrize(
    ("cases", "verdict", "reasons"),
    [
        (["", ""], "passed", ["2 tests passed"]),
        ([SKIPPED, SKIPPED], "no test passed", ["2 × skipped: needs CuPy and a GPU"]),
        ([], "no test passed", []),
        (["", SKIPPED], "1 tests did not pass", ["1 tests passed", "1 × skipped: needs CuPy and a GPU"]),
        (["", FAILED], "1 tests did not pass", ["1 tests passed", "1 × failure: assert 1 == 2"]),
    ],
)
def test_skips_and_zero_passes_are_failures(tmp_path, cases, verdict, reasons):
    found = run(tmp_path, Part("tests", 60, [write(tmp_path / "tests.xml", report(cases))], judge_tests))
    assert (found["verdict"], found["reasons"], found["failed"]) == (verdict, reasons, verdict != "passed")


def test_the_report_of_an_earlier_call_is_not_judged(tmp_path):
    (tmp_path / "tests.xml").write_text(report([""]))
    found = run(tmp_path, Part("tests", 60, [command("pass")], judge_tests))
    assert found["verdict"] == "no result"


def test_without_a_gpu_the_real_tests_do_not_pass(tmp_path):
    tests = ["tests/autograd/fast/test_cuda.py", "-k", "test_an_index_outside"]
    found = run(tmp_path, Part("kernels", 60, [gpu_all.pytest(tmp_path, "kernels", *tests)], judge_tests))
    if found["verdict"] != "passed":  # no GPU here
        assert found["verdict"] == "exit 5"  # of conftest.py; pytest's own is 0 where every test is skipped
        assert "needs" in found["reasons"][0]


def test_a_warning_of_an_import_skips_nothing(tmp_path):
    """`filterwarnings = error` made CuPy's warnings a reason to skip every test."""
    (tmp_path / "cupy.py").write_text(
        "import warnings; warnings.warn('found two installations')\n"
        "class cuda:\n    class runtime:\n        getDeviceCount = staticmethod(lambda: 1)\n"
    )
    program = (
        f"import sys, warnings; sys.path[:0] = [{str(tmp_path)!r}, {str(ROOT)!r}]; warnings.simplefilter('error'); "
        "from conftest import why_no_gpu; assert why_no_gpu() is None, why_no_gpu()"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", program], check=True)


# ---- Commands ----


def test_what_a_command_says_is_in_the_log_and_its_status_decides(tmp_path, capsys):
    found = run(tmp_path, Part("card", 60, [command("print('no driver'); raise SystemExit(3)")]))
    assert found["verdict"] == "exit 3"
    assert "no driver" in (tmp_path / "card.log").read_text()
    assert "    | no driver" in capsys.readouterr().out
    assert run(tmp_path, Part("card", 60, [["/no/such/program"]]))["verdict"] == "cannot start"


def test_a_part_that_takes_too_long_is_killed_with_all_it_started(tmp_path):
    """A pipe ends when the last process that holds it has ended."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    child = f"import time; pipe = open({str(pipe)!r}, 'w'); print('begun', file=pipe, flush=True); time.sleep(20)"
    child += "; print('alive', file=pipe)"
    program = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])"
    with open(os.open(pipe, os.O_RDONLY | os.O_NONBLOCK), encoding="utf-8") as held:
        os.set_blocking(held.fileno(), True)
        for limit_s in (0.5, 2, 8):  # on a busy machine, a process takes long to begin
            assert run(tmp_path, Part("slow", limit_s, [command(program)]))["verdict"] == "timed out"
            if said := held.read():
                break
    assert said == "begun\n"


def test_the_limit_is_that_of_the_part_and_of_the_whole_call(tmp_path):
    sleep = command("import time; time.sleep(0.6)")
    assert run(tmp_path, Part("three", 1.0, [sleep] * 3))["verdict"] == "timed out"
    assert run(tmp_path, Part("late", 60, [sleep]), end=time.monotonic())["verdict"] == "no time left"


# ---- Measurements ----


def test_a_row_without_a_time_is_a_failure(tmp_path):
    good = {"who": "ours", "precision": "bf16", "seconds": 0.04}
    bad = {"who": "torch", "precision": "bf16", "error": "out of memory"}
    for rows, verdict in (([good], "passed"), ([good, bad], "rows failed"), ([bad], "nothing was measured")):
        (tmp_path / "base.json").write_text(json.dumps({"rows": rows}))
        assert rows_are_good(tmp_path / "base").verdict == verdict


@pytest.mark.parametrize(
    ("bf16", "verdict"),
    [([4.01, 3.0], "passed"), ([4.01], "curves of other lengths"), ([4.0, 3.5], "curves differ"),
     ([4.0, math.nan], "curves differ")],
)  # fmt: skip
def test_curves_are_compared_in_every_interval(tmp_path, bf16, verdict):
    for precision, losses in {"float32": [4.0, 3.0], "bf16": bf16, "tf32": [4.0, 3.0]}.items():
        folder = tmp_path / f"curve-{precision}-1"
        folder.mkdir()
        (folder / "log.jsonl").write_text("".join(json.dumps({"loss": loss}) + "\n" for loss in losses))
    assert curves_agree(tmp_path / "curves").verdict == verdict


def test_without_any_curve_there_is_no_result(tmp_path):
    assert run(tmp_path, Part("curves", 60, [command("pass")], curves_agree))["verdict"] == "no result"


# ---- The whole ----


def with_parts(monkeypatch, *parts):
    monkeypatch.setattr(gpu_all, "all_parts", lambda output, args: list(parts))


GOOD, BAD = Part("good", 60, [command("pass")]), Part("bad", 60, [command("raise SystemExit(1)")])
ABSENT = Part("tool", 60, [], absent="the tool is not installed")


def test_results_are_saved_after_each_part_and_only_keeps_the_others(tmp_path, monkeypatch, capsys):
    seen = []

    def judge(place):
        seen.append(sorted(json.loads((tmp_path / "results.json").read_text())))
        return Outcome("passed")

    with_parts(monkeypatch, GOOD, BAD, Part("last", 60, [command("pass")], judge))
    assert gpu_all.main([str(tmp_path)]) == 1
    assert seen == [["bad", "good"]]
    with_parts(monkeypatch, GOOD, Part("bad", 60, [command("pass")]), GOOD)
    assert gpu_all.main([str(tmp_path), "--only", "bad"]) == 0
    results = json.loads((tmp_path / "results.json").read_text())
    assert {name: result["verdict"] for name, result in results.items()} == dict.fromkeys(
        ("good", "bad", "last"), "passed"
    )
    assert (tmp_path / "summary.txt").read_text().startswith("good        passed")
    assert gpu_all.main([str(tmp_path), "--only", "base"]) == 2
    assert "no part base" in capsys.readouterr().out


@pytest.mark.parametrize(("parts", "status"), [([GOOD, ABSENT], 0), ([ABSENT], 1), ([], 1), ([GOOD, BAD], 1)])
def test_the_exit_status_needs_a_pass_and_no_failure(tmp_path, monkeypatch, parts, status):
    with_parts(monkeypatch, *parts)
    assert gpu_all.main([str(tmp_path)]) == status


def test_parts_come_in_the_order_of_what_they_tell(tmp_path):
    parts = gpu_all.all_parts(tmp_path, gpu_all.parse([str(tmp_path)]))
    names = [part.name for part in parts]
    assert names == [
        "card", "kernels", "memcheck", "racecheck", "step", "models", "graphs", "gradients", "curves", "base", "big",
        "overlap", "bleu",
    ]  # fmt: skip
    assert sum(part.limit_s for part in parts) <= 30 * 60
    assert all(part.limit_s > 0 or part.absent for part in parts)


def test_the_text_is_the_same_in_every_call(tmp_path):
    one, two = (gpu_text.write_text(tmp_path / name, pairs=50) for name in ("one", "two"))
    assert [path.read_text() for path in one] == [path.read_text() for path in two]
    source, target = (path.read_text().splitlines() for path in one)
    assert len(source) == len(target) == 50
    assert all(len(t.split()) == len(s.split()) + len(s.split()) % 2 for s, t in zip(source, target, strict=True))


@pytest.mark.heavy
def test_a_curve_needs_no_package_that_a_bare_image_lacks(tmp_path):
    """The same command on the CPU, with sacremoses refused."""
    (tmp_path / "sitecustomize.py").write_text("import sys; sys.modules['sacremoses'] = None\n")
    first = gpu_all.curves(tmp_path, 2)[0]
    first[first.index("cuda")] = "cpu"
    small = ["--model.layers", "1", "--model.d-model", "16", "--model.heads", "2", "--max-tokens-per-batch", "256"]
    environment = {"PYTHONPATH": str(tmp_path), "PATH": ""}
    done = subprocess.run([*first, *small], cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (log,) = tmp_path.glob("curve-float32-*/*.jsonl")
    assert "loss" in log.read_text()
