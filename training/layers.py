"""What fine-tuning does layer by layer: new weights, frozen ones, lower rates.

The layers of a path are numbered from below: 0 are the embeddings, 1 to L the
layers of the encoder, L + 1 the pooler and the head.
"""

import re

from base.errors import UserError

import modeling
from training.task_model import TaskModel


def number_of(path: str, num_layers: int) -> int:
    """Return the number of the layer that a variable belongs to.

    >>> number_of("bert/embeddings/word_embeddings", 12)
    0
    >>> number_of("bert/encoder/layer_11/output/dense/kernel", 12)
    12
    >>> number_of("bert/pooler/dense/kernel", 12)
    13
    """
    if path.startswith("bert/embeddings/"):
        return 0
    match = re.match(r"bert/encoder/layer_(\d+)/", path)
    return int(match[1]) + 1 if match else num_layers + 1


def check(flag: str, count: int, config: modeling.BertConfig) -> None:
    """Raise a UserError if a flag names more layers than the encoder has."""
    if count > config.num_hidden_layers:
        raise UserError(
            f"--{flag}={count}: the model has {config.num_hidden_layers} "
            "layers; give at most that many"
        )


def new_variables(model: TaskModel, reinit_top_layers: int) -> set[str]:
    """Return the paths of the variables that are not read from init_checkpoint.

    Zhang et al. 2020 (arXiv:2006.05987, section 5): the last layers of a
    pre-trained encoder are specialized to pre-training. Fine-tuning that begins
    with new weights in them and in the pooler is steadier on small data.

    They keep their random initial weights. A model is created with the weights
    at which pre-training starts: truncated normal of initializer_range, zeros,
    and ones for norms. They follow from --random_seed. So these variables are
    not drawn again. The pooler is one of them if the head reads it.
    """
    if not reinit_top_layers:
        return set()
    count = model.config.num_hidden_layers
    last = count + 1 if model.uses_pooler else count
    return {
        v.path
        for v in model.variables
        if v.path.startswith("bert/")
        and count - reinit_top_layers < number_of(v.path, count) <= last
    }


def freeze(model: TaskModel, freeze_layers: int) -> None:
    """Leave the embeddings and the first layers out of the training.

    They have neither gradients nor moments. Frozen variables above the
    embeddings save the time of their backward pass.
    """
    count = model.config.num_hidden_layers
    for variable in model.variables if freeze_layers else ():
        if number_of(variable.path, count) <= freeze_layers:
            variable.trainable = False


def rate_factor(layer_decay: float, num_layers: int, path: str) -> float:
    """Return what the learning rate of a variable is multiplied by.

    Sun et al. 2019 (arXiv:1905.05583, section 5.3.3): the last layer, the
    pooler and the head have the rate itself, each layer below it the rate of
    the one above times layer_decay.

    >>> paths = "bert/embeddings/", "bert/encoder/layer_0/", "cls/"
    >>> [rate_factor(0.5, 2, path) for path in paths]
    [0.25, 0.5, 1.0]
    """
    return layer_decay ** max(0, num_layers - number_of(path, num_layers))
