"""Begin fine-tuning with new weights in the encoder's last layers.

Zhang et al. 2020 (arXiv:2006.05987, section 5): the last layers of a
pre-trained encoder are specialized to pre-training. Fine-tuning that begins
with new weights in them and in the pooler is steadier on small data.
"""

from base.errors import UserError

import modeling


def check(reinit_top_layers: int, config: modeling.BertConfig) -> None:
    """Raise a UserError if the encoder has fewer layers."""
    if reinit_top_layers > config.num_hidden_layers:
        raise UserError(
            f"--reinit_top_layers={reinit_top_layers}: the model has "
            f"{config.num_hidden_layers} layers; give at most that many"
        )


def new_variables(
    model: modeling.TaskModel, reinit_top_layers: int
) -> set[str]:
    """Return the paths of the variables that are not read from init_checkpoint.

    They keep their random initial weights. A model is created with the weights
    at which pre-training starts: truncated normal of initializer_range, zeros,
    and ones for norms. They follow from --random_seed. So these variables are
    not drawn again. The pooler is one of them if the head reads it.
    """
    if not reinit_top_layers:
        return set()
    count = model.config.num_hidden_layers
    numbers = range(count - reinit_top_layers, count)
    parts = [f"bert/encoder/layer_{number}/" for number in numbers]
    if model.uses_pooler:
        parts.append("bert/pooler/")
    return {
        variable.path
        for variable in model.variables
        if variable.path.startswith(tuple(parts))
    }
