"""The tabs of the page: for which models, with which fields and examples."""

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from tools.page import neighbors, views
from tools.page.models import NEXT_SENTENCE, PageModel
from tools.page.neighbors import Index


class Field(NamedTuple):
    """An input of a tab.

    Attributes:
        label: its name on the page.
        lines: of a box of text.
        choices: of a list to choose from; empty: it is a box of text.
        value: at first.
    """

    label: str
    lines: int = 2
    choices: tuple[Any, ...] = ()
    value: Any = ""


class Tab(NamedTuple):
    """An ability of one or more models.

    Attributes:
        title: on the page.
        name: of its function in the page's programming interface.
        models: that have the ability.
        view: model and the values of the fields -> HTML.
        fields: its inputs, boxes of text before lists of choices.
        examples: values of the first fields, to click.
    """

    title: str
    name: str
    models: list[PageModel]
    view: Callable[..., str]
    fields: list[Field]
    examples: list[list[str]]


def make_tabs(
    models: Sequence[PageModel], indexes: Mapping[str, Index]
) -> list[Tab]:
    """Return the tabs that some models need, those of their heads first.

    Args:
        models: at least one.
        indexes: name of the model -> of --neighbors_file; empty without it.
    """
    tabs = []
    for head, make in _TABS_OF_HEADS.items():
        able = [model for model in models if head in model.heads]
        if able:
            tabs.append(make(able))
    every = list(models)
    return [
        *tabs,
        _pieces(every),
        _attention(every),
        _neighbors(every, indexes),
    ]


# --- Heads -------------------------------------------------------------------


def _masks(models: list[PageModel]) -> Tab:
    return Tab(
        "Masked words",
        "masks",
        models,
        views.masks,
        [Field("Text with [MASK] for each word to find", 3)],
        [
            ["Paris is the [MASK] of [MASK]."],
            ["Return [MASK] if the object is [MASK]."],
        ],
    )


def _next_sentence(models: list[PageModel]) -> Tab:
    return Tab(
        "Next sentence",
        "next",
        models,
        views.follows,
        [Field("Text", 3), Field("Second text, which may follow", 3)],
        [
            [
                "She opened the old letter and began to read.",
                "It was from her brother, and the paper trembled in her hand.",
            ],
            [
                "She opened the old letter and began to read.",
                "The horses were put to the carriage.",
            ],
        ],
    )


def _classes(models: list[PageModel]) -> Tab:
    fields = [Field("Text", 3)]
    examples = [
        ["A warm, funny film with two wonderful actors."],
        ["The plot is thin and the jokes fall flat."],
    ]
    if any(model.settings.sentence_pairs for model in models):
        fields.append(Field("Second text", 3))
        examples = [
            ["The company bought the shop.", "The shop was sold to the firm."],
            ["He was born in Paris.", "The weather was fine."],
        ]
    return Tab("Classes", "classes", models, views.classes, fields, examples)


_CONTEXT = (
    "The Amazon rainforest covers most of the Amazon basin of South America. "
    "The basin has 7,000,000 square kilometres, of which 5,500,000 are covered "
    "by the rainforest. The majority of the forest is in Brazil, with 60% of "
    "it, followed by Peru with 13%, and Colombia with 10%."
)


def _answers(models: list[PageModel]) -> Tab:
    return Tab(
        "Questions",
        "answers",
        models,
        views.answers,
        [Field("Question", 1), Field("Context", 8)],
        [
            ["Which country has most of the forest?", _CONTEXT],
            ["Who discovered the Amazon?", _CONTEXT],
        ],
    )


def _entities(models: list[PageModel]) -> Tab:
    return Tab(
        "Entities",
        "entities",
        models,
        views.entities,
        [Field("Text", 5)],
        [
            ["Ada Lovelace met Charles Babbage in London in 1833."],
            ["Google opened an office in Zurich, near the Swiss Alps."],
        ],
    )


def _choices(models: list[PageModel]) -> Tab:
    return Tab(
        "Choices",
        "choices",
        models,
        views.choices,
        [Field("Context", 3), Field("Choices, one in each line", 4)],
        [
            [
                "She opened the old letter and began to read.",
                "It was from her brother, and the paper trembled in her hand.\n"
                "The horses were put to the carriage.\n"
                "A cannon was fired from the ship.",
            ]
        ],
    )


_TABS_OF_HEADS: dict[str, Callable[[list[PageModel]], Tab]] = {
    "masked_lm": _masks,
    NEXT_SENTENCE: _next_sentence,
    "classifier": _classes,
    "question_answering": _answers,
    "token_classification": _entities,
    "multiple_choice": _choices,
}


# --- Every model -------------------------------------------------------------

_TEXT = Field("Text", 3)
_SECOND = Field("Second text, may be empty", 2)


def _pieces(models: list[PageModel]) -> Tab:
    return Tab(
        "Word pieces",
        "pieces",
        models,
        views.pieces,
        [_TEXT, _SECOND],
        [["Unaffable, isn't it?", ""], ["A pair of texts", "is one row."]],
    )


def _attention(models: list[PageModel]) -> Tab:
    configs = [model.model.config for model in models]
    layers = max(config.num_hidden_layers for config in configs)
    heads = max(config.num_attention_heads for config in configs)
    return Tab(
        "Attention",
        "attention",
        models,
        views.attention_of,
        [
            _TEXT,
            _SECOND,
            Field(
                "Picture",
                choices=views.ATTENTION_KINDS,
                value=views.ATTENTION_KINDS[0],
            ),
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


_SENTENCES = """\
The dog runs in the park.
Stock prices fell on Monday.
A puppy plays on the grass.
The bank raised its rates."""


def _neighbors(models: list[PageModel], indexes: Mapping[str, Index]) -> Tab:
    fields = [Field("Sentence", 1)]
    view = functools.partial(views.nearest, indexes)
    if not indexes:
        fields.append(
            Field("Sentences to search, one in each line", 6, value=_SENTENCES)
        )
        view = views.nearest_pasted
    fields.append(
        Field("Vector", choices=neighbors.POOLINGS, value=neighbors.POOLINGS[0])
    )
    return Tab(
        "Neighbors",
        "neighbors",
        models,
        view,
        fields,
        [["A dog is playing outside."], ["The market is down."]],
    )
