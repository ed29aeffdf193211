"""The trace of all-reduces beside the backward pass, over the stand-in for CuPy, whose streams take turns."""

import argparse
import itertools
from types import SimpleNamespace
from typing import Any

import pytest

from studies.benchmarks import gpu_overlap
from tests.emulation.device import cuda_backend
from tests.emulation.emulator import Emulator

pytestmark = pytest.mark.heavy

SMALL = {"layers": 2, "d_model": 16, "d_ff": 32, "heads": 2, "dropout": 0.1, "vocab_size": 50}


class Event:
    done = True

    time = -1


class Stream:
    ptr = 0
    clock = itertools.count()

    def __init__(self, non_blocking: bool = False):
        pass

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        pass

    def record(self, event: Any = None) -> Any:
        event = event or Event()
        event.time = next(self.clock)
        return event

    def wait_event(self, event: Any) -> None:
        assert event.time >= 0


@pytest.mark.skipif(not Emulator.available(), reason="needs g++ to emulate the CUDA kernels")
def test_buckets_are_summed_as_soon_as_they_are_complete(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ml_dtypes")
    monkeypatch.setattr(gpu_overlap, "GradientBuckets", buckets_of_a_kilobyte(gpu_overlap.GradientBuckets))
    summed = []
    communicator = SimpleNamespace(allReduce=lambda *given: summed.append(given), check_async_error=lambda: None)
    nccl = SimpleNamespace(
        available=True, NcclError=RuntimeError, get_unique_id=lambda: bytes(128), NCCL_FLOAT32=7, NCCL_SUM=0,
        NcclCommunicator=lambda *_: communicator,
    )  # fmt: skip
    with cuda_backend("emulated") as gpu:
        monkeypatch.setattr(type(gpu), "nccl", nccl)
        cuda = gpu.xp.cuda
        cuda.Stream, cuda.Event, current = Stream, Event, Stream()
        cuda.get_current_stream, cuda.get_elapsed_time = lambda: current, lambda a, b: float(b.time - a.time)
        rows, end_ms = gpu_overlap.traced_step(argparse.Namespace(config="base", batch=2, length=4, **SMALL), steps=2)
    assert len(rows) > 2
    assert len(summed) == 2 * len(rows)
    assert [row["ready_ms"] for row in rows] == sorted(row["ready_ms"] for row in rows)
    assert all(0 < row["ready_ms"] < row["done_ms"] for row in rows)
    assert gpu_overlap.late(rows, end_ms) == 0


def buckets_of_a_kilobyte(kind: Any) -> Any:
    return lambda parameters, group: kind(parameters, group, bucket_bytes=1 << 10)


def test_a_bucket_that_waits_for_the_end_is_no_overlap() -> None:
    rows = [{"done_ms": 3.0}, {"done_ms": 12.0}, {"done_ms": 13.0}]
    assert (gpu_overlap.late(rows, 12.5), gpu_overlap.late(rows, 12.0), gpu_overlap.late(rows, 1.0)) == (0, 1, 2)
