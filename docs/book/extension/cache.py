"""Outputs of blocks and interactive pages of the last build, kept as long as all that they are made of is the same.

MyST-NB compares the code of a page's blocks. The rest is in the name of the folder: the hash of every file that a block
can import, and of the version of every installed package. Times on a page are those of its last run.
"""

import hashlib
import shutil
import sys
from importlib.metadata import distributions
from pathlib import Path

from sphinx.application import Sphinx
from sphinx.config import Config

ROOT = Path(__file__).parents[3]
IMPORTED = ("autograd", "minitf", "examples", "docs/book")


def kept(app: Sphinx) -> Path:
    """The folder of what belongs to the present code, beside Sphinx's own cache."""
    versions = sorted(f"{each.name} {each.version}" for each in distributions())
    found = hashlib.sha256("\n".join([sys.version, *versions]).encode())
    for folder in IMPORTED:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.is_file() and path.suffix not in (".pyc", ".md"):
                found.update(f"\n{path.relative_to(ROOT)}\n".encode() + path.read_bytes())
    return Path(app.doctreedir, "kept", found.hexdigest()[:16])


def set_folder(app: Sphinx, config: Config) -> None:
    folder = kept(app)
    for other in folder.parent.glob("*"):
        if other != folder:
            shutil.rmtree(other)
    folder.mkdir(parents=True, exist_ok=True)
    config.nb_execution_cache_path = str(folder)
