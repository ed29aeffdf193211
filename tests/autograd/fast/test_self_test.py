"""The test of a GPU at start-up: what is broken is named, and the precision refused."""

import time
from typing import Any

import pytest

from autograd.backend import get_backend
from autograd.fast.self_test import CHECKS
from tests.emulation.cupy_stand_in import installed
from tests.emulation.device import KINDS, cuda_backend
from tests.emulation.emulator import Emulator
from tests.helpers.marks import parametrize_some

pytestmark = [
    pytest.mark.heavy,
    pytest.mark.skipif(not Emulator.available(), reason="needs g++ to emulate the CUDA kernels"),
]
EPILOGUES = [("BIAS", 4), ("RELU_BIAS", 6)]
KERNELS = sorted({*CHECKS} - {"products", "CUDA graphs", *[name for name, _ in EPILOGUES]})
PRECISIONS = ["float64", "float32", "bf16", "tf32"]


class Broken(Emulator):
    """An emulator whose kernel of one name does nothing: its results stay as they were."""

    def __init__(self, name: str):
        super().__init__()
        self.name = name

    def launch(self, name: str, *args: Any, **kwargs: Any) -> None:
        if name.split("<")[0] != self.name:
            super().launch(name, *args, **kwargs)


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_device_that_computes_right_passes(kind: str, precision: str) -> None:
    pytest.importorskip("ml_dtypes")
    with cuda_backend(kind) as gpu:
        gpu.set_precision(precision)
        launched = len(gpu.launched)
        assert {*gpu.launched} <= {*gpu._functions}, "compiled side by side, before"
        gpu.set_precision(precision)
        assert len(gpu.launched) == launched  # once


def test_a_run_that_waits_for_compilers_says_so(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    with installed(Emulator()):
        gpu: Any = get_backend("cuda")
        monkeypatch.setattr(gpu, "_load", lambda name: time.sleep(1.2))
        gpu.compile(["a", "b"])
        gpu.compile(["a", "b"])
    assert capsys.readouterr().err.startswith("compiling 2 CUDA kernels on ")
    assert [*gpu._functions] == ["a", "b"]


@parametrize_some("precision", ["bf16", "float32"])
@pytest.mark.parametrize("name", KERNELS)
def test_a_broken_kernel_is_named(name: str, precision: str) -> None:
    pytest.importorskip("ml_dtypes")
    with installed(Broken(name)):
        gpu: Any = get_backend("cuda")
        with pytest.raises(ValueError, match=rf"cuda:0 computes wrong in (float|bf16): (.*; )?{name}: "):
            gpu.set_precision(precision)


def test_it_can_be_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUTOGRAD_SELF_TEST", "0")
    emulator = Emulator()
    with installed(emulator):
        get_backend("cuda").set_precision("float32")  # type: ignore[attr-defined]
    assert not emulator.launched
