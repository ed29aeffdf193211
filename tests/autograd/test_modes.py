"""Modes as decorators."""

import threading

import pytest

import autograd as ag
from tests.helpers.leaves import leaf


@pytest.mark.parametrize("mode", [ag.no_grad, ag.enable_grad])
def test_a_generator_cannot_be_decorated(mode):
    """Its body would run with the caller's mode, and record what it should not."""

    def batches():
        yield 1

    async def fetch():
        pass

    async def stream():
        yield 1

    for function in (batches, fetch, stream):
        with pytest.raises(TypeError, match=rf"cannot decorate {function.__name__}\(\).*write `with` blocks inside"):
            mode()(function)


def test_a_decorated_function_may_run_in_several_threads_and_call_itself():
    x = leaf(1.0)
    together, recorded = threading.Barrier(2), []

    @ag.no_grad()
    def double(depth):
        together.wait(10)
        return double(depth - 1) if depth else x * 2

    def work(mode):
        with mode():
            recorded.append(double(2).requires_grad)
            recorded.append((mode, (x * 2).requires_grad))

    threads = [threading.Thread(target=work, args=(mode,)) for mode in (ag.no_grad, ag.enable_grad)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert recorded.count(False) == 2
    assert {(ag.no_grad, False), (ag.enable_grad, True)} < set(recorded)
