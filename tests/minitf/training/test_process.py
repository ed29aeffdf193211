"""Training in one process."""

import pytest

from tests.helpers.jobs import python
from tests.helpers.runs import FLAGS, write_corpus


@pytest.mark.heavy
def test_one_process_imports_nothing_of_parallel(tmp_path):
    code = (
        "import sys; from minitf.__main__ import main; status = main(sys.argv[1:]); "
        "sys.exit(status or str([name for name in sys.modules if 'parallel' in name]))"
    )
    flags = [*FLAGS, *write_corpus(tmp_path), "--output", tmp_path / "run", "--max-steps", "1"]
    said, _ = python("-c", code, "train", *flags)
    assert said.endswith("\n[]\n"), said
