"""Pictures of attention show its weights, and text in them is text."""

import base64
import io
import json
import re
import xml.etree.ElementTree as ElementTree

import numpy as np
from PIL import Image

from tools.page import plots

PROBS = np.array([[0.5, 0.5], [0.01, 0.99]], np.float32)


def test_a_heat_map_has_the_weights_and_names_every_token_once():
    figure = plots.heat_map(["a", "a"], PROBS)
    trace = figure["data"][0]
    np.testing.assert_allclose(trace["z"], PROBS, atol=1e-4)
    assert trace["x"] == trace["y"] == ["a", "a (2)"]
    # The opacity of a weight is its square root.
    assert [0.25, "rgba(37, 99, 235, 0.5)"] in trace["colorscale"]


def test_tokens_are_no_tags_for_plotly():
    names = plots.heat_map(["<b>", "x" * 30], PROBS)["data"][0]["x"]
    assert names == ["&lt;b&gt;", "x" * 19 + "…"]


def test_a_long_row_is_small_enough_to_send():
    probs = np.random.default_rng(0).random((512, 512), np.float32)
    assert len(json.dumps(plots.heat_map(["token"] * 512, probs))) < 3_000_000


def opacities(html: str) -> list[np.ndarray]:
    """Return the picture of each head, [rows, columns] from 0 to 1."""
    files = map(base64.b64decode, re.findall(r"base64,([^\"]+)", html))
    pictures = [np.asarray(Image.open(io.BytesIO(file))) for file in files]
    return [picture[..., 3] / 255 for picture in pictures]


def test_the_picture_of_a_head_has_its_weights():
    layers = [np.stack([PROBS, 1 - PROBS])] * 3
    html = plots.overview(layers, (2, 1))
    found = opacities(html)
    assert len(found) == 6 and "--heads: 2" in html
    for picture, probs in zip(found[:2], layers[0], strict=True):
        np.testing.assert_allclose(picture**2, probs, atol=5e-3)
    pressed = re.findall(r'data-head="(\d \d)" aria-pressed="true"', html)
    assert pressed == ["2 1"]


def test_small_pictures_show_the_largest_weight():
    probs = np.zeros([1, 100, 100])
    probs[0, 99, 50] = 0.81
    (picture,) = opacities(plots.overview([probs], (1, 0)))
    assert picture.shape == (32, 32)
    np.testing.assert_allclose([picture[31].max(), picture.sum()], 0.9, 0.01)


def test_light_lines_are_left_out():
    drawn = ElementTree.fromstring(plots.lines(["a", "b"], PROBS))
    titles = [line.find("title").text for line in drawn.iter("line")]
    assert titles == ["a → a 0.50", "a → b 0.50", "b → b 0.99"]
    shares = [line.get("stroke-opacity") for line in drawn.iter("line")]
    assert shares == ["0.51", "0.51", "1.00"]


def test_no_token_becomes_a_tag_or_a_template():
    evil = "<b>\"' ${1+1} {{a}}"
    drawn = plots.lines([evil, "b"], PROBS)
    assert not set("${}") & set(drawn)
    assert next(ElementTree.fromstring(drawn).iter("text")).text == evil
