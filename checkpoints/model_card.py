"""Write the model card of a Hugging Face directory: README.md.

The card has what no other file of the directory says: the model that training
began with, and the scores. The licence and the text that the model was trained
on are left to the person who uploads it: no file knows them. A card that exists
is never changed.
"""

import os
import re

from base import file_system, logs, text_files

import tensorflow as tf
from absl import logging

from checkpoints import hub, lookup, published
from checkpoints.model import Checkpoint
from checkpoints.run_folder import RunFolder


def write(directory: str, checkpoint: Checkpoint, architecture: str) -> None:
    """Write README.md beside a converted model, if there is none.

    Scores and settings of its run are read from beside the checkpoint.
    `architecture` is the class in transformers that has its heads.
    """
    path = os.path.join(directory, "README.md")
    if tf.io.gfile.exists(path):
        logging.info("%s is kept as it is: no model card is written", path)
        return
    name = os.path.basename(os.path.abspath(directory))
    file_system.write_text(path, make(name, checkpoint, architecture))
    logs.say("Wrote the model card %s; add the licence", path)


def make(name: str, checkpoint: Checkpoint, architecture: str) -> str:
    """Return the text of a card with a name as its title; see `write`."""
    from huggingface_hub import ModelCardData  # takes a second

    prefix, config = checkpoint.prefix, checkpoint.config
    run = RunFolder.read(lookup.folder_of(prefix))
    began = run.adjustable.get("init_checkpoint")
    base = published.repository_of(prefix)
    if published.is_of_hub(began):
        base = hub.name_of(began).repository
    header = ModelCardData(
        library_name="transformers", base_model=base, tags=["bert"]
    )
    text = (
        f"A BERT, `{architecture}` in transformers: "
        f"{config.num_hidden_layers} layers of {config.hidden_size} units, "
        f"{config.num_attention_heads} heads, {config.vocab_size:,} word "
        "pieces."
    )
    # A model that is not of the hub has the name of its folder alone.
    if base or began:
        text += f" Its weights began as those of `{base or began}`."
    if checkpoint.trained_for.objective:
        text += " Its pooler was not trained: use the mean of the last layer."
    parts = [
        f"---\n{header}\n---",
        f"# {name}",
        text,
        _scores(prefix),
        "## Licence and limits\n\nNot stated yet. The author of the model "
        "adds `license` and `language` to the block at the top of this file, "
        "and says here what text it was trained on and what it should not be "
        "used for.",
    ]
    return "\n\n".join(filter(None, parts)) + "\n"


def _scores(prefix: str) -> str:
    """Return the section with the scores; empty without eval_results.txt."""
    path = lookup.beside(prefix, "eval_results.txt")
    if not path:
        return ""
    scores = text_files.read_numbers(path)
    rows = [
        f"| {name} | {_rounded(str(score))} |"
        for name, score in scores.items()
        # The original's second name of a score is left out.
        if not (name.startswith("eval_") and name[5:] in scores)
    ]
    if not rows:
        return ""
    lines = ["## Scores", "", "On the evaluation data of the run:", ""]
    lines += ["| score | value |", "|---|---|", *rows]
    if scores.get("degenerate"):
        lines += ["", "The run failed: it has learned next to nothing."]
    return "\n".join(lines)


def _rounded(score: str) -> str:
    """Return a score with 4 digits; whole numbers and others as they are."""
    is_long = re.fullmatch(r"-?\d+\.\d{5,}", score)
    return f"{float(score):.4f}" if is_long else score
