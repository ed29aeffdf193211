"""Figures inside chapters: drawings, whose parts are links, and pages that can be played with.

`![title](name.svg)` puts a drawing of docs/book into the page, and `<!-- playable NAME: title -->` the interactive page
NAME. These pages are written with the book. Their model writes digits backwards; it is trained during the build.
"""

import random
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from html import escape
from pathlib import Path

import numpy as np
from sphinx.application import Sphinx

import autograd as ag
from additions.pages.step import step_page

BOOK = Path(__file__).parents[1]
DRAWING = re.compile(r"^!\[(?P<title>[^]]*)\]\((?P<name>[\w-]+\.svg)\)$", re.MULTILINE)
COMMENT = re.compile(r"^<!-- playable (?P<name>[\w-]+): (?P<title>.*?) -->$", re.MULTILINE | re.DOTALL)
PAGE = """<figure class="playable">
<iframe src="../../playable/{name}.html" title="{title}" loading="lazy" allow="fullscreen"></iframe>
<figcaption>{title} <a href="../../playable/{name}.html">On a page of its own</a></figcaption>
</figure>"""
RUN = "digits"
SENTENCES = ["3 1 4 1 5", "2 7 1 8 2 8", "9 0 9"]


def with_figures(text: str) -> str:
    """Markdown with drawings and pages in their places."""
    text = DRAWING.sub(_drawing, text)
    return COMMENT.sub(lambda match: PAGE.format(name=match["name"], title=escape(match["title"])), text)


def _drawing(match: re.Match[str]) -> str:
    svg = (BOOK / match["name"]).read_text("utf-8")
    title = escape(" ".join(match["title"].split()))
    return f'<figure class="picture drawing">\n{svg}<figcaption>{title}</figcaption>\n</figure>'


def minitf(folder: Path, *arguments: object) -> None:
    command = [sys.executable, "-m", "minitf", *map(str, arguments)]
    result = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    if result.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: {result.stderr}")


def train(folder: Path) -> None:
    """Make a run that has learned to write digits backwards."""
    digits = random.Random(1)
    rows = sorted({tuple(digits.choices("0123456789", k=digits.randint(3, 8))) for _ in range(5000)})
    digits.shuffle(rows)
    for part, chosen in (("train", rows[100:]), ("valid", rows[:100])):
        (folder / f"{part}.in").write_text("".join(" ".join(row) + "\n" for row in chosen))
        (folder / f"{part}.out").write_text("".join(" ".join(reversed(row)) + "\n" for row in chosen))
    flags = {"vocab-size": 281, "max-steps": 500, "max-tokens-per-batch": 512, "threads": 1, "save-every": 100}
    flags |= {"model.layers": 2, "model.d-model": 64, "model.d-ff": 128, "model.heads": 4, "model.dropout": 0}
    flags |= {"optimizer.warmup-steps": 60, "optimizer.peak-learning-rate": 0.003, "optimizer.label-smoothing": 0}
    texts = ["--train", "train.in", "train.out", "--valid", "valid.in", "valid.out"]
    given = [each for name, value in flags.items() for each in (f"--{name}", value)]
    minitf(folder, "train", "--quiet", "--output", RUN, *texts, *given)


def first_step(folder: Path, path: Path) -> None:
    """The ops of chapter 2."""
    x, w = np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([0.5, -1.0])
    step_page(lambda x, w: (ag.tanh(x * w) ** 2).sum(), path, x, w, title="A few ops, forward and backward")


def training_step(folder: Path, path: Path) -> None:
    pairs = [each for line in SENTENCES for each in ("--pair", line, line[::-1])]
    minitf(folder, "step", RUN, "--output", path, *pairs)


def attention(folder: Path, path: Path) -> None:
    (folder / "lines.txt").write_text("\n".join(SENTENCES) + "\n")
    minitf(folder, "attention", RUN, "--input", "lines.txt", "--output", path)


def translator(folder: Path, path: Path) -> None:
    sentences = [each for line in SENTENCES for each in ("--sentence", line)]
    minitf(folder, "page", RUN, "--checkpoints", 4, "--output", path, *sentences)


PAGES: dict[str, Callable[[Path, Path], None]] = {
    "first-step": first_step,
    "training-step": training_step,
    "attention": attention,
    "translator": translator,
}


def write_pages(app: Sphinx, error: Exception | None) -> None:
    """Write the pages that the book shows into playable/."""
    sources = [Path(app.env.doc2path(name)).read_text("utf-8") for name in app.env.found_docs]
    wanted = {match["name"] for text in sources for match in COMMENT.finditer(text)}
    if error is not None or app.builder.format != "html" or not wanted:
        return
    made, folder = Path(app.config.nb_execution_cache_path, "playable"), Path(app.outdir, "playable")
    if any(not (made / f"{name}.html").exists() for name in wanted):
        made.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory() as temporary:
            train(Path(temporary))
            for name in sorted(wanted):
                PAGES[name](Path(temporary), made / f"{name}.html")
    shutil.copytree(made, folder, dirs_exist_ok=True)
