"""The flags of a model's files, which many scripts have."""

import dataclasses

from base.flags import flag

from absl.flags import FlagValues

from checkpoints.model import Checkpoint


@dataclasses.dataclass(frozen=True)
class ModelFlags:
    """A checkpoint, and the files that belong to it."""

    init_checkpoint: str | None = flag()
    """Weights to start from: a prefix (.../bert_model.ckpt), a directory that
    holds one, a Hugging Face directory, or a model on the Hugging Face hub,
    hf://owner/name or hf://owner/name@revision."""

    bert_config_file: str | None = flag()
    """JSON file with the sizes of the model; default: bert_config.json beside
    the checkpoint."""

    vocab_file: str | None = flag()
    """The vocabulary, a vocab.txt or a tokenizer.json; default: the one beside
    the checkpoint."""

    do_lower_case: bool | None = flag()
    """Lower-case the text; default: as the checkpoint was trained, if its
    files, its name or the capitals in its vocabulary tell, else true."""


def open_init_checkpoint(f: FlagValues) -> Checkpoint:
    """Return the checkpoint that the flags of ModelFlags describe."""
    from checkpoints.checkpoint import open_checkpoint  # TensorFlow

    return open_checkpoint(
        f.init_checkpoint, f.bert_config_file, f.vocab_file, f.do_lower_case
    )
