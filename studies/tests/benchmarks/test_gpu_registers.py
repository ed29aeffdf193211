"""The table of registers is read from the assembler's report."""

from studies.benchmarks.gpu_registers import read_report, text_of

LOG = """
ptxas info    : Compiling entry function '_Z3onev' for 'sm_90'
ptxas info    : Function properties for _Z3onev
ptxas         .     208 bytes stack frame, 532 bytes spill stores, 372 bytes spill loads
ptxas info    : Used 168 registers, used 1 barriers
ptxas info    : Compiling entry function '_Z3twov' for 'sm_90'
ptxas info    : Function properties for _Z3twov
ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 32 registers, used 0 barriers
"""


def test_registers_and_spills_are_read():
    found = read_report(LOG, {"_Z3onev": "one<bf16>", "_Z3twov": "two<bf16>"})
    assert found == {"one<bf16>": (168, 208, 904), "two<bf16>": (32, 0, 0)}
    assert [text_of(each) for each in found.values()] == ["168, 904 B spilled", "32"]
