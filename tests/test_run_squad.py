"""run_squad.py as a user runs it, on paragraphs a tiny model can learn."""

import shutil
from pathlib import Path

from base.errors import UserError

import numpy as np
import pytest
import scripts
import tensorflow as tf
import tiny
from squad_runs import flags_for, read, squad, write, write_data

run_squad = scripts.load("run_squad")


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A model, and data of both versions."""
    return write_data(tmp_path_factory.mktemp("squad"))


@pytest.fixture(scope="module")
def finished(folder, tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("run") / "v1"
    flags = flags_for(folder, out, do_predict=True, do_export=True)
    assert scripts.run(run_squad, **flags) == 0
    return out


@pytest.fixture(scope="module")
def finished_2(folder, tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("run") / "v2"
    flags = flags_for(folder, out, "2", tune_null_threshold=True)
    flags |= {"pictures": True, "num_errors": 5}
    assert scripts.run(run_squad, **flags) == 0
    return out


@pytest.mark.slow
def test_mistakes_and_pictures_belong_to_the_scores(
    finished, finished_2, folder
):
    for out, version, score in (
        (finished, 1, "exact_match"),
        (finished_2, 2, "exact"),
    ):
        header, *rows = (
            line.split("\t")
            for line in (out / "errors.tsv").read_text().splitlines()
        )
        wrong = 40 * (1 - tiny.results_of(out)[score] / 100)
        assert len(rows) == round(wrong if version == 1 else min(5, wrong))
        answers = read(out / "predictions.json")
        nbest = read(out / "nbest_predictions.json")
        for row in rows:
            found = dict(zip(header, row, strict=True))
            assert found["prediction"] == answers[found["id"]]
            (sure,) = {
                entry["probability"]
                for entry in nbest[found["id"]]
                if entry["text"] == found["prediction"]
            }
            assert float(found["confidence"]) == pytest.approx(sure, abs=1e-4)
    for name in ("curves.png", "f1_by_answer_length.png"):
        assert (finished_2 / name).read_bytes()[:4] == b"\x89PNG"
        assert not (finished / name).exists()  # --nopictures


@pytest.mark.slow
def test_strict_reads_files_whose_records_are_there(folder, tmp_path):
    """Before that, steps are counted by questions, of which one is left out."""
    data = squad(21, 3)
    data["data"][0]["paragraphs"][0]["qas"][0]["answers"][0]["text"] = "x"
    flags = flags_for(folder, tmp_path / "out", do_eval=False)
    flags |= {"train_file": write(tmp_path / "bad.json", data)}
    flags |= {"num_train_epochs": 2, "count_steps_by": "questions"}
    assert scripts.run(run_squad, **flags) == 0
    assert (tmp_path / "out" / f"model.ckpt-{2 * 20 // 8}.index").exists()
    with pytest.raises(UserError, match="--strict"):
        scripts.run(run_squad, **flags, strict=True)


@pytest.mark.slow
def test_saved_model_with_any_number_of_windows(finished):
    """No token, one window, many: each row answered as if alone."""
    loaded = tf.saved_model.load(str(finished / "saved_model" / "1"))
    answer = loaded.signatures["serving_default"]
    contexts = ["", "the film was Good .", "a " * 100 + "Bad " + "the " * 70]
    together = answer(
        question=tf.constant(["How?"] * 3), context=tf.constant(contexts)
    )
    texts = [text.decode() for text in together["answer"].numpy()]
    assert texts == ["", "Good", "Bad"]
    assert together["start"].numpy().tolist() == [0, 13, 200]
    for number, context in enumerate(contexts):
        alone = answer(
            question=tf.constant(["How?"]), context=tf.constant([context])
        )
        for name, value in alone.items():
            if value.dtype != tf.string:
                np.testing.assert_allclose(
                    value[0], together[name][number], atol=1e-4
                )


@pytest.mark.slow
def test_training_on_squad_2_tunes_the_threshold(finished_2):
    results = tiny.results_of(finished_2)
    assert results["best_f1"] > 85 and results["NoAns_f1"] > 70
    odds = read(finished_2 / "null_odds.json")
    nbest = read(finished_2 / "nbest_predictions.json")
    tuned = read(finished_2 / "null_threshold.json")
    for key, text in read(finished_2 / "predictions.json").items():
        best = next(c["text"] for c in nbest[key] if c["text"])
        assert text == ("" if odds[key] > tuned["threshold"] else best)
    assert tuned["f1"] == pytest.approx(results["f1"])
    assert results["tuned_f1"] == tuned["f1"]
    assert results["tuned_thresh"] == tuned["threshold"]


@pytest.mark.slow
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


@pytest.mark.slow
@pytest.mark.parametrize("version", ["1", "2"])
def test_scores_of_a_file_without_a_model(request, folder, version, capsys):
    out = request.getfixturevalue(
        "finished_2" if version == "2" else "finished"
    )
    flags = {
        "predict_file": str(folder / f"dev{version}.json"),
        "predictions_file": str(out / "predictions.json"),
        "version_2_with_negative": version == "2",
    }
    scripts.run(run_squad, **flags)
    lines = capsys.readouterr().out.splitlines()
    found = dict(line.split(" = ") for line in lines)
    names = {"1": {"exact_match", "f1"}, "2": {"best_f1", "NoAns_total"}}
    assert names[version] <= set(found)
    wanted = tiny.results_of(out)
    assert {name: float(value) for name, value in found.items()} == {
        name: wanted[name] for name in found
    }


@pytest.mark.slow
def test_ensembles_average_logits_or_lists(finished, folder, tmp_path, caplog):
    """Of lists if the windows differ; against means computed here."""
    other = tmp_path / "other"
    flags = flags_for(folder, other, do_predict=True, do_eval=False)
    flags |= {"num_train_epochs": 1, "random_seed": 7}
    scripts.run(run_squad, **flags)
    together = tmp_path / "together"
    flags = flags_for(folder, together, do_train=False, init_checkpoint=None)
    flags |= {"ensemble_dirs": f"{finished},{other}", "do_predict": True}
    with caplog.at_level("INFO", logger="absl"):
        scripts.run(run_squad, **flags)
        assert "the mean of 2 runs' logits" in caplog.text
        assert tiny.results_of(together)["exact_match"] > 50
        first = read(together / "nbest_predictions.json")["q2-0"][0]
        arrays = [np.load(d / "logits.npz") for d in (finished, other)]
        mean = np.mean([a["start_logits"][:, :32] for a in arrays], axis=0)
        assert np.isclose(mean, first["start_logit"], atol=1e-5).any()
        scripts.run(run_squad, **flags | {"doc_stride": 10})
    assert "the mean of 2 runs' n-best lists" in caplog.text
    lists = [read(d / "nbest_predictions.json") for d in (finished, other)]
    shares = {}
    for found in lists:
        for entry in found["q2-0"]:
            share = entry["probability"] / 2
            shares[entry["text"]] = shares.get(entry["text"], 0) + share
    entries = read(together / "nbest_predictions.json")["q2-0"]
    assert len(entries) == min(20, len(shares))
    for entry in entries:
        assert entry["probability"] == pytest.approx(shares[entry["text"]])
    found = [entry["probability"] for entry in entries]
    assert found == sorted(found, reverse=True)
    assert found[0] == pytest.approx(max(shares.values()))


@pytest.mark.slow
def test_ensembles_answer_the_questions_asked_for(finished, folder, tmp_path):
    """Without a model in the folders; of some of the questions."""
    copy, out = tmp_path / "copy", tmp_path / "out"
    copy.mkdir()
    for name in ("nbest_predictions.json", "predictions.json"):
        shutil.copy(finished / name, copy)
    few = write(tmp_path / "few.json", squad(25, 2) | {"version": "few"})
    flags = flags_for(folder, out, do_train=False, predict_file=few)
    flags |= {"ensemble_dirs": str(copy), "init_checkpoint": None}
    line = scripts.error_of(run_squad, **flags)
    assert "name one of the models by --init_checkpoint" in line
    # A file of logits of another form: n-best lists are used.
    write(copy / "logits.npz.json", '{"x": 1}')
    flags["init_checkpoint"] = str(finished)
    scripts.run(run_squad, **flags)
    wanted = read(finished / "predictions.json")
    found = read(out / "predictions.json")
    assert found == {f"q2-{n}": wanted[f"q2-{n}"] for n in range(25)}


@pytest.mark.slow
def test_the_length_of_a_fine_tuned_model_holds(
    finished_2, folder, tmp_path, caplog
):
    """Without the flag; another version of SQuAD gives a warning."""
    flags = flags_for(folder, tmp_path, "2", do_train=False, do_eval=False)
    flags |= {"init_checkpoint": str(finished_2), "do_predict": True}
    del flags["max_seq_length"]
    scripts.run(run_squad, **flags)
    for name in ("predictions.json", "null_odds.json"):
        assert read(tmp_path / name) == read(finished_2 / name)
    assert "version_2_with_negative" not in caplog.text
    flags |= {"predict_file": str(folder / "dev1.json")}
    flags["version_2_with_negative"] = False
    scripts.run(run_squad, **flags)
    assert "fine-tuned with version_2_with_negative=True; now" in caplog.text


@pytest.mark.slow
def test_all_files_are_of_the_best_weights(folder, tmp_path, monkeypatch):
    """Without --do_eval too: files, scores, logits and the threshold."""
    evaluate = run_squad.SquadJob.evaluate
    given = iter([50.0, 70.0, 60.0, 55.0])

    def pretend(job, loaded):
        scored = evaluate(job, loaded)
        changed = {"tuned_f1": next(given, 0.0)}
        return scored._replace(results=scored.results | changed)

    monkeypatch.setattr(run_squad.SquadJob, "evaluate", pretend)
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


@pytest.mark.slow
def test_training_on_triviaqa(folder, tmp_path):
    evidence = tmp_path / "wikipedia"
    evidence.mkdir()
    questions = []
    for number, part in enumerate(
        read(folder / "train1.json")["data"][0]["paragraphs"]
    ):
        (evidence / f"{number}.txt").write_text(part["context"])
        questions.append(
            {
                "Question": "How?",
                "QuestionId": f"t{number}",
                "Answer": {"Value": part["qas"][0]["answers"][0]["text"]},
                "EntityPages": [{"Filename": f"{number}.txt"}],
            }
        )
    path = write(tmp_path / "wikipedia-train.json", {"Data": questions})
    out = tmp_path / "out"
    flags = flags_for(folder, out, triviaqa_evidence_dir=str(tmp_path))
    assert scripts.run(run_squad, **flags | {"train_file": path}) == 0
    assert tiny.results_of(out)["exact_match"] > 80


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
