"""The tabs of the page: for which models, with which fields and examples."""

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from tools.page import views
from tools.page.models import NEXT_SENTENCE, REASONS, PageModel


class Field(NamedTuple):
    """An input of a tab.

    Attributes:
        label: its name on the page.
        lines: of a box of text.
        choices: of a list to choose from; empty: it is a box of text.
        is_optional: whether the text may be blank.
    """

    label: str
    lines: int = 3
    choices: tuple[str, ...] = ()
    is_optional: bool = False


class Tab(NamedTuple):
    """An ability of one or more models.

    Attributes:
        title: on the page.
        about: what it does, in a sentence.
        view: model and the values of the fields -> what it shows, HTML; with
            `has_figure` that and a figure of Plotly, or None.
        fields: its inputs, boxes of text before lists of choices.
        examples: values of the boxes of text; the first is there at first.
        models: that have the ability.
        has_figure: whether a figure is shown too.
    """

    title: str
    about: str
    view: Callable[..., Any]
    fields: list[Field]
    examples: list[list[str]]
    models: Sequence[PageModel] = ()
    has_figure: bool = False


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
    "The model gives each class a probability.",
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
        "Write [MASK] in place of a word: the model names the word pieces that "
        "it expects there.",
        views.masks,
        [Field("Text with [MASK] for each word to find")],
        [
            ["Paris is the [MASK] of [MASK]."],
            ["Return [MASK] if the object is [MASK]."],
        ],
    ),
    "sentence_score": Tab(
        "Sentence score",
        "How well each word fits the others; the perplexity is low where all "
        "of them fit.",
        views.scores,
        [Field("Sentence")],
        [["The cat sat on the mat."], ["The mat sat on the the cat."]],
    ),
    NEXT_SENTENCE: Tab(
        "Next sentence",
        "Whether the second text follows the first, or is of another document.",
        views.follows,
        [Field("Text"), Field("Second text, which may follow")],
        [[_LETTER, _FITTING], [_LETTER, _HORSES]],
    ),
    "classifier": _CLASSES,
    "multi_label_classification": _CLASSES._replace(
        title="Labels", about="The model gives each label a probability."
    ),
    REASONS: _CLASSES._replace(
        title="Reasons",
        about="Which words decided, by integrated gradients. It takes seconds.",
        view=views.reasons,
    ),
    "question_answering": Tab(
        "Questions",
        "The model marks the answer to a question in a text.",
        views.answers,
        [Field("Question", 1), Field("Context", 8)],
        [
            ["Which country has most of the forest?", _FOREST],
            ["Who discovered the Amazon?", _FOREST],
        ],
    ),
    "token_classification": Tab(
        "Entities",
        "The model marks names, and says of which type they are.",
        views.entities,
        [Field("Text", 5)],
        [
            ["Ada Lovelace met Charles Babbage in London in 1833."],
            ["Google opened an office in Zurich, near the Swiss Alps."],
        ],
    ),
    "multiple_choice": Tab(
        "Choices",
        "The model gives each continuation of a text a probability.",
        views.choices,
        [Field("Context"), Field("Choices, one in each line", 4)],
        [[_LETTER, f"{_FITTING}\n{_HORSES}\nA cannon was fired."]],
    ),
    "embeddings": Tab(
        "Similarities",
        "The cosine of the vectors of sentences: 1 for the same meaning.",
        views.similarities,
        [
            Field("Sentences, one in each line", 4),
            Field(f"Compare with, at most {views.MAX_COLUMNS}", 4),
        ],
        [[_SENTENCES, "A dog is playing outside.\nThe market is down."]],
    ),
}


def make_tabs(
    models: Sequence[PageModel], collections: Mapping[str, Any]
) -> list[Tab]:
    """Return the tabs that some models need, those of their heads first.

    Args:
        models: at least one.
        collections: name of the model -> the sentences of --neighbors_file or
            --index that it searches; empty without these flags.
    """
    tabs = []
    for head, tab in _TABS.items():
        able = [model for model in models if head in model.heads]
        if any(model.settings.sentence_pairs for model in able):
            tab = _of_pairs(tab)
        if able:
            tabs.append(tab._replace(models=able))
    tabs += [_pieces(models), _attention(models)]
    able = [m for m in models if m.name in collections or not collections]
    return [*tabs, _neighbors(able, collections)]


def _of_pairs(classes: Tab) -> Tab:
    return classes._replace(
        fields=[Field("Text"), Field("Second text", is_optional=True)],
        examples=[
            ["The company bought the shop.", "The shop was sold to the firm."],
            ["He was born in Paris.", "The weather was fine."],
        ],
    )


# --- Every model -------------------------------------------------------------

_TEXTS = [Field("Text"), Field("Second text, may be empty", 2, (), True)]


def _pieces(models: Sequence[PageModel]) -> Tab:
    return Tab(
        "Word pieces",
        "How the model cuts a text into pieces of its vocabulary.",
        views.pieces,
        _TEXTS,
        [["Unaffable, isn't it?", ""], ["A pair of texts", "is a row."]],
        models,
    )


def _attention(models: Sequence[PageModel]) -> Tab:
    configs = [model.model.config for model in models]
    layers = max(config.num_hidden_layers for config in configs)
    heads = max(config.num_attention_heads for config in configs)
    return Tab(
        "Attention",
        "Which tokens look at which. Click on one of the small pictures to see "
        "that head.",
        views.attention_of,
        [
            *_TEXTS,
            Field("Picture", choices=(views.HEAT_MAP, views.LINES)),
            Field("Layer", choices=(*map(str, range(1, layers + 1)),)),
            Field("Head", choices=(views.MEAN, *map(str, range(1, heads + 1)))),
        ],
        [
            ["The cat sat on the mat because it was tired.", ""],
            ["Where is the cat?", "The cat is on the mat."],
        ],
        models,
        has_figure=True,
    )


def _neighbors(
    models: Sequence[PageModel], collections: Mapping[str, Any]
) -> Tab:
    fields, examples = [Field("Sentence", 1)], [["A dog is playing outside."]]
    if not collections:
        fields.append(Field("Sentences to search, one in each line", 6))
        examples[0].append(_SENTENCES)
    return Tab(
        "Neighbors",
        "The sentences whose vectors are nearest to that of yours.",
        functools.partial(views.nearest, collections),
        fields,
        examples,
        models,
    )
