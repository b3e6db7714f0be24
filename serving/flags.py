"""The flags that the scripts share that predict or export a model."""

import dataclasses
from collections.abc import Collection
from typing import Any

from base.errors import UserError
from base.flags import define, flag, read

from absl import flags, logging
from absl.flags import FlagValues

from checkpoints.trained_for import WINDOWS
from tasks import long_texts, registry
from tasks.embeddings.task import Prompts
from tasks.long_texts import LongTextFlags
from tasks.task import Task

flags.disclaim_key_flags()  # --help of a script shows what is defined here

# Flags that are no options of these names -> the one task that reads them.
_OF_TASK = {
    "null_score_diff_threshold": "question_answering",
    "sentence_pairs": "classifier",
    **{field.name: "embeddings" for field in dataclasses.fields(Prompts)},
}


@dataclasses.dataclass(frozen=True)
class ModelOptions:
    """The task, and options whose defaults are those of the model."""

    task: str | None = flag(choices=registry.TASKS)
    """What the model does; default: the task that it was fine-tuned on. A
    pre-trained model does masked_lm if its tokens see both sides, else encoder
    (vectors)."""

    max_seq_length: int | None = flag(low=5)
    """Largest number of tokens of a row. Longer texts are cut; longer contexts
    of questions are read in windows. Default: the length that the model was
    fine-tuned with, else its positions."""

    sentence_pairs: bool | None = flag()
    """For classifiers: read two texts instead of one; default: as in
    fine-tuning."""

    top_k: int | None = flag(low=1)
    """For masked_lm: tokens for every [MASK]; default: 5."""

    score_whole_words: bool | None = flag()
    """For scores of sentences: mask all pieces of a word together; default:
    each token by itself."""

    embedding_size: int | None = flag(low=1)
    """For embeddings: keep only this many numbers of each vector, the first
    ones, for a model trained with --matryoshka_dims; default: as many as the
    model's truncate_dim says, else all."""

    prompt_name: str | None = flag()
    """For embeddings: name of the prompt of the model to put before each text,
    such as query; default: the model's default prompt."""

    doc_stride: int | None = flag(low=1)
    """Tokens from the start of a window to the start of the next; default: 128
    for questions, half of a window for --long_texts=windows."""

    max_query_length: int | None = flag(low=1)
    """Largest number of tokens of a question; longer questions are cut.
    Default: 64, or a quarter of a short window."""

    max_answer_length: int | None = flag(low=1)
    """Largest number of tokens in an answer; default: 30."""

    null_score_diff_threshold: float | None = flag()
    """A question has no answer if the score of no answer exceeds that of the
    best answer by more than this; default: the model's threshold, if it was
    fine-tuned on SQuAD 2.0."""


@dataclasses.dataclass(frozen=True)
class TextOptions:
    """The names of the texts, and what predictions hold."""

    text_columns: tuple[str, ...] = flag(())
    """Fields of the texts in JSON, in the order of the task's own names, which
    are the default: text; text_a,text_b; question,context; context,choices. Of
    a table the columns, which are --text_a_column and --text_b_column in
    run_classifier.py."""

    num_answers: int = flag(1, low=1)
    """For questions: answers to list as nbest; 1: the best answer alone."""

    vectors: tuple[str, ...] = flag(
        ("mean_output",),
        choices=("mean_output", "pooled_output"),
        repeated=True,
    )
    """For encoder: the mean over the tokens, or the pooled output of [CLS]"""

    token_scores: bool = flag(False)
    """For scores of sentences: also give the score of each token."""


def define_model_options() -> None:
    """Define the options of a model, and of texts that it reads in parts."""
    define(ModelOptions)
    define(LongTextFlags, without=("doc_stride",))


def model_options(values: FlagValues) -> dict[str, Any]:
    """Return the options of a model by name, see registry.with_options.

    A value is None where the model's own is taken.
    """
    found = dataclasses.asdict(read(ModelOptions, values))
    del found["task"]
    found["null_threshold"] = found.pop("null_score_diff_threshold")
    return found | {"long_texts": long_texts.read(values)}


def text_options(values: FlagValues) -> dict[str, Any]:
    """Return TextOptions by name; --vectors without repeats."""
    found = dataclasses.asdict(read(TextOptions, values))
    return found | {"vectors": tuple(dict.fromkeys(values.vectors))}


def check_text_columns(names: list[str], task: Task) -> None:
    """Raise a UserError unless --text_columns names every text of a task.

    Without names the task's own are taken.
    """
    wanted = task.text_names
    if names and len(names) != len(wanted):
        raise UserError(
            f"--text_columns={','.join(names)}: the model reads "
            f"{len(wanted)} ({', '.join(wanted)})"
        )


def warn_of_ignored(
    values: FlagValues, task: str, used: Collection[str] = ()
) -> None:
    """Log a warning for each flag that is given, but for another task.

    `used` are flags of these names that the script itself reads.
    """
    for name, own in (registry.task_of_options() | _OF_TASK).items():
        if name in used:
            continue
        is_of_windows = name == "doc_stride" and "long_texts" in values
        if is_of_windows and values.long_texts == WINDOWS:
            continue
        if name in values and values[name].present and task != own:
            logging.warning(
                "--%s is ignored: it is for %s, the model does %s",
                name,
                own,
                task,
            )
