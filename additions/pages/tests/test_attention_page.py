"""The page of attention as text, and as a person meets it in a browser."""

import base64
import json
import re
import zlib
from dataclasses import replace

import numpy as np
import pytest

from additions.pages.attention_page import WHOLE, attention_page, in_units
from additions.pages.html import to_json
from additions.pages.page import write_page
from additions.pages.tests.pages import HEADS, LAYERS, Scripts
from minitf.errors import UserError

HOSTILE = [
    "▁<script>alert(1)</script>",
    "</script><script>document.title='gone'</script>",
    "<!--",
    "--><img src=x onerror=alert(1)>",
    "&amp;",
    "\"'`",
    "▁שלום",
    "مرحبا",
    "\u202eevil",
    "\x00",
    "\x1b[0m",
    "\u2028",
    "▁",
    "🙂",
    "<0xE2>",
    "__proto__",
]


@pytest.fixture(scope="module")
def simple(make_attention):
    return make_attention(["▁the", "▁cat", "▁s", "at"], ["▁die", "▁Katze", "▁saß"])


def unpacked(blob, sentence):
    """What the page's script makes of it: encoder, decoder, cross."""
    data = np.frombuffer(zlib.decompress(base64.b64decode(blob)), np.uint8).astype(np.int64)
    units = data[: len(data) // 2] * 256 + data[len(data) // 2 :]
    shapes = [each.shape for each in (sentence.encoder, sentence.decoder, sentence.cross)]
    parts = np.split(units, np.cumsum([np.prod(shape) for shape in shapes])[:-1])
    return [part.reshape(shape) for part, shape in zip(parts, shapes, strict=True)]


# ---- The text ----------------------------------------------------------------------------------------------------


def test_rows_sum_to_exactly_one():
    rng = np.random.default_rng(5)
    for size in (1, 2, 3, 100, 1000):
        weights = rng.dirichlet(np.full(size, 0.1), size=(3, 50)).astype(np.float32)
        units = in_units(weights)
        assert (units.sum(-1, dtype=np.int64) == WHOLE).all()
        assert np.abs(units / WHOLE - weights.astype(np.float64)).max() < 2 / WHOLE
    causal = np.array([[1, 0, 0], [1 / 3, 2 / 3, 0], [1 / 3, 1 / 3, 1 / 3]], np.float32)
    assert in_units(causal).tolist() == [[65535, 0, 0], [21845, 43690, 0], [21845, 21845, 21845]]


def test_the_page_holds_the_weights_and_the_pieces(simple):
    scripts = Scripts(attention_page([simple, simple], "runs/x", numbers=[3, 8])).found
    described = json.loads(scripts["page"])
    assert (described["layers"], described["heads"]) == (LAYERS, HEADS)
    assert described["start"] == {"sentence": 0, "kind": "cross", "layer": LAYERS - 1, "head": -1}
    first, second = described["sentences"]
    assert (first["label"], second["label"]) == ("3: the cat sat", "8: the cat sat")
    for name in ("source", "target_in", "target_out"):
        assert tuple(first[name]) == getattr(simple, name)
    assert first["special"] == {"source": [4], "target_in": [0], "target_out": [3]}
    assert first["log_probabilities"] == pytest.approx(simple.log_probabilities.tolist(), abs=1e-5)
    for units, weights in zip(
        unpacked(scripts["weights-1"], simple), (simple.encoder, simple.decoder, simple.cross), strict=True
    ):
        assert (units.sum(-1) == WHOLE).all()
        np.testing.assert_allclose(units / WHOLE, weights, atol=2 / WHOLE)


def test_an_unfinished_translation_has_no_end_token(make_attention):
    page = attention_page([make_attention(["▁a"], ["▁b", "▁c"], finished=False)], "x")
    (sentence,) = json.loads(Scripts(page).found["page"])["sentences"]
    assert sentence["target_out"] == ["▁b", "▁c"]
    assert sentence["special"]["target_out"] == []


def test_hostile_text_stays_text(make_attention, simple):
    look = make_attention(HOSTILE, HOSTILE)
    harmless, hostile = (Scripts(attention_page([each], "runs/<b>&x")) for each in (simple, look))
    assert hostile.tags == harmless.tags  # not one element more
    (sentence,) = json.loads(hostile.found["page"])["sentences"]
    assert tuple(sentence["source"]) == look.source
    assert "<b>" not in attention_page([look], "runs/<b>&x")


def test_json_in_a_script_cannot_end_it():
    text = to_json({"a": HOSTILE, "</script>": 1})
    assert not re.search("[<>&\0]", text)
    assert json.loads(text) == {"a": HOSTILE, "</script>": 1}
    with pytest.raises(ValueError, match="not JSON compliant"):
        to_json({"a": float("nan")})


def test_the_page_asks_for_nothing_else(simple):
    text = attention_page([simple], "x")
    assert "http" not in text.replace("http-equiv", "").replace("http://www.w3.org", "")
    for directive in ("default-src", "base-uri", "form-action"):
        assert f"{directive} 'none'" in text
    assert not re.search(r"@import|url\(|fetch\(|XMLHttpRequest|\bimport\(", text)


def test_what_is_not_there_is_refused(simple):
    with pytest.raises(UserError, match="no sentence for an attention page"):
        attention_page([], "x")
    with pytest.raises(UserError, match="attention_layer=4 is not among the model's 3; choose 1 to 3"):
        attention_page([simple], "x", layer=4)
    with pytest.raises(UserError, match="attention_head=5 is not among the model's 4"):
        attention_page([simple], "x", head=5)


# ---- In a browser ------------------------------------------------------------------------------------------------


def ready(sentence, kind, layer, head):
    return f"document.body.dataset.ready === '{json.dumps([sentence, kind, layer, head], separators=(',', ':'))}'"


@pytest.fixture
def opened(chromium, simple, make_attention, tmp_path):
    """The page of two sentences, the second hostile, shown in a browser that had nothing to complain about."""
    path = tmp_path / "attention.html"
    write_page(path, attention_page([simple, make_attention(HOSTILE, HOSTILE[::-1], seed=1)], "runs/x"))
    chromium.complaints()
    chromium.requests()
    chromium.prefer("light")
    chromium.open(path)
    chromium.wait_for(ready(0, "cross", LAYERS - 1, -1))
    yield chromium
    assert chromium.complaints() == []
    assert [each for each in chromium.requests() if each not in (path.as_uri(), "data:,")] == []


PICTURES = "return ['threads', 'cells'].map((id) => document.getElementById(id).toDataURL())"
TEXTS = "return [...document.querySelectorAll(arguments[0])].map((each) => each.textContent)"


def test_a_click_changes_the_picture(opened, screenshots):
    assert opened.run("return document.getElementById('lines-title').textContent") == "Layer 3, all heads"
    seen = [opened.screenshot(screenshots / "attention-cross.png")]
    pictures = [opened.run(PICTURES)]
    opened.click('[data-layer="0"][data-head="1"]')
    opened.wait_for(ready(0, "cross", 0, 1))
    assert opened.run("return document.getElementById('lines-title').textContent") == "Layer 1, head 2"
    assert opened.run("return document.querySelector('[aria-pressed=true]').dataset.head") == "1"
    seen.append(opened.screenshot(screenshots / "attention-head.png"))
    pictures.append(opened.run(PICTURES))
    opened.click('#kind input[value="encoder"] + span')
    opened.wait_for(ready(0, "encoder", 0, 1))
    pictures.append(opened.run(PICTURES))
    opened.prefer("dark")
    seen.append(opened.screenshot(screenshots / "attention-dark.png"))
    pictures.append(opened.run(PICTURES))
    assert len(set(seen)) == len(seen)
    for drawings in zip(*pictures, strict=True):
        assert len(set(drawings)) == len(drawings)


def test_labels_are_the_pieces(opened, simple):
    shown = {"encoder": (simple.source, simple.source), "decoder": (simple.target_out, simple.target_in)}
    shown["cross"] = simple.target_out, simple.source
    for kind, (queries, keys) in shown.items():
        opened.click(f'#kind input[value="{kind}"] + span')
        opened.wait_for(ready(0, kind, LAYERS - 1, -1))
        assert tuple(opened.run(TEXTS, "#queries bdi")) == queries
        assert tuple(opened.run(TEXTS, "#keys bdi")) == keys


def test_tokens_are_whole_on_a_phone(opened):
    opened.viewport(400, 900)
    tokens = "[...document.querySelectorAll('.tokens bdi')]"
    assert opened.run(f"return {tokens}.filter((each) => each.scrollWidth > each.clientWidth + 1).length") == 0
    assert opened.run("return document.documentElement.scrollWidth <= innerWidth")
    opened.viewport(1500, 950)


@pytest.mark.look
def test_the_weights_in_the_browser_are_the_model_s(opened, simple):
    for kind in ("encoder", "decoder", "cross"):
        opened.click(f'#kind input[value="{kind}"] + span')
        opened.wait_for(ready(0, kind, LAYERS - 1, -1))
        weights = getattr(simple, kind)
        found = [[opened.run("return [...weightsIn(...arguments)]", i, j) for j in range(HEADS)] for i in range(LAYERS)]
        np.testing.assert_allclose(np.reshape(found, weights.shape), weights, atol=2 / WHOLE)


def test_hovering_a_token_shows_its_lines(opened, simple, screenshots):
    opened.click('[data-layer="1"][data-head="0"]')
    opened.wait_for(ready(0, "cross", 1, 0))
    opened.hover("h1")
    before = opened.run(PICTURES)
    opened.hover("#queries li:nth-child(2)")
    shares = opened.run(TEXTS, "#keys .share")
    expected = simple.cross[1, 0, 1]
    assert [share != "" for share in shares] == [weight >= 0.005 for weight in expected]
    assert [float(s.removesuffix(" %")) for s in shares if s] == pytest.approx(
        [100 * w for w in expected if w >= 0.005], abs=0.51
    )
    status = opened.run("return document.getElementById('status').textContent")
    assert status.startswith("“▁Katze” (generated with probability ")
    assert f"“{simple.source[expected.argmax()]}”" in status
    assert opened.run(PICTURES) != before
    opened.screenshot(screenshots / "attention-token.png")
    opened.hover("h1")
    assert opened.run(PICTURES) == before
    assert not any(opened.run(TEXTS, "#keys .share"))
    opened.hover("#keys li:nth-child(1)")  # who looks at it
    assert (
        sum(share != "" for share in opened.run(TEXTS, "#queries .share")) == (simple.cross[1, 0, :, 0] >= 0.005).sum()
    )


def test_lines_end_where_the_weight_goes(opened, simple):
    opened.click('[data-layer="0"][data-head="2"]')
    opened.wait_for(ready(0, "cross", 0, 2))
    opened.hover("#queries li:nth-child(1)")
    weights = simple.cross[0, 2, 0]
    inked = opened.run(
        "const pen = document.getElementById('threads').getContext('2d');"
        "const {data} = pen.getImageData(pen.canvas.width - 5, 0, 1, pen.canvas.height);"
        "const ink = data.filter((_, k) => k % 4 === 3);"
        "return [...Array(arguments[0]).keys()].map((i) =>"
        "  ink.slice(24 * i, 24 * i + 24).reduce((a, b) => a + b, 0) / 255)",
        len(weights),
    )
    # opacity times width, as far as a line this thin can show it
    assert inked == pytest.approx([(0.12 + 0.88 * w) * (0.8 + 4.2 * w) for w in weights], abs=0.35)


def test_all_heads_of_a_layer_have_stripes_of_their_own(opened, simple):
    opened.click('[data-layer="1"][data-head="-1"]')
    opened.wait_for(ready(0, "cross", 1, -1))
    opened.hover("#queries li:nth-child(4)")
    found = opened.run("return [...document.querySelectorAll('#keys .stripes')].map((each) => each.style.background)")
    shares = [[float(alpha) for alpha in re.findall(r"/ ([\d.]+)\)", each)][::2] for each in found]
    np.testing.assert_allclose(np.transpose(shares), simple.cross[1, :, 3], atol=0.01)
    assert "mean of heads" in opened.run("return document.getElementById('status').textContent")


def test_a_click_keeps_a_token_and_escape_lets_go(opened):
    opened.click("#queries li:nth-child(3)")
    opened.hover("#keys li:nth-child(1)")
    assert opened.run("return document.querySelector('#queries [aria-selected=true]').dataset.index") == "2"
    opened.press("Escape")
    opened.hover("h1")
    assert not opened.run("return document.querySelector('[aria-selected=true]')")


def test_the_keyboard_is_enough(opened):
    def focused():
        return opened.run("const e = document.activeElement.dataset; return [e.layer ?? e.side, e.head ?? e.index]")

    opened.run("document.querySelector('#heads [tabindex=\"0\"]').focus()")
    assert focused() == ["2", "-1"]
    opened.press("Right", "Up", "Enter")
    opened.wait_for(ready(0, "cross", 1, 0))
    assert focused() == ["1", "0"]
    opened.press("Tab", "Down")  # among the tokens
    assert focused() == ["queries", "1"]
    assert "“▁Katze”" in opened.run("return document.getElementById('status').textContent")
    opened.press("Right", "End", "Enter")
    assert focused() == ["keys", "4"]
    assert opened.run("return document.querySelector('#keys [aria-selected=true]').dataset.index") == "4"
    opened.run("document.querySelector('input[value=cross]').focus()")
    opened.press("Left")
    opened.wait_for(ready(0, "decoder", 1, 0))


def test_pointing_at_a_cell_reads_it(opened, simple):
    opened.click('[data-layer="2"][data-head="3"]')
    opened.wait_for(ready(0, "cross", 2, 3))
    x, y = opened.run(
        "const c = document.getElementById('cells').getBoundingClientRect();"
        "return [grid.left + 2.5 * grid.size - c.width / 2, grid.top + 1.5 * grid.size - c.height / 2]"
    )
    opened.hover("#cells", round(x), round(y))
    status = opened.run("return document.getElementById('status').textContent")
    weight = 100 * simple.cross[2, 3, 1, 2]
    assert float(re.search(r"the cell: “▁s” ([\d.]+) %", status)[1]) == pytest.approx(weight, abs=0.51)


def test_hostile_text_is_shown_and_does_nothing(opened, screenshots):
    title = opened.run("return document.title")
    opened.click("#next")
    opened.wait_for(ready(1, "cross", LAYERS - 1, -1))
    shown = opened.run(TEXTS, "#keys bdi")
    pictures = {"\x00": "␀", "\x1b[0m": "␛[0m", "\u202eevil": "⟨U+202E⟩evil", "\u2028": "⟨U+2028⟩"}
    assert shown == [*(pictures.get(piece, piece) for piece in HOSTILE), "</s>"]
    assert opened.run("return document.title") == title
    assert opened.run("return document.querySelectorAll('#panels img, #panels script').length") == 0
    opened.hover("#queries li:nth-child(4)")
    opened.screenshot(screenshots / "attention-hostile.png")


def test_a_long_sentence(chromium, make_attention, screenshots, tmp_path):
    words = [f"▁word{i}" for i in range(120)]
    path = tmp_path / "long.html"
    write_page(path, attention_page([make_attention(words, words)], "runs/x", kind="encoder", layer=1, head=1))
    chromium.complaints()
    chromium.open(path)
    chromium.wait_for(ready(0, "encoder", 0, 0))
    chromium.run(
        "document.getElementById('strip').scrollTop = 2000; document.querySelectorAll('#queries li')[90].focus()"
    )
    assert "“▁word90”" in chromium.run("return document.getElementById('status').textContent")
    chromium.screenshot(screenshots / "attention-long.png")
    assert chromium.complaints() == []


def test_a_damaged_page_says_so(chromium, simple, tmp_path):
    path = tmp_path / "damaged.html"
    text = attention_page([simple], "x")
    blob = Scripts(text).found["weights-0"]
    write_page(path, text.replace(blob, blob[: len(blob) // 2 // 4 * 4]))
    chromium.open(path)
    problem = chromium.wait_for(
        "!document.getElementById('problem').hidden && document.getElementById('problem').textContent"
    )
    assert "The weights cannot be read" in problem
    chromium.complaints()


def test_many_heads_and_one(make_attention, simple, chromium, tmp_path):
    """One layer of one head, and more heads than colours are easily told apart."""
    for layers, heads in ((1, 1), (2, 16)):
        parts = {
            name: np.resize(getattr(simple, name), (layers, heads, *getattr(simple, name).shape[2:]))
            for name in ("encoder", "decoder", "cross")
        }
        path = tmp_path / f"{heads}.html"
        write_page(path, attention_page([replace(simple, **parts)], "x"))
        chromium.complaints()
        chromium.open(path)
        chromium.wait_for(ready(0, "cross", layers - 1, -1))
        assert chromium.run("return document.querySelectorAll('#heads canvas').length") == layers * heads
        assert chromium.complaints() == []


def test_encoder_and_decoder_of_different_depths(simple, chromium, tmp_path):
    """Only layers that the kind has are shown, with its weights; a source may lack the end token."""
    depths = {"encoder": 3, "decoder": 1, "cross": 1}
    parts = {name: getattr(simple, name)[np.zeros(depth, int)] for name, depth in depths.items()}
    path = tmp_path / "depths.html"
    write_page(path, attention_page([replace(simple, **parts, source_eos=False)], "x", kind="encoder", layer=3))
    chromium.complaints()
    chromium.open(path)
    visible = "return [...document.querySelectorAll('#heads tr')].filter(row => !row.hidden).length - 1"
    last = "return Array.from(weightsIn(0, 0))"
    chromium.wait_for(ready(0, "encoder", 2, -1))
    assert chromium.run(visible) == 3
    chromium.click('#kind input[value="cross"] + span')
    chromium.wait_for(ready(0, "cross", 0, -1))
    assert chromium.run(visible) == 1
    np.testing.assert_allclose(chromium.run(last), simple.cross[0, 0].ravel(), atol=1e-4)
    assert chromium.run("return sentence().special.source") == []
    assert chromium.complaints() == []
