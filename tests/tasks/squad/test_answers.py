"""Logits kept between runs, answers, thresholds, folders."""

import dataclasses
import io
import zipfile

from base.errors import UserError

import numpy as np
import pytest
import squad_files

from tasks.squad import answers as squad_answers
from tasks.squad import data as squad_data
from tasks.squad import decoding as squad_decoding

FINGERPRINT = {"windows": {"lengths": (1, 2)}, "weights": ["abc"]}


def cached(folder, fingerprint, value: float, num_windows: int = 3) -> float:
    """Return the first logit in the cache, `value` where it computes."""
    out = str(folder)
    found = squad_answers.kept_logits(out, fingerprint, num_windows)
    if found is None:
        array = np.full([3, 4], value, np.float32)
        found = {"start_logits": array, "end_logits": array + 1}
        squad_answers.keep_logits(out, fingerprint, found)
    assert (found["end_logits"] == found["start_logits"] + 1).all()
    return float(found["start_logits"][0, 0])


def test_logits_are_computed_once_for_a_fingerprint(tmp_path):
    assert cached(tmp_path, FINGERPRINT, 1.0) == 1.0
    assert cached(tmp_path, FINGERPRINT, 2.0) == 1.0
    other = FINGERPRINT | {"weights": ["other"]}
    assert cached(tmp_path, other, 3.0) == 3.0
    assert cached(tmp_path, FINGERPRINT, 4.0) == 4.0
    # Of another number of windows: something is wrong with the file.
    assert cached(tmp_path, FINGERPRINT, 5.0, num_windows=2) == 5.0
    path = tmp_path / squad_answers.LOGITS
    flat, broken = io.BytesIO(), io.BytesIO()
    np.savez(flat, start_logits=np.ones(3), end_logits=np.ones(3))
    with zipfile.ZipFile(broken, "w") as archive:
        archive.writestr("start_logits.npy", b"\x93NUMPY\1\0\2\0{(")
    zips = flat.getvalue(), broken.getvalue()
    for damaged in (b"", path.read_bytes()[:200], *zips):
        path.write_bytes(damaged)
        assert cached(tmp_path, FINGERPRINT, 6.0) == 6.0
    path.unlink()
    assert cached(tmp_path, FINGERPRINT, 7.0) == 7.0
    # Those of unsaved weights are not kept.
    assert cached(tmp_path, FINGERPRINT | {"weights": None}, 8.0) == 8.0
    assert cached(tmp_path, FINGERPRINT, 9.0) == 7.0


def test_an_interrupted_write_leaves_no_fingerprint(tmp_path, monkeypatch):
    """Else the next run would take old logits for new ones."""
    assert cached(tmp_path, FINGERPRINT, 1.0) == 1.0
    other = FINGERPRINT | {"weights": ["other"]}
    with monkeypatch.context() as patch:
        patch.setattr(np, "savez", lambda *_, **__: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            cached(tmp_path, other, 2.0)
    assert cached(tmp_path, FINGERPRINT, 3.0) == 3.0


# --- The null threshold ------------------------------------------------------


def one_question(null_odds: float, *answers: str):
    """Return a question with reference answers, and its decoded logits."""
    data = squad_data.SquadData(
        [squad_data.make_paragraph("cat")],
        [squad_data.SquadExample("a", "?", 0, answers)],
        is_version_2=True,
    )
    nbest = [squad_decoding.Candidate("cat", 1.0, 0.0, 0.0)]
    return data, squad_decoding.Decoded({"a": nbest}, {"a": null_odds})


DEFAULT = squad_decoding.AnswerOptions()
TUNING = dataclasses.replace(DEFAULT, tune_null_threshold=True)


def test_a_tuned_threshold_is_used_and_kept_for_its_weights(tmp_path, caplog):
    caplog.set_level("INFO", logger="absl")
    data, decoded = one_question(5.0, "cat")
    folder = str(tmp_path)
    answered = squad_answers.write_answers(
        data, decoded, DEFAULT, folder, ["w"]
    )
    assert answered.texts == {"a": ""}  # 5 is more than the default, 0
    assert answered.tuned.threshold == 6.0  # found, but not asked for
    assert not (tmp_path / "null_threshold.json").exists()
    answered = squad_answers.write_answers(data, decoded, TUNING, folder, ["w"])
    assert answered.texts == {"a": "cat"}
    # Two of the three thresholds among the scores are the official script's.
    line = "Threshold for no answer: 6, tuned_thresh, which gives the best F1 "
    assert f"{line}on 1 question: these are few" in caplog.text
    results = answered.scores(data)
    assert results["tuned_thresh"] == 6.0 and results["tuned_f1"] == 100.0
    threshold = squad_answers.null_threshold
    assert threshold(None, ["w"], folder) == 6.0
    assert threshold(2.0, ["w"], folder) == 2.0
    assert threshold(None, ["w"], "elsewhere", folder) == 6.0
    assert threshold(None, ["w"], "elsewhere", None) == 0.0
    own = f"{folder}/null_threshold.json"
    assert [
        message.split(", ")[1]
        for message in caplog.messages
        if message.startswith("Threshold for no answer: ")
    ] == [
        *("the default", "tuned_thresh", own),
        *("--null_score_diff_threshold", own, "the default"),
    ]
    assert threshold(None, ["others"], folder) == 0.0
    assert "is of other weights: not used" in caplog.text
    for text in ("{", "[1]", '{"threshold": 1}'):
        squad_files.write(tmp_path, text, "null_threshold.json")
        assert threshold(None, ["w"], folder) == 0.0
    assert caplog.text.count("null_threshold.json is damaged: not used") == 3


def test_answers_worse_than_none_have_failed():
    """By the rules of 2.0; by those of 1.1, no answer is always wrong."""
    questions = [
        squad_data.SquadExample(f"{n}", "?", 0, ("cat",) * (n < 12))
        for n in range(30)
    ]
    paragraphs = [squad_data.make_paragraph("cat dog")]

    def sign(texts: list[str], is_version_2: bool) -> str | None:
        data = squad_data.SquadData(
            paragraphs, questions, is_version_2=is_version_2
        )
        found = {
            f"{n}": squad_decoding.Candidate(
                text, None, 0.0, 0.0, squad_decoding.Span(n, n, n)
            )
            for n, text in enumerate(texts)
        }
        answered = squad_answers.Answered(found, {}, None)
        return answered.sign_of_failure(data)

    texts = ["cat", "dog"] * 6 + [""] * 12 + ["cat"] * 6
    assert sign(texts, True) == "f1 is 60, and 60 with no answer to all"
    assert sign(["cat", *texts[:-1]], True) is None
    assert sign(texts, False) is None
    texts = ["dog", "a dog"] * 6 + [""] * 18
    assert sign(texts, False) == "f1 is 0, and 0 with no answer to all"


def test_tuning_needs_answers(tmp_path):
    data, decoded = one_question(5.0)
    folder = str(tmp_path)
    answered = squad_answers.write_answers(
        data, decoded, DEFAULT, folder, ["w"]
    )
    assert answered.tuned is None
    with pytest.raises(UserError, match="the file to predict has no answers"):
        squad_answers.write_answers(data, decoded, TUNING, folder, ["w"])


# --- Several runs together ---------------------------------------------------


def test_a_folder_with_two_names_is_one(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "a")
    folders = [str(tmp_path / "a"), str(tmp_path / "b")]
    unused = str(tmp_path / "c")
    squad_answers.check_folders(folders, unused)
    for other in ("a/", "b/../a", "link"):
        other = f"{tmp_path}/{other}"
        with pytest.raises(UserError, match="is one of --ensemble_dirs"):
            squad_answers.check_folders(folders, other)
        with pytest.raises(UserError, match=r"names '.*' twice"):
            squad_answers.check_folders([*folders, other], unused)
