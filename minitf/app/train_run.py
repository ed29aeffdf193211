"""A training run from its start to the scores of its test set, with progress, report and Ctrl-C."""

from __future__ import annotations

from pathlib import Path
from shlex import quote

from minitf.app.command_line import shell_command
from minitf.app.final_scores import score_test_set
from minitf.config import RunConfig
from minitf.report.run_page import RunReport
from minitf.system.messages import Progress, say, silent
from minitf.system.process import StopRequest
from minitf.training.loop import train
from minitf.training.process import SingleProcess
from minitf.training.run import open_run


def train_run(
    config: RunConfig, resume: Path | None, process: SingleProcess, *, allow_config_edits: bool = False
) -> int:
    """Start or resume a run, train, and score the test set; return the exit status."""
    is_main = process.is_main_process
    tell = say if is_main else silent
    with open_run(config, resume, process, tell, allow_config_edits=allow_config_edits) as run:
        parameters, folder = run.model.parameter_count(), run.directory.path
        tell(f"model: {parameters:,} parameters, vocabulary of {len(run.data.vocabulary):,}; run: {folder}")
        if run.config.init is not None:
            tell(f"it starts with the weights of {run.config.init}")
        if run.config.freeze is not None:
            learning = sum(parameter.size for parameter in run.optimizer.named_parameters.values())
            tell(f"{run.config.freeze} is frozen: {learning:,} parameters learn")
        if process.description:
            tell(process.description)
        if run.data.valid is None:
            tell("no validation text: nothing watches for overfitting; --valid SOURCE TARGET, from minitf split, would")
        bar = Progress(run.config.max_steps, run.state.step, shown=is_main)
        with RunReport(run.directory, run.config, parameters=parameters, writes=is_main) as report:
            with bar as progress, StopRequest(shared=process.is_parallel) as stop:
                train(run, progress, stop, on_log=report.refresh)
            if run.state.skipped_updates:
                tell(f"{run.state.skipped_updates:,} updates were skipped: their loss or gradient was not finite")
            if stop:
                how = f"resume with: {shell_command('train')} --resume {quote(str(folder))}"
                report.end("stopped", how)
                tell(f"stopped after step {run.state.step:,}; {how}")
                return stop.exit_status
            if is_main:
                score_test_set(run, say)
            report.end("finished")
    return 0
