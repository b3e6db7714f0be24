"""From text files to buckets of documents, and from a bucket to its records.

A corpus does not fit in memory, so it is dealt out, once, to buckets of a
bounded size: every document goes to a bucket drawn from the random seed, which
makes each bucket a random sample of the corpus. A bucket is then the unit of
work: tokenized once, its documents made into instances `dupe_factor` times,
masked, shuffled and written, by whichever worker process is free. Random next
sentences come from the other documents of the bucket.

What a bucket's records are depends on the settings and the bucket's number
alone. Worker processes import this file: no flags here, and no TensorFlow.
"""

import collections
import itertools
import json
import os
import struct
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from base import file_system
from base.errors import UserError

import numpy as np

import tokenization
from pretraining import instances as pretraining_instances
from pretraining.instances import Documents, InstanceConfig
from records import tfrecord

# A document beyond this share of a bucket is dealt out in parts.
_PARTS_PER_BUCKET = 8

_BLOCK_BYTES = 2**22

# Text that waits in memory until it is written to its buckets.
_DEALT_BYTES = 2**26

# Instances laid out at once: a few MB of arrays, which the caches like.
_ROWS = 2048

_PART_HEADER = struct.Struct("<QQ")  # document number, bytes that follow

_DOCUMENTS = "documents"

_EXTENTS = "extents.npy"

_CORPUS = "corpus.json"


class BucketSettings(NamedTuple):
    """All that a worker process is told."""

    scratch_dir: str
    vocab_file: str
    do_lower_case: bool
    instances: InstanceConfig
    random_seed: int
    compression: str


# ---------------------------------------------------------------------------
# Dealing documents out to buckets
# ---------------------------------------------------------------------------


def deal_documents(
    files: Sequence[str],
    num_buckets: int,
    bucket_bytes: int,
    random_seed: int,
    scratch_dir: str,
    report: Callable[[int], None],
) -> dict[str, int]:
    """Read all files once and leave their documents sorted by bucket.

    The scratch file holds, for each stretch of text that fitted in memory, the
    documents of bucket 0, of bucket 1, ...; `extents` says where. So it is
    written from front to end, and a bucket is read in few pieces.

    Returns:
        Counts: documents, parts, files_without_text.
    """
    dealer = _Dealer(num_buckets, random_seed, scratch_dir)
    counts = collections.Counter(documents=0, parts=0, files_without_text=0)
    with dealer:
        for path in files:
            before = counts["documents"]
            part_bytes = max(bucket_bytes // _PARTS_PER_BUCKET, 1)
            for is_first, text in _read_parts(
                path, part_bytes, bucket_bytes, report
            ):
                counts["documents"] += is_first
                counts["parts"] += 1
                dealer.deal(counts["documents"] - 1, text)
            counts["files_without_text"] += counts["documents"] == before
    path = os.path.join(scratch_dir, _CORPUS)
    with file_system.atomic_file(path, sync=False) as file:
        file.write(json.dumps(counts).encode())
    return dict(counts)


def dealt_counts(scratch_dir: str) -> dict[str, int] | None:
    """Return what `deal_documents` returned, if it has ended here before."""
    try:
        with open(os.path.join(scratch_dir, _CORPUS), "rb") as file:
            counts = json.loads(file.read())
        # Written last, but after a power failure anything may be missing.
        end = _load_extents(scratch_dir)[-1, -1]
        size = os.path.getsize(os.path.join(scratch_dir, _DOCUMENTS))
        return counts if size == end else None
    except (FileNotFoundError, ValueError):
        return None


def _load_extents(scratch_dir: str) -> np.ndarray:
    return np.load(os.path.join(scratch_dir, _EXTENTS), mmap_mode="r")


class _Dealer:
    """Collects documents by bucket and writes them out together."""

    def __init__(self, num_buckets: int, random_seed: int, scratch_dir: str):
        self._num_buckets = num_buckets
        self._rng = np.random.default_rng([random_seed, 0])
        self._round: list[int] = []
        self._scratch_dir = scratch_dir
        self._buckets = collections.defaultdict(list)
        self._num_bytes = 0
        self._extents = []

    def __enter__(self) -> "_Dealer":
        self._file = open(os.path.join(self._scratch_dir, _DOCUMENTS), "wb")
        return self

    def __exit__(self, error_type, *unused) -> None:
        if error_type is None:
            self._write()
            extents = np.array(self._extents, np.int64)
            np.save(os.path.join(self._scratch_dir, _EXTENTS), extents)
        self._file.close()

    def deal(self, number: int, text: bytes) -> None:
        """Give a part of document `number` to the next bucket.

        Like cards: every round each bucket gets one, in an order of its own.
        So no bucket stays without, as it could with independent draws.
        """
        if not self._round:
            self._round = self._rng.permutation(self._num_buckets).tolist()
        bucket = self._buckets[self._round.pop()]
        bucket.append(_PART_HEADER.pack(number, len(text)))
        bucket.append(text)
        self._num_bytes += len(text)
        if self._num_bytes >= _DEALT_BYTES:
            self._write()

    def _write(self) -> None:
        bounds = [self._file.tell()]
        for bucket in range(self._num_buckets):
            for text in self._buckets.get(bucket, ()):
                self._file.write(text)
            bounds.append(self._file.tell())
        self._extents.append(bounds)
        self._buckets.clear()
        self._num_bytes = 0


def _read_parts(
    path: str,
    part_bytes: int,
    max_line_bytes: int,
    report: Callable[[int], None],
) -> Iterator[tuple[bool, bytes]]:
    """Yield (is a document's first part, its text) of a file.

    A line of whitespace ends a document, and so does the file.
    """
    lines, size, is_first = [], 0, True
    for block in _read_blocks(path, max_line_bytes, report):
        for line in block.split("\n"):
            is_blank = not line or line.isspace()
            if not is_blank:
                lines.append(line)
                size += len(line)
            if lines and (is_blank or size >= part_bytes):
                yield is_first, "\n".join(lines).encode()
                lines, size, is_first = [], 0, False
            if is_blank:
                is_first = True
    if lines:
        yield is_first, "\n".join(lines).encode()


def _read_blocks(
    path: str, max_line_bytes: int, report: Callable[[int], None]
) -> Iterator[str]:
    """Yield the text of a file in blocks of whole lines, without the last \\n.

    Only \\n ends a line, as in the original.
    """
    line_number, rest = 1, b""
    with file_system.open_for_reading(path) as file:
        while True:
            data = file.read(_BLOCK_BYTES)
            report(len(data))
            end = data.rfind(b"\n")
            if data and end < 0:
                rest += data
                if len(rest) > max_line_bytes:
                    raise UserError(
                        f"{path}: line {line_number} is longer than "
                        f"{max_line_bytes >> 20} MB (--bucket_mb); wanted one "
                        "sentence per line"
                    )
                continue
            block = rest + data[: max(end, 0)]
            rest = data[end + 1 :]
            try:
                text = block.decode("utf-8")
            except UnicodeDecodeError as error:
                raise _not_utf8(path, line_number, block, error) from None
            if text or data:
                yield text
            if not data:
                return
            line_number += text.count("\n") + 1


def _not_utf8(
    path: str, line_number: int, block: bytes, error: UnicodeDecodeError
) -> UserError:
    line_number += block.count(b"\n", 0, error.start)
    start = block.rfind(b"\n", 0, error.start) + 1
    return UserError(
        f"{path}: line {line_number} is not UTF-8: byte "
        f"0x{block[error.start]:02x} at column {error.start - start + 1}; "
        "convert the file (iconv -t UTF-8)"
    )


# ---------------------------------------------------------------------------
# Reading a bucket
# ---------------------------------------------------------------------------


def _read_bucket(scratch_dir: str, bucket: int) -> Iterator[tuple[int, str]]:
    """Yield (document number, text) of a bucket's parts, in corpus order."""
    extents = _load_extents(scratch_dir)
    with open(os.path.join(scratch_dir, _DOCUMENTS), "rb") as file:
        for start, end in extents[:, bucket : bucket + 2].tolist():
            file.seek(start)
            while file.tell() < end:
                header = file.read(_PART_HEADER.size)
                number, size = _PART_HEADER.unpack(header)
                yield number, file.read(size).decode()


def num_buckets_dealt(scratch_dir: str) -> int:
    """Return how many buckets the documents were dealt out to."""
    return _load_extents(scratch_dir).shape[1] - 1


def dealt_bytes(scratch_dir: str, buckets: Sequence[int]) -> int:
    """Return the size of some buckets' documents."""
    extents = _load_extents(scratch_dir)
    return int(np.diff(extents, axis=1).sum(axis=0)[list(buckets)].sum())


def tokenize_documents(
    parts: Sequence[tuple[int, str]], tokenizer: tokenization.FullTokenizer
) -> tuple[Documents, int]:
    """Tokenize the parts, leave out what has no tokens.

    Returns:
        The documents, and the number of lines that held no token.
    """
    lines = [text.split("\n") for _, text in parts]
    ids, offsets = tokenizer.lines_to_ids(itertools.chain.from_iterable(lines))
    has_tokens = np.diff(offsets) > 0
    ends = np.cumsum([0, *map(len, lines)])
    kept = np.concatenate([[0], np.cumsum(has_tokens)])
    bounds = kept[ends]
    numbers = np.array([number for number, _ in parts], np.int64)
    with_text = np.diff(bounds) > 0
    documents = Documents(
        ids,
        np.concatenate([offsets[:1], offsets[1:][has_tokens]]),
        np.concatenate([bounds[:1], bounds[1:][with_text]]),
        numbers[with_text],
        int(with_text.sum()),
    )
    return documents, int((~has_tokens).sum())


def _borrow(
    own: Documents,
    scratch_dir: str,
    bucket: int,
    tokenizer: tokenization.FullTokenizer,
) -> Documents:
    """Add documents of later buckets when this one holds parts of one only.

    A random next sentence has to come from another document; never is one of
    the same document called random.
    """
    num_buckets = num_buckets_dealt(scratch_dir)
    for step in range(1, num_buckets):
        parts = [
            (number, text)
            for number, text in _read_bucket(
                scratch_dir, (bucket + step) % num_buckets
            )
            if number != own.numbers[0]
        ]
        lent, _ = tokenize_documents(parts, tokenizer)
        if len(lent.numbers):
            return Documents(
                np.concatenate([own.ids, lent.ids]),
                np.concatenate(
                    [own.sentences, own.sentences[-1] + lent.sentences[1:]]
                ),
                np.concatenate([own.bounds, own.bounds[-1] + lent.bounds[1:]]),
                np.concatenate([own.numbers, lent.numbers]),
                own.num_own,
            )
    raise one_document_error()


def no_text_error(files: Sequence[str]) -> UserError:
    """Return the error for a corpus without a single token."""
    return UserError(
        f"no document with text in the {len(files)} input files, the first: "
        f"{files[0]}"
    )


def one_document_error() -> UserError:
    """Return the error for a corpus that has no second document."""
    return UserError(
        "only one document in all input files, and a random next sentence has "
        "to come from another: put a blank line between documents, one "
        "sentence per line"
    )


# ---------------------------------------------------------------------------
# Writing a bucket: the work of a worker process
# ---------------------------------------------------------------------------


class BucketMaker:
    """What a worker process keeps between buckets."""

    def __init__(self, settings: BucketSettings):
        self.settings = settings
        self.tokenizer = tokenization.FullTokenizer(
            settings.vocab_file, settings.do_lower_case
        )
        self.pieces = pretraining_instances.describe_vocabulary(
            self.tokenizer.vocab
        )


def bucket_path(scratch_dir: str, bucket: int) -> str:
    """Return where the records of a bucket lie until their file is made."""
    return os.path.join(scratch_dir, f"bucket-{bucket:05}")


def bucket_result(scratch_dir: str, bucket: int) -> dict[str, Any] | None:
    """Return what `make_bucket` has left, or None when it has not ended."""
    path = bucket_path(scratch_dir, bucket)
    try:
        with open(f"{path}.json", "rb") as file:
            result = json.loads(file.read())
        if os.path.getsize(path) == result["bounds"][-1]:
            return result
    except (FileNotFoundError, ValueError):
        pass
    return None


def make_bucket(
    maker: BucketMaker, bucket: int, report: Callable[[float], None]
) -> None:
    """Write all records of a bucket, one pass over its documents by another.

    Leaves the file `bucket_path` and beside it, written last, a JSON file:
    `bounds`, the places in the file where passes begin and end, and `counts`.
    """
    settings = maker.settings
    rng = np.random.default_rng([settings.random_seed, 1, bucket])
    parts = list(_read_bucket(settings.scratch_dir, bucket))
    num_bytes = dealt_bytes(settings.scratch_dir, [bucket])
    documents, num_empty = tokenize_documents(parts, maker.tokenizer)
    del parts
    counts = _count_text(documents, num_empty, maker)
    if documents.num_own and len(set(documents.numbers.tolist())) == 1:
        documents = _borrow(
            documents, settings.scratch_dir, bucket, maker.tokenizer
        )
    bounds = [0]
    path = bucket_path(settings.scratch_dir, bucket)
    with file_system.atomic_file(path, sync=False) as file:
        for rows in _shuffled_passes(documents, settings.instances, rng):
            with tfrecord.RecordWriter(file, settings.compression) as writer:
                for features in _make_features(documents, rows, maker, rng):
                    writer.write_examples(features)
                    counts.update(_count_features(features, maker))
                    done = len(features["input_ids"]) / len(rows.a_start)
                    report(num_bytes * done / settings.instances.dupe_factor)
            counts["truncated_tokens"] += int(rows.num_truncated.sum())
            bounds.append(file.tell())
    result = {"bounds": bounds, "counts": counts}
    with file_system.atomic_file(f"{path}.json", sync=False) as file:
        file.write(json.dumps(result).encode())


def _shuffled_passes(
    documents: Documents, config: InstanceConfig, rng: np.random.Generator
) -> Iterator[pretraining_instances.Instances]:
    """Yield the instances of each pass over the documents, shuffled."""
    if not documents.num_own:
        return
    drawn = pretraining_instances.draw_instances(documents, config, rng)
    keys = rng.random(len(drawn.duplicate))
    order = np.lexsort((keys, drawn.duplicate))
    sizes = np.bincount(drawn.duplicate, minlength=config.dupe_factor)
    for rows in np.split(order, np.cumsum(sizes)[:-1]):
        yield drawn.take(rows)


def _make_features(
    documents: Documents,
    rows: pretraining_instances.Instances,
    maker: BucketMaker,
    rng: np.random.Generator,
) -> Iterator[dict[str, np.ndarray]]:
    """Yield the masked features of some instances, `_ROWS` at a time."""
    config, pieces = maker.settings.instances, maker.pieces
    for start in range(0, len(rows.a_start), _ROWS):
        some = rows.take(slice(start, start + _ROWS))
        assembled = pretraining_instances.assemble(
            documents.ids, some, config.max_seq_length, pieces
        )
        yield pretraining_instances.mask_instances(
            assembled, some.is_random_next, config, pieces, rng
        )


def _count_text(
    documents: Documents, num_empty: int, maker: BucketMaker
) -> collections.Counter:
    lengths = np.diff(documents.sentences)
    room = maker.settings.instances.max_seq_length - 3
    counts = collections.Counter(
        sentences=len(lengths),
        tokens=len(documents.ids),
        unknown_tokens=np.count_nonzero(documents.ids == maker.pieces.unk_id),
        lines_without_tokens=num_empty,
        sentences_beyond_room=np.count_nonzero(lengths > room),
        parts_with_text=documents.num_own,
        one_sentence_parts=np.count_nonzero(np.diff(documents.bounds) == 1),
    )
    return collections.Counter({name: int(n) for name, n in counts.items()})


def _count_features(
    features: dict[str, np.ndarray], maker: BucketMaker
) -> dict[str, int]:
    ids, positions = features["input_ids"], features["masked_lm_positions"]
    shown = np.take_along_axis(ids, positions, axis=1)
    predicted = features["masked_lm_weights"] > 0
    kept = predicted & (shown == features["masked_lm_ids"])
    is_mask = predicted & (shown == maker.pieces.mask_id)
    return {
        "instances": len(ids),
        "filled": int(np.count_nonzero(features["input_mask"])),
        "predictions": int(np.count_nonzero(predicted)),
        "shown_as_mask": int(np.count_nonzero(is_mask)),
        "shown_unchanged": int(np.count_nonzero(kept)),
        "random_next": int(np.count_nonzero(features["next_sentence_labels"])),
    }
