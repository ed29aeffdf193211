"""`--devices`, and what mpiexec's environment says of a process."""

import pytest

from minitf.config import RunConfig
from minitf.config.devices import (
    WORKER_VARIABLE,
    announced_rank,
    announced_size,
    is_single_process,
    parse_devices,
    rank_zero_output,
)
from minitf.errors import UserError


def test_devices():
    assert parse_devices("8") == ("cuda", 8)
    assert parse_devices("cpu:4") == ("cpu", 4)
    for wrong in ("", "0", "cpu", "cpu:0", "gpu:2", "-1", "cpu:4x", "99999", "٣"):
        with pytest.raises(UserError, match="is not a number of devices; choose 8 for eight GPUs"):
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
    assert not is_single_process()
    monkeypatch.setenv("OMPI_COMM_WORLD_SIZE", "1")
    assert is_single_process()
    monkeypatch.setenv(WORKER_VARIABLE, "{}")
    assert not is_single_process()


def test_rank_zero_output(monkeypatch, capsys):
    monkeypatch.setenv("PMI_RANK", "0")
    with pytest.raises(UserError), rank_zero_output():
        raise UserError("wrong")
    monkeypatch.setenv("PMI_RANK", "2")
    with pytest.raises(SystemExit, match="2"), rank_zero_output():
        raise UserError("wrong")
    with rank_zero_output():
        print("help")
    assert capsys.readouterr().out == ""
