"""Who computes what, the sums, the buckets, the signs of life, and the calls of NCCL, each by itself."""

import socket
from fractions import Fraction
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import autograd as ag
from minitf.config import RunConfig
from minitf.config.devices import announced_rank, announced_size, one_voice, parse_devices
from minitf.errors import UserError
from minitf.model.layers import Parameter
from minitf.parallel.buckets import Gradients, ReducedGradients, gradients_of
from minitf.parallel.group import Alone, Group, ParallelError, share_of_cores
from minitf.parallel.nccl import NcclGroup
from minitf.parallel.shared import rounds_of
from minitf.parallel.sums import from_bfloat16, own_part, sum_rows, to_bfloat16
from minitf.parallel.watch import Coordinator, Failure, died, in_words
from minitf.training.data_parallel import require_same, sum_in_order
from minitf.training.shares import share_of_update

# ---- Shares ------------------------------------------------------------------------------------------------------


@given(batches=st.integers(1, 40), size=st.integers(1, 40))
def test_every_row_of_every_batch_is_computed_once(batches, size):
    """In parts that cover each batch, and as much by each process as by any other."""
    shares = [share_of_update(batches, rank, size) for rank in range(size)]
    parts = [piece for share in shares for piece in share]
    assert len(set(parts)) == len(parts)
    for number in range(batches):
        found = sorted(part for n, part, _ in parts if n == number)
        assert found == list(range(len(found)))
        assert {of for n, _, of in parts if n == number} == {len(found)}
    assert {sum(Fraction(1, of) for _, _, of in share) for share in shares} == {Fraction(batches, size)}


def test_whole_batches_where_they_can_be_dealt_out():
    assert share_of_update(16, 3, 8) == [(3, 0, 1), (11, 0, 1)]
    assert share_of_update(4, 3, 8) == [(1, 1, 2)]
    assert share_of_update(3, 3, 8) == [(0, 3, 8), (1, 3, 8), (2, 3, 8)]
    assert share_of_update(5, 0, 1) == [(number, 0, 1) for number in range(5)]


def test_cores_are_divided_among_those_who_share_them():
    assert share_of_cores([0, 1, 2, 3], [[0, 1, 2, 3]] * 2) == 2
    assert share_of_cores([0, 1], [[0, 1], [2, 3]]) == 2  # the launcher has bound them already
    assert share_of_cores([0, 1], [[0, 1]] * 8) == 1


# ---- Sums --------------------------------------------------------------------------------------------------------


@given(st.lists(st.floats(width=32), min_size=1, max_size=30))
def test_bfloat16_is_the_nearest_number_with_8_bits(values):
    for x in map(np.float32, values):
        found = to_bfloat16(np.array([x], np.float32))[0]
        below = int(x.view(np.uint32)) >> 16  # towards zero; the next one has one more
        if np.isnan(x):
            assert np.isnan(from_bfloat16(np.array([found], np.uint16))[0])
            continue
        if below & 0x7FFF >= 0x7F7F:  # the largest finite one, or ∞
            continue
        low, high = (abs(Fraction(float(np.uint32(bits << 16).view(np.float32)))) for bits in (below, below + 1))
        exact, middle = abs(Fraction(float(x))), (low + high) / 2
        assert found == below + (exact > middle or (exact == middle and below % 2 == 1))


def test_bfloat16_rounds_ties_to_even():
    x = np.array([1 + 2**-8, 1 + 3 * 2**-8, -1 - 2**-8], np.float32)
    assert from_bfloat16(to_bfloat16(x)).tolist() == [1.0, 1 + 2 * 2**-7, -1.0]


@given(length=st.integers(0, 100), size=st.integers(1, 20), start=st.integers(0, 9))
def test_own_parts_cover_a_part(length, size, start):
    parts = [own_part(slice(start, start + length), rank, size) for rank in range(size)]
    assert parts[0].start == start
    assert parts[-1].stop == start + length
    assert all(a.stop == b.start for a, b in pairwise(parts))
    assert max(p.stop - p.start for p in parts) - min(p.stop - p.start for p in parts) <= 1


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_sums_are_in_the_order_of_ranks(dtype):
    rng = np.random.default_rng(0)
    rows = [(rng.standard_normal(200_000) * 10.0**rank).astype(dtype) for rank in range(4)]
    before = [row.copy() for row in rows]
    sum_rows(rows, slice(5, 199_990), into=rows)
    expected = ((before[0] + before[1]) + before[2]) + before[3]
    for row, old in zip(rows, before, strict=True):
        assert row[5:199_990].tobytes() == expected[5:199_990].tobytes()
        assert (row[:5] == old[:5]).all()
        assert (row[199_990:] == old[199_990:]).all()


def test_sums_of_bfloat16_are_rounded_once():
    """1 + 2⁻⁹ + 2⁻⁹ + … is lost if every sum is rounded."""
    rows = [to_bfloat16(np.array([1.0 if rank == 0 else 2**-9], np.float32)) for rank in range(9)]
    sum_rows(rows, slice(0, 1), into=rows)
    assert from_bfloat16(rows[3]).tolist() == [1 + 2 * 2**-7]


# ---- Buckets -----------------------------------------------------------------------------------------------------


class Recorder(Group):
    """A process of `size`, each of which has the same gradients; remembers what was summed when."""

    reduces = True

    def __init__(self, size=2, parameters=()):
        self.size = size
        self.parts = []
        self.seen = []  # which parameters had a gradient when a part was summed
        self.parameters = parameters

    def new_buffer(self, length, dtype):
        self.buffer = np.zeros(length, dtype)
        return self.buffer

    def all_reduce(self, part):
        self.parts.append(part)
        self.seen.append([bool(p.grad.data.any()) for p in self.parameters])
        if self.buffer.dtype == np.uint16:
            self.buffer[part] = to_bfloat16(from_bfloat16(self.buffer[part]) * self.size)
        else:
            self.buffer[part] *= self.size

    overlaps_itself = True


def network():
    """An embedding at both ends, and three layers between; gradients come from the last to the first."""
    rng = np.random.default_rng(1)
    named = {"embedding": Parameter(rng.standard_normal((5, 4)))}
    named |= {f"layer {i}": Parameter(rng.standard_normal((4, 4))) for i in range(3)}

    def loss(scale=1.0):
        x = ag.embedding(np.array([0, 1, 1]), named["embedding"])
        for i in range(3):
            x = ag.tanh(ag.linear(x, named[f"layer {i}"]))
        return (ag.linear(x, named["embedding"]) * scale).sum()

    return named, loss


@pytest.mark.parametrize("passes", [1, 3])
def test_buckets_go_out_during_the_last_backward_pass_the_embedding_last(passes):
    named, loss = network()
    group = Recorder(2, list(named.values()))
    gradients = ReducedGradients(named, group, bucket_bytes=100)
    expected = Gradients(named)
    expected.begin(passes)
    for number in range(passes):
        loss(number + 1.0).backward()
    alone = {name: p.grad.data for name, p in named.items()}
    group.parts, group.seen = [], []
    for _ in range(2):  # two updates
        gradients.begin(passes)
        for number in range(passes):
            assert group.parts == []
            loss(number + 1.0).backward()
        assert group.parts == [slice(0, 16), slice(16, 80), slice(80, 144), slice(144, 212)]
        assert group.seen[0] == [passes > 1, passes > 1, passes > 1, True]  # the others were still to come
        gradients.finish()
        assert len(group.parts) == 4
        for name, p in named.items():
            np.testing.assert_allclose(p.grad.data, 2 * alone[name], rtol=1e-15)
        group.parts, group.seen = [], []


def test_a_process_without_rows_takes_part_in_every_sum():
    named, _ = network()
    group = Recorder(2)
    gradients = ReducedGradients(named, group, bucket_bytes=100)
    gradients.begin(0)
    gradients.finish()
    assert group.parts == [slice(0, 16), slice(16, 80), slice(80, 144), slice(144, 212)]
    assert all(not p.grad.data.any() for p in named.values())


def test_a_parameter_without_a_gradient_holds_nothing_up():
    named, loss = network()
    named["unused"] = Parameter(np.ones(3))
    group = Recorder(2)
    gradients = ReducedGradients(named, group, bucket_bytes=100)
    gradients.begin(1)
    loss().backward()
    gradients.finish()
    assert [part.start for part in group.parts] == sorted(part.start for part in group.parts)
    assert sum(part.stop - part.start for part in group.parts) == 4 * 64 + 20
    assert not named["unused"].grad.data.any()


def test_buckets_hold_what_they_should():
    named = {str(i): Parameter(np.zeros(200_000, np.float32)) for i in range(12)}
    gradients = ReducedGradients(named, Recorder(), bucket_bytes=3_000_000)
    sizes = [len(bucket) for bucket, _ in gradients.buckets]
    assert sizes == [2, 4, 4, 1, 1]  # 1 MiB first, and the last one by itself


def test_bfloat16_travels_and_float32_stays():
    named, loss = network()
    for p in named.values():
        p.data = p.data.astype(np.float32)
    group = Recorder(4)
    gradients = gradients_of(named, group, as_bfloat16=True)
    gradients.begin(1)
    loss().backward()
    alone = {name: p.grad.data.copy() for name, p in named.items()}
    gradients.finish()
    assert group.buffer.dtype == np.uint16
    for name, p in named.items():
        assert p.grad.dtype == np.float32
        np.testing.assert_allclose(p.grad.data, 4 * alone[name], rtol=2**-8)


def test_an_error_in_the_thread_that_sums_is_raised():
    named, loss = network()
    group = Recorder(2)
    group.overlaps_itself = False
    group.all_reduce = lambda part: 1 / 0
    gradients = ReducedGradients(named, group)
    gradients.begin(1)
    loss().backward()
    with pytest.raises(ZeroDivisionError):
        gradients.finish()


def test_alone_nothing_is_summed():
    named, loss = network()
    gradients = gradients_of(named, Alone())
    assert type(gradients) is Gradients
    loss().backward()
    gradients.begin(1)
    assert all(p.grad is None for p in named.values())


# ---- What they tell each other -----------------------------------------------------------------------------------


class Told(Group):
    """A group whose others say what the test says."""

    reduces = True

    def __init__(self, *values):
        self.values, self.size = values, len(values)

    def all_gather(self, value):
        return list(self.values)


def test_the_first_fact_that_differs_is_named():
    require_same(Told({"a": 1}, {"a": 1}), {"a": 1}, "")
    with pytest.raises(ParallelError, match=r"rank 2 disagrees with rank 0: the seed is 8 there, 7 here; use one"):
        require_same(Told({"the seed": 7}, {"the seed": 7}, {"the seed": 8}), {"the seed": 7}, "use one")


def test_figures_of_batches_come_back_in_their_order():
    stop = SimpleNamespace(received=None, agree=lambda numbers: seen.extend(numbers))
    seen = []
    group = Told({"figures": [0, 3, 6], "stop": 0}, {"figures": [1, 4], "stop": 15}, {"figures": [2, 5], "stop": 0})
    assert sum_in_order(group, [], stop) == [0, 1, 2, 3, 4, 5, 6]
    assert seen == [0, 15, 0]


# ---- Signs of life -----------------------------------------------------------------------------------------------


@pytest.fixture
def coordinator():
    pairs = [socket.socketpair() for _ in range(2)]
    made = Coordinator(dict(enumerate(ours for ours, _ in pairs)), timeout_s=10)
    made.theirs = [theirs for _, theirs in pairs]
    made.now = made._last_look_s
    yield made
    made.close()
    for theirs in made.theirs:
        theirs.close()


def live(coordinator, seconds, *signs):
    """Time passes, in which each process says (processor time, waits?) every half second, or nothing (None)."""
    for _ in range(int(2 * seconds)):
        coordinator.now += 0.5
        for rank, sign in enumerate(signs):
            if sign is not None:
                rate, waits = sign
                spent = {"cpu_s": rate * coordinator.now, "waits": waits, "at": f"place {rank}"}
                assert coordinator.hear(rank, spent, coordinator.now) is None
        if failure := coordinator.look(coordinator.now):
            return failure
    return None


def test_those_who_work_or_wait_for_one_who_works_live_on(coordinator):
    assert live(coordinator, 100, (1.0, False), (0.0001, True)) is None


def test_one_that_is_silent_has_gone(coordinator):
    assert live(coordinator, 5, (1.0, False), (1.0, False)) is None
    failure = live(coordinator, 100, (1.0, True), None)
    assert failure == Failure(1, "has not been heard of for 10 seconds, when it was in place 1")


def test_one_that_says_that_it_lives_but_does_nothing_hangs(coordinator):
    failure = live(coordinator, 100, (1.0, True), (0.0004, False))  # what the saying takes
    assert failure == Failure(1, "has stood still for 10 seconds in place 1")


def test_a_start_may_take_its_time(coordinator):
    assert live(coordinator, 50, (1.0, False), None) is None
    assert live(coordinator, 50, (1.0, False), None).reason.startswith("has not been heard of for 60 seconds")


def test_all_that_wait_for_each_other_are_told_apart_from_those_that_work(coordinator):
    failure = live(coordinator, 100, (0.0, True), (0.0, True))
    assert failure.rank is None
    assert "rank 0 in place 0, rank 1 in place 1" in failure.reason


def test_a_coordinator_that_was_stopped_itself_blames_nobody(coordinator):
    assert live(coordinator, 5, (1.0, False), (1.0, False)) is None
    coordinator.now += 1000  # Ctrl-Z, and much later fg
    assert coordinator.look(coordinator.now) is None
    assert live(coordinator, 5, (1.0, False), (1.0, False)) is None


def test_words_that_come_in_pieces_and_a_connection_that_ends(coordinator):
    coordinator.theirs[0].sendall(b'{"cpu_s": 1.0, "waits": false, "at": "here"}\n{"fail')
    assert coordinator.listen(0.1) is None
    coordinator.theirs[0].sendall(b'ed": "no", "status": 3}\n')
    assert coordinator.listen(1.0) == Failure(0, "no", 3)
    coordinator.theirs[1].sendall(b'{"done": true}\n')
    assert coordinator.listen(1.0) is None
    assert coordinator.is_done(1)
    coordinator.theirs[1].close()
    assert coordinator.listen(1.0) is None  # it had done its part
    coordinator.theirs[0].close()
    assert coordinator.listen(1.0) == Failure(0, "has died")


def test_failures_in_words():
    assert in_words(Failure(2, "has died"), {2: "process 5"}) == "rank 2 (process 5) has died"
    assert died(-11) == "was ended by SIGSEGV"
    assert died(-9).startswith("was ended by SIGKILL (")
    assert died(3) == "ended with status 3 before its work was done"


@pytest.mark.parametrize("size", range(1, 20))
def test_the_barrier_reaches_everyone(size):
    """Whoever has passed it has heard, through others, of everyone."""
    heard = [{rank} for rank in range(size)]
    for reach in rounds_of(size):
        heard = [heard[rank] | heard[(rank - reach) % size] for rank in range(size)]
    assert all(each == set(range(size)) for each in heard)
    assert len(rounds_of(size)) == (size - 1).bit_length()


# ---- The command line and the environment ------------------------------------------------------------------------


def test_devices():
    assert parse_devices("8") == ("cuda", 8)
    assert parse_devices("cpu:4") == ("cpu", 4)
    for wrong in ("", "0", "cpu", "cpu:0", "gpu:2", "-1", "cpu:4x", "99999", "٣"):
        with pytest.raises(UserError, match="is no number of devices; choose 8 for eight GPUs"):
            RunConfig(devices=wrong)
    with pytest.raises(UserError, match="exclude each other"):
        RunConfig(devices="2", device="cuda")


def test_who_mpiexec_says_one_is(monkeypatch):
    for name in ("PMI_RANK", "PMI_SIZE", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "PMIX_RANK"):
        monkeypatch.delenv(name, raising=False)
    assert (announced_rank(), announced_size()) == (None, None)
    monkeypatch.setenv("OMPI_COMM_WORLD_RANK", "3")
    monkeypatch.setenv("OMPI_COMM_WORLD_SIZE", "4")
    assert (announced_rank(), announced_size()) == (3, 4)


def test_one_voice(monkeypatch, capsys):
    monkeypatch.setenv("PMI_RANK", "0")
    with pytest.raises(UserError), one_voice():
        raise UserError("wrong")
    monkeypatch.setenv("PMI_RANK", "2")
    with pytest.raises(SystemExit, match="2"), one_voice():
        raise UserError("wrong")
    with one_voice():
        print("help")
    assert capsys.readouterr().out == ""


# ---- NCCL, in words ----------------------------------------------------------------------------------------------


class FakeCuPy:
    """As much of CuPy as the group calls, with memory in NumPy; every call on a device is written down."""

    def __init__(self, calls, available=True, refuses=False):
        outer = self
        self.calls = calls

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

        class Stream:
            made = 0

            def __init__(self, non_blocking=False):
                Stream.made += 1
                self.ptr = f"stream {Stream.made}"

            def record(self):
                calls.append(("record", self.ptr))
                return f"event of {self.ptr}"

            def wait_event(self, event):
                calls.append(("wait", self.ptr, event))

        current = Stream()
        current.ptr = "compute"
        constants = {"NCCL_UINT8": 1, "NCCL_FLOAT32": 7, "NCCL_FLOAT64": 8, "NCCL_BFLOAT16": 9, "NCCL_SUM": 0}
        self.nccl = SimpleNamespace(
            available=available, NcclError=NcclError, NcclCommunicator=Communicator,
            get_unique_id=lambda: bytes(range(128)), **constants,
        )  # fmt: skip
        self.cuda = SimpleNamespace(nccl=self.nccl, Stream=Stream, get_current_stream=lambda: current)
        outer.uint32, outer.float32 = np.uint32, np.float32

    @staticmethod
    def zeros(length, dtype):
        return GpuArray(length, dtype)


class GpuArray:
    def __init__(self, length, dtype):
        self.dtype, self.size = np.dtype(dtype), length
        self.itemsize, self.nbytes = self.dtype.itemsize, self.dtype.itemsize * length
        self.data = SimpleNamespace(ptr=1_000_000)


@pytest.mark.parametrize(("dtype", "kind"), [("float32", 7), ("float64", 8), ("uint16", 9)])
def test_nccl_sums_in_place_on_its_own_stream_after_what_computes(dtype, kind):
    calls = []
    group = NcclGroup(Alone(), FakeCuPy(calls), "cuda:0")
    assert calls == [("init", 1, bytes(range(128)), 0)]
    calls.clear()
    buffer = group.new_buffer(100, dtype)
    group.all_reduce(slice(10, 30))
    stream = calls[1][1]
    assert stream != "compute"
    assert calls == [
        ("record", "compute"),
        ("wait", stream, "event of compute"),
        ("allReduce", buffer.data.ptr + 10 * buffer.itemsize, 20, kind, 0, stream),
    ]
    calls.clear()
    group.synchronize()
    assert calls == [("check",), ("record", stream), ("wait", "compute", f"event of {stream}")]
    calls.clear()
    group.broadcast(buffer)
    assert calls == [("bcast", buffer.data.ptr, buffer.nbytes, 1, 0, "compute")]
    assert group.overlaps_itself


def test_nccl_says_what_is_missing():
    with pytest.raises(UserError, match="CuPy finds no NCCL to join GPUs with; pip install nvidia-nccl-cu13"):
        NcclGroup(Alone(), FakeCuPy([], available=False), "cuda:0")
    with pytest.raises(UserError, match="NCCL cannot join 1 GPUs: Duplicate GPU detected; each process needs a GPU"):
        NcclGroup(Alone(), FakeCuPy([], refuses=True), "cuda:0")
