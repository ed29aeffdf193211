"""`minitf train`, `train.py`: train a Transformer, or resume a run."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from minitf.app.command_line import program, read_train_args
from minitf.system.environment import is_single_process, is_worker, rank_zero_output
from minitf.system.process import uninterrupted

# Imports are deferred in `main`: `--help` and a wrong flag need no NumPy, and one process nothing of minitf.parallel.


def main(argv: Sequence[str]) -> int:
    """Train the run that the command line describes; return the exit status."""
    with rank_zero_output():
        config, resume, allow_config_edits = read_train_args(argv)
    if config.devices is not None and not is_worker():
        with uninterrupted():
            from minitf.parallel.launch import launch_devices
        command = sys.argv[:1] if program("train") == "train.py" else ["-m", "minitf", "train"]
        with rank_zero_output():
            return launch_devices([*command, *argv], config.devices, config.rank_timeout)
    with uninterrupted():
        from minitf.app.train_run import train_run
        from minitf.training.process import SingleProcess
    if is_single_process():
        return train_run(config, resume, SingleProcess(config), allow_config_edits=allow_config_edits)
    with uninterrupted():
        from minitf.training.data_parallel import join_ranks
    with join_ranks(config) as process:
        return train_run(config, resume, process, allow_config_edits=allow_config_edits)
