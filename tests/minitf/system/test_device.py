"""Setting up a device: what is missing is one error, and overflow is no warning."""

import warnings

import numpy as np
import pytest

import autograd as ag
from autograd.backend import Backend
from minitf.errors import UserError
from minitf.system import device as device_module
from minitf.system.device import set_up_device


def test_a_device_that_is_not_there():
    for device in ("cuda", "cuda:3"):
        with pytest.raises(UserError, match=f"device '{device}' .*; choose --device cpu"):
            set_up_device(1, device)


def test_numbers_beyond_bounds_are_no_warnings():
    """They are looked for by the loop; NumPy's warnings, some from other threads, would only scatter about it."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        set_up_device(2)
        with ag.no_grad():
            huge = ag.Tensor(np.full((3, 3), 1e30, np.float32))
            assert np.isnan((huge @ huge - huge @ huge).numpy()).all()
        with pytest.raises(RuntimeWarning, match="something else"):
            warnings.warn("something else", RuntimeWarning, stacklevel=1)


def test_kernels_that_the_device_does_not_have(monkeypatch):
    with pytest.raises(UserError, match="choose 'numpy' or 'numba'"):
        set_up_device(1, kernels="fast")
    monkeypatch.setattr(device_module, "get_backend", lambda name: Backend())
    with pytest.raises(UserError, match="kernels=numba are for a CPU, and device=cuda has its own"):
        set_up_device(1, "cuda", kernels="numba")
