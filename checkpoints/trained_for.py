"""What a model was trained for: keys of bert_config.json beside the encoder's.

A fine-tuned model has its labels and options there, a pre-trained one its
objective if that is not the paper's. They are no part of BertConfig, which
describes the encoder alone.
"""

import contextlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, get_args

from base.errors import UserError

# What is read of a text that is longer than a row: LongTexts.how.
HOWS = CUT, HEAD_TAIL, TAIL, WINDOWS = "cut", "head_tail", "tail", "windows"

POOLINGS = ("mean", "max")  # of windows

# How the vectors of tokens become one, by the names of sentence-transformers.
TokenPooling = Literal[
    "mean", "cls", "max", "mean_sqrt_len_tokens", "weightedmean", "lasttoken"
]
TOKEN_POOLINGS = get_args(TokenPooling)

# Functions that numbers may go through.
Activation = Literal["sigmoid", "tanh", "relu", "gelu_erf", "silu"]

# How two vectors are compared: by the cosine or the product, or by minus the
# distance. The names are those of sentence-transformers.
Similarity = Literal["cosine", "dot", "euclidean", "manhattan"]


class LongTexts(NamedTuple):
    """What is read of a text with more tokens than a row of the model.

    Attributes:
        how: cut: its beginning; head_tail: a quarter of the tokens from its
            beginning, three quarters from its end (Sun et al.,
            arXiv:1905.05583, section 5.3.1); tail: its end, transformers'
            truncation_side "left"; windows: rows that overlap, whose outputs
            are pooled to one.
        doc_stride: tokens from the start of a window to the next.
        max_windows: most windows of a text; text after the last is cut.
        pooling: how the outputs of windows become one, one of POOLINGS.
    """

    how: str = CUT
    doc_stride: int = 64
    max_windows: int = 8
    pooling: str = "mean"

    def __str__(self) -> str:
        """Return the value in words, for messages."""
        if self.how != WINDOWS:
            return self.how
        _, *sizes = self._asdict().items()
        return f"{self.how} ({', '.join(f'{n} {x}' for n, x in sizes)})"

    @classmethod
    def from_dict(cls, json_object: Any, place: str) -> "LongTexts":
        """Return the value that a file has under `long_texts`.

        Raises:
            UserError: it is another one.
        """
        wanted = f"an object with {', '.join(cls._fields)}"
        if isinstance(json_object, dict) and {*json_object} == {*cls._fields}:
            found = cls(**json_object)
            numbers = (found.doc_stride, found.max_windows)
            if (
                found.how in HOWS
                and found.pooling in POOLINGS
                and all(type(n) is int and 1 <= n < 2**16 for n in numbers)
            ):
                return found
        raise UserError(
            f"{place}: long_texts is {str(json_object)[:100]}, wanted {wanted}"
        )

    def row_length(self, max_seq_length: int) -> int:
        """Return the tokens that are read of a text, [CLS] and [SEP] included.

        The windows are cut out of them by the model (ops/windows.py).
        """
        if self.how != WINDOWS:
            return max_seq_length
        return max_seq_length + (self.max_windows - 1) * self.doc_stride


class Module(NamedTuple):
    """A step from the vectors of a text's tokens to the vector of the text.

    Attributes:
        kind: Pooling, Dense, LayerNorm or Normalize, as sentence-transformers
            calls them.
        poolings: of Pooling: how the vectors of tokens become one, each of
            TOKEN_POOLINGS; several are joined to a longer one in this order.
        in_features: of Dense and LayerNorm: numbers of a vector that it reads.
        out_features: of Dense: numbers of its result.
        bias: of Dense: whether a vector is added to the product.
        activation: of Dense: the function that follows; None: none.
        excludes_prompt: of Pooling: whether it leaves out the tokens of a
            prompt. No model with a prompt can have it here.
    """

    kind: str
    poolings: tuple[str, ...] = ()
    in_features: int | None = None
    out_features: int | None = None
    bias: bool = True
    activation: Activation | None = None
    excludes_prompt: bool = False

    @classmethod
    def from_dict(cls, json_object: Any, place: str) -> "Module":
        """Return the module that a file describes.

        Raises:
            UserError: there is no such module.
        """
        is_valid = False
        with contextlib.suppress(TypeError):  # no object, or of other keys
            found = cls(**json_object)
            found = found._replace(poolings=tuple(found.poolings))
            is_size = _TYPES[int | None][1]
            is_valid = found.activation in (None, *get_args(Activation)) and {
                "Pooling": found.poolings
                and {*found.poolings} <= {*TOKEN_POOLINGS},
                "Dense": all(map(is_size, found[2:4])) and found.bias in (0, 1),
                "LayerNorm": is_size(found.in_features)
                and not found.out_features,
                "Normalize": True,
            }.get(found.kind)
        if not is_valid:
            raise UserError(
                f"{place}: a module is {str(json_object)[:200]}, wanted a "
                f"Pooling by {' or '.join(TOKEN_POOLINGS)}, a Dense or "
                "LayerNorm with their sizes, or Normalize"
            )
        return found

    @property
    def shapes(self) -> dict[str, list[int]]:
        """{name: shape} of the variables that the module has."""
        if self.kind == "LayerNorm":
            return {"gamma": [self.in_features], "beta": [self.in_features]}
        if self.kind != "Dense":
            return {}
        bias = {"bias": [self.out_features]} if self.bias else {}
        return {"kernel": [self.in_features, self.out_features], **bias}


NORMALIZE = Module("Normalize")

MEAN = Module("Pooling", ("mean",))  # where a model has no modules


class TrainedFor(NamedTuple):
    """What a model was trained for; None: the file does not say.

    The fields are keys of bert_config.json, in a fine-tuned model those of its
    task alone.

    Attributes:
        objective: `mlm`, `ltr` or `rtl`, the --objective of a pre-trained model
            whose pooler and next sentence head were not trained.
        task: given if the head has the variables of another task's head, as
            multiple_choice has.
        id2label: number of an output -> its label, the Hugging Face name of
            this setting.
        sentence_pairs: whether a classifier reads two texts.
        output_activation: function that the one number of a head goes through;
            None: none.
        max_seq_length: tokens in a row of the training data.
        long_texts: what was read of longer texts; None: they were cut.
        bilstm_layers, bilstm_units: size of a BiLSTM on the encoder.
        document_context: whether a tagger reads the sentences around.
        feature_layers: what a tagger on frozen features reads; see
            tasks.encoder.layers.table_7.
        lstm_units: width of that tagger's BiLSTM.
        version_2_with_negative: whether questions may have no answer.
        thresholds: for each label, the probability from which on it is
            predicted, where an example may have several labels.
        modules: how the vectors of a text's tokens become the text's own: a
            Pooling, and what follows it.
        prompts: texts by name, one of which is put before a text.
        default_prompt_name: name of the prompt to use if none is asked for.
        similarity_fn_name: how vectors are compared; None: by the cosine.
        truncate_dim: how many numbers of a vector are kept, after it was
            normalized.
        lacks: why a published model is used without its sentence vectors, or
            scores of pairs; None: it has none, or all that they need is read.
    """

    objective: str | None = None
    task: str | None = None
    id2label: Mapping[str, str] | None = None
    sentence_pairs: bool | None = None
    output_activation: Activation | None = None
    max_seq_length: int | None = None
    long_texts: LongTexts | None = None
    bilstm_layers: int | None = None
    bilstm_units: int | None = None
    document_context: bool | None = None
    feature_layers: str | None = None
    lstm_units: int | None = None
    version_2_with_negative: bool | None = None
    thresholds: Sequence[float] | None = None
    modules: tuple[Module, ...] | None = None
    prompts: dict[str, str] | None = None
    default_prompt_name: str | None = None
    similarity_fn_name: Similarity | None = None
    truncate_dim: int | None = None
    lacks: str | None = None

    @classmethod
    def from_dict(
        cls, json_object: Mapping[str, Any], place: str = "bert config"
    ) -> "TrainedFor":
        """Return the keys of a configuration that are fields here.

        Labels that are numbers become strings, as which they are written, and
        the similarity `cosine` None. `place` is for messages.

        Raises:
            UserError: a value is of another type, or the modules do not begin
                with the only Pooling.
        """
        found = cls(*map(json_object.get, cls._fields))
        for name, kind in cls.__annotations__.items():
            value = json_object.get(name)
            wanted, is_valid = _TYPES[kind]
            if value is not None and not is_valid(value):
                raise UserError(
                    f"{place}: {name} must be {wanted}, found {value!r}"
                )
        names, similarity = found.id2label, found.similarity_fn_name
        modules = found.modules
        if modules is not None:
            modules = tuple(Module.from_dict(one, place) for one in modules)
            kinds = [one.kind for one in modules]
            if kinds[:1] != ["Pooling"] or "Pooling" in kinds[1:]:
                raise UserError(
                    f"{place}: the modules are {', '.join(kinds)}, wanted one "
                    "Pooling and others behind it"
                )
        return found._replace(
            similarity_fn_name=None if similarity == "cosine" else similarity,
            id2label=names and {i: str(name) for i, name in names.items()},
            long_texts=found.long_texts
            and LongTexts.from_dict(found.long_texts, place),
            modules=modules,
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the keys of bert_config.json; None has none."""
        found = {n: v for n, v in self._asdict().items() if v is not None}
        if self.long_texts:
            found["long_texts"] = self.long_texts._asdict()
        if self.modules:
            usual = Module._field_defaults
            found["modules"] = [
                {n: v for n, v in one._asdict().items() if v != usual.get(n)}
                for one in self.modules
            ]
        return found

    @property
    def labels(self) -> tuple[str, ...] | None:
        """The labels in the order of the outputs; None without labels."""
        names = self.id2label
        # JSON keys are strings: "10" would sort before "2".
        return (
            tuple(names[i] for i in sorted(names, key=int)) if names else None
        )

    def class_names(self, num_labels: int) -> list[str]:
        """Return a name for each output of a classifier.

        Outputs without a label are called LABEL_0, LABEL_1, ... as in Hugging
        Face's transformers.

        Raises:
            UserError: two have the same name, or there are more labels.
        """
        names = self.id2label or {}
        if len(names) > num_labels:
            raise UserError(
                f"bert config: id2label has {len(names)} labels, the weights "
                f"{num_labels} outputs: they belong to different models"
            )
        found = [
            str(names.get(str(i), f"LABEL_{i}")) for i in range(num_labels)
        ]
        for number, name in enumerate(found):
            if name in found[:number]:
                raise UserError(
                    f"bert config: id2label names two classes {name!r}; wanted "
                    "a name of its own for each"
                )
        return found


def id2label_of(labels: Iterable[Any]) -> dict[str, Any]:
    """Return `id2label` of labels in the order of the outputs."""
    return {str(number): label for number, label in enumerate(labels)}


def _one_of(kind: Any) -> tuple[str, Callable[[Any], bool]]:
    """Return the row of _TYPES of a Literal."""
    values = get_args(kind)
    return f"one of {', '.join(values)}", lambda value: value in values


# Type of a field: what it is called, and whether a value is of it.
_TYPES = {
    str | None: ("a string", lambda value: isinstance(value, str)),
    bool | None: ("true or false", lambda value: isinstance(value, bool)),
    int | None: (
        "a whole number of at least 1, of 32 bits",
        lambda value: type(value) is int and 1 <= value < 2**31,
    ),
    Activation | None: _one_of(Activation),
    Similarity | None: _one_of(Similarity),
    tuple[Module, ...] | None: (
        "a list of modules",
        lambda value: isinstance(value, (list, tuple)),
    ),
    LongTexts | None: ("an object", lambda value: isinstance(value, dict)),
    Sequence[float] | None: (
        "a list of numbers from 0 to 1",
        lambda value: (
            isinstance(value, (list, tuple))
            and all(type(x) in (int, float) and 0 <= x <= 1 for x in value)
        ),
    ),
    dict[str, str] | None: (
        "an object whose values are texts",
        lambda value: (
            isinstance(value, dict)
            and all(isinstance(text, str) for text in value.values())
        ),
    ),
    Mapping[str, str] | None: (
        "an object whose keys are numbers and whose values are names",
        lambda value: (
            isinstance(value, dict)
            and all(key.isdecimal() and len(key) < 10 for key in value)
            and all(type(name) in (str, int) for name in value.values())
        ),
    ),
}
