"""What each tab shows of a tiny model, in plain data."""

import functools

from base.errors import UserError

import numpy as np
import pytest

from checkpoints import weight_files
from serving.search import build
from tools.page import rows, tabs, views
from tools.page.predictions import predict
from tools.page.results import Bars, Note, Number, Table, Text


def only(shown: list, kind: type):
    """Return the result of a kind."""
    (found,) = (result for result in shown if isinstance(result, kind))
    return found


def notes(shown: list) -> str:
    return " ".join(result.text for result in shown if isinstance(result, Note))


def unread(text: Text) -> list[str]:
    return [piece for piece, kind in text.parts if kind == "not read"]


def test_every_mask_has_bars(model_of):
    text = "the [MASK] sat on a [MASK]."
    found = predict(model_of("masked_lm"), text=text)
    filled, *bars = views.masks(model_of("masked_lm"), text)
    first, second = (tokens[0] for tokens in found["tokens"])
    wanted = f"the {first} sat on a {second}."
    assert "".join(part for part, _ in filled.parts) == wanted
    assert [bar.label for bar in bars] == ["[MASK] 1", "[MASK] 2"]
    for bar, tokens, scores in zip(
        bars, found["tokens"], found["scores"], strict=True
    ):
        assert bar.shares == dict(zip(tokens, scores, strict=True))


def test_a_sentence_has_its_score(model_of):
    model = model_of("sentence_score")
    found = predict(model, text="the cats sat")
    perplexity, tokens = views.scores(model, "the cats sat")
    assert perplexity.value == found["perplexity"]
    assert tokens.rows == [
        [token, f"{score:.2f}"]
        for token, score in zip(
            found["tokens"], found["token_scores"], strict=True
        )
    ]


def test_the_next_sentence_has_the_probability_of_its_head(model_of):
    """Computed here from the checkpoint: softmax(W tanh(K [CLS] + b) + c)."""
    model = model_of("masked_lm")
    shown = views.follows(model, "the cat sat", "on a mat .")
    row = rows.row_of(rows.pieces_of(model, "the cat sat", "on a mat ."))
    assert row.segment_ids.tolist() == [0] * 5 + [1] * 5
    features = rows.features_of(row)
    vector = model.model.encode(features).sequence_output[0, 0].numpy()
    weights = weight_files.open_reader(model.settings.path).get_tensor
    pooled = np.tanh(
        vector @ weights("bert/pooler/dense/kernel")
        + weights("bert/pooler/dense/bias")
    )
    scores = np.exp(
        weights("cls/seq_relationship/output_weights") @ pooled
        + weights("cls/seq_relationship/output_bias")
    )
    # Class 0: B follows A.
    np.testing.assert_allclose(
        only(shown, Bars).shares["the second text follows"],
        scores[0] / scores.sum(),
        rtol=1e-5,
    )


@pytest.mark.parametrize("second", ["", " \n", "\x07"])
def test_the_next_sentence_needs_a_second_text(model_of, second):
    with pytest.raises(UserError, match="second text is empty"):
        views.follows(model_of("masked_lm"), "the cat sat", second)


def test_classes_are_those_of_the_prediction(model_of):
    found = predict(model_of("classifier"), text="good film")
    shown = views.classes(model_of("classifier"), "good film", "bad")
    assert only(shown, Bars).shares == found["probabilities"]
    assert "the second is unused" in notes(shown)


def test_a_regression_shows_a_number(model_of):
    value = predict(model_of("regression"), text="good")["value"]
    shown = views.classes(model_of("regression"), "good")
    assert only(shown, Number).value == value


@pytest.mark.slow
def test_reasons_are_the_words_and_what_they_add(model_of):
    """In the shades of -1 to 1, the largest is one of these."""
    for kind, texts in (
        ("classifier", ["good film", ""]),
        ("regression", ["bad", ""]),
        ("pairs", ["good", "film end"]),
    ):
        shown = views.reasons(model_of(kind), *texts)
        value, baseline = (r for r in shown if isinstance(r, Number))
        table = only(shown, Table)
        assert [word for word, _ in table.rows] == " ".join(texts).split()
        adds = [float(number) for _, number in table.rows]
        assert sum(adds) == pytest.approx(
            value.value - baseline.value, rel=0.02, abs=2e-3
        )
        parts = [p for r in shown if isinstance(r, Text) for p in r.parts]
        shades = [shade for word, shade in parts if word != " "]
        assert max(map(abs, shades)) == pytest.approx(1)
        assert np.sign(shades).tolist() == np.sign(adds).tolist()
    found = predict(model_of("classifier"), text="good film")
    shown = views.reasons(model_of("classifier"), "good film")
    (label, *_) = (r.label for r in shown if isinstance(r, Number))
    assert label == f"Log odds of {found['label']}"
    assert "attributions" not in found


def test_what_is_not_read_is_shown(model_of):
    shown = views.classes(model_of("pairs"), "good " * 30, "film end")
    assert "reads 24 tokens" in notes(shown)
    assert unread(only(shown, Text)) == ["good"] * 11
    shown = views.follows(model_of("masked_lm"), "the cat", "mat " * 20)
    assert set(unread(only(shown, Text))) == {"mat"}
    shown = views.choices(
        model_of("multiple_choice"), "the film", "good " * 60 + "\nbad"
    )
    assert only(shown, Text).label == "Choice 1"
    shown = views.answers(
        model_of("question_answering"), "how how how how how how film", "a"
    )
    assert unread(shown[-1]) == ["film"]


def test_an_answer_is_marked_at_its_characters(model_of):
    model = model_of("question_answering")
    context = "a  Good film . " * 100 + "<b>bad</b>"
    found = predict(model, question="How?", context=context)
    shown = views.answers(model, "How?", context)
    parts = [part for part, _ in only(shown, Text).parts]
    assert parts[2] == context[found["start"] : found["end"]]
    assert context[: found["start"]].endswith(parts[1])
    assert context[found["end"] :].startswith(parts[3])
    table = only(shown, Table)
    assert table.rows[0][0] == found["answer"]
    assert len(table.rows) == len(found["nbest"])


def test_entities_are_spans_of_the_whole_text(model_of):
    text = "annx jr saw  the <oslo> city.\x07"
    shown = views.entities(model_of("token_classification"), text)
    found = predict(model_of("token_classification"), text=text)["entities"]
    spans = only(shown, Text).parts
    assert "".join(part for part, _ in spans) == text
    types = [kind for _, kind in spans if kind]
    assert found and types == [entity["type"] for entity in found]
    assert len(only(shown, Table).rows) == len(found)


def test_choices_have_numbers(model_of):
    shown = views.choices(
        model_of("multiple_choice"), "the film", "was good\n\nwas bad\n"
    )
    assert list(only(shown, Bars).shares) == ["1. was good", "2. was bad"]


def test_pieces_have_ids(model_of):
    shown = views.pieces(model_of("classifier"), "good film " * 20 + "x")
    message = (
        "24 of 24 tokens; 19 more have no place and are not read; 1 unknown"
    )
    assert message in notes(shown)
    assert len(unread(only(shown, Text))) == 19
    assert ["1", "good", "5", "first"] in only(shown, Table).rows


@pytest.mark.parametrize("head", [views.MEAN, 2])
def test_attention_is_drawn(model_of, head):
    def shown(kind):
        model = model_of("pairs")
        return views.attention_of(model, "good film", "a", kind, 1, head)[-1]

    assert shown(views.HEAT_MAP).figure["data"][0]["x"][2] == "film"
    assert shown(views.LINES).svg.count(">film</text>") == 2
    assert shown(views.ALL_HEADS).figure["data"][0]["z"]


def test_attention_of_a_cut_text_says_so(model_of):
    shown = views.attention_of(model_of("classifier"), "good " * 40)
    assert "24 of 42 tokens; the others are not shown" in notes(shown)


@pytest.mark.parametrize(("layer", "head"), [(2, "mean"), (1, 3)])
def test_a_layer_that_another_model_has(model_of, layer, head):
    with pytest.raises(UserError, match="the model has"):
        views.attention_of(
            model_of("pairs"), "good", "", views.LINES, layer, head
        )


def test_pasted_sentences_are_searched(model_of):
    shown = views.nearest_pasted(
        model_of("encoder"), "good film", "a book\ngood film", "mean"
    )
    assert only(shown, Table).rows[0] == ["1.000", "2", "good film"]


@pytest.mark.parametrize(
    ("sentences", "message"),
    [(" \n", "no sentences"), ("a\n" * 201, "at most")],
)
def test_pasted_sentences_with_mistakes(model_of, sentences, message):
    with pytest.raises(UserError, match=message):
        views.nearest_pasted(model_of("encoder"), "good", sentences, "mean")


def test_similarities_are_those_of_the_predictions(model_of):
    """Those of batch_predict.py, and one of the sentences is cut."""
    model = model_of("embeddings")
    texts, others = ["good film", "a " * 9], ["a book", "good film", "bad"]
    shown = views.similarities(model, "\n".join(texts), "\n".join(others))
    assert "1 of the sentences cut" in notes(shown)
    table = only(shown, Table)
    assert table.headers == ("sentence", *others)
    vectors = {}
    for text in texts + others:
        vector = np.array(predict(model, text=text)["embedding"])
        vectors[text] = vector / np.linalg.norm(vector)
    for text, (shown_text, *cosines) in zip(texts, table.rows, strict=True):
        assert shown_text == text.strip()
        wanted = [vectors[text] @ vectors[other] for other in others]
        np.testing.assert_allclose(np.float64(cosines), wanted, atol=6e-4)


@pytest.mark.parametrize(
    ("first", "second"), [("a", " "), ("", "a"), ("a", "a\n" * 11)]
)
def test_similarities_need_few_sentences(model_of, first, second):
    with pytest.raises(UserError, match="sentences: give 1 to"):
        views.similarities(model_of("embeddings"), first, second)


def test_an_index_is_searched(model_of, tmp_path):
    """By the models that it is of; the page has a tab for them."""
    model, other = model_of("encoder"), model_of("classifier")
    folder, corpus = str(tmp_path / "index"), tmp_path / "corpus.txt"
    corpus.write_text("a book\n\ngood film")
    wanted = build.fingerprint_of(model.encoder)
    load = functools.partial(getattr, model, "run_encoder")
    build.build(folder, str(corpus), model.encoder, load, wanted)
    index = build.open_index(folder, "exact", wanted)
    *_, tab = tabs.make_tabs([other, model], {}, {model.name: index})
    assert tab.title == "Search" and tab.models == [model]
    rows = only(tab.view(model, "good film"), Table).rows
    assert rows[0] == ["1.000", f"{corpus}:3", "good film"]
    with pytest.raises(UserError, match="text is empty"):
        tab.view(model, " ")


def test_models_have_the_tabs_of_their_heads(model_of):
    models = [model_of(kind) for kind in ("encoder", "masked_lm", "pairs")]
    made = tabs.make_tabs(models, {}, {})
    assert [(tab.title, len(tab.models)) for tab in made] == [
        ("Masked words", 1),
        ("Next sentence", 1),
        ("Classes", 1),
        ("Reasons", 1),
        ("Word pieces", 3),
        ("Attention", 3),
        ("Neighbors", 3),
    ]
    assert len(made[2].fields) == 2  # a pair
    layers = made[5].fields[3].choices
    assert layers == (1, 2)  # of the model that has most


def test_every_example_can_be_shown(model_of):
    for kind in (
        "masked_lm",
        "pairs",
        "question_answering",
        "multiple_choice",
        "embeddings",
    ):
        for tab in tabs.make_tabs([model_of(kind)], {}, {}):
            for example in tab.examples:
                rest = [f.value for f in tab.fields[len(example) :]]
                assert tab.view(model_of(kind), *example, *rest)
