"""The flags that the scripts share that predict or export a model."""

from collections.abc import Collection
from typing import Any

from base.errors import UserError

from absl import flags, logging

from checkpoints.trained_for import WINDOWS
from tasks import long_texts, registry
from tasks.task import Task

flags.disclaim_key_flags()  # --help of a script shows what is defined here

# Flag -> the one task that reads it.
_OF_TASK = {
    "num_answers": "question_answering",
    "doc_stride": "question_answering",
    "max_query_length": "question_answering",
    "max_answer_length": "question_answering",
    "n_best_size": "question_answering",
    "null_score_diff_threshold": "question_answering",
    "top_k": "masked_lm",
    "score_whole_words": "sentence_score",
    "token_scores": "sentence_score",
    "vectors": "encoder",
    "embedding_size": "embeddings",
    "prompt_name": "embeddings",
    "sentence_pairs": "classifier",
}


def define_model_options() -> None:
    """Define the task, and options whose defaults are those of the model."""
    flags.DEFINE_enum(
        "task",
        None,
        registry.NAMES,
        "What the model does; default: the task that it was fine-tuned on. A "
        "pre-trained model does masked_lm if its tokens see both sides, else "
        "encoder (vectors).",
    )
    flags.DEFINE_integer(
        "max_seq_length",
        None,
        "Largest number of tokens of a row. Longer texts are cut; longer "
        "contexts of questions are read in windows. Default: the length that "
        "the model was fine-tuned with, else its positions.",
        lower_bound=5,
    )
    long_texts.define_flags(has_doc_stride=True)
    flags.DEFINE_bool(
        "sentence_pairs",
        None,
        "For classifiers: read two texts instead of one; default: as in "
        "fine-tuning.",
    )
    flags.DEFINE_integer(
        "top_k",
        None,
        "For masked_lm: tokens for every [MASK]; default: 5.",
        lower_bound=1,
    )
    define_score_whole_words()
    flags.DEFINE_integer(
        "embedding_size",
        None,
        "For embeddings: keep only this many numbers of each vector, the first "
        "ones, for a model trained with --matryoshka_dims; default: as many as "
        "the model's truncate_dim says, else all.",
        lower_bound=1,
    )
    flags.DEFINE_string(
        "prompt_name",
        None,
        "For embeddings: name of the prompt of the model to put before each "
        "text, such as query; default: the model's default prompt.",
    )
    flags.DEFINE_integer(
        "doc_stride",
        None,
        "Tokens from the start of a window to the start of the next; default: "
        "128 for questions, half of a window for --long_texts=windows.",
        lower_bound=1,
    )
    flags.DEFINE_integer(
        "max_query_length",
        None,
        "Largest number of tokens of a question; longer questions are cut. "
        "Default: 64, or a quarter of a short window.",
        lower_bound=1,
    )
    flags.DEFINE_integer(
        "max_answer_length",
        None,
        "Largest number of tokens in an answer; default: 30.",
        lower_bound=1,
    )
    flags.DEFINE_float(
        "null_score_diff_threshold",
        None,
        "A question has no answer if the score of no answer exceeds that of "
        "the best answer by more than this; default: the model's threshold, if "
        "it was fine-tuned on SQuAD 2.0.",
    )


def define_score_whole_words() -> None:
    """Define the flag, which fill_mask.py has too."""
    flags.DEFINE_bool(
        "score_whole_words",
        None,
        "For scores of sentences: mask all pieces of a word together; default: "
        "each token by itself.",
    )


def define_token_scores() -> None:
    """Define the flag, which fill_mask.py has too."""
    flags.DEFINE_bool(
        "token_scores",
        False,
        "For scores of sentences: also give the score of each token.",
    )


def model_options(values: flags.FlagValues) -> dict[str, Any]:
    """Return the options of `define_model_options` as fields of Settings.

    A value is None where the model's own is taken.
    """
    names = (
        "max_seq_length",
        "sentence_pairs",
        "top_k",
        "score_whole_words",
        "embedding_size",
        "prompt_name",
        "doc_stride",
        "max_query_length",
        "max_answer_length",
    )
    found = {name: values[name].value for name in names}
    return found | {
        "null_threshold": values.null_score_diff_threshold,
        "long_texts": long_texts.read(values, has_doc_stride=True),
    }


def define_text_flags() -> None:
    """Define the names of the texts and the contents of predictions."""
    flags.DEFINE_list(
        "text_columns",
        [],
        "Fields of the texts in JSON, in the order of the task's own names, "
        "which are the default: text; text_a,text_b; question,context; "
        "context,choices.",
    )
    flags.DEFINE_integer(
        "num_answers",
        1,
        "For questions: answers to list as nbest; 1: the best answer alone.",
        lower_bound=1,
    )
    flags.DEFINE_multi_enum(
        "vectors",
        ["mean_output"],
        ["mean_output", "pooled_output"],
        "For encoder: the mean over the tokens, or the pooled output of [CLS]",
    )
    define_token_scores()


def text_options(values: flags.FlagValues) -> dict[str, Any]:
    """Return the options of `define_text_flags` as fields of Settings."""
    return {
        "text_columns": tuple(values.text_columns),
        "num_answers": values.num_answers,
        "vectors": tuple(dict.fromkeys(values.vectors)),
        "token_scores": values.token_scores,
    }


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
    values: flags.FlagValues, task: str, used: Collection[str] = ()
) -> None:
    """Log a warning for each flag that is given, but for another task.

    `used` are flags of these names that the script itself reads.
    """
    for name, own in _OF_TASK.items():
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
