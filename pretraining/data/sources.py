"""Text of several sources, each used more or less often than it is long.

A file such as mix.toml names them:

    smoothing = 0.7
    [sources.en]
    files = "en/train-*.txt"
    [sources.ar]
    files = "ar/train-*.txt"
    weight = 2

The documents of a source are used `weight` times on average, 1 by default. A
smoothing S also changes the shares of the sources, but not the bytes of all of
them together: the share p of a source becomes proportional to p^S.
Multilingual BERT has S = 0.7, so that rare languages are read more
often, and frequent ones less. Two sources of 90 and 10 bytes have the shares
0.9 and 0.1; S = 0.7 makes them 0.82 and 0.18, which uses their documents 0.91
and 1.77 times.

A document that is used 1.77 times is used once, and, with a probability of
0.77 that a hash of its text and the seed decides, once more. So it does not
matter who reads it, and when.

Worker processes import this file: no flags here, and no TensorFlow.
"""

import collections
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from base import file_system, text_files
from base.errors import UserError
from base.hashing import hash64

from pretraining.data import documents
from pretraining.data.documents import Part, Range

# The seed of create_pretraining_data.py, so that a vocabulary is learned from
# the documents that are used there.
DEFAULT_SEED = 12345

# A source is hardly ever meant to be read more often.
_MAX_USES = 1000

# Names of counts, of the documents that are read and of those that are used.
_READ, _USED = "documents read of ", "documents used of "


class Mix(NamedTuple):
    """How often the documents of each file are used.

    Attributes:
        names: path -> source. Files without a source are used as they are.
        uses: source -> how often its documents are used on average.
        random_seed: decides which documents are used once more than others.
    """

    names: dict[str, str]
    uses: dict[str, float]
    random_seed: int

    def uses_of(self, path: str, document: int) -> int:
        """Return how often a document with this hash of its text is used."""
        uses = self.uses.get(self.names.get(path, ""), 1.0)
        draw = hash64(self.random_seed, "sources", document) / 2**64
        return int(uses) + (draw < uses % 1)

    def read_parts(
        self,
        file_range: Range,
        part_bytes: int,
        max_line_bytes: int,
        counts: collections.Counter[str],
    ) -> Iterator[tuple[Part, int]]:
        """Yield the parts of documents, as `read_parts` does, and their uses.

        Documents are counted by their source, if they have one.
        """
        name = self.names.get(file_range.path)
        for part in documents.read_parts(
            file_range, part_bytes, max_line_bytes
        ):
            uses = self.uses_of(file_range.path, part.document)
            if part.index == 0 and name is not None:
                counts.update({_READ + name: 1, _USED + name: uses})
            yield part, uses

    def num_bytes(self, inputs: list[list]) -> int:
        """Return the bytes of files that are used, as they are read."""
        return round(
            sum(
                size * self.uses.get(self.names.get(path, ""), 1.0)
                for path, size, _ in inputs
            )
        )

    def describe(self) -> dict[str, Any]:
        """Return the entries of a job's fingerprint; none without sources."""
        if not self.names:
            return {}
        # A hash, since an error shows both values of what differs.
        files = hash64(*(part for pair in self.names.items() for part in pair))
        return {"uses of sources": self.uses, "files of sources": files}


def summarize(counts: Mapping[str, int]) -> Iterator[str]:
    """Yield a line for each source of the counts."""
    for name in sorted(counts):
        if name.startswith(_READ):
            source, read = name[len(_READ) :], counts[name]
            used = counts[_USED + source]
            yield (
                f"source {source}: {read:,} documents, used {used:,} times "
                f"({used / read:.2f} each)"
            )


def _check_text(states: Sequence[Sequence]) -> None:
    """Check that files are not JSON or parquet, whose syntax would be words."""
    for path, *_ in states:
        with file_system.open_for_reading(path) as file:
            begin = file.read(8).lstrip()
        if begin.startswith((b'{"', b'[{"', b"PAR1")):
            raise UserError(
                f"{path} is not text but JSON or parquet: prepare_corpus.py "
                "makes text of it, a sentence per line"
            )


def read(
    input_file: str | None, path: str | None, random_seed: int = DEFAULT_SEED
) -> tuple[list[list], Mix]:
    """Return the states of all files, as `input_states` does, and their mix.

    The files are those of --input_file, or of the sources of a TOML file.

    Raises:
        UserError: both or none are given, the file of sources is damaged, a
            file belongs to two sources, or is not text.
    """
    if bool(input_file) == bool(path):
        raise UserError("give --input_file or --sources, but not both")
    if not path:
        states = file_system.input_states(input_file)
        _check_text(states)
        return states, Mix({}, {}, random_seed)
    smoothing, sources = _checked(text_files.read_toml(path), path)
    states, names, sizes = [], {}, collections.Counter()
    for name, (files, _) in sources.items():
        flag = f"sources={path}, {name}"
        for state in file_system.input_states(files, flag):
            if state[0] in names:
                raise UserError(
                    f"{path}: {state[0]} belongs to two sources, "
                    f"{names[state[0]]} and {name}"
                )
            names[state[0]] = name
            sizes[name] += state[1]
            states.append(state)
    _check_text(states)
    total = sizes.total()
    for name in sources:
        if not sizes[name]:
            raise UserError(f"{path}: the files of source {name} are empty")
    shares = {name: sizes[name] / total for name in sources}
    norm = sum(share**smoothing for share in shares.values())
    uses = {
        name: weight * shares[name] ** (smoothing - 1) / norm
        for name, (_, weight) in sources.items()
    }
    for name, found in uses.items():
        if found > _MAX_USES:
            raise UserError(
                f"{path}: documents of source {name} would be used "
                f"{found:,.0f} times, wanted {_MAX_USES:,} at most: raise "
                "smoothing, or lower its weight"
            )
    return states, Mix(names, uses, random_seed)


def _checked(
    values: Mapping[str, Any], path: str
) -> tuple[float, dict[str, tuple[str, float]]]:
    """Return the smoothing, and the files and the weight of every source."""

    def number(
        table: Mapping, key: str, other: str, place: str, bounds: tuple
    ) -> float:
        """Return a number of a table that may have one other key besides."""
        for name in table.keys() - {key, other}:
            raise UserError(
                f"{path}: {place}{name} is unknown; wanted "
                f"{', '.join(sorted((key, other)))}"
            )
        value, (least, most) = table.get(key, 1.0), bounds
        if type(value) not in (int, float) or not least <= value <= most:
            raise UserError(
                f"{path}: {place}{key} = {value!r}: wanted a number from "
                f"{least:g} to {most:,}"
            )
        return float(value)

    smoothing = number(values, "smoothing", "sources", "", (0, 1))
    tables = values.get("sources")
    if not isinstance(tables, dict) or not tables:
        raise UserError(
            f'{path}: no source; wanted [sources.en] and files = "en/*.txt"'
        )
    found = {}
    for name, table in tables.items():
        place = f"sources.{name}."
        files = table.get("files") if isinstance(table, dict) else None
        if not isinstance(files, str):
            raise UserError(
                f'{path}: {place}files is missing; wanted files = "en/*.txt", '
                "patterns separated by commas"
            )
        weight = number(table, "weight", "files", place, (0.001, _MAX_USES))
        found[name] = files, weight
    return smoothing, found
