"""Write the model card of a Hugging Face directory: README.md.

The card says what the model is, its scores, how it was trained and how it is
loaded, so that the directory can be uploaded as it is. The licence and the
text it was trained on are left to the person who uploads it: no file knows
them. A card that exists is never changed.
"""

import os
from collections.abc import Mapping
from typing import Any

from base import file_system, text_files

import tensorflow as tf
from absl import logging

from checkpoints import hub, lookup, published, run_settings
from checkpoints.model import Checkpoint
from checkpoints.trained_for import TrainedFor

CARD_NAME = "README.md"

RESULTS_NAME = "eval_results.txt"


# Of each class in transformers: the hub's name of its task, what completes
# "BERT for ...", and the script that trains such a model.
_TASKS = {
    "BertForSequenceClassification": (
        "text-classification",
        "the classification of sentences or pairs of sentences",
        "run_classifier.py",
    ),
    "BertForQuestionAnswering": (
        "question-answering",
        "questions whose answer is a span of a paragraph",
        "run_squad.py",
    ),
    "BertForTokenClassification": (
        "token-classification",
        "named entities and other labels of words",
        "run_ner.py",
    ),
    "BertForMultipleChoice": (
        "multiple-choice",
        "the choice among several continuations",
        "run_swag.py",
    ),
    "BertForPreTraining": (
        "fill-mask",
        "masked words and next sentences, to be fine-tuned",
        "run_pretraining.py",
    ),
    "BertForMaskedLM": (
        "fill-mask",
        "masked words, to be fine-tuned",
        "run_pretraining.py",
    ),
    "BertLMHeadModel": (
        "text-generation",
        "next words: every token sees those before it alone",
        "run_pretraining.py",
    ),
    "BertModel": (
        "feature-extraction",
        "vectors of words and sentences",
        "run_pretraining.py",
    ),
}

# Keys of training_config.json that are no flags or depend on the machine.
_NOT_SHOWN = ("model", "jit_compile", "data")


def write(directory: str, checkpoint: Checkpoint, architecture: str) -> None:
    """Write README.md beside a converted model, if there is none.

    Scores and settings of its run are read from beside the checkpoint.
    `architecture` is the class in transformers that has its heads.
    """
    path = os.path.join(directory, CARD_NAME)
    if tf.io.gfile.exists(path):
        logging.info("%s is kept as it is: no model card is written", path)
        return
    name = os.path.basename(os.path.abspath(directory))
    text = make(name, checkpoint, architecture)
    file_system.write_text(path, text)
    logging.info("Wrote the model card %s; add the licence", path)


def make(name: str, checkpoint: Checkpoint, architecture: str) -> str:
    """Return the text of a card with a name as its title; see `write`."""
    from huggingface_hub import ModelCardData  # takes a second

    (tag, purpose, script), prefix = _TASKS[architecture], checkpoint.prefix
    run = _read_run(prefix)
    base = _base_model(prefix, run)
    header = ModelCardData(
        library_name="transformers",
        pipeline_tag=tag,
        base_model=base,
        tags=["bert"],
    )
    parts = [
        f"---\n{header}\n---",
        f"# {name}",
        _description(checkpoint, purpose, base),
        _labels(checkpoint.trained_for),
        _scores(prefix),
        _training(script, run),
        f"""## Use

```python
from transformers import AutoTokenizer, {architecture}

tokenizer = AutoTokenizer.from_pretrained("{name}")
model = {architecture}.from_pretrained("{name}")
```""",
        "## Licence and limits\n\nNot stated yet. The author of the model "
        "adds `license` and `language` to the block at the top of this file, "
        "and says here what text it was trained on and what it should not be "
        "used for.",
    ]
    return "\n\n".join(filter(None, parts)) + "\n"


# --- Parts of the card -------------------------------------------------------


def _description(checkpoint: Checkpoint, purpose: str, base: str | None) -> str:
    """Return what the model is, in a few sentences."""
    config, trained_for = checkpoint.config, checkpoint.trained_for
    text = (
        f"BERT for {purpose}: {config.num_hidden_layers} layers of "
        f"{config.hidden_size} units, {config.num_attention_heads} heads, "
        f"{config.vocab_size:,} word pieces."
    )
    if trained_for.max_seq_length:
        text += (
            " It was fine-tuned with sequences of "
            f"{trained_for.max_seq_length} tokens."
        )
    if base:
        text += f" Its weights began as those of `{base}`."
    if trained_for.objective:
        text += " Its pooler was not trained: use the mean of the last layer."
    return text


def _labels(trained_for: TrainedFor) -> str:
    """Return the section with the labels; empty for a model without them."""
    names = trained_for.id2label or {}
    lines = [f"    {i}  {names[i]}" for i in sorted(names, key=int)]
    return "\n".join(["## Labels", "", *lines]) if lines else ""


def _scores(prefix: str) -> str:
    """Return the section with the scores; empty without eval_results.txt."""
    path = lookup.beside(prefix, RESULTS_NAME)
    if not path:
        return ""
    with tf.io.gfile.GFile(path) as file:
        pairs = [line.split(" = ", 1) for line in file.read().splitlines()]
    rows = [f"| {pair[0]} | {pair[1]} |" for pair in pairs if len(pair) == 2]
    if not rows:
        return ""
    lines = ["## Scores", "", "On the evaluation data of the run:", ""]
    lines += ["| score | value |", "|---|---|", *rows]
    if ["degenerate", "1"] in pairs:
        lines += ["", "The run failed: its answers depend little on the input."]
    return "\n".join(lines)


def _training(script: str, run: Mapping[str, Any]) -> str:
    """Return the section with the run's flags; empty if they are unknown."""
    fixed, adjustable = run.get("fixed", {}), run.get("adjustable", {})
    data = fixed.get("data")
    data = data if isinstance(data, dict) else {}
    # Without the folders of the machine; a file is named by its own folder.
    began = adjustable.get("init_checkpoint")
    if began and not published.is_of_hub(began):
        folder, name = os.path.split(os.path.normpath(began))
        began = (".ckpt" in name and os.path.basename(folder)) or name
    given = {
        "do_lower_case": data.get("do_lower_case"),
        "max_seq_length": data.get("max_seq_length"),
        **fixed,
        **adjustable,
        "init_checkpoint": began,
    }
    flags = [
        f"--{'no' * (not value)}{name}"
        if isinstance(value, bool)
        else f"--{name}={value}"
        for name, value in sorted(given.items())
        if name not in _NOT_SHOWN
        and isinstance(value, bool | int | float | str)
    ]
    if not flags:
        return ""
    lines = [f"    python {script} --do_train", *flags]
    command = " \\\n        ".join(lines)
    return (
        f"## Training\n\nBy `{script}` with these flags; those that name "
        f"data and directories are left out:\n\n{command}"
    )


# --- What is known of the run ------------------------------------------------


def _read_run(prefix: str) -> dict[str, dict[str, Any]]:
    """Return the settings of a run; empty without training_config.json."""
    path = os.path.join(lookup.folder_of(prefix), run_settings.CONFIG_NAME)
    run = text_files.read_own_json(path)
    parts = run.items() if isinstance(run, dict) else ()
    return {name: part for name, part in parts if isinstance(part, dict)}


def _base_model(prefix: str, run: Mapping[str, Any]) -> str | None:
    """Return owner/name of the model on the hub that training began with."""
    began = run.get("adjustable", {}).get("init_checkpoint")
    if published.is_of_hub(began):
        return hub.parse(began).repository
    return published.repository_of(prefix)
