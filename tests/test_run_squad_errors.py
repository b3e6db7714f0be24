"""run_squad.py ends with one line on flags and files that cannot work."""

from pathlib import Path

import pytest
import scripts
from squad_runs import flags_for, read, squad, write, write_data

run_squad = scripts.load("run_squad")


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A model, and data of both versions."""
    return write_data(tmp_path_factory.mktemp("squad"))


@pytest.mark.parametrize(
    "changes, words",
    [
        ({"do_train": False, "do_eval": False}, "give --do_train"),
        ({"train_file": None}, "--do_train needs --train_file"),
        ({"predict_file": None}, "--do_eval needs --predict_file"),
        ({"train_file": "/no.json"}, "--train_file: no file '/no.json'"),
        ({"predict_file": "/no.json"}, "--predict_file: no file '/no.json'"),
        ({"output_dir": None}, "--output_dir is required"),
        ({"max_seq_length": 11}, "cannot hold a question"),
        ({"max_seq_length": 65}, "max_position_embeddings=64"),
        ({"tune_null_threshold": True}, "is for --version_2_with_negative"),
        ({"version_2_with_negative": True}, "leave --version_2_with_negative"),
        ({"do_train": False}, "has no head for this task (cls/squad/output"),
        ({"init_checkpoint": "/nowhere"}, "no such checkpoint"),
        ({"train_batch_size": 10000}, "make no step"),
        (
            {"ensemble_dirs": "/nowhere", "do_train": False},
            "--ensemble_dirs: '/nowhere' is not a directory",
        ),
        ({"ensemble_dirs": "/nowhere"}, "leave --do_train out"),
        (
            {"predictions_file": "/x", "do_train": False, "do_predict": True},
            "--predictions_file runs no model: leave --do_predict out",
        ),
        (
            {
                "predictions_file": "/x",
                "do_train": False,
                "null_score_diff_threshold": 1.0,
            },
            "is scored as it is",
        ),
        ({"null_score_diff_threshold": "nan"}, "is not a number"),
        ({"predict_file": "/dev/null,"}, "--predict_file: no file ''"),
        (
            {"predictions_file": "/no.json", "do_train": False},
            "/no.json: cannot be read",
        ),
        (
            {
                "tune_null_threshold": True,
                "null_score_diff_threshold": 1.0,
                "version_2_with_negative": True,
            },
            "give one of them",
        ),
        ({"triviaqa_evidence_dir": "/no"}, "has no key 'Data'"),
    ],
    ids=str,
)
def test_flags_that_cannot_work(folder, tmp_path, changes, words):
    flags = flags_for(folder, tmp_path / "out") | changes
    line = scripts.error_of(run_squad, **flags)
    assert words in line, line


def test_files_that_do_not_fit(folder, tmp_path):
    flags = flags_for(folder, tmp_path / "out")
    train = str(folder / "train2.json")
    line = scripts.error_of(run_squad, **flags | {"train_file": train})
    assert "give --version_2_with_negative" in line
    unanswered = squad(3, 1)
    unanswered["data"][0]["paragraphs"][1]["qas"][0]["answers"] = []
    path = write(tmp_path / "train.json", unanswered)
    line = scripts.error_of(run_squad, **flags | {"train_file": path})
    assert "paragraphs[1].qas[0] (q1-1) has no answer to train on" in line
    path = write(tmp_path / "p.json", squad(3, 1))
    hidden = read(tmp_path / "p.json")
    for part in hidden["data"][0]["paragraphs"]:
        del part["qas"][0]["answers"]
    path = write(tmp_path / "p.json", hidden)
    line = scripts.error_of(run_squad, **flags | {"predict_file": path})
    assert "has no answers" in line
    path = write(tmp_path / "p.json", "{")
    line = scripts.error_of(run_squad, **flags | {"predict_file": path})
    assert "not JSON" in line
    assert not (tmp_path / "out").exists()  # all that before training
