"""run_pretraining.py on packed records, as a user runs it.

Most runs are on one batch that is all of the data, as 48 records of one
sequence each or as the rows of the same sequences: a step on either changes
the weights in the same way.
"""

import json
from pathlib import Path

import packed_batches
import pytest
import scripts
from pretraining_runs import CONFIG, flags_for
from tiny import NO_DROPOUT, assert_same, results_of, summaries_of, weights_of

run_pretraining = scripts.load("run_pretraining")

SEED, SEQUENCES, ROWS = 3, 48, 28


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    """The same sequences unpacked and packed; held-out ones of both kinds."""
    folder = tmp_path_factory.mktemp("packed")
    for name, count, seed in (("train", SEQUENCES, SEED), ("dev", 37, 7)):
        single, packed = packed_batches.both(count, seed)
        packed_batches.write(folder / f"{name}-single", single)
        packed_batches.write(folder / f"{name}-packed", packed, "GZIP")
    assert len(packed_batches.both(SEQUENCES, SEED)[1]["input_ids"]) == ROWS
    no_dropout = json.dumps(CONFIG | NO_DROPOUT)
    (folder / "no_dropout.json").write_text(no_dropout)
    return folder


def flags_of(data: Path, kind: str, output_dir: Path, **changes) -> dict:
    """Return flags of 4 steps on all sequences, without dropout."""
    values = {
        "bert_config_file": data / "no_dropout.json",
        "input_file": data / f"train-{kind}",
        "max_seq_length": packed_batches.LENGTH,
        "max_predictions_per_seq": packed_batches.PREDICTIONS,
        "train_batch_size": SEQUENCES if kind == "single" else ROWS,
        "learning_rate": 1e-3,
        "num_train_steps": 4,
        "num_warmup_steps": 1,
    }
    return flags_for(data, output_dir, **values | changes)


@pytest.fixture(scope="module")
def single_run(data, tmp_path_factory) -> Path:
    """A run on unpacked records, evaluated on packed ones."""
    output_dir = tmp_path_factory.mktemp("single")
    values = flags_of(data, "single", output_dir)
    scripts.run(
        run_pretraining,
        **values,
        do_eval=True,
        eval_input_file=data / "dev-packed",
    )
    return output_dir


def assert_like(single_run: Path, output_dir: Path) -> None:
    """Weights and moments equal those of the run on unpacked records."""
    assert_same(
        weights_of(single_run / "model.ckpt-4"),
        weights_of(output_dir / "model.ckpt-4"),
        1e-5,
    )


# --- The same training -------------------------------------------------------


@pytest.mark.slow
def test_packed_records_train_as_unpacked_ones(data, single_run, tmp_path):
    """In micro-batches; and evaluated on records of the other kind.

    The rates are of sequences and real tokens, not of rows.
    """
    values = flags_of(
        data, "packed", tmp_path, gradient_accumulation_steps=4, log_steps=2
    )
    scripts.run(
        run_pretraining,
        **values,
        do_eval=True,
        eval_input_file=data / "dev-single",
    )
    assert_like(single_run, tmp_path)
    assert results_of(tmp_path) == pytest.approx(
        results_of(single_run), rel=1e-5
    )
    _, packed = packed_batches.both(SEQUENCES, SEED)
    tokens = int(packed["input_mask"].sum())
    fixed = json.loads((tmp_path / "training_config.json").read_text())["fixed"]
    assert fixed["packing"] == {
        "max_sequences_per_pack": packed_batches.PACKS,
        "predictions_per_row": 5,
    }
    found = summaries_of(tmp_path)
    rates = found["tokens_per_second"], found["sequences_per_second"]
    for (_, real), (_, sequences) in zip(*rates, strict=True):
        assert real / sequences == pytest.approx(tokens / SEQUENCES, rel=1e-5)


# --- What goes wrong ---------------------------------------------------------


def error_of(data: Path, tmp_path: Path, **changes) -> str:
    values = flags_of(data, "packed", tmp_path / "out", **changes)
    return scripts.error_of(run_pretraining, **values)


def test_files_of_both_kinds_are_refused(data, tmp_path):
    packed, single = data / "train-packed", data / "train-single"
    for files in (f"{packed},{single}", f"{single},{packed}"):
        line = error_of(data, tmp_path, input_file=files)
        rows = f"{packed} has packed rows of up to 4 sequences"
        assert rows in line and f"{single} has records of one sequence" in line
        assert "name files of one kind" in line


def test_packed_files_of_other_flags_are_refused(data, tmp_path):
    _, packed = packed_batches.both(20)
    for name in list(packed):
        if name.startswith("next_sentence"):
            packed[name] = packed[name][:, :3]
    packed_batches.write(tmp_path / "three", packed)
    files = f"{data}/train-packed,{tmp_path}/three"
    line = error_of(data, tmp_path, input_file=files)
    assert "train-packed has packed rows of up to 4 sequences" in line
    assert "three has packed rows of up to 3 sequences" in line


def test_packed_rows_of_another_length(data, tmp_path):
    line = error_of(data, tmp_path, max_seq_length=20)
    assert "use --max_seq_length=32 or make the data again" in line


def test_a_row_of_other_features_is_named(data, tmp_path):
    """The records after the first are looked at when they are read."""
    single, packed = packed_batches.both(20)
    with open(tmp_path / "both", "wb") as file:
        with packed_batches.tfrecord.RecordWriter(file) as writer:
            writer.write_examples(packed)
            writer.write_examples(single)
    line = error_of(data, tmp_path, input_file=tmp_path / "both")
    rows = len(packed["input_ids"])
    assert f"both, record {rows}: has no feature 'sequence_ids'" in line


@pytest.mark.nightly
def test_bad_ids_of_evaluation_files_of_the_other_kind_are_named(
    data, tmp_path
):
    """Each file is searched with the bounds of its own kind."""
    single, _ = packed_batches.both(20)
    single["segment_ids"][11, 2] = 2
    packed_batches.write(tmp_path / "bad", single)
    line = error_of(
        data, tmp_path, do_eval=True, eval_input_file=tmp_path / "bad"
    )
    assert "bad, record 11: segment_ids holds 2, outside 0..1" in line
