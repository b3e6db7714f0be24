"""Taggers with tags of BIOES, and of parts of speech."""

import exports
import ner_runs
import page_models
import prediction_runs
import pytest
import scripts
import tensorflow as tf
from fine_tuned_models import write_tagger
from tiny import results_of

from tasks.ner import data as ner_data
from tools.page import views

SENTENCES = [[word for word, _ in row] for row in ner_runs.sentences(30, 3)]
SCHEMES = {
    "bioes": ["O", *(f"{place}-{kind}" for kind in "ab" for place in "BIES")],
    "speech": ["NOUN", "INTJ", "IN", "BES", "O", "LS", "SYM"],
}


@pytest.mark.parametrize("scheme", SCHEMES)
def test_the_words_of_a_text_and_their_tags(scheme, tmp_path):
    """Those of the same words as a list, with their characters."""
    model = write_tagger(
        tmp_path / "model", ner_runs.CONFIG, ner_runs.VOCAB, SCHEMES[scheme]
    )
    text = "ann\u0007x saw  bobx, the oslo city."
    words = ["annx", "saw", "bobx", ",", "the", "oslo", "city", "."]
    found, wanted = prediction_runs.predict(
        model,
        prediction_runs.write_lines(
            tmp_path / "in.jsonl", [{"text": text}, {"tokens": words}]
        ),
        tmp_path / "out",
    )
    assert found["words"] == words and len({*wanted["tags"]}) > 2
    for name in ("tags", "scores"):
        assert found[name] == wanted[name]
    places = [text[start:end] for start, end in found["places"]]
    assert [place.replace("\u0007", "") for place in places] == words
    assert bool(found["entities"]) == (scheme == "bioes")
    rows = views.entities(page_models.load(str(model)), text).rows
    kinds = [kind for _, kind, _ in rows]
    if scheme == "speech":
        assert set(found["tags"]) <= set(SCHEMES[scheme])
        assert kinds == found["tags"]
    else:
        assert kinds == [one["type"] for one in found["entities"]]


@pytest.mark.nightly
@pytest.mark.parametrize("scheme", SCHEMES)
def test_checkpoint_and_saved_model_agree(scheme, tmp_path):
    """On tags that are entities in IOB2, or the parts of speech as they are."""
    pytest.importorskip("tensorflow_text")
    labels = SCHEMES[scheme]
    model = write_tagger(
        tmp_path / "model", ner_runs.CONFIG, ner_runs.VOCAB, labels
    )
    lines = prediction_runs.write_lines(
        tmp_path / "in.jsonl", [{"tokens": words} for words in SENTENCES]
    )
    found = prediction_runs.predict(model, lines, tmp_path / "out")
    tags = {tag for one in found for tag in one["tags"]}
    if scheme == "speech":
        assert tags <= set(labels) and len(tags) > 2
        assert not any(one["entities"] for one in found)
    else:
        assert {tag[0] for tag in tags} <= set("BIO")
        assert any(one["entities"] for one in found)
    saved = exports.export(model, tmp_path / "1")
    served = tf.saved_model.load(str(saved)).signatures["words"]
    for words, one in zip(SENTENCES, found, strict=True):
        answer = served(words=tf.constant([words]))["tags"][0].numpy()
        assert [tag.decode() for tag in answer] == one["tags"]


@pytest.mark.nightly
def test_a_model_of_bioes_is_scored_on_any_scheme(tmp_path):
    """The entities of a file count, and the loss of the model's own classes."""
    labels = ["O"]
    labels += [f"{place}-{kind}" for kind in ("LOC", "PER") for place in "BIES"]
    model = write_tagger(
        tmp_path / "model", ner_runs.CONFIG, ner_runs.VOCAB, labels
    )
    rows, results = ner_runs.sentences(20, 4), []
    for number, scheme in enumerate((labels, ner_runs.LABELS)):
        written = [
            [
                (word, tag)
                for (word, _), tag in zip(
                    row,
                    ner_data.as_classes(
                        ner_data.normalized_tags([tag for _, tag in row]),
                        scheme,
                    ),
                    strict=True,
                )
            ]
            for row in rows
        ]
        path = tmp_path / f"{number}.txt"
        ner_runs.write_columns(path, written)
        assert ("S-" in path.read_text()) == (number == 0)
        flags = {"init_checkpoint": model, "dev_file": path, "do_eval": True}
        flags |= {"output_dir": tmp_path / f"out{number}", "pictures": False}
        assert scripts.run(scripts.load("run_ner"), **flags) == 0
        results.append(results_of(tmp_path / f"out{number}"))
    assert results[0] == results[1] and results[0]["loss"] > 0
