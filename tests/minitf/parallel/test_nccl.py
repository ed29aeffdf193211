"""The calls of NCCL that are made, beside those that CuPy has."""

from importlib import import_module
from importlib.util import find_spec

import pytest

from minitf.parallel.group import NCCL_TYPES


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
