"""HTML and SVG are well formed, and text in them is text."""

import html
import io
import re
import xml.etree.ElementTree as ElementTree

import matplotlib.image
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tools.page import drawing, png, svg
from tools.page.rows import Part, Piece

EVIL = "<script>alert(1)</script>\"'&amp; ${1+1} {{value}} \x07 \u202e\ud800"


def parsed(text: str) -> ElementTree.Element:
    """Parse HTML that has to be XML too, for strictness."""
    return ElementTree.fromstring(f"<div>{text}</div>")


@settings(max_examples=40)
@given(st.text())
def test_escaped_text_is_shown_as_it_is(text):
    escaped = drawing.escape(text)
    assert html.unescape(escaped) == drawing.visible(text)
    assert not set(escaped) & set("<>\"'{}$")
    parsed(escaped)


def test_control_characters_become_signs():
    assert drawing.visible("a\x00\x07\n\tb") == "a\u2400\u2407\n\tb"
    assert drawing.visible("\u202e\x7f") == "<U+202E><U+007F>"
    assert drawing.visible("\ud800") == "<U+D800>"
    assert drawing.visible("caf\u00e9 \u4e2d") == "caf\u00e9 \u4e2d"


PROBS = np.array([[0.5, 0.5], [0.01, 0.99]], np.float32)

DRAWN = {
    "error": drawing.error(EVIL + "\nsecond line"),
    "note": drawing.note(EVIL),
    "bars": drawing.bars([(EVIL, 0.25), ("b", 1e-7)]),
    "table": drawing.table(["a", EVIL], [[EVIL, "1"]], 0),
    "number": drawing.number_line(EVIL, 1.5),
    "marked": drawing.marked(EVIL, 3, 9, "answer"),
    "colored": drawing.colored(EVIL, [(3, 9, EVIL)], [EVIL]),
    "cut": drawing.with_cut([Part(EVIL, EVIL), Part("b", "")], 24),
    "filled": drawing.filled([EVIL, EVIL], [EVIL]),
    "pieces": drawing.piece_chips([Piece(EVIL, 1, 0, True)]),
    "heading": drawing.heading(EVIL, ""),
    "heat map": svg.heat_map([EVIL, "b"], PROBS),
    "lines": svg.lines([EVIL, "b"], PROBS),
    "overview": svg.overview([PROBS[None]]),
}


@pytest.mark.parametrize("name", DRAWN)
def test_no_text_becomes_a_tag_or_a_template(name):
    tags = {element.tag for element in parsed(DRAWN[name]).iter()}
    assert "script" not in tags
    assert not re.search(r"[${}]", DRAWN[name])


def test_bars_have_the_width_of_the_probability():
    widths = re.findall(r"width:([\d.]+)%", DRAWN["bars"])
    assert widths == ["25.00", "0.00"]
    assert "1e-07" in DRAWN["bars"]


def test_the_mark_is_at_its_characters():
    mark = parsed(drawing.marked("the good film", 4, 8, "x")).find(".//mark")
    assert (mark.text, mark.tail, mark.get("id")) == ("good", " film", "x")


def test_cut_text_is_struck_through():
    box = parsed(drawing.with_cut([Part("seen", " unseen")], 24))
    assert box.find(".//del").text == " unseen"
    assert "the last 7 characters" in "".join(box.itertext())


# --- Pictures ----------------------------------------------------------------


def test_a_png_has_the_color_and_the_opacity():
    """Read by another program: red, green, blue, opacity of each pixel."""
    opacity = np.array([[0, 0.5, 1], [0.25, 2, -1]])
    data = png.encode(opacity, (10, 20, 30))
    pixels = matplotlib.image.imread(io.BytesIO(data)) * 255
    assert pixels.shape == (2, 3, 4)
    assert (np.rint(pixels[..., :3]) == (10, 20, 30)).all()
    levels = [[0, 128, 255], [64, 255, 0]]
    np.testing.assert_allclose(pixels[..., 3], levels, atol=0.51)


def test_a_heat_map_says_the_weight_of_each_cell():
    titles = [
        t.text for t in parsed(svg.heat_map(["a", "b"], PROBS)).iter("title")
    ]
    assert titles == ["a → a 0.50", "a → b 0.50", "b → a 0.01", "b → b 0.99"]


def test_light_lines_are_left_out():
    drawn = list(parsed(svg.lines(["a", "b"], PROBS)).iter("line"))
    assert len(drawn) == 3  # not b → a, 0.01
    assert [line.get("stroke-opacity") for line in drawn][-1] == "1.00"


def test_a_long_row_is_drawn_small_enough_to_send():
    """512 tokens: a picture instead of 262,144 rectangles."""
    probs = np.random.default_rng(0).random((512, 512), np.float32)
    probs /= probs.sum(1, keepdims=True)
    drawn = svg.heat_map(["token"] * 512, probs)
    assert len(drawn) < 600_000
    assert 'width="10' in drawn  # 512 cells of 20 pixels: it scrolls


def test_thumbnails_show_the_largest_weight():
    probs = np.zeros([1, 100, 100])
    probs[0, 99, 50] = 0.75
    small = svg.thumbnails(probs)
    assert small.shape == (1, 48, 48)
    assert small[0, 47].max() == 0.75 and small.sum() == 0.75
    assert svg.thumbnails(PROBS[None]) is not None
    np.testing.assert_array_equal(svg.thumbnails(PROBS[None])[0], PROBS)
