"""Gradient buckets: what is in them, and when they are all-reduced."""

import numpy as np
import pytest

import autograd as ag
from minitf.model.parameters import Parameter
from minitf.parallel.group import GradientBuckets, Group


class Recorder(Group):
    """A process of `size`, each of which has the same gradients; remembers what was summed when."""

    is_asynchronous = True

    def __init__(self, size=2, parameters=()):
        self.size = size
        self.parts = []
        self.seen = []  # how many gradients had arrived when a part was summed
        self.arrived = 0
        for parameter in parameters:
            parameter.register_post_accumulate_grad_hook(self._count)

    def _count(self, parameter):
        self.arrived += 1

    def all_reduce(self, array):
        self.parts.append(array.size)
        self.seen.append(self.arrived)
        array *= self.size


PARTS = [16, 64, 64, 68]  # the last layer, the two before, and the embedding; each at a multiple of 64


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
    gradients = GradientBuckets(list(named.values()), group, bucket_bytes=100)
    for number in range(passes):  # outside of an update, nothing is reduced
        loss(number + 1.0).backward()
    assert group.parts == []
    alone = {name: p.grad.data for name, p in named.items()}
    for _ in range(2):  # two updates
        group.parts, group.seen, group.arrived = [], [], 0
        gradients.begin(passes)
        for number in range(passes):
            assert group.parts == []
            loss(number + 1.0).backward()
        assert group.parts == PARTS
        assert group.seen == [4 * passes - 3, 4 * passes - 2, 4 * passes - 1, 4 * passes]  # the others were to come
        gradients.finish()
        assert len(group.parts) == 4
        for name, p in named.items():
            np.testing.assert_allclose(p.grad.data, 2 * alone[name], rtol=1e-15)


def test_a_process_without_rows_takes_part_in_every_sum():
    named, loss = network()
    group = Recorder(2)
    gradients = GradientBuckets(list(named.values()), group, bucket_bytes=100)
    gradients.begin(1)
    loss().backward()
    gradients.finish()
    group.parts = []
    gradients.begin(0)  # the gradients of the update before are not summed again
    gradients.finish()
    assert group.parts == PARTS
    assert all(not p.grad.data.any() for p in named.values())


def test_a_parameter_without_a_gradient_holds_nothing_up():
    named, loss = network()
    named["unused"] = Parameter(np.ones(3))  # in one update, and not in the next
    group = Recorder(2)
    gradients = GradientBuckets(list(named.values()), group, bucket_bytes=100)
    gradients.begin(1)
    (loss() + named["unused"].sum()).backward()
    gradients.finish()
    group.parts = []
    gradients.begin(1)
    loss().backward()
    gradients.finish()
    assert sum(group.parts) == 4 * 64 + 20
    assert not named["unused"].grad.data.any()


def test_on_a_cpu_buckets_wait_for_the_end_of_the_backward_pass():
    named, loss = network()
    group = Recorder(2)
    group.is_asynchronous = False
    gradients = GradientBuckets(list(named.values()), group, bucket_bytes=100)
    loss().backward()
    alone = {name: p.grad.data for name, p in named.items()}
    gradients.begin(1)
    loss().backward()
    assert group.parts == []
    gradients.finish()
    assert group.parts == PARTS
    for name, p in named.items():
        np.testing.assert_allclose(p.grad.data, 2 * alone[name], rtol=1e-15)
