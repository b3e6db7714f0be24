"""What fine-tuning does layer by layer: frozen weights, lower rates.

The layers of a path are numbered from below: 0 are the embeddings, 1 to L the
layers of the encoder, L + 1 the pooler and the head.
"""

import re

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
