"""base/hashing.py: fixed values, and what makes two hashes differ."""

import hashlib

from base.hashing import hash64

import pytest


@pytest.mark.parametrize(
    "parts, value",
    [
        ((), 0xB4B2797457A0A6E4),
        (("",), 0xAFA9F3A66B1B0148),
        (("a",), 0x3E5A003AC10678AF),
        ((b"a",), 0xD1867E52AD1D8B85),
        ((0,), 0x8AE5DCCBD53130EE),
        ((1,), 0xD369E77613D55D36),
        ((-1,), 0xC83055AB9C0115AA),
        ((2**64,), 0x9FF28FC49D4A74FE),
        (("ab", "c"), 0xB40D782D2320D7E3),
        (("a", "bc"), 0xF7AEDB1ACB40C9D9),
        (("Zürich 東京",), 0xD19EC644F541EA54),
        ((12345, "bucket", 7), 0xE0088220DBC560D6),
    ],
)
def test_values_never_change(parts, value):
    """Corpora and records made by earlier versions depend on them."""
    assert hash64(*parts) == value


def test_value_follows_the_documented_layout():
    data = b"s" + (2).to_bytes(8, "little") + b"ab"
    data += b"i" + (2).to_bytes(8, "little") + b"\x2c\x01"  # 300
    digest = hashlib.blake2b(data, digest_size=8).digest()
    assert hash64("ab", 300) == int.from_bytes(digest, "little")


def test_lone_surrogates_can_be_hashed():
    assert hash64("\ud800") != hash64("\ud801")
