r"""Fill the [MASK]s of sentences with a pre-trained BERT, or score sentences.

    python fill_mask.py --init_checkpoint=demo_output/model \
        --text='Open a [MASK] and return a [MASK] object.'

prints the most probable tokens for every [MASK], with their probabilities:

    Open a [MASK] and return a [MASK] object.
        [MASK] 1: object 0.08, file 0.06, bytes 0.04, return 0.03, a 0.03
        [MASK] 2: object 0.11, a 0.07, return 0.06, file 0.04, bytes 0.02

    python fill_mask.py --init_checkpoint=demo_output/model --score \
        --text='Return a new object.' --text='Object new a return.'

prints how probable each sentence is: its pseudo-perplexity, the lower the more
probable, for which every token is masked in turn:

    Return a new object.
        perplexity 4.94, score -7.98 of 5 tokens
    Object new a return.
        perplexity 9.94, score -11.48 of 5 tokens
    2 sentences: perplexity 7.00, score -19.47 of 10 tokens

--input_file reads the sentences from a file, one per line; --top_k says how
many tokens are shown. Configuration and vocabulary are read from the folder of
the checkpoint, where run_pretraining.py and the published models have them. No
file is written.
"""

import dataclasses

from base import script, startup, text_files
from base.errors import UserError, naming
from base.flags import define, flag

from absl import flags

from serving.flags import ModelOptions, TextOptions
from tasks import predict, registry
from tasks.masked_lm import task as masked_lm
from tasks.task import Input, Place
from training import flags as training_flags
from training.flags import ModelFlags
from training.settings import TrainingSettings

FLAGS = flags.FLAGS

_BATCH_SIZE = 32


@dataclasses.dataclass(frozen=True)
class Flags:
    """The texts, and what is printed of each."""

    # Text: --text, --input_file or both
    text: tuple[str, ...] = flag((), repeated=True)
    """A sentence with at least one [MASK], or one to score"""

    input_file: str | None = flag()
    """UTF-8 text to read sentences from, one per line."""

    # Model
    max_seq_length: int | None = flag(low=3)
    """Largest number of tokens in a sentence; default: the positions that the
    model has."""

    # Output
    top_k: int = flag(5, low=1, excludes={"score": "it is for [MASK]s"})
    """Number of tokens to print for each [MASK]."""

    score: bool = flag(False)
    """Print how probable the sentences are, instead of filling [MASK]s; they
    must have none."""


define(Flags)


# Model
define(ModelFlags, required=["init_checkpoint"])
define(TrainingSettings, "dtype")

define(ModelOptions, "score_whole_words", needs={"score_whole_words": "score"})
define(TextOptions, "token_scores", needs={"token_scores": "score"})


def main(_: list[str]) -> None:
    """Print the fillings or scores of all sentences that the flags give."""
    if not FLAGS.text and not FLAGS.input_file:
        raise UserError("give --text or --input_file")
    texts = list(FLAGS.text)
    if FLAGS.input_file:
        texts += read_sentences(FLAGS.input_file)
    with startup.importing():
        from tasks import loading
        from training import dtypes
    dtype = dtypes.resolve_here(FLAGS.dtype)
    checkpoint = training_flags.open_init_checkpoint(FLAGS)
    positions = checkpoint.config.max_position_embeddings
    settings = loading.describe(
        checkpoint,
        "sentence_score" if FLAGS.score else "masked_lm",
        {
            "max_seq_length": FLAGS.max_seq_length or positions,
            "top_k": FLAGS.top_k,
            "score_whole_words": FLAGS.score_whole_words,
            "token_scores": FLAGS.token_scores,
            "dtype": dtype,
        },
    )
    task = registry.create_task(settings)
    inputs = [Input(text, Place("text", 1), {"text": text}) for text in texts]
    for item in inputs:
        with naming(repr(item.id[:40])):
            task.check(item.texts)
    run = loading.load(settings)
    found = predict.predict(task, run, inputs, _BATCH_SIZE)
    for text, prediction in zip(texts, found, strict=True):
        if isinstance(prediction, str):
            raise UserError(prediction)
        if FLAGS.score:
            print(masked_lm.format_score(text, prediction))
        else:
            print(masked_lm.format_fillings(text, prediction))
    if FLAGS.score and len(found) > 1:
        print(masked_lm.format_total(found))


def read_sentences(path: str) -> list[str]:
    """Return the lines of a text file that are not blank.

    Raises:
        UserError: the file cannot be read, is not UTF-8 or has no text.
    """
    lines = map(str.strip, text_files.read_text(path).split("\n"))
    sentences = list(filter(None, lines))
    if not sentences:
        raise UserError(f"--input_file={path} has no text")
    return sentences


if __name__ == "__main__":
    script.run(main)
