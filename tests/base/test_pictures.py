"""Pictures: PNG files, and one line without matplotlib."""

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


def test_a_picture_has_its_colours(tmp_path):
    path = tmp_path / "a.png"
    pictures.save(figure_of(colour=pictures.BLUE), str(path))
    pixels = np.round(255 * image.imread(path)[..., :3])
    assert pixels.shape == (110, 220, 3)
    blue = [0x00, 0x72, 0xB2]
    assert (np.abs(pixels - blue).max(-1) < 9).any()
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
