"""Small PNG pictures of one color, whose opacity is a number per pixel.

One color over the page's own background is readable on a light page and on a
dark one. A pixel is one byte, so a picture of 512 x 512 weights has some
100 kB; as rectangles of SVG it would have 20 MB.
"""

import base64
import struct
import zlib

import numpy as np

_SIGNATURE = b"\x89PNG\r\n\x1a\n"

_PALETTE_COLOR = 3  # the kind of pixel: a number in a table of colors


def encode(opacity: np.ndarray, color: tuple[int, int, int]) -> bytes:
    """Return a PNG.

    Args:
        opacity: [rows, columns], from 0 to 1.
        color: red, green, blue, from 0 to 255.
    """
    levels = np.rint(np.clip(opacity, 0, 1) * 255).astype(np.uint8)
    rows, columns = levels.shape
    # Each row begins with the number of its filter: 0, none.
    lines = np.concatenate([np.zeros([rows, 1], np.uint8), levels], axis=1)
    header = struct.pack(">IIBBBBB", columns, rows, 8, _PALETTE_COLOR, 0, 0, 0)
    return _SIGNATURE + b"".join(
        (
            _chunk(b"IHDR", header),
            _chunk(b"PLTE", bytes(color) * 256),
            _chunk(b"tRNS", bytes(range(256))),  # opacity of the 256 colors
            _chunk(b"IDAT", zlib.compress(lines.tobytes(), 6)),
            _chunk(b"IEND", b""),
        )
    )


def data_url(opacity: np.ndarray, color: tuple[int, int, int]) -> str:
    """Return a PNG as an address that holds the picture itself."""
    data = base64.b64encode(encode(opacity, color)).decode()
    return f"data:image/png;base64,{data}"


def _chunk(kind: bytes, data: bytes) -> bytes:
    checksum = zlib.crc32(kind + data)
    return (
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", checksum)
    )
