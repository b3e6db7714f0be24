"""Pictures: grey PNG files, and one line without matplotlib."""

import os
import sys

from base import pictures

import numpy as np
import pytest

image = pytest.importorskip("matplotlib.image")


def figure_of(title="", colour="red"):
    figure = pictures.new_figure(2, 1)
    axes = figure.subplots()
    axes.plot([0, 1], [0, 1], color=colour)
    axes.set_title(title)
    return figure


@pytest.mark.parametrize("in_colour", [False, True])
def test_a_picture_is_grey_unless_asked_for(tmp_path, in_colour):
    path = tmp_path / "a.png"
    pictures.save(figure_of(), str(path), dpi=100, in_colour=in_colour)
    pixels = image.imread(path)
    assert pixels.shape[:2] == (100, 200)
    assert (pixels.ndim == 3) == in_colour
    assert np.ptp(pixels) == 1.0  # black and white
    assert os.listdir(tmp_path) == ["a.png"]


def test_a_picture_goes_through_the_file_system_layer(tensorflow_files):
    """TensorFlow's file system in memory stands for a remote one."""
    import tensorflow as tf

    pictures.save(figure_of(), "ram://pictures/a.png")
    with tf.io.gfile.GFile("ram://pictures/a.png", "rb") as file:
        assert file.read()[:4] == b"\x89PNG"


def test_names_are_no_formulas(tmp_path):
    """matplotlib reads $...$ as one, and fails for this one."""
    name = pictures.name_of("$\\no$\nsuch thing, and far too long")
    assert name == r"\$\no\$ such thing, and f…"
    pictures.save(figure_of(name), str(tmp_path / "a.png"))


def test_missing_characters_are_one_line(tmp_path, caplog):
    pictures.save(figure_of("中文"), str(tmp_path / "a.png"))
    assert "the font lacks characters" in caplog.text
    assert len(caplog.records) == 1


def test_without_matplotlib_one_line_names_the_remedy(
    tmp_path, monkeypatch, caplog
):
    for name in ("matplotlib", "matplotlib.backends.backend_agg"):
        monkeypatch.setitem(sys.modules, name, None)
    path = str(tmp_path / "a.png")
    drawn = pictures.draw(path, lambda p: pictures.save(figure_of(), p))
    assert not drawn and not list(tmp_path.iterdir())
    (line,) = caplog.messages
    assert line.startswith(f"{path}: not drawn") and "pip install" in line
