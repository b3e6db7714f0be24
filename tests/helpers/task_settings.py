"""TaskSettings of a task without a model's files."""

from collections.abc import Sequence
from typing import Any

from checkpoints.casing import TokenizerFiles
from checkpoints.model import Checkpoint
from checkpoints.trained_for import MEAN, TrainedFor, id2label_of
from tasks import registry
from tasks.task import TaskSettings
from tokenization import TokenizerSettings, Vocabulary


def settings_of(
    name: str,
    vocab_file: Any,
    labels: Sequence[str] | None = None,
    config: Any = None,
    **values,
) -> TaskSettings:
    """Return the settings of a task; values are options, or of TrainedFor.

    With a BertConfig models of the task can be created.
    """
    fields = {n: values.pop(n) for n in TrainedFor._fields if n in values}
    trained_for = TrainedFor(
        **{"max_seq_length": 20, "modules": (MEAN,)} | fields,
        id2label=labels and id2label_of(labels),
    )
    files = TokenizerFiles(
        vocabulary=Vocabulary(vocab_file), known=TokenizerSettings.of()
    )
    checkpoint = Checkpoint("", config, trained_for, files)
    options = registry.find(name).options_type()
    settings = TaskSettings(checkpoint, name, options)
    return registry.with_options(settings, values)
