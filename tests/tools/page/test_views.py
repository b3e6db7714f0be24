"""What each tab shows of a tiny model: its numbers and texts."""

import copy
import functools
import re
from pathlib import Path
from unittest import mock

from base.errors import UserError

import numpy as np
import page_models
import pytest
from fine_tuned_models import changed

from checkpoints import weight_files
from serving.search import build
from tools.page import tabs, views
from tools.page.models import features_of
from tools.page.views import percent


def text_of(shown: views.Shown) -> str:
    return "".join(part for part, _ in shown.marked)


def marks_of(shown: views.Shown) -> list[str]:
    """Return what is marked of a text."""
    return [part for part, mark in shown.marked if mark is not None]


@pytest.mark.parametrize(
    ("share", "wanted"),
    [(0.914, "91%"), (0.0099, "0.99%"), (0.99, "99%"), (0.9973, "99.7%")]
    + [(1.0, "100%"), (0.01, "1%"), (1.2e-4, "0.012%"), (1e-6, "< 0.01%")],
)
def test_percents_have_digits_where_they_are_needed(share, wanted):
    assert percent(share) == wanted


def test_every_mask_has_its_word_pieces(model_of):
    text = "the [MASK] sat on a [MASK]."
    found = model_of("masked_lm").predict(text=text)
    shown = views.masks(model_of("masked_lm"), text)
    first, second = (tokens[0] for tokens in found["tokens"])
    assert shown.marked == [
        *[("the ", None), (first, "[MASK] 1"), (" sat on a ", None)],
        *[(second, "[MASK] 2"), (".", None)],
    ]
    tokens, scores = sum(found["tokens"], []), sum(found["scores"], [])
    assert [row[1:] for row in shown.rows] == [
        *zip(tokens, scores, strict=True)
    ]
    assert [row[0] for row in shown.rows] == ["[MASK] 1"] * 3 + ["[MASK] 2"] * 3


def test_a_sentence_has_its_score(model_of):
    model = model_of("sentence_score")
    found = model.predict(text="the cats sat")
    shown = views.scores(model, "the cats sat")
    assert shown.verdict == f"Perplexity {found['perplexity']:.4g}"
    assert [row[0] for row in shown.rows] == found["tokens"]
    np.testing.assert_allclose(
        [row[1] for row in shown.rows], np.exp(found["token_scores"])
    )


def test_the_next_sentence_has_the_probability_of_its_head(model_of):
    """Computed here from the checkpoint: softmax(W tanh(K [CLS] + b) + c)."""
    model = model_of("masked_lm")
    row = model.row("the cat sat", "on a mat .")
    features = features_of(row)
    assert features["segment_ids"].tolist() == [[0] * 5 + [1] * 5]
    output = model.model.bert(**model.model.encoder_inputs(features))
    vector = output.sequence_output[0, 0].numpy()
    weights = weight_files.Reader(model.settings.checkpoint.prefix).get_tensor
    pooled = np.tanh(
        vector @ weights("bert/pooler/dense/kernel")
        + weights("bert/pooler/dense/bias")
    )
    scores = np.exp(
        weights("cls/seq_relationship/output_weights") @ pooled
        + weights("cls/seq_relationship/output_bias")
    )
    found = model.next_sentence(row)
    # Class 0: B follows A.
    np.testing.assert_allclose(found[0], scores[0] / scores.sum(), rtol=1e-5)
    shown = views.follows(model, "the cat sat", "on a mat .")
    assert ("The second text follows", found[0]) in shown.rows


def test_the_next_sentence_needs_a_second_text(model_of):
    with pytest.raises(UserError, match="second text has no word"):
        views.follows(model_of("masked_lm"), "the cat sat", "\x07")


def test_classes_are_those_of_the_prediction(model_of):
    model = model_of("classifier")
    found = model.predict(text="good film")
    shown = views.classes(model, "good film", "a second text is ignored")
    assert shown.verdict == f"{found['label']}, {percent(found['score'])}"
    assert shown.rows == sorted(
        found["probabilities"].items(), key=lambda pair: -pair[1]
    )


@pytest.mark.parametrize(
    ("labels", "verdict"),
    [(["rude", "loud"], "rude, 91%; loud, 50%"), ([], "No label")],
)
def test_the_verdict_of_labels_names_those_that_are_predicted(labels, verdict):
    shares = {"calm": 0.2, "loud": 0.5, "rude": 0.91}
    found = {"labels": labels, "probabilities": shares}
    model = mock.Mock(**{"predict.return_value": found})
    model.task.text_names = ("text",)
    shown = views.classes(model, "a")
    assert shown.verdict == verdict and shown.rows[0] == ("rude", 0.91)


def test_a_regression_shows_a_number(model_of):
    value = model_of("regression").predict(text="good")["value"]
    shown = views.classes(model_of("regression"), "good")
    assert shown.verdict == f"Predicted {value:.4g}" and not shown.rows


@pytest.mark.slow
def test_reasons_are_the_words_and_what_they_add(model_of):
    """In marks whose largest is 1 or -1."""
    for kind, texts in (
        ("classifier", ["good film"]),
        ("regression", ["bad"]),
        ("pairs", ["good", "film end"]),
    ):
        shown = views.reasons(model_of(kind), *texts)
        value, baseline = map(
            float, re.findall(r": (-?[\d.e-]*\d)", shown.notes[1])
        )
        assert text_of(shown).split() == " ".join(texts).split()
        rows = {word: float(adds) for word, adds in shown.rows}
        adds = np.array([*rows.values()])
        assert adds.sum() == pytest.approx(value - baseline, rel=0.02, abs=2e-3)
        assert (np.diff(np.abs(adds)) <= 0).all()  # the strongest first
        marks = {word: m for word, m in shown.marked if m is not None}
        assert max(map(abs, marks.values())) == 1
        for word, mark in marks.items():
            assert np.sign(mark) == np.sign(rows[word])
    model = model_of("classifier")
    shown = views.reasons(model, "good film")
    assert shown.verdict == views.classes(model, "good film").verdict
    assert "attributions" not in model.predict(text="good film")


def test_a_text_that_is_cut_is_told(model_of):
    for kind, view, *texts in (
        ("pairs", views.classes, "good " * 30, "film end"),
        ("masked_lm", views.follows, "the cat", "mat " * 20),
        ("multiple_choice", views.choices, "film", "good " * 60 + "\nbad"),
        ("question_answering", views.answers, "how " * 6 + "film", "a"),
        ("classifier", views.attention_of, "good " * 40, "", "1", "1"),
    ):
        notes = view(model_of(kind), *texts).notes
        assert any("longer than the model reads" in note for note in notes)
    notes = views.classes(model_of("pairs"), "good", "film").notes
    assert not any(notes)


def test_an_answer_is_marked_at_its_characters(model_of):
    model = model_of("question_answering")
    context = "a  Good film . " * 100 + "<b>bad</b>"
    found = model.predict(question="How?", context=context)
    shown = views.answers(model, "How?", context)
    assert text_of(shown) == context
    assert marks_of(shown) == [context[found["start"] : found["end"]]]
    answer, share, _ = shown.rows[0]
    assert answer == found["answer"]
    assert shown.verdict == f"{answer}, {percent(share)}"
    assert len(shown.rows) == len(found["nbest"])


def test_entities_are_spans_of_the_whole_text(model_of):
    text = "annx jr saw  the <oslo> city.\x07"
    model = model_of("token_classification")
    shown, found = views.entities(model, text), model.predict(text=text)
    assert found["entities"] and text_of(shown) == text
    assert marks_of(shown) == [
        text[e["start"] : e["end"]] for e in found["entities"]
    ]
    assert shown.rows == [
        (e["text"], e["type"], e["score"]) for e in found["entities"]
    ]


def test_choices_have_numbers(model_of):
    shown = views.choices(
        model_of("multiple_choice"), "the film", "was good\n\nwas bad\n"
    )
    assert {name for name, _ in shown.rows} == {"1. was good", "2. was bad"}


def test_pieces_have_ids(model_of):
    shown = views.pieces(model_of("classifier"), "x " + "good film " * 20)
    assert shown.notes == [
        "24 of 24 places are used.",
        "Pieces without a place, which are not read: 19.",
        "Words that the vocabulary lacks: 1.",
    ]
    assert shown.rows[2] == ("good", "2", "5") and len(shown.rows) == 24
    shown = views.pieces(model_of("pairs"), "good", "bad")
    assert text_of(shown) == "[CLS] good [SEP] bad [SEP] "
    first, second = 0.3, -0.3  # colors
    marks = [mark for _, mark in shown.marked if mark]
    assert marks == [first] * 3 + [second] * 2


@pytest.mark.parametrize("head", [views.MEAN, "2"])
def test_attention_is_drawn(model_of, head):
    shown = views.attention_of(model_of("pairs"), "good film", "a", "1", head)
    assert shown.figure["data"][0]["x"][2] == "film 2" and not any(shown.notes)


@pytest.mark.parametrize("kind", ["encoder", "embeddings"])
def test_pasted_sentences_are_searched(model_of, kind):
    shown = views.nearest(model_of(kind), "good film", "a book\n\ngood film")
    assert shown.rows[0] == ("good film", "1.000", "3")


@pytest.mark.parametrize("sentences", [" \n", "a\n" * 201])
def test_pasted_sentences_with_mistakes(model_of, sentences):
    with pytest.raises(UserError, match="sentences, wanted 1 to 200"):
        views.nearest(model_of("encoder"), "good", sentences)


def test_vectors_are_compared_by_the_similarity_of_the_model(
    model_of, tmp_path
):
    source = Path(model_of("embeddings").settings.checkpoint.prefix).parent
    keys = {"similarity_fn_name": "euclidean"}
    model = page_models.load(str(changed(source, tmp_path / "near", **keys)))
    texts = ["good film", "a book", "bad"]
    vectors = [np.array(model.predict(text=t)["embedding"]) for t in texts]
    near = [-np.linalg.norm(vectors[0] - vector) for vector in vectors]
    shown = views.nearest(model, texts[0], "\n".join(texts))
    assert shown.headers[1] == "euclidean"
    found = [float(score) for _, score, _ in shown.rows]
    np.testing.assert_allclose(found, np.sort(near)[::-1], atol=6e-4)


def test_an_index_is_searched(model_of, tmp_path):
    """By the models that it is of; the page has a tab for them."""
    model, other = model_of("encoder"), model_of("classifier")
    folder, corpus = str(tmp_path / "index"), tmp_path / "corpus.txt"
    corpus.write_text("a book\n\ngood film")
    wanted = build.fingerprint_of(model.task, [])
    load = functools.partial(getattr, model, "run_vectors")
    build.build(folder, str(corpus), model.task, load, wanted, "model")
    model = copy.copy(model)
    model.searched = build.open_index(folder, "exact", wanted)
    *_, tab = tabs.make_tabs([other, model])
    assert tab.title == "Neighbors" and tab.models == [model]
    found = tab.view(model, "good film").rows
    assert found[0] == ("good film", "1.000", f"{corpus}:3")


def test_models_have_the_tabs_of_their_heads(model_of):
    models = [model_of(kind) for kind in ("encoder", "masked_lm", "pairs")]
    made = tabs.make_tabs(models)
    assert [(tab.title, len(tab.models)) for tab in made] == [
        ("Masked words", 1),
        ("Next sentence", 1),
        ("Classes", 1),
        ("Reasons", 1),
        ("Word pieces", 3),
        ("Attention", 3),
        ("Neighbors", 3),
    ]
    assert len(made[2].boxes) == 2  # a pair
    assert made[5].lists["Layer"] == ["1"]  # those that all models have


def test_a_flag_for_classifiers_changes_no_other_tab(model_of):
    """--sentence_pairs, which the script warns of."""
    path = model_of("masked_lm").settings.checkpoint.prefix
    model = page_models.load(path, sentence_pairs=True)
    first, *_ = tabs.make_tabs([model])
    assert first.title == "Masked words" and len(first.boxes) == 1


@pytest.mark.nightly
def test_every_example_can_be_shown(model_of):
    for kind in (
        "masked_lm",
        "pairs",
        "question_answering",
        "multiple_choice",
        "embeddings",
    ):
        for tab in tabs.make_tabs([model_of(kind)]):
            for example in tab.examples:
                rest = [values[0] for values in tab.lists.values()]
                assert any(tab.view(model_of(kind), *example, *rest))
