"""Several processes for real: they train as one does, and end together whatever happens to one of them."""

import json
import os
import shutil
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from minitf.parallel.launch import launch
from minitf.storage import checkpoint
from minitf.storage.log import read_log
from minitf.training.state import CLOCK_KEYS
from tests.helpers.runs import write_corpus

pytestmark = pytest.mark.heavy
ROOT = Path(__file__).parents[3]
WORKER = ROOT / "tests" / "helpers" / "parallel_worker.py"
MPIEXEC = shutil.which("mpiexec", path=os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")]))


def why_no_mpi():
    """Why no job of mpiexec can run here; empty where it can."""
    if MPIEXEC is None or find_spec("mpi4py") is None:
        return "needs mpi4py and an MPI: pip install '.[mpi]' mpich"
    # in a process of its own: the import begins MPI
    done = subprocess.run([sys.executable, "-c", "import mpi4py.MPI"], capture_output=True, text=True, check=False)
    said = done.stderr.strip().rpartition("\n")[2]
    return f"mpi4py finds no MPI library: pip install mpich ({said})" if done.returncode else ""


needs_mpi = pytest.mark.skipif(bool(WHY_NO_MPI := why_no_mpi()), reason=WHY_NO_MPI)

# Updates of three batches: two processes and eight have rows of each, some of the eight none; three have whole batches.
FLAGS = [
    *("--precision", "float64", "--vocab-size", "320", "--max-length", "32", "--max-tokens-per-batch", "64"),
    *("--accumulate", "3", "--max-steps", "50", "--log-every", "10", "--valid-every", "25", "--save-every", "25"),
    *("--model.dropout", "0.1", "--model.attention-dropout", "0.1", "--model.activation-dropout", "0.1"),
    *("--model.layers", "1", "--model.d-model", "32", "--model.d-ff", "64", "--model.heads", "2"),
    *("--optimizer.warmup-steps", "4000", "--optimizer.peak-learning-rate", "none", "--moving-average", "0.9"),
    *("--average-checkpoints", "1", "--beam", "1", "--max-extra-length", "2"),
]


def python(*words, **more):
    """A Python of a job, with warnings as errors; gives what it said and its exit status."""
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": str(ROOT), **more.pop("env", {})}
    before = more.pop("before", [])
    done = subprocess.run(
        [*before, sys.executable, "-W", "error", *map(str, words)],
        capture_output=True, stdin=subprocess.DEVNULL, text=True, env=environment, cwd=ROOT, timeout=300, **more,
    )  # fmt: skip
    return done.stdout + done.stderr, done.returncode


def job(size, *words):
    """A worker program started by the launcher; gives what it said and its exit status."""
    code = "import sys; from pathlib import Path; from minitf.parallel.launch import launch; "
    code += f"sys.exit(launch(Path({str(WORKER)!r}), sys.argv[1:], {size}, 2.0))"
    return python("-c", code, *words)


def mpi(size, *words, program=WORKER):
    return python(program, *words, before=[MPIEXEC, "-n", str(size)])


def alive(folder):
    """The processes of a job that are still there."""
    pids = [int(path.read_text()) for path in folder.glob("pid-*")]
    return [pid for pid in pids if Path(f"/proc/{pid}/stat").exists() and " Z " not in proc_stat(pid)]


def proc_stat(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return " Z "


# ---- What a group can do -----------------------------------------------------------------------------------------


def check_talk(folder, size):
    sys.path.insert(0, str(WORKER.parent))
    try:
        from tests.helpers.parallel_worker import numbers
    finally:
        sys.path.pop(0)
    expected = numbers(0)
    for rank in range(1, size):
        expected = expected + numbers(rank)  # in this order, to the bit
    for rank in range(size):
        seen = json.loads((folder / f"seen-{rank}.json").read_text())
        assert seen["large"] == [10 + (each << 20) for each in range(size)]
        assert [each["rank"] for each in seen["gathered"]] == list(range(size))
        assert seen["gathered"][-1]["third"] == 1 / 3
        assert seen["gathered"][0]["nan"] != seen["gathered"][0]["nan"]
        assert (seen["shared"], seen["broadcast"], seen["made"], seen["zeros"]) == (7, True, True, True)
        assert seen["cores"] == max(1, len(os.sched_getaffinity(0)) // size)
        assert np.load(folder / f"sum-{rank}.npy").tobytes() == expected.tobytes()


@pytest.mark.parametrize("size", [1, 3, 8])
def test_processes_of_this_host(tmp_path, size):
    said, status = job(size, "talk", tmp_path)
    assert (said, status) == ("", 0)
    check_talk(tmp_path, size)


@needs_mpi
@pytest.mark.parametrize("size", [2, pytest.param(5, marks=pytest.mark.slow)])
def test_processes_of_mpiexec(tmp_path, size):
    said, status = mpi(size, "talk", tmp_path)
    assert (said, status) == ("", 0)
    check_talk(tmp_path, size)


# ---- How a job ends ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("deed", "status", "reason"),
    [
        ("killed", 1, "was ended by SIGKILL"),
        ("stopped", 1, "has not been heard of for 2 seconds"),
        ("stopped-late", 1, "has not been heard of for 2 seconds"),
        ("killed-late", 1, "was ended by SIGKILL"),
        ("stopped-last", 1, "has done its work, but has not ended for 2 seconds"),
        pytest.param("asleep", 1, "has stood still for 2 seconds in fail (parallel_worker.py", marks=pytest.mark.slow),
        ("error", 2, "has ended: the disk is full"),
        pytest.param("bug", 1, "has ended with ZeroDivisionError: one by none", marks=pytest.mark.slow),
        pytest.param("exit", 7, "ended with status 7 before its work was done", marks=pytest.mark.slow),
        pytest.param("silent-bye", 1, "ended with status 0 before its work was done", marks=pytest.mark.slow),
    ],
)
def test_the_one_that_fails_is_named_and_nobody_is_left(tmp_path, deed, status, reason):
    start = time.monotonic()
    said, found = job(2, deed, tmp_path)
    assert time.monotonic() - start < 30
    errors = [line for line in said.splitlines() if line.startswith("error: ")]
    assert len(errors) == 1, said
    assert errors[0].startswith("error: rank 1 (process ")
    assert reason in errors[0]
    assert found == status
    assert ("Traceback" in said) == (deed == "bug")
    assert alive(tmp_path) == []


def test_one_that_disagrees_is_named(tmp_path):
    said, status = job(3, "disagrees", tmp_path)
    assert "has ended: rank 1 disagrees with rank 0: the seed is True there, False here; use one" in said
    assert said.count("error: ") == 1
    assert status == 1
    assert alive(tmp_path) == []


@pytest.mark.slow
def test_processes_that_all_wait_are_ended(tmp_path):
    said, status = job(2, "deadlock", tmp_path)
    assert "error: all processes have waited for each other for 2 seconds: rank 0 in" in said
    assert status == 1
    assert alive(tmp_path) == []


def test_no_process_outlives_its_launcher(tmp_path):
    code = "import sys; from pathlib import Path; from minitf.parallel.launch import launch; "
    code += f"launch(Path({str(WORKER)!r}), sys.argv[1:], 2, 60.0)"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen([sys.executable, "-c", code, "asleep", str(tmp_path)], env=environment) as launcher:
        wait_for(lambda: len(list(tmp_path.glob("pid-*"))) == 2)
        launcher.kill()
    wait_for(lambda: not alive(tmp_path))


def wait_for(condition, seconds=30):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.02)


@needs_mpi
@pytest.mark.parametrize(
    ("deed", "reason"),
    [
        ("error", "has ended: the disk is full"),
        pytest.param("stopped", "has not been heard of for 2 seconds", marks=pytest.mark.slow),
    ],
)
def test_mpiexec_ends_them_all(tmp_path, deed, reason):
    said, status = mpi(2, deed, tmp_path)
    assert [line for line in said.splitlines() if "error: rank 1 (process " in line and reason in line], said
    assert said.count("error: ") == 1
    assert status != 0
    wait_for(lambda: not alive(tmp_path))


# ---- N processes train as one ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def ground(tmp_path_factory):
    """The texts, and the run of one process."""
    folder = tmp_path_factory.mktemp("parallel")
    flags = [*FLAGS, *write_corpus(folder)]
    said, status = python("train.py", *flags, "--output", folder / "one", "--threads", "1")
    assert status == 0, said
    return folder, [*flags, "--vocabulary", folder / "one/vocabulary.model"], losses(folder / "one")


def losses(run):
    return [{k: v for k, v in each.items() if k not in CLOCK_KEYS} for each in read_log(run / "log.jsonl")]


def parameters(run, step=50):
    return checkpoint.load(run / f"checkpoints/step-{step:08}.safetensors")


def check_same_run(ground, run, tolerance=1e-12):
    folder, _, expected = ground
    one, one_state = parameters(folder / "one")
    other, state = parameters(run)
    assert one.keys() == other.keys()
    worst = {name: float(np.abs(one[name] - other[name]).max()) for name in one}
    moved = max(float(np.abs(one[name] - start).max()) for name, start in parameters(folder / "one", 25)[0].items())
    assert moved > 1e-4  # they have learned something
    assert max(worst.values()) <= tolerance, sorted(worst.items(), key=lambda item: -item[1])[:3]
    for name in ("step", "target_tokens", "data", "best_step", "validations_since_best", "vocabulary"):
        assert state[name] == one_state[name]
    found = losses(run)
    assert len(found) == len(expected)
    for mine, theirs in zip(found, expected, strict=True):
        assert mine.keys() == theirs.keys()
        for key, value in mine.items():
            assert value == (pytest.approx(theirs[key], rel=1e-9) if isinstance(value, float) else theirs[key]), key


@pytest.mark.parametrize("size", [1, 2, 3, 8])
def test_processes_train_as_one(ground, size):
    folder, flags, _ = ground
    run = folder / f"cpu-{size}"
    said, status = python("train.py", *flags, "--output", run, "--devices", f"cpu:{size}")
    assert status == 0, said
    assert said.count("step 50") == 2  # rank 0 speaks, and nobody else
    check_same_run(ground, run, tolerance=0.0 if size in (1, 3) else 1e-12)  # one, and whole batches: the same sums


@pytest.mark.parametrize("after", ["cpu:3", pytest.param("none", marks=pytest.mark.slow)])
def test_a_run_goes_on_with_another_number_of_processes(ground, after):
    folder, flags, _ = ground
    run = folder / f"changing-{after}"
    said, status = python("train.py", *flags, "--output", run, "--devices", "cpu:2", "--max-steps", "20")
    assert status == 0, said
    said, status = python("train.py", "--resume", run, "--devices", after, "--max-steps", "50")
    assert (status, "resumed after step 20" in said) == (0, True), said
    check_same_run(ground, run)


def test_bfloat16_on_the_wire_learns_nearly_the_same(ground):
    folder, flags, expected = ground
    run = folder / "bfloat16"
    more = ["--reduce-dtype", "bfloat16", "--precision", "float32", "--max-steps", "10"]
    said, status = python("train.py", *flags, "--output", run, "--devices", "cpu:2", *more)
    assert status == 0, said
    found = losses(run)
    assert found[1]["loss"] != pytest.approx(expected[1]["loss"], rel=1e-9)
    assert found[1]["loss"] == pytest.approx(expected[1]["loss"], rel=1e-3)


@needs_mpi
def test_processes_of_mpiexec_train_as_one(ground):
    folder, flags, _ = ground
    run = folder / "mpi"
    said, status = mpi(2, *flags, "--output", run, program="train.py")
    assert status == 0, said
    assert said.count("step 50") == 2
    check_same_run(ground, run)


# ---- The command line --------------------------------------------------------------------------------------------


def test_a_wrong_command_is_told_once_by_rank_0():
    for rank, expected in (("0", "error: heads=5"), ("1", "")):
        said, status = python("train.py", "--model.heads", "5.5", env={"PMI_RANK": rank, "PMI_SIZE": "2"})
        assert status == 2
        assert ("error: --model.heads" in said) == bool(expected), said


def test_devices_and_mpiexec_exclude_each_other():
    said, status = python("train.py", "--devices", "cpu:2", env={"PMI_RANK": "0", "PMI_SIZE": "2"})
    assert (status, said.count("error: ")) == (2, 1)
    assert "devices='cpu:2' starts processes, and mpiexec has started this one already" in said


def test_without_mpi4py_it_says_what_to_install(tmp_path):
    (tmp_path / "mpi4py.py").write_text("raise ImportError('no mpi4py here')")
    paths = os.pathsep.join([str(tmp_path), str(ROOT)])
    said, status = python(
        "train.py", "--output", tmp_path / "r", env={"OMPI_COMM_WORLD_RANK": "0", "PYTHONPATH": paths}
    )
    assert status == 2
    assert "error: mpiexec has started this as one process of several, but mpi4py cannot be used (no mpi4py" in said
    assert "pip install '.[mpi]'" in said


def test_gpus_that_are_not_there_are_told_once(tmp_path):
    said, status = python("train.py", "--output", tmp_path / "r", "--devices", "64")
    assert status != 0
    assert said.count("error: ") == 1
    assert "choose fewer --devices, or --devices cpu:N" in said
    assert "Traceback" not in said
    assert not (tmp_path / "r").exists()


def test_the_launcher_refuses_what_the_system_cannot_start():
    import resource

    from minitf.errors import UserError

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (40, hard))
    try:
        with pytest.raises(UserError, match=r"cannot start 64 processes: Too many open files; choose fewer --devices"):
            launch(WORKER, ["talk", "nowhere"], 64, 2.0)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
