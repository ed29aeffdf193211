"""Folders that `prepare` wrote before, whose text may have been edited, or be gone."""

from pathlib import Path

from minitf.data.prepared import PreparedCorpus, content_of, identity_of, key_of, read_description
from minitf.data.text import PathLike
from minitf.data.vocabulary import AnyVocabulary
from minitf.errors import UserError

__all__ = ["is_prepared", "load_prepared"]


def load_prepared(folder: PathLike, vocabulary: AnyVocabulary, *, max_length: int) -> PreparedCorpus:
    """Load what `prepare` wrote, where the text itself is gone.

    Raises: UserError when the ids were made with another vocabulary or other settings, and as `PreparedCorpus.load`.
    """
    about = read_description(Path(folder))
    wanted = identity_of(about.get("source"), about.get("target"), vocabulary, max_length)
    if key_of(wanted) != about["key"]:
        raise UserError(
            f"{folder} contains token ids for another vocabulary or max_length; restore the text to make new ones"
        )
    corpus = PreparedCorpus.load(folder)
    corpus.check(folder, vocabulary, max_length)
    return corpus


def is_prepared(folder: PathLike) -> bool:
    """Return whether `prepare` has completed a corpus in the folder; `PreparedCorpus.load` also checks its bytes."""
    try:
        return bool(read_description(Path(folder)))
    except UserError:
        return False


def other_content(folder: PathLike, source: Path, target: Path) -> list[Path]:
    """Return those of two existing files that are not the text of the folder's ids; none where it holds no ids."""
    if not is_prepared(folder):
        return []
    about = read_description(Path(folder))
    sides = {"source": source, "target": target}
    return [path for side, path in sides.items() if path.exists() and content_of(path) != about.get(side)]
