"""SQuAD files for tests: the golden ones, and small ones made by hand."""

import gzip
import json
from pathlib import Path

import numpy as np
from paths import GOLDEN

import tokenization
from tasks.squad import data as squad_data
from tasks.squad import decoding as squad_decoding
from tasks.squad import windows as squad_windows

# How the windows of the golden files were cut.
GOLDEN_LENGTHS = {
    "v1": squad_windows.Lengths(192, 64, 32),
    "v2": squad_windows.Lengths(160, 48, 24),
}


def golden_file(version: str, folder: Path) -> str:
    """Unpack the golden file of a version, "v1" or "v2"; return its path."""
    path = folder / "input.json"
    data = (GOLDEN / f"squad_{version}" / "input.json.gz").read_bytes()
    path.write_bytes(gzip.decompress(data))
    return str(path)


def golden_decoded(
    version: str, tokenizer: tokenization.FullTokenizer, folder: Path
) -> squad_decoding.Decoded:
    """Return the n-best lists of the golden logits of a version."""
    is_version_2 = version == "v2"
    data = squad_data.read_squad(
        [golden_file(version, folder)], False, is_version_2
    )
    windows = squad_windows.convert(data, tokenizer, GOLDEN_LENGTHS[version])
    logits = np.load(GOLDEN / f"squad_{version}" / "logits.npz")["logits"]
    return squad_decoding.decode(
        windows,
        logits[:, 0],
        logits[:, 1],
        tokenizer,
        squad_decoding.AnswerOptions(ignore_padding=False),
    )


def content(*paragraphs: tuple[str, list[dict]]) -> dict:
    """Return the content of a file with (context, questions) paragraphs."""
    value = [{"context": c, "qas": qas} for c, qas in paragraphs]
    return {"data": [{"title": "t", "paragraphs": value}]}


def question(qas_id: str, text: str = "Who?", *answers, **more) -> dict:
    """Return a question with (text, start) answers and more keys."""
    found = [{"text": t, "answer_start": at} for t, at in answers]
    return {"id": qas_id, "question": text, "answers": found} | more


def write(folder: Path, value, name: str = "f.json") -> str:
    """Write a text, or a value as JSON; return the path."""
    path = folder / name
    path.write_text(value if isinstance(value, str) else json.dumps(value))
    return str(path)
