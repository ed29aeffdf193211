"""The calls of NCCL, their order and their streams, on a stand-in for CuPy."""

from importlib import import_module
from importlib.util import find_spec
from types import SimpleNamespace

import numpy as np
import pytest

from minitf.errors import UserError
from minitf.parallel.group import NCCL_TYPES, Group, NcclGroup, ParallelError


class Control(Group):
    """A group of one rank."""

    def all_gather(self, value, purpose="", *, after_rank_0=False):
        return [value]


class FakeCuPy:
    """As much of CuPy as the group calls, with memory in NumPy; every call on a device is written down."""

    def __init__(self, calls, available=True, refuses=False, polls=0, lost=False):
        """polls: how often an event is asked for before it is done"""
        outer = self
        self.calls, self.polls, self.lost = calls, polls, lost

        class NcclError(RuntimeError):
            pass

        class Communicator:
            def __init__(self, size, identifier, rank):
                if refuses:
                    raise NcclError("Duplicate GPU detected")
                calls.append(("init", size, identifier, rank))

            def allReduce(self, send, receive, count, kind, op, stream):  # noqa: N802
                assert send == receive
                calls.append(("allReduce", send, count, kind, op, stream))

            def bcast(self, pointer, count, kind, root, stream):
                calls.append(("bcast", pointer, count, kind, root, stream))

            def check_async_error(self):
                calls.append(("check",))
                if outer.lost:
                    raise NcclError("remote process exited")

            def abort(self):
                calls.append(("abort",))

        class Stream:
            made = 0

            def __init__(self, non_blocking=False):
                Stream.made += 1
                self.ptr = f"stream {Stream.made}"

            def record(self):
                calls.append(("record", self.ptr))
                return outer.event_of(self.ptr)

            def wait_event(self, event):
                calls.append(("wait", self.ptr, event))

        current = Stream()
        current.ptr = "compute"
        constants = {"NCCL_UINT8": 1, "NCCL_FLOAT32": 7, "NCCL_FLOAT64": 8, "NCCL_SUM": 0}
        self.nccl = SimpleNamespace(
            available=available, NcclError=NcclError, NcclCommunicator=Communicator,
            get_unique_id=lambda: bytes(range(128)), **constants,
        )  # fmt: skip
        self.cuda = SimpleNamespace(Stream=Stream, get_current_stream=lambda: current)

    def event_of(self, stream):
        left = [self.polls]

        class Event(str):
            @property
            def done(self):
                left[0] -= 1
                return left[0] < 0

        return Event(f"event of {stream}")


def backend_of(cupy):
    return SimpleNamespace(xp=cupy, nccl=cupy.nccl)


class GpuArray:
    def __init__(self, length, dtype):
        self.dtype, self.size = np.dtype(dtype), length
        self.nbytes = self.dtype.itemsize * length
        self.data = SimpleNamespace(ptr=1_000_000)


@pytest.mark.parametrize(("dtype", "kind"), [("float32", 7), ("float64", 8)])
def test_nccl_sums_in_place_on_its_own_stream_after_what_computes(dtype, kind):
    calls = []
    group = NcclGroup(Control(), backend_of(FakeCuPy(calls)), "cuda:0")
    assert calls == [("init", 1, bytes(range(128)), 0)]
    calls.clear()
    array = GpuArray(20, dtype)
    group.all_reduce(array)
    stream = calls[1][1]
    assert stream != "compute"
    assert calls == [
        ("record", "compute"),
        ("wait", stream, "event of compute"),
        ("allReduce", array.data.ptr, 20, kind, 0, stream),
    ]
    calls.clear()
    group.synchronize()
    assert [call[0] for call in calls] == ["record", "wait"]
    assert calls[1] == ("wait", "compute", f"event of {stream}")
    calls.clear()
    group.broadcast(array)
    assert calls == [("bcast", array.data.ptr, array.nbytes, 1, 0, "compute")]
    assert group.is_asynchronous


def test_a_sum_that_never_ends_is_an_error_and_errors_are_looked_for_meanwhile(monkeypatch):
    calls = []
    group = NcclGroup(Control(), backend_of(FakeCuPy(calls, polls=3)), "cuda:0")
    calls.clear()
    group.synchronize()
    assert [call[0] for call in calls] == ["record", "check", "check", "check", "wait"]
    monkeypatch.setenv("MINITF_COLLECTIVE_TIMEOUT_S", "0.01")
    group = NcclGroup(Control(), backend_of(FakeCuPy(calls, polls=10**9)), "cuda:0")
    with pytest.raises(ParallelError, match=r"rank 0 waited 0.01 seconds for another rank, in the sum of gradients"):
        group.synchronize()


def test_a_lost_rank_is_an_error_and_the_communicator_is_aborted():
    calls = []
    group = NcclGroup(Control(), backend_of(FakeCuPy(calls, polls=3, lost=True)), "cuda:0")
    with pytest.raises(ParallelError, match="NCCL cannot sum gradients: remote process exited; continue from"):
        group.synchronize()
    assert calls[-1] == ("abort",)


def test_nccl_says_what_is_missing():
    with pytest.raises(UserError, match="CuPy finds no NCCL, which connects GPUs; pip install nvidia-nccl-cu13"):
        NcclGroup(Control(), backend_of(FakeCuPy([], available=False)), "cuda:0")
    with pytest.raises(
        UserError, match="NCCL cannot join 1 GPUs: Duplicate GPU detected; each process needs its own GPU"
    ):
        NcclGroup(Control(), backend_of(FakeCuPy([], refuses=True)), "cuda:0")


@pytest.mark.skipif(find_spec("cupy") is None or find_spec("nvidia") is None, reason="needs CuPy and NCCL")
@pytest.mark.filterwarnings("default")
def test_the_calls_are_those_of_cupy():
    """By their signatures, which need no GPU."""
    nccl = import_module("cupy.cuda.nccl")
    if not nccl.available:
        pytest.skip("needs NCCL's library")
    assert len(bytes(nccl.get_unique_id())) == 128
    for name, arguments in {
        "allReduce": "intptr_t sendbuf, intptr_t recvbuf, size_t count, int datatype, int op, intptr_t stream",
        "bcast": "intptr_t buff, size_t count, int datatype, int root, intptr_t stream",
        "check_async_error": "",
        "abort": "",
    }.items():
        signature = getattr(nccl.NcclCommunicator, name).__doc__.splitlines()[0]
        assert signature == f"NcclCommunicator.{name}(self{', ' if arguments else ''}{arguments})"
    assert {"NCCL_UINT8", "NCCL_SUM", *NCCL_TYPES.values()} <= {*dir(nccl)}
    assert issubclass(nccl.NcclError, Exception)
