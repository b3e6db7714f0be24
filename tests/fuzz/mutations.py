"""Damage to files: of bytes, and of what the bytes mean.

The ending of a file's name tells what is inside: "a.jsonl.gz" is gzip of lines
of JSON. What is inside is damaged and packed again, with lengths and checksums
that fit: only so is the parser behind them reached. Now and then the bytes are
damaged as they are.
"""

import bz2
import gzip
import io
import json
import lzma
import os
import random
import re
import struct
import zipfile
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import tensorflow as tf

from records import tfrecord

# Numbers that a reader may take for a size, a place or a rate.
_NUMBERS = """0 -1 1 2 1.5 127 128 255 65536 2147483647 2147483648 -2147483649
9223372036854775807 9223372036854775808 18446744073709551616 1e308 1e999 -1e999
NaN Infinity -0.0 1e-320 0x10 1_0 007 +1""".split()
_NUMBERS += ["9" * 400, "9" * 5000]
_VALUES = r"""null true false [] {} [[]] [{}] "" "a" "0" "\u0000" "\ud800"
"\u2028" "\n\t" "hf://a/b" "../../../../../../../../../dev/zero" """.split()
_VALUES += ['" "', f'"{"x" * 99_999}"']
_DEPTHS = (3, 100, 100_000)

# (name without its ending, content, random numbers) -> content.
Damage = Callable[[str, bytes, random.Random], bytes]

_NUMBER = re.compile(rb"-?\d+(?:\.\d+)?")


def damage(name: str, data: bytes, rng: random.Random) -> bytes:
    """Return a damaged copy of the content of a file."""
    inner, ending = os.path.splitext(name)
    if ending in _FORMATS and rng.random() < 0.85:
        try:
            return _FORMATS[ending](inner, data, rng)
        except (ValueError, LookupError, struct.error):
            pass  # it has nothing of this kind (any more)
    for _ in range(rng.choice((1, 1, 2, 5))):
        data = _damage_bytes(data, rng)
    return data


def _damage_bytes(data: bytes, rng: random.Random) -> bytes:
    at = rng.randrange(len(data) + 1)
    end = min(len(data), at + rng.choice((0, 1, 2, 4, 8, rng.randrange(9999))))
    old = data[at:end]
    new = rng.choice(
        (
            b"",
            old * 2,
            old[:9] * rng.choice((10, 10_000)),
            rng.randbytes(len(old) or 1),
            bytes(len(old)),
            b"\xff" * len(old),
            bytes(byte ^ 1 << rng.randrange(8) for byte in old[:1]) + old[1:],
            struct.pack("<q", rng.choice((-1, 1, 1 << 31, 1 << 40, 1 << 62))),
            rng.choice(
                ("\0", "\r", "\n\n", "\t", " ", '"', "\ufeff", "\u2028")
            ).encode(),
        )
    )
    return rng.choice((data[:at] + new + data[end:],) * 9 + (data[:at],))


# --- Text ---------------------------------------------------------------------


def _json_lines(_: str, data: bytes, rng: random.Random) -> bytes:
    if rng.random() < 0.2:
        return _text("", data, rng)
    lines = data.split(b"\n")
    at = rng.randrange(max(1, len(lines) - 1))
    lines[at] = damage("a.json", lines[at], rng)
    return b"\n".join(lines)


def _text(_: str, data: bytes, rng: random.Random) -> bytes:
    """Damage lines, cells or numbers."""
    if (numbers := list(_NUMBER.finditer(data))) and rng.random() < 0.3:
        found, new = rng.choice(numbers), rng.choice(_NUMBERS).encode()
        return data[: found.start()] + new + data[found.end() :]
    separator = rng.choice((b"\n", b"\n", b"\t", b" ", b","))
    parts = data.split(separator)
    at, other = rng.randrange(len(parts)), rng.randrange(len(parts))
    parts[at : at + rng.randrange(3)] = rng.choice(
        ([], [parts[other]], [parts[at]] * 3, [b""], [b" "], [parts[at] * 999])
    )
    return separator.join(parts)


def _json(_: str, data: bytes, rng: random.Random) -> bytes:
    """Replace, remove, move, copy or nest values of JSON."""
    root = [json.loads(data)]
    raw = {}
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        places = list(_places(root))
        parent, key = rng.choice(places)
        other, its_key = rng.choice(places)
        name = f"<{len(raw)}>"
        kind = rng.randrange(9)
        if kind < 4:
            raw[name] = rng.choice(_NUMBERS if kind < 2 else _VALUES)
            parent[key] = name
        elif kind == 4:
            depth = rng.choice(_DEPTHS)
            begin, end = rng.choice((("[", "]"), ('{"a":', "}")))
            raw[name] = begin * depth + "0" + end * depth
            parent[key] = name
        elif kind == 5 and parent is not root:
            del parent[key]
        elif kind == 6 and isinstance(parent, dict):
            parent[rng.choice(("", "a", "0", "-1", "9" * 5000))] = parent[key]
        elif kind == 7 and isinstance(parent, list):
            parent *= rng.choice((2, 3, 99))
        else:
            parent[key] = json.loads(json.dumps(other[its_key]))
    text = json.dumps(root[0])
    for name, value in raw.items():
        text = text.replace(json.dumps(name), value)
    return text.encode()


def _places(parent: Any) -> Iterator[tuple[Any, Any]]:
    """Yield (list or object, index or key) of every value below one."""
    keys = parent if isinstance(parent, dict) else range(len(parent))
    for key in list(keys):
        yield parent, key
        if isinstance(parent[key], (dict, list)):
            yield from _places(parent[key])


# --- Compressed and framed ----------------------------------------------------


def _compressed(module: Any) -> Damage:
    return lambda inner, data, rng: module.compress(
        damage(inner, module.decompress(data), rng)
    )


def _framed(record: bytes, length: int | None = None) -> bytes:
    size = struct.pack("<Q", len(record) if length is None else length)
    crc = tfrecord._masked_crc_bytes
    return size + crc(size) + record + crc(record)


def _records(_: str, data: bytes, rng: random.Random) -> bytes:
    """Damage the example in a record, or the records' order and lengths."""
    records = []
    while data:
        end = 12 + struct.unpack_from("<Q", data)[0]
        records.append(data[12:end])
        data = data[end + 4 :]
    at, kind = rng.randrange(len(records)), rng.randrange(8)
    if kind == 0:
        records.insert(at, rng.choice((b"", rng.choice(records))))
    elif kind < 3:
        records[at] = damage("", records[at], rng)
    elif kind < 7:
        records[at] = _damage_example(records[at], rng)
    parts = [_framed(record) for record in records]
    if kind == 7:
        length = rng.choice((0, 1, 1 << 31, 1 << 40, (1 << 64) - 1))
        parts[at] = _framed(records[at], length)
    return b"".join(parts)


def _damage_example(record: bytes, rng: random.Random) -> bytes:
    example = tf.train.Example.FromString(record)
    features = example.features.feature
    names = sorted(features)
    feature = features[rng.choice(names)]
    other = tf.train.Feature()
    other.CopyFrom(features[rng.choice(names)])
    numbers = [rng.choice((-1, 0, 1 << 31, -(1 << 63), (1 << 63) - 1))]
    count = rng.choice((0, 1, 2, len(other.int64_list.value), 9999))
    kind = rng.randrange(6)
    if kind == 0:
        feature.CopyFrom(other)
    elif kind == 1:
        feature.int64_list.value[:] = numbers * count
    elif kind == 2:
        feature.float_list.value[:] = [
            rng.choice((np.nan, np.inf, -1.0))
        ] * count
    elif kind == 3:
        feature.bytes_list.value[:] = [rng.randbytes(3)] * count
    elif kind == 4 and len(feature.int64_list.value):
        values = feature.int64_list.value
        values[rng.randrange(len(values))] = numbers[0]
    else:
        del features[rng.choice(names)]
    return example.SerializeToString()


def _safetensors(_: str, data: bytes, rng: random.Random) -> bytes:
    size = struct.unpack_from("<Q", data)[0]
    header = damage("a.json", data[8 : 8 + size], rng)
    return struct.pack("<Q", len(header)) + header + data[8 + size :]


def _archive(_: str, data: bytes, rng: random.Random) -> bytes:
    """Damage a file of the ZIP archive behind a LiteRT file."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        files = {n: archive.read(n) for n in archive.namelist()}
        start = min(info.header_offset for info in archive.infolist())
    name = rng.choice(sorted(files))
    files[name] = damage(name, files[name], rng)
    whole = io.BytesIO()
    whole.write(data[:start])
    with zipfile.ZipFile(whole, "a") as archive:
        for one, content in files.items():
            archive.writestr(zipfile.ZipInfo(one), content)
    return whole.getvalue()


_FORMATS = {
    ".csv": _text,
    ".tsv": _text,
    ".txt": _text,
    ".json": _json,
    ".jsonl": _json_lines,
    ".gz": _compressed(gzip),
    ".bz2": _compressed(bz2),
    ".xz": _compressed(lzma),
    ".tfrecord": _records,
    ".safetensors": _safetensors,
    ".npz": _archive,
    ".tflite": _archive,
}
