"""Arrays of other libraries and Tensors share memory, and no gradient is lost between them."""

import numpy as np
import pytest

import autograd as ag
from autograd import Tensor


def aligned(offset):
    """Eight numbers of float32 whose first lies `offset` bytes behind a multiple of 64."""
    room = np.zeros(128, np.uint8)
    start = -room.ctypes.data % 64 + offset
    return room[start : start + 32].view(np.float32)


def test_numpy_and_a_tensor_share_memory():
    x = Tensor(np.arange(6.0).reshape(2, 3))
    lent = np.from_dlpack(x)
    assert np.shares_memory(lent, x.data)
    back = ag.from_dlpack(lent.T)
    assert back.shape == (3, 2)
    back.data[2, 1] = 9.0
    assert x.data[1, 2] == 9.0


@pytest.mark.parametrize("make", [lambda x: x, lambda x: x * 2])
def test_a_tensor_that_requires_a_gradient_is_refused(make):
    x = make(Tensor([1.0, 2.0], requires_grad=True))
    with pytest.raises(BufferError, match=r"lend x\.detach\(\)"):
        np.from_dlpack(x)
    assert np.from_dlpack(x.detach()).tolist() == x.tolist()


def test_what_is_no_array_is_refused():
    with pytest.raises(TypeError, match=r"found list; write Tensor\(x\)"):
        ag.from_dlpack([1.0])


def test_a_borrowed_constant_takes_part_in_a_graph():
    w, x = Tensor([1.0, 2.0], requires_grad=True), ag.from_dlpack(np.array([3.0, 4.0]))
    assert not x.requires_grad
    (w * x).sum().backward()
    assert w.grad.tolist() == [3, 4]


def test_pytorch_shares_memory_in_both_directions():
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    x = Tensor(np.arange(6.0).reshape(2, 3))
    torch.from_dlpack(x)[0, 0] = 7.0
    assert x.data[0, 0] == 7.0
    theirs = torch.arange(6.0).reshape(2, 3)
    ours = ag.from_dlpack(theirs.T)
    theirs[0, 2] = 9.0
    assert ours.data[2, 0] == 9.0
    with pytest.raises(BufferError, match="detach"):
        ag.from_dlpack(torch.ones(2, requires_grad=True))
    with pytest.raises(BufferError, match="detach"):
        torch.from_dlpack(Tensor([1.0], requires_grad=True))


@pytest.mark.parametrize("offset", [0, 4, 32])
def test_jax_shares_memory_that_begins_at_a_multiple_of_64_bytes_and_copies_other(offset):
    jax = pytest.importorskip("jax", reason="JAX is not installed")
    x = Tensor(aligned(offset))
    theirs = jax.dlpack.from_dlpack(x)
    assert (theirs.unsafe_buffer_pointer() == x.data.ctypes.data) == (offset == 0)
    ours = ag.from_dlpack(theirs)
    assert ours.data.ctypes.data == theirs.unsafe_buffer_pointer()
    with pytest.raises(ValueError, match="read-only"):
        ours += 1.0
