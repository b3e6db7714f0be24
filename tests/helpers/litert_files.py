"""LiteRT files of tiny models, and what the same models give as SavedModels."""

import functools
import json
from collections.abc import Callable
from pathlib import Path

import classifier_runs
import fine_tuned_models
import mask_models
import ner_runs
import numpy as np
import prediction_runs
import scripts
import squad_runs
import swag_runs
import tiny
from exports import export_saved_model

from tasks.settings import BiLstmSize

litert_model = scripts.load("litert_model")

# The converter leaves matrices of fewer than 1,024 numbers in float32.
WIDE = tiny.config_of(
    classifier_runs.VOCAB, hidden_size=64, intermediate_size=128
)

# Kind of model -> texts for it, as JSON.
TEXTS = {
    "classifier": [
        {"text": text}
        for text in ("good film", "a bad book was the very bad book not", "a")
    ],
    "pairs": [
        {"text_a": "good film the a", "text_b": "bad"},
        {"text_a": "was", "text_b": "very not the book " * 12},
    ],
    "regression": [{"text": "a very good film"}, {"text": "bad"}],
    "encoder": [{"text": "a very good film"}, {"text": "bad"}],
    "masked_lm": [
        {"text": "the [MASK] sat on a [MASK]."},
        {"text": "[MASK] cats"},
    ],
    "sentence_score": [{"text": "the cats sat on a mat."}, {"text": "Cats"}],
    "question_answering": [
        {"question": "How?", "context": "a  Good film . " * 12},
        {"question": "How good ?", "context": "the book was not Bad"},
    ],
    "token_classification": [
        {"text": "annx jr saw the oslo city."},
        {"text": "a bobx was in rome and " * 9},
    ],
    "multiple_choice": [
        {"context": "the film", "choices": ["was good", "was bad", "not"]},
        {"context": "a book", "choices": ["good", "very bad"]},
    ],
}

TEXTS["classifier with a BiLSTM"] = TEXTS["classifier"]


def write_model(folder: Path, kind: str, length: int = 24) -> Path:
    """Write a checkpoint of a kind of TEXTS; return its directory.

    Classifiers and models of embeddings read `length` tokens.
    """
    config, vocab = classifier_runs.CONFIG, classifier_runs.VOCAB
    write = functools.partial(
        fine_tuned_models.write_classifier, folder, config, vocab, length=length
    )
    if kind == "classifier":
        return write(["bad", "good"])
    if kind == "classifier with a BiLSTM":
        return write(["bad", "good"], bilstm_size=BiLstmSize(2, 8))
    if kind == "pairs":
        return write(["bad", "good", "so so"], is_pair=True)
    if kind == "regression":
        return write(None)
    if kind == "embeddings":
        source = write_model(folder.with_suffix(".plain"), "encoder")
        return fine_tuned_models.changed(
            source, folder, task=kind, max_seq_length=length
        )
    if kind == "encoder":
        return tiny.write_model(folder, config, vocab)
    if kind in ("masked_lm", "sentence_score"):
        return mask_models.write_model(folder)
    if kind == "question_answering":
        return fine_tuned_models.write_reader(
            folder, squad_runs.CONFIG, squad_runs.VOCAB
        )
    if kind == "token_classification":
        return fine_tuned_models.write_tagger(
            folder, ner_runs.CONFIG, ner_runs.VOCAB, ner_runs.LABELS
        )
    return fine_tuned_models.write_chooser(
        folder, swag_runs.CONFIG, swag_runs.VOCAB
    )


def made_once(folder: Path) -> Callable[[str], tuple[Path, Path]]:
    """Return a function of a kind -> (its checkpoint, its LiteRT file).

    Each is made in the folder when it is first asked for.
    """

    @functools.cache
    def get(kind: str) -> tuple[Path, Path]:
        source = write_model(folder / kind, kind)
        target = folder / f"{kind}.tflite"
        return source, export(source, target, **options_for(kind))

    return get


def options_for(kind: str) -> dict:
    """Return the flags that a kind of model needs."""
    if kind == "question_answering":
        return {"doc_stride": 8, "max_query_length": 6}
    if kind == "sentence_score":
        return {"task": kind, "score_whole_words": True}
    return {"top_k": 3} if kind == "masked_lm" else {}


def export(model: Path, target: Path, **flags) -> Path:
    """Run export_saved_model.py --format=litert and return the file."""
    flags |= {"init_checkpoint": model, "export_dir": target}
    assert scripts.run(export_saved_model, format="litert", **flags) == 0
    return target


def predict(model: Path, inputs: Path, out: Path, **flags) -> list[dict]:
    """Run litert_model.py and return the objects that it writes."""
    flags = {
        "model": str(model),
        "input_file": str(inputs),
        "output_file": str(out),
    } | flags
    assert scripts.run(litert_model, **flags) == 0
    return [json.loads(line) for line in out.read_text().splitlines()]


def write_texts(path: Path, kind: str) -> Path:
    """Write the texts of a kind as JSON lines with ids."""
    lines = [{"id": number} | text for number, text in enumerate(TEXTS[kind])]
    return prediction_runs.write_lines(path, lines)


def cosines(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Return the cosine of each row of two arrays."""
    sums = (one * other).sum(-1)
    return sums / np.sqrt((one**2).sum(-1) * (other**2).sum(-1))
