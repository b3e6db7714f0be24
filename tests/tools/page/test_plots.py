"""Pictures of attention show its weights, and text in them is text."""

import json
import xml.etree.ElementTree as ElementTree

import numpy as np

from tools.page import plots

PROBS = np.array([[0.5, 0.5], [0.01, 0.99]], np.float32)


def test_a_heat_map_has_the_weights_and_names_every_token_once():
    figure = plots.heat_map(["a", "a"], PROBS)
    trace = figure["data"][0]
    np.testing.assert_allclose(trace["z"], PROBS, atol=1e-4)
    assert trace["x"] == trace["y"] == ["a", "a (2)"]
    # The opacity of a weight is its square root.
    assert [0.25, "rgba(37, 99, 235, 0.50)"] in trace["colorscale"]


def test_tokens_are_no_tags_for_plotly():
    names = plots.heat_map(["<b>", "x" * 30], PROBS)["data"][0]["x"]
    assert names == ["&lt;b&gt;", "x" * 19 + "…"]


def test_a_long_row_is_small_enough_to_send():
    probs = np.random.default_rng(0).random((512, 512), np.float32)
    figure = plots.heat_map(["token"] * 512, probs)
    assert len(json.dumps(figure)) < 3_000_000
    assert figure["layout"]["width"] < 2200


def test_the_cells_of_a_head_are_around_its_number():
    """The figure's row and column, rounded, are the layer and the head."""
    layers = [np.stack([PROBS, 1 - PROBS])] * 3
    (trace,) = plots.overview(layers)["data"]
    rows = trace["y0"] + trace["dy"] * np.arange(len(trace["z"]))
    columns = trace["x0"] + trace["dx"] * np.arange(len(trace["z"][0]))
    assert np.rint(rows).tolist() == [1] * 3 + [2] * 3 + [3] * 3
    assert np.rint(columns).tolist() == [1] * 3 + [2] * 3
    head = [row[3:] for row in trace["z"][3:6]]  # layer 2, head 2
    np.testing.assert_allclose([r[:2] for r in head[:2]], 1 - PROBS, atol=1e-4)
    assert head[2] == [None] * 3 and head[0][2] is None  # space between heads


def test_thumbnails_show_the_largest_weight():
    probs = np.zeros([1, 100, 100])
    probs[0, 99, 50] = 0.75
    small = plots.thumbnails(probs)
    assert small.shape == (1, 32, 32)
    assert small[0, 31].max() == 0.75 and small.sum() == 0.75
    np.testing.assert_array_equal(plots.thumbnails(PROBS[None])[0], PROBS)


def test_light_lines_are_left_out():
    drawn = ElementTree.fromstring(plots.lines(["a", "b"], PROBS))
    titles = [line.find("title").text for line in drawn.iter("line")]
    assert titles == ["a → a 0.50", "a → b 0.50", "b → b 0.99"]
    opacities = [line.get("stroke-opacity") for line in drawn.iter("line")]
    assert opacities == ["0.51", "0.51", "1.00"]


def test_no_token_becomes_a_tag_or_a_template():
    evil = "<b>\"' ${1+1} {{a}}"
    drawn = plots.lines([evil, "b"], PROBS)
    assert not set("${}") & set(drawn)
    assert next(ElementTree.fromstring(drawn).iter("text")).text == evil
