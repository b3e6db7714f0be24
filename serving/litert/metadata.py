"""Metadata with which MediaPipe runs a LiteRT file, and the files inside it.

MediaPipe's TextClassifier and TextEmbedder read a flatbuffer that describes the
inputs and outputs, and find the vocabulary and the labels in a ZIP archive
behind the model. The archive also has export.json, with the task
and all else that model.py reads: `unzip -p mrpc.tflite export.json`.

The names and numbers here are those of MediaPipe's metadata_schema.fbs.
MediaPipe's own writer in Python cannot be imported in mediapipe 1.2.2.
"""

import io
import os
import struct
import zipfile
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from base import text_files
from base.errors import UserError

from tasks import registry

if TYPE_CHECKING:
    import flatbuffers

# The name of the metadata in the LiteRT file, and its flatbuffer identifier.
NAME, IDENTIFIER = "TFLITE_METADATA", b"M001"

# Files of the archive.
VOCAB, LABELS, DESCRIPTION = "vocab.txt", "labels.txt", "export.json"

# Version of export.json. Raise it when an older serving/litert/model.py would
# misunderstand the file.
VERSION = 3

# Input of the signature -> the name by which MediaPipe finds it.
INPUT_NAMES = {
    "input_ids": "ids",
    "input_mask": "mask",
    "segment_ids": "segment_ids",
}

# Values of enumerations of the schema.
_AXIS_LABELS, _VOCABULARY = 2, 5  # AssociatedFileType
_BERT_TOKENIZER = 4  # ProcessUnitOptions
_FEATURE = 1  # ContentProperties

# One moment for all files: the same export gives the same bytes.
_TIME = (1980, 1, 1, 0, 0, 0)

# What the weights become -> bytes of each. int8 is dynamic-range: the weights
# of matrix products are int8, activations are quantized while it runs. Full
# int8, with activations in fixed ranges, is not offered: see docs/litert.md.
BYTES_PER_WEIGHT = {"none": 4.0, "float16": 2.0, "int8": 1.0}


def describe(
    description: str,
    inputs: Sequence[str],
    outputs: Sequence[str],
    has_labels: bool,
) -> bytes:
    """Return the flatbuffer that describes the first graph of a file.

    Inputs and outputs are names of the signature, in the order of the graph.
    With labels the output has a value per line of labels.txt.
    """
    # Optional: only exports need it, and the converter brings it along.
    import flatbuffers

    # Fields of a Content are properties and their kind: numbers without a
    # meaning of their own, unlike pixels or samples.
    content = {1: {}, 0: _FEATURE}
    # Of an AssociatedFile: name, description, type.
    labels = {0: LABELS, 1: "a label per line", 2: _AXIS_LABELS}
    vocabulary = {0: VOCAB, 1: "a token per line", 2: _VOCABULARY}
    # Of a SubGraphMetadata: name, inputs, outputs, processors of the inputs. Of
    # a TensorMetadata: name, description, content, files.
    graph = {
        0: "BERT",
        2: [
            {
                0: INPUT_NAMES[one],
                1: f"{one}, int32 [batch, length]",
                3: content,
            }
            for one in inputs
        ],
        3: [
            {0: "probability", 1: one, 3: content, 6: [labels]}
            if has_labels
            else {0: one, 1: one, 3: content}
            for one in outputs
        ],
        5: [{1: {0: [vocabulary]}, 0: _BERT_TOKENIZER}],
    }
    # Of a ModelMetadata: name, description, graphs, first version.
    root = {
        0: "BERT",
        1: description,
        3: [graph],
        7: "1.3.0",  # which has this tokenizer
    }
    builder = flatbuffers.Builder(4096)
    builder.Finish(_write(builder, root), file_identifier=IDENTIFIER)
    return bytes(builder.Output())


def _write(builder: "flatbuffers.Builder", value: str | dict[int, Any]) -> int:
    """Write a text or a table, {number of a field: value}; return its place.

    A field holds a text, a table, a list of tables or the value of a byte.
    Children are written before their parents, as flatbuffers demand.
    """
    if isinstance(value, str):
        return builder.CreateString(value)
    items = {
        field: [_write(builder, item) for item in part]
        for field, part in value.items()
        if isinstance(part, list)
    }
    places = {}
    for field, part in value.items():
        if field in items:
            builder.StartVector(4, len(part), 4)
            for place in reversed(items[field]):
                builder.PrependUOffsetTRelative(place)
            places[field] = builder.EndVector()
        elif not isinstance(part, int):
            places[field] = _write(builder, part)
    builder.StartObject(max(value, default=0) + 1)
    for field, part in value.items():
        if field in places:
            builder.PrependUOffsetTRelativeSlot(field, places[field], 0)
        else:
            builder.PrependByteSlot(field, part, 0)
    return builder.EndObject()


def with_files(data: bytes, files: Mapping[str, bytes]) -> bytes:
    """Return a LiteRT file with a ZIP archive of {name: content} behind it.

    Uncompressed, since MediaPipe maps the files from the disk.
    """
    whole = io.BytesIO(data)
    with zipfile.ZipFile(whole, "a", zipfile.ZIP_STORED) as archive:
        for name, content in files.items():
            archive.writestr(zipfile.ZipInfo(name, _TIME), content)
    return whole.getvalue()


def read_files(path: str) -> dict[str, bytes]:
    """Return the files of the archive behind a LiteRT file.

    They are stored, not compressed, so that together they are no larger than
    the LiteRT file.
    """
    try:
        with open(path, "rb") as file:
            head = file.read(8)
            if head[4:] != b"TFL3":
                raise UserError(
                    f"--model={path} is not a LiteRT file: found "
                    f"{head[4:]!r} where its identifier should be, wanted "
                    "b'TFL3'"
                )
            with zipfile.ZipFile(file) as archive:
                entries = archive.infolist()
                names = {entry.filename for entry in entries}
                # Compressed ones, or several at one place, could be larger
                # than the memory.
                if (
                    len(names) < len(entries)
                    or any(x.compress_type for x in entries)
                    or any(x.compress_size != x.file_size for x in entries)
                    or sum(x.file_size for x in entries) > os.path.getsize(path)
                ):
                    raise zipfile.BadZipFile(
                        f"{', '.join(names)[:200]}: files that are not stored, "
                        "or two of one name"
                    )
                return {name: archive.read(name) for name in names}
    except OSError as error:
        reason = error.strerror or str(error)
        raise UserError(f"--model={path} cannot be read: {reason}") from error
    except UserError:
        raise
    # zipfile raises all of these for damaged entries.
    except (
        zipfile.BadZipFile,
        struct.error,
        EOFError,
        RuntimeError,
        OverflowError,
        ValueError,
    ) as error:
        raise UserError(
            f"--model={path} has no vocabulary inside ({error}): it is cut "
            "short, or was not written by export_saved_model.py"
        ) from error


def read_description(path: str) -> tuple[dict[str, Any], bytes]:
    """Return the export.json inside a LiteRT file, and the vocabulary."""
    files = read_files(path)
    lacking = {VOCAB, DESCRIPTION} - set(files)
    if lacking:
        raise UserError(
            f"--model={path} has no {', '.join(sorted(lacking))} inside: "
            "export it with export_saved_model.py --format=litert"
        )
    place = f"--model={path}: {DESCRIPTION} inside"
    found = text_files.json_object(place, files[DESCRIPTION])
    if found.get("version") != VERSION:
        raise UserError(
            f"--model={path} has version {found.get('version')!r} of "
            f"{DESCRIPTION}, this program reads {VERSION}: export it with the "
            "same version of the project"
        )
    registry.check_types(found, {"max_position_embeddings": int}, place)
    return found, files[VOCAB]
