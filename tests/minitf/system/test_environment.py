"""What a run records of the software and the machine, and how differences are told."""

import pytest

from autograd.fast.table import Kernels
from minitf.errors import UserError
from minitf.system.environment import (
    RANK_VARIABLES,
    SIZE_VARIABLES,
    announced,
    available_bytes,
    environment_facts,
    is_single_process,
    rank_zero_output,
    sum_left_to_right,
)


def test_numba_is_recorded_where_it_computes(monkeypatch):
    assert "numba" not in environment_facts()
    numba = pytest.importorskip("numba", reason="needs Numba")
    monkeypatch.setattr(Kernels, "kernels", "numba")
    assert environment_facts()["numba"] == numba.__version__


def test_every_addition_rounds():
    assert sum_left_to_right([0.1] * 10) == 0.9999999999999999  # compensated: 1.0
    assert sum_left_to_right(iter([1.0, 1e100, -1e100])) == 0.0  # compensated: 1.0
    assert sum_left_to_right([]) == 0.0


def test_who_mpiexec_says_one_is(monkeypatch):
    for name in ("PMI_RANK", "PMI_SIZE", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "PMIX_RANK"):
        monkeypatch.delenv(name, raising=False)
    assert (announced(RANK_VARIABLES), announced(SIZE_VARIABLES)) == (None, None)
    monkeypatch.setenv("OMPI_COMM_WORLD_RANK", "3")
    monkeypatch.setenv("OMPI_COMM_WORLD_SIZE", "4")
    assert (announced(RANK_VARIABLES), announced(SIZE_VARIABLES)) == (3, 4)
    assert not is_single_process()
    monkeypatch.setenv("OMPI_COMM_WORLD_SIZE", "1")
    assert is_single_process()


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


def test_available_memory_is_within_the_limits_of_the_control_groups(tmp_path):
    whole = available_bytes("/nowhere")
    assert whole > 2**20
    (tmp_path / "self").write_text("0::/outer/inner\n")
    (tmp_path / "root" / "outer" / "inner").mkdir(parents=True)
    for folder, limit in (("outer", "1000000\n"), ("outer/inner", "max\n")):
        (tmp_path / "root" / folder / "memory.max").write_text(limit)
        (tmp_path / "root" / folder / "memory.current").write_text("600000\n")
    assert available_bytes(str(tmp_path / "self"), str(tmp_path / "root")) == 400_000
