"""The tabs of the page: for which models, with which boxes and examples."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from tools.page import views
from tools.page.models import NEXT_SENTENCE, REASONS, PageModel
from tools.page.views import Shown


class Tab(NamedTuple):
    """An ability of one or more models.

    Attributes:
        title: its name on the page.
        about: what the model does, in a sentence.
        view: a function of a model and the values of the boxes.
        boxes: labels of its boxes of text.
        examples: texts for the boxes; the page opens with the first ones.
        models: those that have the ability.
        lists: values to choose from, by label; they follow the texts.
    """

    title: str
    about: str
    view: Callable[..., Shown]
    boxes: Sequence[str]
    examples: list[list[str]]
    models: Sequence[PageModel] = ()
    lists: Mapping[str, Sequence[str]] = {}


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
    ["Text"],
    [
        ["A warm, funny film with two wonderful actors."],
        ["The plot is thin and the jokes fall flat."],
    ],
)

# In place of those of _CLASSES, for a model that reads pairs.
_PAIRS = {
    "boxes": ["Text", "Second text"],
    "examples": [
        ["The company bought the shop.", "The shop was sold to the firm."],
        ["He was born in Paris.", "The weather was fine."],
    ],
}

# Of the heads of models.
_HEADS = {
    "masked_lm": Tab(
        "Masked words",
        "Write [MASK] in place of a word, and the model names the word pieces "
        "that it expects there.",
        views.masks,
        ["Text with [MASK] for each word to find"],
        [
            ["Paris is the [MASK] of [MASK]."],
            ["Return [MASK] if the object is [MASK]."],
        ],
    ),
    "sentence_score": Tab(
        "Sentence score",
        "The model says how well each word fits the others. The perplexity is "
        "low where all of them fit.",
        views.scores,
        ["Sentence"],
        [["The cat sat on the mat."], ["The mat sat on the the cat."]],
    ),
    NEXT_SENTENCE: Tab(
        "Next sentence",
        "The model says whether the second text follows the first, or is from "
        "another document.",
        views.follows,
        ["Text", "Second text, which may follow"],
        [[_LETTER, _FITTING], [_LETTER, _HORSES]],
    ),
    "classifier": _CLASSES,
    "multi_label_classification": _CLASSES._replace(
        title="Labels", about="The model gives each label a probability."
    ),
    REASONS: _CLASSES._replace(
        title="Reasons",
        about="Integrated gradients say which words decided. They take some "
        "seconds.",
        view=views.reasons,
    ),
    "question_answering": Tab(
        "Questions",
        "The model marks the answer to a question in a text.",
        views.answers,
        ["Question", "Context"],
        [
            ["Which country has most of the forest?", _FOREST],
            ["Who discovered the Amazon?", _FOREST],
        ],
    ),
    "token_classification": Tab(
        "Entities",
        "The model marks names, and says of which type they are.",
        views.entities,
        ["Text"],
        [
            ["Ada Lovelace met Charles Babbage in London in 1833."],
            ["Google opened an office in Zurich, near the Swiss Alps."],
        ],
    ),
    "multiple_choice": Tab(
        "Choices",
        "The model gives each continuation of a text a probability.",
        views.choices,
        ["Context", "Choices, one in each line"],
        [[_LETTER, f"{_FITTING}\n{_HORSES}\nA cannon was fired."]],
    ),
}

_TEXTS = ["Text", "Second text, may be empty"]


def make_tabs(models: Sequence[PageModel]) -> list[Tab]:
    """Return the tabs of one or more models, those of their heads first."""
    tabs = []
    for head, tab in _HEADS.items():
        able = [model for model in models if head in model.heads]
        if any("text_b" in model.task.text_names for model in able):
            tab = tab._replace(**_PAIRS)
        if able:
            tabs.append(tab._replace(models=able))
    configs = [model.model.config for model in models]
    layers = min(config.num_hidden_layers for config in configs)
    heads = min(config.num_attention_heads for config in configs)
    tabs += [
        Tab(
            "Word pieces",
            "The tokenizer cuts a text into pieces of the model's vocabulary.",
            views.pieces,
            _TEXTS,
            [["Unaffable, isn't it?", ""], ["A pair of texts", "is a row."]],
            models,
        ),
        Tab(
            "Attention",
            "Each token, a row, looks at others, with weights that differ from "
            "head to head. Point at a cell to read its weight.",
            views.attention_of,
            _TEXTS,
            [
                ["The cat sat on the mat because it was tired.", ""],
                ["Where is the cat?", "The cat is on the mat."],
            ],
            models,
            {
                "Layer": [*map(str, range(1, layers + 1))],
                "Head": [views.MEAN, *map(str, range(1, heads + 1))],
            },
        ),
    ]
    searching = [model for model in models if model.searched]
    boxes = ["Sentence"]
    example = ["A dog is playing outside."]
    if not searching:
        boxes.append("Sentences to search, one in each line")
        example.append(_SENTENCES)
    nearest = Tab(
        "Neighbors",
        "The model computes a vector for each sentence, and finds those that "
        "are nearest to yours: by their cosine, or what else it compares by.",
        views.nearest,
        boxes,
        [example],
        searching or models,
    )
    return [*tabs, nearest]
