"""Answers of models in a folder, computed by this version of TensorFlow.

As a program it prints those of the folder in its first argument as JSON, and
resumes the run of its second.
"""

import json
import sys
from collections.abc import Callable
from pathlib import Path

from base import script  # noqa: F401, hides TensorFlow's messages

import classifier_runs
import litert_files
import prediction_runs
import scripts
import tensorflow as tf
import tensorflow_text  # noqa: F401, operations of SavedModels

Answers = dict[str, list]


def answers(folder: Path, out: Path) -> Answers:
    """Return the answers of all files in a folder of `write`.

    Args:
        folder: for each kind of litert_files.TEXTS it has a checkpoint, a
            LiteRT file and a SavedModel.
        out: new; gets files of predictions.
    """
    out.mkdir()
    found: Answers = {}
    for kind, texts in litert_files.TEXTS.items():
        inputs = litert_files.write_texts(out / f"{kind}.jsonl", kind)
        found[f"{kind}: checkpoint"] = prediction_runs.predict(
            folder / kind,
            inputs,
            out / kind,
            **litert_files.options_for(kind),
        )
        found[f"{kind}: LiteRT"] = litert_files.predict(
            folder / f"{kind}.tflite", inputs, out / f"{kind}.litert"
        )
        model = tf.saved_model.load(str(folder / f"{kind}.saved_model"))
        serve = model.signatures["serving_default"]
        found[f"{kind}: SavedModel"] = [_served(serve, text) for text in texts]
    return found


def _served(serve: Callable, text: dict) -> dict[str, list]:
    outputs = serve(**{name: tf.constant([text[name]]) for name in text})
    return {
        name: [item.decode() for item in value.numpy().ravel()]
        if value.dtype == tf.string
        else value.numpy().tolist()
        for name, value in sorted(outputs.items())
    }


def write(folder: Path) -> None:
    """Write a checkpoint, a LiteRT file and a SavedModel of each kind."""
    get = litert_files.made_once(folder)
    for kind in litert_files.TEXTS:
        source, _ = get(kind)
        status = scripts.run(
            litert_files.export_saved_model,
            init_checkpoint=source,
            export_dir=folder / f"{kind}.saved_model",
            **litert_files.options_for(kind),
        )
        assert status == 0


def train(data: Path, out: Path) -> None:
    """Train a classifier, or go on with a run that was ended.

    Args:
        data: has a model in "model", and sentences.
        out: its output_dir.
    """
    flags = classifier_runs.flags_for(data / "model", data, out)
    flags |= {"save_checkpoints_steps": 50}
    assert scripts.run(scripts.load("run_classifier"), **flags) == 0


if __name__ == "__main__":
    given, run = map(Path, sys.argv[1:])
    train(given, run)
    print(json.dumps(answers(given, run / "answers")))
