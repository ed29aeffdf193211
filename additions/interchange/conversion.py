"""The work of `minitf import` and `export`, after their flags have been parsed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from shlex import quote

from additions.interchange.folders import new_folder, require_new
from additions.interchange.formats import is_foreign, read_foreign, write_foreign
from additions.interchange.huggingface import PREFIX, downloaded
from additions.interchange.outgoing import LearnedModel
from minitf.errors import UserError
from minitf.storage.checkpoints import Checkpoints, with_prefix
from minitf.storage.run_directory import RunDirectory
from minitf.system.process import say
from minitf.translation.translator import load_learned


def import_run(source: str, folder: Path, positions: str | None) -> tuple[int, int]:
    """Import another program's model as a run, completely or not at all; return the numbers of parameters and pieces.

    Raises: UserError if the folder is not empty or the source is a run
    """
    require_new(folder)  # before minutes of reading
    path = downloaded(source) if source.startswith(PREFIX) else Path(source)
    if not is_foreign(path) and RunDirectory(path).checkpoints_path.is_dir():
        raise UserError(f"{path} is already a run; translate with: minitf translate {quote(str(path))}")
    with new_folder(folder) as temporary:
        return _import(path, positions, folder, temporary)


def _import(path: Path, positions: str | None, folder: Path, temporary: Path) -> tuple[int, int]:
    """Write the run into an empty folder."""
    config, vocabulary, weights = read_foreign(path, positions)
    config = replace(config, output=folder.absolute())
    with RunDirectory.create(temporary, config) as run:
        vocabulary.save(run.path / vocabulary.file_name)
        state = {"imported": str(path.absolute()), "vocabulary": vocabulary.fingerprint()}
        Checkpoints(run.checkpoints_path, keep=1).save(0, with_prefix("model.", weights), state)
    return sum(array.size for array in weights.values()), len(vocabulary)


def export_run(run: Path, folder: Path, program: str, average: int | None) -> list[str]:
    """Export a run to another program; return notes on what that program does differently."""
    learned = load_learned(run, average=average, warn=lambda message: say(f"warning: {message}"))
    return write_foreign(LearnedModel(learned.config, learned.vocabulary, learned.weights), folder, program)
