"""Helpers for tests of HTML pages: a log to draw, the size of made-up attention, and the scripts inside a page."""

from dataclasses import replace
from html.parser import HTMLParser

from minitf.config import PRESETS

LAYERS, HEADS = 3, 4
CONFIG = replace(PRESETS["tiny"], max_steps=1000)


def records(last):
    """Lines of a log up to a step, as a run writes them."""
    for step in range(20, last + 1, 20):
        yield {
            "step": step, "epoch": step // 300, "loss": 8 * step**-0.2, "perplexity": 3000 / step, "target_tokens": 900,
            "gradient_norm": 1 + 10 / step, "target_tokens_per_s": 5000.0 + step, "elapsed_s": 2.0 * step,
            "learning_rate": min(step, 100) / 1e5, "skipped_updates": 0,
        }  # fmt: skip
        if step % 100 == 0:
            valid = {"valid_loss": 7 * step**-0.2, "valid_perplexity": 2500 / step, "valid_bleu": step / 20}
            yield {"step": step, "epoch": step // 300, **valid, "elapsed_s": 2.0 * step}


class Scripts(HTMLParser):
    """The contents of all <script> elements, by id, as a browser finds them."""

    def __init__(self, text):
        super().__init__()
        self.found, self.inside, self.tags = {}, None, []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        if tag == "script":
            self.inside = dict(attributes).get("id")
            self.found[self.inside] = ""

    def handle_endtag(self, tag):
        if tag == "script":
            self.inside = False

    def handle_data(self, data):
        if self.inside is not False and self.inside in self.found:
            self.found[self.inside] += data
