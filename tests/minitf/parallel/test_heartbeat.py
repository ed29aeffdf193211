"""Failure detection: which heartbeats, or missing ones, abort a job, and what is reported."""

import socket

import pytest

from minitf.parallel.heartbeat import Coordinator, Failure, describe, describe_exit


@pytest.fixture
def coordinator():
    pairs = [socket.socketpair() for _ in range(2)]
    made = Coordinator(dict(enumerate(ours for ours, _ in pairs)), timeout_s=10)
    made.theirs = [theirs for _, theirs in pairs]
    made.now = made._last_check_s
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
                spent = {"cpu_s": rate * coordinator.now, "waiting": waits, "location": f"place {rank}"}
                assert coordinator.handle(rank, spent, coordinator.now) is None
        if failure := coordinator.check(coordinator.now):
            return failure
    return None


def test_those_who_work_or_wait_for_one_who_works_live_on(coordinator):
    assert live(coordinator, 100, (1.0, False), (0.0001, True)) is None


def test_one_that_is_silent_has_gone(coordinator):
    assert live(coordinator, 5, (1.0, False), (1.0, False)) is None
    failure = live(coordinator, 100, (1.0, True), None)
    assert failure == Failure(1, "sent no heartbeat for 10 seconds; it was in place 1")


def test_one_that_says_that_it_lives_but_does_nothing_hangs(coordinator):
    failure = live(coordinator, 100, (1.0, True), (0.0004, False))  # what the saying takes
    said = "made no progress for 10 seconds in place 1; if it is only slow, increase --rank-timeout"
    assert failure == Failure(1, said)


def test_a_start_may_take_its_time(coordinator):
    assert live(coordinator, 50, (1.0, False), None) is None
    assert live(coordinator, 50, (1.0, False), None).reason.startswith("sent no heartbeat for 60 seconds")


def test_all_that_wait_for_each_other_are_told_apart_from_those_that_work(coordinator):
    failure = live(coordinator, 100, (0.0, True), (0.0, True))
    assert failure.rank is None
    assert "rank 0 in place 0, rank 1 in place 1" in failure.reason


def test_a_coordinator_that_was_stopped_itself_blames_nobody(coordinator):
    assert live(coordinator, 5, (1.0, False), (1.0, False)) is None
    coordinator.now += 1000  # Ctrl-Z, and much later fg
    assert coordinator.check(coordinator.now) is None
    assert live(coordinator, 5, (1.0, False), (1.0, False)) is None


def test_words_that_come_in_pieces_and_a_connection_that_ends(coordinator):
    coordinator.theirs[0].sendall(b'{"cpu_s": 1.0, "waiting": false, "location": "here"}\n{"fail')
    assert coordinator.listen(0.1) is None
    coordinator.theirs[0].sendall(b'ed": "no", "status": 3}\n')
    assert coordinator.listen(1.0) == Failure(0, "no", 3)
    coordinator.theirs[1].sendall(b'{"done": true}\n')
    assert coordinator.listen(1.0) is None
    assert coordinator.is_done(1)
    coordinator.theirs[1].close()
    assert coordinator.listen(1.0) is None  # it had done its part
    coordinator.theirs[0].close()
    assert coordinator.listen(1.0) == Failure(0, "exited unexpectedly")


def test_failures_in_words():
    assert describe(Failure(2, "exited unexpectedly"), {2: "process 5"}) == "rank 2 (process 5) exited unexpectedly"
    assert describe_exit(-11) == "was killed by SIGSEGV"
    assert describe_exit(-9).startswith("was killed by SIGKILL (")
    assert describe_exit(3) == "exited with status 3 before its work was done"
