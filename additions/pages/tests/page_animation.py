"""The page that translates, as an animation: a sentence is typed, translated, looked into, and continued otherwise.

python -m additions.pages.tests.page_animation runs/demo docs/page.gif     # needs Chromium and Pillow
"""

from __future__ import annotations

import argparse
import io
import tempfile
from collections.abc import Iterator
from pathlib import Path

from PIL import Image

from additions.pages.page import write_page
from additions.pages.tests.browser import Browser, browser
from additions.pages.translator_page import translator_page
from minitf.translation.translator import load_learned

SENTENCE = "The train to Vienna leaves at twenty-five to nine."
CHOSEN = "fünf"  # the piece whose alternatives are shown
WIDTH, HEIGHT = 1180, 1120
COLOURS = 64
TYPE = "const text = document.querySelector('#text'); text.value = arguments[0]; text.focus(); scrollTo(0, 0)"
PIECE = "#target > :nth-child({}) > *"

Frame = tuple[Image.Image, int]  # and the milliseconds that it is shown


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("output", type=Path)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, browser() as window:
        path = Path(folder) / "translator.html"
        write_page(path, translator_page(load_learned(given.run), "runs/demo", ["twenty-five books"], weights="int8"))
        window.open(path)
        window.viewport(WIDTH, HEIGHT)
        window.prefer("light")
        window.wait_for("document.body.dataset.ready")
        frames = list(story(window))
    images, durations_ms = zip(*frames, strict=True)
    palette = images[-1].quantize(COLOURS)  # one for all, or unchanged parts would differ between frames
    first, *rest = [image.quantize(palette=palette, dither=Image.Dither.NONE) for image in images]
    first.save(given.output, save_all=True, append_images=rest, duration=durations_ms, loop=0, optimize=True)
    print(f"{given.output}: {len(frames)} frames, {given.output.stat().st_size / 1000:.0f} kB")


def story(window: Browser) -> Iterator[Frame]:
    """Drive the page, and yield what it shows."""
    words = SENTENCE.split()
    for count in range(len(words) + 1):
        window.run(TYPE, " ".join(words[:count]))
        yield shown(window), 220
    window.click("#go")
    window.wait_for("document.querySelector('#output').textContent.startsWith('Der Zug')")
    yield shown(window), 1800
    pieces = window.run("return [...document.querySelectorAll('#target > *')].map((each) => each.textContent)")
    chosen = next(place for place, text in enumerate(pieces, start=1) if CHOSEN in text)
    for place in range(1, len(pieces) + 1):
        window.hover(PIECE.format(place))
        window.run("scrollTo(0, 0)")
        yield shown(window), 500
    window.run("document.querySelector('#beam-card').scrollIntoView()")
    yield shown(window), 2500
    window.click(PIECE.format(chosen))
    window.run("scrollTo(0, 0)")
    yield shown(window), 2000
    window.click("#alternatives > :nth-child(4) > *")
    window.wait_for("document.querySelector('#choice').checkVisibility()")  # the model has gone on from there
    window.run("scrollTo(0, 0)")
    yield shown(window), 3500


def shown(window: Browser) -> Image.Image:
    with tempfile.TemporaryDirectory() as folder:
        return Image.open(io.BytesIO(window.screenshot(Path(folder) / "frame.png"))).convert("RGB")


if __name__ == "__main__":
    main()
