"""The tabs of the page: for which models, with which fields and examples."""

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from serving.search.index import Index as SearchIndex
from tools.page import neighbors, views
from tools.page.models import NEXT_SENTENCE, REASONS, PageModel
from tools.page.neighbors import Index
from tools.page.results import Result


class Field(NamedTuple):
    """An input of a tab.

    Attributes:
        label: its name on the page.
        lines: of a box of text.
        choices: of a list to choose from; empty: it is a box of text.
        value: at first.
    """

    label: str
    lines: int = 3
    choices: tuple[Any, ...] = ()
    value: Any = ""


class Tab(NamedTuple):
    """An ability of one or more models.

    Attributes:
        title: on the page.
        view: model and the values of the fields -> what it shows.
        fields: its inputs, boxes of text before lists of choices.
        examples: values of the first fields, to click.
        models: that have the ability.
    """

    title: str
    view: Callable[..., list[Result]]
    fields: list[Field]
    examples: list[list[str]]
    models: Sequence[PageModel] = ()


_FOREST = (
    "The Amazon rainforest covers most of the Amazon basin of South America. "
    "The basin has 7,000,000 square kilometres, of which 5,500,000 are covered "
    "by the rainforest. The majority of the forest is in Brazil, with 60% of "
    "it, followed by Peru with 13%, and Colombia with 10%."
)
_LETTER = "She opened the old letter and began to read."
_FITTING = "It was from her brother, and the paper trembled in her hand."
_HORSES = "The horses were put to the carriage."
_SENTENCES = """\
The dog runs in the park.
Stock prices fell on Monday.
A puppy plays on the grass.
The bank raised its rates."""

_CLASSES = Tab(
    "Classes",
    views.classes,
    [Field("Text")],
    [
        ["A warm, funny film with two wonderful actors."],
        ["The plot is thin and the jokes fall flat."],
    ],
)

# Of the heads of models.
_TABS = {
    "masked_lm": Tab(
        "Masked words",
        views.masks,
        [Field("Text with [MASK] for each word to find")],
        [
            ["Paris is the [MASK] of [MASK]."],
            ["Return [MASK] if the object is [MASK]."],
        ],
    ),
    "sentence_score": Tab(
        "Sentence score",
        views.scores,
        [Field("Sentence")],
        [["The cat sat on the mat."], ["The mat sat on the the cat."]],
    ),
    NEXT_SENTENCE: Tab(
        "Next sentence",
        views.follows,
        [Field("Text"), Field("Second text, which may follow")],
        [[_LETTER, _FITTING], [_LETTER, _HORSES]],
    ),
    "classifier": _CLASSES,
    "multi_label_classification": _CLASSES._replace(title="Labels"),
    REASONS: _CLASSES._replace(title="Reasons", view=views.reasons),
    "question_answering": Tab(
        "Questions",
        views.answers,
        [Field("Question", 1), Field("Context", 8)],
        [
            ["Which country has most of the forest?", _FOREST],
            ["Who discovered the Amazon?", _FOREST],
        ],
    ),
    "token_classification": Tab(
        "Entities",
        views.entities,
        [Field("Text", 5)],
        [
            ["Ada Lovelace met Charles Babbage in London in 1833."],
            ["Google opened an office in Zurich, near the Swiss Alps."],
        ],
    ),
    "multiple_choice": Tab(
        "Choices",
        views.choices,
        [Field("Context"), Field("Choices, one in each line", 4)],
        [[_LETTER, f"{_FITTING}\n{_HORSES}\nA cannon was fired."]],
    ),
    "embeddings": Tab(
        "Similarities",
        views.similarities,
        [
            Field("Sentences, one in each line", 4),
            Field(f"Compare with, at most {views.MAX_COLUMNS}", 4),
        ],
        [[_SENTENCES, "A dog is playing outside.\nThe market is down."]],
    ),
}


def make_tabs(
    models: Sequence[PageModel],
    indexes: Mapping[str, Index],
    searched: Mapping[str, SearchIndex],
) -> list[Tab]:
    """Return the tabs that some models need, those of their heads first.

    Args:
        models: at least one.
        indexes: name of the model -> of --neighbors_file; empty without it.
        searched: name of the model -> --index, if it is of that model.
    """
    tabs = []
    for head, tab in _TABS.items():
        able = [model for model in models if head in model.heads]
        if any(model.settings.sentence_pairs for model in able):
            tab = _of_pairs(tab)
        if able:
            tabs.append(tab._replace(models=able))
    for tab in (_pieces(), _attention(models), _neighbors(indexes)):
        tabs.append(tab._replace(models=models))
    if able := [model for model in models if model.name in searched]:
        view = functools.partial(views.search, searched)
        fields, examples = [Field("Query", 1)], [[_LETTER]]
        tabs.append(Tab("Search", view, fields, examples, able))
    return tabs


def _of_pairs(classes: Tab) -> Tab:
    return classes._replace(
        fields=[Field("Text"), Field("Second text")],
        examples=[
            ["The company bought the shop.", "The shop was sold to the firm."],
            ["He was born in Paris.", "The weather was fine."],
        ],
    )


# --- Every model -------------------------------------------------------------

_TEXTS = [Field("Text"), Field("Second text, may be empty", 2)]


def _pieces() -> Tab:
    examples = [["Unaffable, isn't it?", ""], ["A pair of texts", "is a row."]]
    return Tab("Word pieces", views.pieces, _TEXTS, examples)


def _attention(models: Sequence[PageModel]) -> Tab:
    configs = [model.model.config for model in models]
    layers = max(config.num_hidden_layers for config in configs)
    heads = max(config.num_attention_heads for config in configs)
    kinds = views.ATTENTION_KINDS
    return Tab(
        "Attention",
        views.attention_of,
        [
            *_TEXTS,
            Field("Picture", choices=kinds, value=kinds[0]),
            Field("Layer", choices=(*range(1, layers + 1),), value=1),
            Field(
                "Head",
                choices=(views.MEAN, *range(1, heads + 1)),
                value=views.MEAN,
            ),
        ],
        [
            ["The cat sat on the mat because it was tired.", ""],
            ["Where is the cat?", "The cat is on the mat."],
        ],
    )


def _neighbors(indexes: Mapping[str, Index]) -> Tab:
    fields = [Field("Sentence", 1)]
    view = functools.partial(views.nearest, indexes)
    if not indexes:
        label = "Sentences to search, one in each line"
        fields.append(Field(label, 6, value=_SENTENCES))
        view = views.nearest_pasted
    poolings = neighbors.POOLINGS
    fields.append(Field("Vector", choices=poolings, value=poolings[0]))
    examples = [["A dog is playing outside."], ["The market is down."]]
    return Tab("Neighbors", view, fields, examples)
