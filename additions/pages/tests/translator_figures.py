"""The page that translates beside Python: equal translations, scores and pieces, and words a second in Chromium.

python -m additions.pages.tests.translator_figures RUN SOURCE [--weights int8|float16|float32]
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

from additions.pages.page import write_page
from additions.pages.tests.browser import Browser, browser
from additions.pages.tests.translating import odd_lines
from additions.pages.translator_page import translator_page
from minitf import Translator
from minitf.translation.translator import load_learned

AT_A_TIME = 100  # lines in one call of the browser
TRANSLATE = "return arguments[0].map((line) => minitf.translate(line, arguments[1]))"
PIECES = "return arguments[0].map((line) => minitf.pieces(line))"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("source", type=Path, help="lines to translate")
    parser.add_argument("--weights", choices=("int8", "float16", "float32"), default="int8")
    given = parser.parse_args()
    lines = given.source.read_text("utf-8").splitlines()
    translator = Translator.load(given.run, warn=print)
    with tempfile.TemporaryDirectory() as folder, browser() as window:
        path = Path(folder) / "translator.html"
        write_page(path, translator_page(load_learned(given.run), str(given.run), lines[:1], weights=given.weights))
        print(f"{given.weights}: {path.stat().st_size / 1e6:.2f} MB")
        window.open(path)
        window.wait_for("document.body.dataset.ready")
        print(f"first translation after {window.run('return performance.now()') / 1000:.1f} s")
        odd = odd_lines(2000, " ".join(lines).split())
        expected = [translator.vocabulary.source.pieces(ids) for ids in translator.vocabulary.source.encode(odd)]
        found = batched(window, PIECES, odd)
        print(f"pieces: {sum(map(list.__eq__, found, expected)):,} of {len(odd):,} lines equal")
        for beam in (1, 4):
            compare(window, translator, lines, beam)
        if complaints := window.complaints():
            raise SystemExit(f"the browser complains: {complaints}")


def compare(window: Browser, translator: Translator, lines: list[str], beam: int) -> None:
    """Translate the lines in both, and print how far they agree and how fast the page is."""
    expected = [best for best, *_ in translator.translate_nbest(lines, beam=beam, n_best=1)]
    cpu_s, start = window.cpu_s(), time.perf_counter()
    found = batched(window, TRANSLATE, lines, {"beam": beam})
    wall_s, cpu_s = time.perf_counter() - start, window.cpu_s() - cpu_s
    equal = [ours["text"] == theirs.text for ours, theirs in zip(found, expected, strict=True)]
    apart = [
        abs(ours["score"] - theirs.score) for ours, theirs, same in zip(found, expected, equal, strict=True) if same
    ]
    words = sum(len(line.split()) for line in lines)
    print(
        f"beam {beam}: {sum(equal):,} of {len(lines):,} translations equal, their scores within {max(apart):.1e}; "
        f"{words / wall_s:.0f} words of the source a second ({words / cpu_s:.0f} a second of processor time)"
    )


def batched(window: Browser, script: str, lines: list[str], *more: object) -> list:
    """The results of a script for all lines, some at a time."""
    parts = [window.run(script, lines[i : i + AT_A_TIME], *more) for i in range(0, len(lines), AT_A_TIME)]
    return [each for part in parts for each in part]


if __name__ == "__main__":
    main()
