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
from typing import Any

from base import text_files
from base.errors import UserError

from tasks import registry

# The name of the metadata in the LiteRT file, and its flatbuffer identifier.
NAME, IDENTIFIER = "TFLITE_METADATA", b"M001"

# Files of the archive.
VOCAB, LABELS, DESCRIPTION = "vocab.txt", "labels.txt", "export.json"

# Version of export.json. Raise it when an older serving/litert/model.py would
# misunderstand the file. Version 1 has no strip_accents, 2 no special_tokens.
VERSION = 3
_READABLE = (1, 2, VERSION)

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


class _Writer:
    """Writes tables of a flatbuffer, whose fields have numbers, not names.

    Every method returns the place of what it has written. Children are written
    before their parents, as flatbuffers demand.
    """

    def __init__(self):
        # Optional: only exports need it, and the converter brings it along.
        import flatbuffers

        self.builder = flatbuffers.Builder(4096)

    def text(self, value: str) -> int:
        return self.builder.CreateString(value)

    def vector(self, places: Sequence[int]) -> int:
        """Write a vector of what was written to these places."""
        self.builder.StartVector(4, len(places), 4)
        for place in reversed(places):
            self.builder.PrependUOffsetTRelative(place)
        return self.builder.EndVector()

    def table(
        self,
        places: Mapping[int, int],
        codes: Mapping[int, int] | None = None,
    ) -> int:
        """Write a table of {field: place} and {field: value of a byte}."""
        codes = codes or {}
        self.builder.StartObject(max([*places, *codes], default=0) + 1)
        for field, place in places.items():
            self.builder.PrependUOffsetTRelativeSlot(field, place, 0)
        for field, code in codes.items():
            self.builder.PrependByteSlot(field, code, 0)
        return self.builder.EndObject()

    def file(self, name: str, description: str, kind: int) -> int:
        """Write an AssociatedFile (name, description, type)."""
        places = {0: self.text(name), 1: self.text(description)}
        return self.table(places, {2: kind})

    def tensor(
        self, name: str, description: str, files: Sequence[int] = ()
    ) -> int:
        """Write a TensorMetadata (name, description, content, files)."""
        places = {0: self.text(name), 1: self.text(description)}
        # Numbers without a meaning of their own, unlike pixels or samples.
        places[3] = self.table({1: self.table({})}, {0: _FEATURE})
        if files:
            places[6] = self.vector(files)
        return self.table(places)


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
    write = _Writer()
    input_places = [
        write.tensor(INPUT_NAMES[one], f"{one}, int32 [batch, length]")
        for one in inputs
    ]
    output_places = []
    for one in outputs:
        files = []
        if has_labels:
            files = [write.file(LABELS, "a label per line", _AXIS_LABELS)]
        shown = "probability" if has_labels else one
        output_places.append(write.tensor(shown, one, files))
    vocabulary = write.file(VOCAB, "a token per line", _VOCABULARY)
    options = write.table({0: write.vector([vocabulary])})
    tokenizer = write.table({1: options}, {0: _BERT_TOKENIZER})
    graph = write.table(
        {
            0: write.text("BERT"),
            2: write.vector(input_places),
            3: write.vector(output_places),
            5: write.vector([tokenizer]),
        }
    )
    root = write.table(
        {
            0: write.text("BERT"),
            1: write.text(description),
            3: write.vector([graph]),
            7: write.text("1.3.0"),  # the first version with this tokenizer
        }
    )
    write.builder.Finish(root, file_identifier=IDENTIFIER)
    return bytes(write.builder.Output())


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
                names = [entry.filename for entry in entries]
                if len(set(names)) < len(names):
                    raise UserError(
                        f"--model={path} has two files of one name inside: "
                        f"{', '.join(sorted(names)[:10])}"
                    )
                # Compressed ones, or several at one place, could be larger
                # than the memory.
                sizes = [entry.file_size for entry in entries]
                if any(
                    entry.compress_type or entry.compress_size != size
                    for entry, size in zip(entries, sizes, strict=True)
                ) or sum(sizes) > os.path.getsize(path):
                    raise zipfile.BadZipFile("files that are not stored")
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
    if found.get("version") not in _READABLE:
        raise UserError(
            f"--model={path} has version {found.get('version')!r} of "
            f"{DESCRIPTION}, this program reads {VERSION}: export it with the "
            "same version of the project"
        )
    registry.check_types(found, {"max_position_embeddings": int}, place)
    return found, files[VOCAB]
