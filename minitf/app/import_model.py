"""`minitf import SOURCE RUN`: make a run of a model of Marian, Hugging Face, fairseq or CTranslate2."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from shlex import quote

from minitf.app.command_line import ArgumentParser
from minitf.errors import UserError
from minitf.system.messages import say
from minitf.system.process import uninterrupted

POSITIONS = {"marian": "sinusoidal-concatenated", "huggingface": "sinusoidal-halves"}


def main(argv: Sequence[str]) -> None:
    """Read the model, write the run, and print what it is."""
    parser = ArgumentParser(
        prog="minitf import",
        description="Make a run of a trained model of Marian (OPUS-MT), Hugging Face's Marian, fairseq or CTranslate2.",
    )
    parser.add_argument("source", metavar="SOURCE", help="folder or file of the model, or hf:OWNER/NAME of the Hub")
    parser.add_argument("run", type=Path, metavar="RUN", help="run directory to write; it must not hold a run yet")
    parser.add_argument(
        "--positions",
        choices=[*POSITIONS],
        help="how the positions of a model.npz are computed: as Marian does (the default), or as Hugging Face and "
        "CTranslate2 do when they read it",
    )
    given = parser.parse_args(argv)
    with uninterrupted():  # deferred: `--help` and a wrong flag need no NumPy
        from minitf.config.identity import decisive_values
        from minitf.interchange.formats import is_foreign, read_foreign
        from minitf.interchange.huggingface import PREFIX, downloaded
        from minitf.storage.checkpoints import CheckpointStore, with_prefix
        from minitf.storage.run_directory import RunDirectory
    if RunDirectory(given.run).config_path.exists():
        raise UserError(f"{given.run} already holds a run; give another directory")
    path = downloaded(given.source) if given.source.startswith(PREFIX) else Path(given.source)
    if not is_foreign(path) and RunDirectory(path).checkpoints_path.is_dir():
        raise UserError(f"{path} is a run already; translate with: minitf translate {quote(str(path))}")
    config, vocabulary, weights = read_foreign(path, POSITIONS.get(given.positions))
    with RunDirectory.create(given.run, replace(config, output=given.run.absolute())) as run:
        vocabulary.save(run.path / vocabulary.file_name)
        origin = {"run": secrets.token_hex(16), "config": decisive_values(config)}
        store = CheckpointStore(run.checkpoints_path, keep=1, origin=origin)
        store.save(
            0,
            with_prefix("model.", weights),
            {"imported": str(path.absolute()), "vocabulary": vocabulary.fingerprint()},
        )
    size = sum(array.size for array in weights.values())
    command = f"minitf translate {quote(str(given.run))}"
    say(f"{given.run}: {size:,} parameters, {len(vocabulary):,} pieces; translate with: {command}")
