"""Hash values that are the same on every machine and in every process.

Python's own hash() of text changes with every process. The values here decide
where a document goes and what is drawn for it, so they must never change.
"""

import hashlib


def hash64(*parts: bytes | str | int) -> int:
    """Return a 64-bit hash of bytes, text (hashed as UTF-8) and integers.

    It is BLAKE2b with a digest of 8 bytes, read as a little-endian number. Each
    part is preceded by its type and length, so that ("ab", "c") and ("a", "bc")
    differ, and so do 1, "1" and b"1".
    """
    digest = hashlib.blake2b(digest_size=8)
    for part in parts:
        if isinstance(part, str):
            kind, data = b"s", part.encode("utf-8", "surrogatepass")
        elif isinstance(part, bytes):
            kind, data = b"b", part
        else:
            # One bit more than the value has, for the sign.
            size = part.bit_length() // 8 + 1
            kind, data = b"i", part.to_bytes(size, "little", signed=True)
        digest.update(kind + len(data).to_bytes(8, "little"))
        digest.update(data)
    return int.from_bytes(digest.digest(), "little")
