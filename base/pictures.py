"""Pictures as PNG files, drawn in memory with matplotlib.

matplotlib is imported when a picture is drawn: the import takes half a second.
Without it programs run all the same, and draw none.
"""

import re
import warnings
from collections.abc import Callable
from typing import Any

from base import file_system

import numpy as np
from absl import logging

# The first series, the second, what they are compared with, and raw numbers
# behind them. The colours are Okabe and Ito's, which colour-blind people tell
# apart; series differ in line style and marker too, for print in grey.
BLUE, ORANGE, GREY, LIGHT = "#0072B2", "#D55E00", "0.45", "0.75"

SMALL = 8  # points, of legends and names

_DPI = 110

_LONGEST_NAME = 24  # characters of a name in a picture


def new_figure(width: float, height: float) -> Any:
    """Return an empty matplotlib figure, in inches, that needs no display."""
    # pyplot would look for a display, which a server does not have.
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def save(figure: Any, path: str) -> None:
    """Write a figure to a local or remote PNG file, complete or not at all."""
    from PIL import Image  # matplotlib needs it too

    figure.set_dpi(_DPI)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        figure.canvas.draw()
    image = Image.fromarray(np.asarray(figure.canvas.buffer_rgba()))
    with file_system.atomic_file(path) as file:
        # A palette makes the file a third as large.
        image = image.convert("RGB").quantize(128)
        image.save(file, format="png", optimize=True)
    if any("missing from" in str(warning.message) for warning in caught):
        logging.warning(
            "%s: the font lacks characters of some names, drawn as boxes", path
        )


def draw(path: str, draw_to: Callable[[str], None]) -> bool:
    """Draw a picture and log its path; return False without matplotlib."""
    try:
        draw_to(path)
    except ImportError:
        logging.warning(
            "%s: not drawn, since matplotlib is not installed; to install it: "
            "python -m pip install -r requirements.txt",
            path,
        )
        return False
    logging.info("Wrote %s", path)
    return True


def name_of(text: str) -> str:
    r"""Return a user's text as a name in a picture: one line, not too long.

    >>> name_of("costs $5\nand more")
    'costs \\$5 and more'
    """
    text = " ".join(text.split())
    if len(text) > _LONGEST_NAME:
        text = text[: _LONGEST_NAME - 1] + "…"
    return re.sub(r"\$", r"\\$", text)  # two would begin and end a formula
