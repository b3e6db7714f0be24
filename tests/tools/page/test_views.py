"""What each tab shows of a tiny model, in plain data."""

import html
import re

from base.errors import UserError

import numpy as np
import pytest

from checkpoints import weight_files
from tools.page import drawing, rows, tabs, views
from tools.page.predictions import predict


def plain(shown: str) -> str:
    """Return the text of HTML."""
    return " ".join(re.sub(r"<[^>]+>", " ", shown).split())


def test_every_mask_has_bars(model_of):
    shown = views.masks(model_of("masked_lm"), "the [MASK] sat on a [MASK].")
    assert shown.count("bert-track") == 2 * 3
    found = predict(model_of("masked_lm"), text="the [MASK] sat on a [MASK].")
    first, second = (tokens[0] for tokens in found["tokens"])
    assert plain(shown).startswith(
        f"the 1 {first} sat on a 2 {second} . [MASK] 1 {first}"
    )


def test_the_next_sentence_has_the_probability_of_its_head(model_of):
    """Computed here from the checkpoint: softmax(W tanh(K [CLS] + b) + c)."""
    model = model_of("masked_lm")
    shown = plain(views.follows(model, "the cat sat", "on a mat ."))
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
    first = scores[0] / scores.sum()  # class 0: B follows A
    assert f"the second text follows {drawing.share(first)}" in shown
    order = ["the second text follows", "it is of another document"]
    assert shown.startswith(order[int(first < 0.5)])


@pytest.mark.parametrize("second", ["", " \n", "\x07"])
def test_the_next_sentence_needs_a_second_text(model_of, second):
    with pytest.raises(UserError, match="second text is empty"):
        views.follows(model_of("masked_lm"), "the cat sat", second)


def test_a_second_text_that_is_cut_is_shown_so(model_of):
    shown = views.follows(model_of("masked_lm"), "the cat", "mat " * 20)
    assert re.search(r"<del>( mat)+ </del>", shown)


def test_classes_are_sorted(model_of):
    shown = plain(views.classes(model_of("classifier"), "good film"))
    found = predict(model_of("classifier"), text="good film")
    assert shown.startswith(found["label"])


def test_a_model_of_one_text_says_that_it_ignores_the_second(model_of):
    shown = views.classes(model_of("classifier"), "good", "bad")
    assert "the second is unused" in shown


def test_a_pair_that_is_cut_shows_what_is_cut(model_of):
    shown = views.classes(model_of("pairs"), "good " * 30, "film end")
    assert "The model reads 24 tokens" in shown
    assert re.search(r"<del>( good)+ </del>", shown)


def test_a_regression_shows_a_number(model_of):
    value = predict(model_of("regression"), text="good")["value"]
    shown = views.classes(model_of("regression"), "good")
    assert f"{value:.4g}" in shown


def test_an_answer_is_marked_at_its_characters(model_of):
    context = "a  Good film . " * 50 + "<b>bad</b>"
    texts = {"question": "How?", "context": context}
    found = predict(model_of("question_answering"), **texts)
    shown = views.answers(model_of("question_answering"), "How?", context)
    marked = re.search(r'">([^<]*)<mark id="answer-\w+">([^<]*)</mark>', shown)
    assert len(marked[1]) == found["start"]
    assert marked[2] == context[found["start"] : found["end"]]
    assert f'href="#answer-{model_of("question_answering").name}"' in shown
    assert shown.count("bert-head") == 4
    assert "&lt;b&gt;bad" in shown


def test_a_cut_question_is_shown_as_cut(model_of):
    shown = views.answers(
        model_of("question_answering"), "how how how how how how film", "a"
    )
    assert "<del> film</del>" in shown


def test_entities_are_spans_of_the_whole_text(model_of):
    text = "annx jr saw  the <oslo> city.\x07"
    shown = views.entities(model_of("token_classification"), text)
    found = predict(model_of("token_classification"), text=text)["entities"]
    assert found
    box = shown.split("</div>")[0]
    types = re.findall("<sub>(.*?)</sub>", box)
    assert types == [entity["type"] for entity in found]
    whole = html.unescape(re.sub("<sub>.*?</sub>|<[^>]+>", "", box))
    assert whole == text.replace("\x07", "\u2407")
    assert shown.count("bert-head") == 4


def test_choices_keep_their_order(model_of):
    shown = views.choices(
        model_of("multiple_choice"), "the film", "was good\n\nwas bad\n"
    )
    assert plain(shown).startswith("1. was good")
    assert "2. was bad" in shown


def test_a_choice_that_is_cut_is_shown(model_of):
    shown = views.choices(
        model_of("multiple_choice"), "the film", "good " * 60 + "\nbad"
    )
    assert "Choice 1" in shown and "Choice 2" not in shown
    assert "<del>" in shown


def test_pieces_have_ids_and_cut_ones_are_struck_through(model_of):
    shown = views.pieces(model_of("classifier"), "good film " * 20 + "x")
    assert "24 of 24 tokens; 19 more are cut" in shown
    assert shown.count("<del ") == 19
    assert "<b>good</b><i>5</i>" in shown
    assert "1 unknown to the vocabulary" in shown


@pytest.mark.parametrize("kind", views.ATTENTION_KINDS)
@pytest.mark.parametrize("head", [views.MEAN, 2])
def test_attention_is_drawn(model_of, kind, head):
    text = "good film the bad"
    shown = views.attention_of(model_of("pairs"), text, "a", kind, 1, head)
    assert "<svg" in shown
    if kind != views.ALL_HEADS:
        assert shown.count(">film</text>") == 2
    else:
        assert shown.count("<image") == 2


def test_attention_of_a_cut_text_says_so(model_of):
    shown = views.attention_of(model_of("classifier"), "good " * 40)
    assert "The first 24 of 42 tokens" in shown


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
    assert "cosine line sentence 1.000 2 good film" in plain(shown)


@pytest.mark.parametrize(
    ("sentences", "message"),
    [(" \n", "no sentences"), ("a\n" * 201, "at most")],
)
def test_pasted_sentences_with_mistakes(model_of, sentences, message):
    with pytest.raises(UserError, match=message):
        views.nearest_pasted(model_of("encoder"), "good", sentences, "mean")


def test_models_have_the_tabs_of_their_heads(model_of):
    models = [model_of(kind) for kind in ("encoder", "masked_lm", "pairs")]
    made = tabs.make_tabs(models, {})
    assert [(tab.name, len(tab.models)) for tab in made] == [
        ("masks", 1),
        ("next", 1),
        ("classes", 1),
        ("pieces", 3),
        ("attention", 3),
        ("neighbors", 3),
    ]
    assert len(made[2].fields) == 2  # a pair
    layers = made[4].fields[3].choices
    assert layers == (1, 2)  # of the model that has most


def test_every_example_can_be_shown(model_of):
    for kind in ("masked_lm", "pairs", "question_answering", "multiple_choice"):
        for tab in tabs.make_tabs([model_of(kind)], {}):
            for example in tab.examples:
                rest = [f.value for f in tab.fields[len(example) :]]
                assert tab.view(model_of(kind), *example, *rest)
