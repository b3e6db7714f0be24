"""The sizes and rates of a model: the JSON file beside every checkpoint.

Apart from modeling.py, which is long enough with the model alone.
"""

import copy
import dataclasses
import json
from collections.abc import Callable
from typing import Any

import tensorflow as tf

import numerics
from errors import UserError

# L and H of the named sizes; H / 64 heads, I = 4 H. Tiny to Medium are the
# miniatures of Turc et al. (arXiv:1908.08962), Base and Large the paper's.
NAMED_SIZES = {
    "tiny": (2, 128),
    "mini": (4, 256),
    "small": (4, 512),
    "medium": (8, 512),
    "base": (12, 768),
    "large": (24, 1024),
}


@dataclasses.dataclass
class BertConfig:
    """Sizes and rates of one model; the JSON file beside a checkpoint.

    Keys of the file that are not listed here (published files have some:
    pooler_type, directionality, ...) become attributes and are written back.
    """

    vocab_size: int
    hidden_size: int = 768
    num_hidden_layers: int = 12
    num_attention_heads: int = 12  # must divide hidden_size
    intermediate_size: int = 3072  # width inside the feed-forward part
    hidden_act: str | Callable | None = "gelu"
    hidden_dropout_prob: float = 0.1  # after embeddings and each sublayer
    attention_probs_dropout_prob: float = 0.1
    max_position_embeddings: int = 512  # the longest possible sequence
    type_vocab_size: int = 16  # of old; every published model has 2
    initializer_range: float = 0.02  # deviation of the truncated normal

    def __post_init__(self):
        """Refuse what no model can be built from."""
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if field.type is int and (type(value) is not int or value < 1):
                raise UserError(
                    f"bert config: {field.name} must be a whole number of at "
                    f"least 1, found {value!r}"
                )
            if field.type is float and (
                type(value) not in (int, float) or not 0 <= value < 1
            ):
                raise UserError(
                    f"bert config: {field.name} must be a number in [0, 1), "
                    f"found {value!r}"
                )
        if self.hidden_size % self.num_attention_heads:
            raise UserError(
                f"bert config: hidden_size {self.hidden_size} is not a "
                f"multiple of num_attention_heads {self.num_attention_heads}"
            )
        get_activation(self.hidden_act)

    @classmethod
    def from_dict(cls, json_object: dict[str, Any]) -> "BertConfig":
        """Return the configuration a JSON object describes."""
        if json_object.get("vocab_size") is None:
            raise UserError(
                "bert config: vocab_size is missing; set it to the number of "
                "lines of the vocabulary file"
            )
        known = {field.name for field in dataclasses.fields(cls)}
        config = cls(**{k: v for k, v in json_object.items() if k in known})
        vars(config).update(json_object)
        return config

    @classmethod
    def from_json_file(cls, json_file: str) -> "BertConfig":
        """Return the configuration in a file; errors name the file."""
        try:
            with tf.io.gfile.GFile(json_file, "r") as reader:
                json_object = json.loads(reader.read())
            if not isinstance(json_object, dict):
                raise UserError(
                    "a bert config is a JSON object, found "
                    f"{type(json_object).__name__}"
                )
            return cls.from_dict(json_object)
        except json.JSONDecodeError as error:
            raise UserError(
                f"{json_file}: not valid JSON, line {error.lineno} column "
                f"{error.colno}: {error.msg}"
            ) from error
        except (tf.errors.OpError, UnicodeDecodeError) as error:
            raise UserError(
                f"{json_file}: cannot read the bert config: {error}"
            ) from error
        except UserError as error:
            raise UserError(f"{json_file}: {error}") from error

    @classmethod
    def from_size(cls, name: str, vocab_size: int) -> "BertConfig":
        """Return a published size: tiny, mini, small, medium, base, large."""
        if name not in NAMED_SIZES:
            raise UserError(
                f"unknown model size {name!r}; choose from "
                f"{', '.join(NAMED_SIZES)}"
            )
        num_hidden_layers, hidden_size = NAMED_SIZES[name]
        return cls(
            vocab_size,
            hidden_size,
            num_hidden_layers,
            num_attention_heads=hidden_size // 64,
            intermediate_size=4 * hidden_size,
            type_vocab_size=2,
        )

    def to_dict(self) -> dict[str, Any]:
        """Return a copy of every key, unknown ones included."""
        return copy.deepcopy(vars(self))

    def to_json_string(self) -> str:
        """Return sorted JSON with a final newline."""
        return json.dumps(self.to_dict(), indent=2, sort_keys=True) + "\n"


def get_activation(name: str | Callable | None) -> Callable | None:
    """Return the function of that name; None stands for linear."""
    if name is None or callable(name):
        return name
    activations = {
        "gelu": numerics.gelu,
        "gelu_erf": numerics.gelu_erf,
        "relu": tf.nn.relu,
        "tanh": tf.tanh,
        "linear": None,
        "": None,
    }
    if not isinstance(name, str) or name.lower() not in activations:
        raise UserError(
            f"bert config: unknown activation {name!r}; choose from gelu, "
            "gelu_erf, relu, tanh, linear"
        )
    return activations[name.lower()]
