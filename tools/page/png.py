"""Small PNG pictures of one color, whose opacity is a number per pixel.

One color over the page's own background is readable on a light page and on a
dark one. A pixel is one byte, so a picture of 512 x 512 weights has some
100 kB; as rectangles of SVG it would have 20 MB.
"""

import base64
import io

import numpy as np
from PIL import Image


def encode(opacity: np.ndarray, color: tuple[int, int, int]) -> bytes:
    """Return a PNG.

    Args:
        opacity: [rows, columns], from 0 to 1.
        color: red, green, blue, from 0 to 255.
    """
    levels = np.rint(np.clip(opacity, 0, 1) * 255).astype(np.uint8)
    rows, columns = levels.shape
    # A pixel is a number in a table of 256 colors, equal but for the opacity.
    picture = Image.frombytes("P", (columns, rows), levels.tobytes())
    picture.putpalette(bytes(color) * 256)
    file = io.BytesIO()
    picture.save(file, "PNG", transparency=bytes(range(256)))
    return file.getvalue()


def data_url(opacity: np.ndarray, color: tuple[int, int, int]) -> str:
    """Return a PNG as an address that holds the picture itself."""
    data = base64.b64encode(encode(opacity, color)).decode()
    return f"data:image/png;base64,{data}"
