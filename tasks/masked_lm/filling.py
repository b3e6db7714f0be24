"""What a masked LM can do, and how its answers are printed."""

from base.errors import UserError

import modeling
from tasks.task import Prediction


def check_sees_both_sides(config: modeling.BertConfig, prefix: str) -> None:
    """Check that a model can fill a [MASK] from the words around it.

    A model of one direction was never trained on [MASK]. Its best guess would
    ignore the rest of the sentence, and look like the answer of a bad BERT.

    Raises:
        UserError: its tokens see one side alone.
    """
    if config.attention_direction != modeling.BIDIRECTIONAL:
        raise UserError(
            f"{prefix} is a {config.attention_direction} model, which predicts "
            "neighbors and no [MASK]; filling masks and scoring sentences need "
            "one trained with --objective=mlm_nsp or mlm"
        )


def format_fillings(text: str, found: Prediction) -> str:
    """Return the sentence and a line for each of its [MASK]s."""
    lines = [text]
    masks = zip(found["tokens"], found["scores"], strict=True)
    for number, (tokens, scores) in enumerate(masks, 1):
        name = f"[MASK] {number}: " if len(found["tokens"]) > 1 else ""
        pairs = zip(tokens, scores, strict=True)
        lines.append(
            f"    {name}{', '.join(f'{t} {score:.2f}' for t, score in pairs)}"
        )
    return "\n".join(lines)
