"""What each tab shows of a tiny model: the numbers and texts of its HTML."""

import copy
import functools
import xml.etree.ElementTree as ElementTree
from pathlib import Path

from base.errors import UserError

import numpy as np
import page_models
import pytest
from fine_tuned_models import changed

from checkpoints import weight_files
from serving.search import build
from tools.page import inputs, markup, tabs, views
from tools.page.inputs import predict


def shown(html: str) -> ElementTree.Element:
    """Return what a view shows; texts of the input have made no tag."""
    found = ElementTree.fromstring(f"<div>{html}</div>")
    known = {*"div p b table caption thead tbody tr th td".split()}
    known |= {*"figure figcaption mark small".split()}
    assert {element.tag for element in found.iter()} <= known
    return found


def text_of(element: ElementTree.Element) -> str:
    return "".join(element.itertext())


def table_of(html: str, number: int = 0) -> list[list[str]]:
    """Return the cells of a table, without its head."""
    body = [*shown(html).iter("tbody")][number]
    return [[text_of(cell) for cell in row] for row in body]


def marks_of(html: str) -> list[tuple[str, str]]:
    """Return text and color of all that is marked, but for legends."""
    found = shown(html)
    legends = found.findall(".//p[@class='legend']/mark")
    return [
        (mark.text or "", mark.get("class"))
        for mark in found.iter("mark")
        if mark not in legends
    ]


def unread(html: str) -> list[str]:
    return [piece for piece, color in marks_of(html) if color == "kind2"]


def listed(pairs) -> list[list[str]]:
    return [[name, markup.share(value)] for name, value in pairs]


def test_every_mask_has_its_word_pieces(model_of):
    text = "the [MASK] sat on a [MASK]."
    found = predict(model_of("masked_lm"), text=text)
    html = views.masks(model_of("masked_lm"), text)
    first, second = (tokens[0] for tokens in found["tokens"])
    wanted = f"the {first}[MASK] 1 sat on a {second}[MASK] 2."
    assert wanted in text_of(shown(html))
    for number in range(2):
        assert table_of(html, number) == listed(
            zip(found["tokens"][number], found["scores"][number], strict=True)
        )


def test_a_sentence_has_its_score(model_of):
    model = model_of("sentence_score")
    found = predict(model, text="the cats sat")
    html = views.scores(model, "the cats sat")
    assert f"{found['perplexity']:.4g}" in text_of(shown(html))
    pairs = zip(found["tokens"], found["token_scores"], strict=True)
    assert table_of(html) == [[token, f"{s:.2f}"] for token, s in pairs]


def test_the_next_sentence_has_the_probability_of_its_head(model_of):
    """Computed here from the checkpoint: softmax(W tanh(K [CLS] + b) + c)."""
    model = model_of("masked_lm")
    pieces = inputs.pieces_of(model, "the cat sat", "on a mat .")
    features = inputs.features_of(pieces)
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
    found = inputs.next_sentence(model, features)
    # Class 0: B follows A.
    np.testing.assert_allclose(found[0], scores[0] / scores.sum(), rtol=1e-5)
    html = views.follows(model, "the cat sat", "on a mat .")
    assert table_of(html)[0] == [
        "the second text follows",
        markup.share(found[0]),
    ]


def test_the_next_sentence_needs_a_second_text(model_of):
    with pytest.raises(UserError, match="second text has no word"):
        views.follows(model_of("masked_lm"), "the cat sat", "\x07")


def test_classes_are_those_of_the_prediction(model_of):
    found = predict(model_of("classifier"), text="good film")["probabilities"]
    html = views.classes(model_of("classifier"), "good film", "bad")
    assert table_of(html) == listed(
        sorted(found.items(), key=lambda pair: -pair[1])
    )
    assert "the second is unused" in text_of(shown(html))


def test_a_regression_shows_a_number(model_of):
    value = predict(model_of("regression"), text="good")["value"]
    html = views.classes(model_of("regression"), "good")
    assert text_of(shown(html)) == f"Predicted {value:.4g}"


@pytest.mark.slow
def test_reasons_are_the_words_and_what_they_add(model_of):
    """In shades whose largest is full."""
    for kind, texts in (
        ("classifier", ["good film", ""]),
        ("regression", ["bad", ""]),
        ("pairs", ["good", "film end"]),
    ):
        html = views.reasons(model_of(kind), *texts)
        value, baseline = (float(b.text) for b in shown(html).iter("b"))
        words, adds = zip(*table_of(html), strict=True)
        assert [*words] == " ".join(texts).split()
        assert sum(map(float, adds)) == pytest.approx(
            value - baseline, rel=0.02, abs=2e-3
        )
        wanted = ["for" if float(x) > 0 else "against" for x in adds]
        assert [color for _, color in marks_of(html)] == wanted
        assert "--share: 100%" in html
    found = predict(model_of("classifier"), text="good film")
    html = views.reasons(model_of("classifier"), "good film")
    assert f"Log odds of {found['label']} " in text_of(shown(html))
    assert "attributions" not in found


def test_what_is_not_read_is_shown(model_of):
    html = views.classes(model_of("pairs"), "good " * 30, "film end")
    assert "reads 24 of 35 tokens" in text_of(shown(html))
    assert unread(html) == ["good"] * 11
    html = views.follows(model_of("masked_lm"), "the cat", "mat " * 20)
    assert {*unread(html)} == {"mat"}
    html = views.choices(
        model_of("multiple_choice"), "the film", "good " * 60 + "\nbad"
    )
    assert "Choice 1: the model reads" in html and "Choice 2:" not in html
    html = views.answers(
        model_of("question_answering"), "how how how how how how film", "a"
    )
    assert unread(html) == ["film"]


def test_an_answer_is_marked_at_its_characters(model_of):
    model = model_of("question_answering")
    context = "a  Good film . " * 100 + "<b>bad</b>"
    found = predict(model, question="How?", context=context)
    html = views.answers(model, "How?", context)
    ((answer, _),) = marks_of(html)
    start, end = found["start"], found["end"]
    assert answer == context[start:end]
    around = context[max(0, start - 600) : start] + answer
    around += markup.share(found["probability"]) + context[end : end + 600]
    assert around in text_of(shown(html))
    assert table_of(html)[0][0] == found["answer"]
    assert len(table_of(html)) == len(found["nbest"])


def test_entities_are_spans_of_the_whole_text(model_of):
    text = "annx jr saw  the <oslo> city.\x07"
    html = views.entities(model_of("token_classification"), text)
    found = predict(model_of("token_classification"), text=text)["entities"]
    assert found
    assert [mark for mark, _ in marks_of(html)] == [
        text[e["start"] : e["end"]] for e in found
    ]
    assert table_of(html) == [
        [e["text"], e["type"], markup.share(e["score"])] for e in found
    ]
    (whole,) = shown(html).findall(".//div[@class='scroll text']")
    for mark in whole.iter("mark"):
        mark[0].text = ""  # the type
    assert text_of(whole) == text.replace("\x07", "<U+0007>")


def test_choices_have_numbers(model_of):
    html = views.choices(
        model_of("multiple_choice"), "the film", "was good\n\nwas bad\n"
    )
    names = [name for name, _ in table_of(html)]
    assert names == ["1. was good", "2. was bad"]


def test_pieces_have_ids(model_of):
    html = views.pieces(model_of("classifier"), "good film " * 20 + "x")
    message = text_of(shown(html))
    assert "24 of 24 places are used" in message
    assert "not read: 19." in message and "lacks: 1." in message
    assert len(unread(html)) == 19
    assert ["good", "1", "5"] in table_of(html)
    assert len(table_of(html)) == 24


@pytest.mark.parametrize("head", [views.MEAN, "2"])
def test_attention_is_drawn(model_of, head):
    html, figure = views.attention_of(
        model_of("pairs"), "good film", "a", "1", head
    )
    assert figure["data"][0]["x"][2] == "film" and not html


def test_attention_of_a_cut_text_says_so(model_of):
    html, _ = views.attention_of(
        model_of("classifier"), "good " * 40, "", "1", "1"
    )
    assert "reads 24 of 42 tokens" in html


@pytest.mark.parametrize(("layer", "head"), [("2", views.MEAN), ("1", "3")])
def test_a_layer_that_another_model_has(model_of, layer, head):
    with pytest.raises(UserError, match="the model has"):
        views.attention_of(model_of("pairs"), "good", "", layer, head)


@pytest.mark.parametrize("kind", ["encoder", "embeddings"])
def test_pasted_sentences_are_searched(model_of, kind):
    html = views.nearest(model_of(kind), "good film", "a book\n\ngood film")
    assert table_of(html)[0] == ["good film", "1.000", "3"]


@pytest.mark.parametrize("sentences", [" \n", "a\n" * 201])
def test_pasted_sentences_with_mistakes(model_of, sentences):
    with pytest.raises(UserError, match="sentences, wanted 1 to 200"):
        views.nearest(model_of("encoder"), "good", sentences)


def test_similarities_are_those_of_the_predictions(model_of):
    """Those of batch_predict.py, and one of the sentences is cut."""
    model = model_of("embeddings")
    texts, others = ["good film", "a " * 9], ["a book", "good film", "bad"]
    html = views.similarities(model, "\n".join(texts), "\n".join(others))
    assert "1 sentence cut" in text_of(shown(html))
    heads = [text_of(cell) for cell in shown(html).find(".//thead/tr")]
    assert heads == ["sentence", *others]
    vectors = {}
    for text in texts + others:
        vector = np.array(predict(model, text=text)["embedding"])
        vectors[text] = vector / np.linalg.norm(vector)
    for text, (first, *cosines) in zip(texts, table_of(html), strict=True):
        assert first == text.strip()
        wanted = [vectors[text] @ vectors[other] for other in others]
        np.testing.assert_allclose(np.float64(cosines), wanted, atol=6e-4)


def test_vectors_are_compared_by_the_similarity_of_the_model(
    model_of, tmp_path
):
    source = Path(model_of("embeddings").settings.checkpoint.prefix).parent
    keys = {"similarity_fn_name": "euclidean"}
    model = page_models.load(str(changed(source, tmp_path / "near", **keys)))
    texts = ["good film", "a book", "bad"]
    vectors = [np.array(predict(model, text=t)["embedding"]) for t in texts]
    near = [-np.linalg.norm(vectors[0] - vector) for vector in vectors]
    html = views.similarities(model, texts[0], "\n".join(texts))
    assert "Euclidean of the vectors" in html
    _, *found = table_of(html)[0]
    np.testing.assert_allclose(np.float64(found), near, atol=6e-4)
    rows = table_of(views.nearest(model, texts[0], "\n".join(texts)))
    found = [float(score) for _, score, _ in rows]
    np.testing.assert_allclose(found, np.sort(near)[::-1], atol=6e-4)


def test_similarities_have_a_place_for_few(model_of):
    with pytest.raises(UserError, match="11 sentences, wanted 1 to 10"):
        views.similarities(model_of("embeddings"), "a", "a\n" * 11)


def test_an_index_is_searched(model_of, tmp_path):
    """By the models that it is of; the page has a tab for them."""
    model, other = model_of("encoder"), model_of("classifier")
    folder, corpus = str(tmp_path / "index"), tmp_path / "corpus.txt"
    corpus.write_text("a book\n\ngood film")
    wanted = build.fingerprint_of(model.task)
    load = functools.partial(getattr, model, "run_vectors")
    build.build(folder, str(corpus), model.task, load, wanted)
    model = copy.copy(model)
    model.searched = build.open_index(folder, "exact", wanted)
    *_, tab = tabs.make_tabs([other, model])
    assert tab.title == "Neighbors" and tab.models == [model]
    found = table_of(tab.view(model, "good film"))
    assert found[0] == ["good film", "1.000", f"{corpus}:3"]


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
    assert len(made[2].fields) == 2  # a pair
    layers = made[5].fields[2].choices
    assert layers == ["1", "2"]  # of the model that has most


def test_a_flag_for_classifiers_changes_no_other_tab(model_of):
    """--sentence_pairs, which the script warns of."""
    path = model_of("masked_lm").settings.checkpoint.prefix
    model = page_models.load(path, sentence_pairs=True)
    first, *_ = tabs.make_tabs([model])
    assert first.title == "Masked words" and len(first.fields) == 1


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
                rest = [f.choices[0] for f in tab.fields[len(example) :]]
                assert tab.view(model_of(kind), *example, *rest)
