"""Pictures of attention through matplotlib."""

import re
import sys
import warnings

import numpy as np
import pytest

from additions.pages.attention_figure import attention_figure, labels, save_figure, shown
from additions.pages.tests.pages import HEADS, LAYERS
from minitf.errors import UserError

pytest.importorskip("matplotlib")

TRICKY = ["▁the", "$x_1$", "\\frac", "a$b", "\x01", "שלום"]


@pytest.fixture(scope="module")
def look(make_attention):
    return make_attention(TRICKY, ["▁die", "▁Katze", "$"])


def images(figure):
    return [image.get_array() for axes in figure.axes for image in axes.images]


def test_every_head_has_a_picture_of_its_weights(look):
    figure = attention_figure(look, kind="encoder")
    found = images(figure)
    assert len(found) == LAYERS * HEADS
    for i, picture in enumerate(found):
        assert np.array_equal(picture, look.encoder[divmod(i, HEADS)])
    limits = {(image.norm.vmin, image.norm.vmax) for axes in figure.axes for image in axes.images}
    assert limits == {(0, 1)}  # one scale for all


def test_one_layer_and_one_head(look):
    assert [each.tolist() for each in images(attention_figure(look, layer=2))] == look.cross[1].tolist()
    assert [each.tolist() for each in images(attention_figure(look, head=3))] == look.cross[:, 2].tolist()
    figure = attention_figure(look, kind="decoder", layer=3, head=1)
    assert [each.tolist() for each in images(figure)] == [look.decoder[2, 0].tolist()]
    lines = figure.axes[0].collections[0]
    drawn = look.decoder[2, 0] >= 0.01
    assert len(lines.get_segments()) == drawn.sum()
    np.testing.assert_allclose(lines.get_alpha(), look.decoder[2, 0][drawn])
    for segment, (row, column) in zip(lines.get_segments(), np.argwhere(drawn), strict=True):
        assert segment.tolist() == [[0, row], [1, column]]


@pytest.mark.parametrize("kind", ["encoder", "decoder", "cross"])
def test_labels_are_the_pieces(look, kind):
    queries, keys = labels(look, kind)
    assert getattr(look, kind).shape[2:] == (len(queries), len(keys))
    lines, cells, _ = attention_figure(look, kind=kind, layer=1, head=1).axes
    assert [text.get_text() for text in cells.get_yticklabels()] == [*map(shown, queries)]
    assert [text.get_text() for text in cells.get_xticklabels()] == [*map(shown, keys)]
    assert [text.get_text() for text in lines.texts] == [*map(shown, (*queries, *keys))]


def test_what_has_no_shape_shows_its_number():
    assert shown("\x01a\u202e\u200b\n") == "⟨U+0001⟩a⟨U+202E⟩⟨U+200B⟩⟨U+000A⟩"
    assert shown("▁Übermäßig 日本 שלום") == "▁Übermäßig 日本 שלום"


@pytest.mark.parametrize(
    ("suffix", "start"), [("png", b"\x89PNG"), ("pdf", b"%PDF"), ("svg", b"<?xml"), ("PNG", b"\x89PNG")]
)
def test_files(look, tmp_path, suffix, start):
    said = []
    path = tmp_path / f"picture.{suffix}"
    save_figure(attention_figure(look, layer=1, head=1), path, said.append)
    assert path.read_bytes().startswith(start)
    assert said == []
    assert list(tmp_path.iterdir()) == [path]


def test_characters_that_the_font_lacks_are_told(make_attention, tmp_path):
    look = make_attention(["▁\U000f1234\U000f1235"], ["▁a"])
    said = []
    save_figure(attention_figure(look, layer=1, head=1), tmp_path / "picture.png", said.append)
    assert len(said) == 1
    assert re.search("boxes for 2 characters that its font lacks; an .html page shows the characters", said[0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # the filters are as before
        save_figure(attention_figure(look, layer=1, head=1), tmp_path / "picture.png", said.append)


def test_what_is_not_there_is_refused(look, monkeypatch):
    with pytest.raises(UserError, match="attention_layer=9 is not among the model's 3"):
        attention_figure(look, layer=9)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(
        UserError, match=r"need matplotlib; pip install '\.\[plot\]' in the project's directory, or write an .html page"
    ):
        attention_figure(look)
