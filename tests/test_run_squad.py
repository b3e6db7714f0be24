"""run_squad.py as a user runs it, on paragraphs a tiny model can learn."""

import shutil
from pathlib import Path

import numpy as np
import pytest
import scripts
import tensorflow as tf
import tiny
from squad_runs import flags_for, read, squad, write, write_data

from tasks.squad.job import SquadJob

run_squad = scripts.load("run_squad")


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A model, and data of both versions."""
    return write_data(tmp_path_factory.mktemp("squad"))


@pytest.fixture(scope="module")
def finished(folder, tmp_path_factory) -> Path:
    """A model trained on the same questions as TriviaQA has them."""
    evidence = tmp_path_factory.mktemp("evidence")
    (evidence / "wikipedia").mkdir()
    questions = []
    (article,) = read(folder / "train1.json")["data"]
    for number, part in enumerate(article["paragraphs"]):
        name = f"{number}.txt"
        (evidence / "wikipedia" / name).write_text(part["context"])
        questions.append(
            {
                "Question": "How?",
                "QuestionId": f"t{number}",
                "Answer": {"Value": part["qas"][0]["answers"][0]["text"]},
                "EntityPages": [{"Filename": name}],
            }
        )
    path = write(evidence / "wikipedia-train.json", {"Data": questions})
    out = evidence / "v1"
    flags = flags_for(folder, out, do_predict=True, do_export=True)
    flags |= {"triviaqa_evidence_dir": str(evidence), "train_file": path}
    assert scripts.run(run_squad, **flags) == 0
    assert tiny.results_of(out)["exact_match"] > 80
    return out


@pytest.fixture(scope="module")
def finished_2(folder, tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("run") / "v2"
    flags = flags_for(folder, out, "2", tune_null_threshold=True)
    flags |= {"pictures": True, "num_errors": 5}
    assert scripts.run(run_squad, **flags) == 0
    return out


@pytest.mark.nightly
def test_mistakes_and_pictures_belong_to_the_scores(finished, finished_2):
    for out, score, most in (
        (finished, "exact_match", 40),
        (finished_2, "exact", 5),
    ):
        lines = (out / "errors.tsv").read_text().splitlines()
        wrong = round(40 * (1 - tiny.results_of(out)[score] / 100))
        assert len(lines) == 1 + min(most, wrong)
    assert (finished_2 / "curves.png").read_bytes()[:4] == b"\x89PNG"
    assert not (finished / "curves.png").exists()  # --nopictures


@pytest.mark.nightly
def test_steps_can_be_counted_by_questions(folder, tmp_path):
    data = squad(21, 3)
    data["data"][0]["paragraphs"][0]["qas"][0]["answers"][0]["text"] = "x"
    flags = flags_for(folder, tmp_path / "out", do_eval=False)
    flags |= {"train_file": write(tmp_path / "bad.json", data)}
    flags |= {"num_train_epochs": 2, "count_steps_by": "questions"}
    assert scripts.run(run_squad, **flags) == 0
    assert (tmp_path / "out" / f"model.ckpt-{2 * 20 // 8}.index").exists()


@pytest.mark.nightly
def test_saved_model_with_any_number_of_windows(finished):
    """No token, one window, many: each row answered as if alone."""
    loaded = tf.saved_model.load(str(finished / "saved_model" / "1"))
    answer = loaded.signatures["serving_default"]
    contexts = ["", "the film was Good .", "a " * 100 + "Bad " + "the " * 70]

    def answers(*contexts: str) -> list[tuple]:
        questions = tf.constant(["How?"] * len(contexts))
        found = answer(question=questions, context=tf.constant(contexts))
        names = ("answer", "start", "end", "score")
        return list(zip(*(found[n].numpy() for n in names), strict=True))

    together = answers(*contexts)
    assert [row[0] for row in together] == [b"", b"Good", b"Bad"]
    assert [row[1] for row in together] == [0, 13, 200]
    for context, row in zip(contexts, together, strict=True):
        (alone,) = answers(context)
        assert alone[:3] == row[:3]
        assert alone[3] == pytest.approx(row[3], abs=1e-4)


@pytest.mark.slow
def test_training_on_squad_2_tunes_the_threshold(finished_2):
    results = tiny.results_of(finished_2)
    assert results["best_f1"] > 85 and results["NoAns_f1"] > 70
    tuned = read(finished_2 / "null_threshold.json")
    assert results["tuned_f1"] == tuned["f1"] == pytest.approx(results["f1"])
    assert results["tuned_thresh"] == tuned["threshold"]
    odds = read(finished_2 / "null_odds.json")
    for key, text in read(finished_2 / "predictions.json").items():
        assert (text == "") == (odds[key] > tuned["threshold"])


@pytest.mark.nightly
def test_another_threshold_needs_no_pass_of_the_model(
    finished_2, folder, caplog
):
    flags = flags_for(folder, finished_2, "2", do_train=False)
    written = (finished_2 / "logits.npz").stat().st_mtime_ns
    with caplog.at_level("INFO", logger="absl"):
        scripts.run(run_squad, **flags)  # the stored threshold
        assert "null_threshold.json" in caplog.text
        tuned = read(finished_2 / "predictions.json")
        scripts.run(run_squad, null_score_diff_threshold=-1e9, **flags)
    assert "no pass of the model" in caplog.text
    assert (finished_2 / "logits.npz").stat().st_mtime_ns == written
    assert set(read(finished_2 / "predictions.json").values()) == {""}
    results = tiny.results_of(finished_2)
    assert results["NoAns_exact"] == 100.0 and results["HasAns_exact"] == 0.0
    # Scored alone, a model can be seen to answer nothing.
    assert results["degenerate"] == 1
    assert "all 40 questions are left without" in caplog.records[-1].message
    scripts.run(run_squad, tune_null_threshold=True, **flags)
    assert "degenerate" not in tiny.results_of(finished_2)
    assert read(finished_2 / "predictions.json") == tuned


@pytest.mark.nightly
def test_ensembles_average_logits(finished, folder, tmp_path, caplog):
    """Of runs that have read the same windows."""
    other, out = tmp_path / "other", tmp_path / "out"
    other.mkdir()
    shutil.copy(finished / "logits.npz.json", other)
    logits = dict(np.load(finished / "logits.npz"))
    np.savez(other / "logits.npz", **{k: v + 2.0 for k, v in logits.items()})
    flags = flags_for(folder, out, do_train=False, init_checkpoint=None)
    line = scripts.error_of(run_squad, **flags, ensemble_dirs=str(other))
    assert "name one of the models by --init_checkpoint" in line
    flags["ensemble_dirs"] = f"{other},{finished}"
    with caplog.at_level("INFO", logger="absl"):
        scripts.run(run_squad, **flags)
    assert "the mean of 2 runs' logits" in caplog.text
    assert tiny.results_of(out) | {"global_step": 0} == tiny.results_of(
        finished
    ) | {"global_step": 0}
    wanted = read(finished / "nbest_predictions.json")["q2-0"]
    for found, entry in zip(
        read(out / "nbest_predictions.json")["q2-0"], wanted, strict=True
    ):
        assert found["text"] == entry["text"]
        for name, more in (("start_logit", 1), ("probability", 0)):
            assert found[name] == pytest.approx(entry[name] + more, 1e-4)
    few = write(tmp_path / "few.json", squad(25, 2))
    line = scripts.error_of(run_squad, **flags | {"predict_file": few})
    assert f"{other} has no logits.npz of these windows" in line
    # Runs that give all tokens the same logits have no answers together either.
    np.savez(other / "logits.npz", **{k: 0 * v for k, v in logits.items()})
    flags |= {"ensemble_dirs": str(other), "init_checkpoint": str(finished)}
    scripts.run(run_squad, **flags)
    assert tiny.results_of(out)["degenerate"] == 1


@pytest.mark.slow
def test_another_version_of_squad_gives_a_warning(
    finished_2, folder, tmp_path, caplog
):
    flags = flags_for(folder, tmp_path, "1", do_train=False, do_eval=False)
    flags |= {"init_checkpoint": str(finished_2), "do_predict": True}
    scripts.run(run_squad, **flags)
    assert "fine-tuned with version_2_with_negative=True; now" in caplog.text


@pytest.mark.nightly
def test_all_files_are_of_the_best_weights(folder, tmp_path, monkeypatch):
    """Without --do_eval too: files, scores, logits and the threshold."""
    evaluate = SquadJob.evaluate
    given = iter([50.0, 70.0, 60.0, 55.0])

    def pretend(job, loaded):
        scored = evaluate(job, loaded)
        changed = {"tuned_f1": next(given, 0.0)}
        return scored._replace(results=scored.results | changed)

    monkeypatch.setattr(SquadJob, "evaluate", pretend)
    flags = flags_for(folder, tmp_path, "2", eval_steps=9, num_train_epochs=1)
    flags |= {"do_eval": False, "tune_null_threshold": True}
    assert scripts.run(run_squad, **flags) == 0
    scores = read(tmp_path / "scores.json")
    assert list(scores.values()) == [50.0, 70.0, 60.0, 55.0]
    best = int(list(scores)[1])
    assert tiny.results_of(tmp_path)["global_step"] == best
    stored = read(tmp_path / "null_threshold.json")
    notes = read(tmp_path / "logits.npz.json")
    assert stored["weights"] == notes["weights"]
    wanted = read(tmp_path / "predictions.json")
    flags = flags_for(folder, tmp_path, "2", do_train=False)
    scripts.run(run_squad, **flags | {"do_eval": False, "do_predict": True})
    assert read(tmp_path / "predictions.json") == wanted


def test_a_file_to_score_without_answers(folder, tmp_path):
    """An error before training."""
    hidden = squad(3, 1)
    for part in hidden["data"][0]["paragraphs"]:
        del part["qas"][0]["answers"]
    path = write(tmp_path / "p.json", hidden)
    flags = flags_for(folder, tmp_path / "out", predict_file=path)
    line = scripts.error_of(run_squad, **flags)
    assert "has no answers" in line
    assert not (tmp_path / "out").exists()
