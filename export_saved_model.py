r"""Write a SavedModel that tokenizes by itself, from any BERT checkpoint.

    python export_saved_model.py --init_checkpoint=mrpc --export_dir=served/1
    python export_saved_model.py --task=encoder --export_dir=embeddings/1 \
        --init_checkpoint=hf://google-bert/bert-base-uncased

Its inputs are strings. Its outputs are labels and probabilities (classifier),
a number (regression), an answer (question_answering, multiple_choice), a tag
for every word (token_classification), embeddings (encoder), the likeliest
tokens for every [MASK] (masked_lm) or the perplexity of a sentence
(sentence_score). Loading it takes tensorflow and tensorflow_text, and nothing
of this project:

    import tensorflow as tf, tensorflow_text
    model = tf.saved_model.load("served/1").signatures["serving_default"]
    model(text_a=tf.constant(["..."]), text_b=tf.constant(["..."]))["label"]

A SavedModel is a program, which TensorFlow runs: load one only of an origin
that you trust (docs/SECURITY.md).
"""

import dataclasses

from base import script
from base.flags import define, flag, require

from absl import flags

import modeling
from serving import flags as prediction_flags
from tasks import loading, saved_model
from training import flags as training_flags
from training.flags import ModelFlags

FLAGS = flags.FLAGS

define(ModelFlags)


@dataclasses.dataclass(frozen=True)
class Flags:
    """The directory to write."""

    export_dir: str | None = flag(is_output=True, alias="output")
    """Directory to write; must not exist. TF Serving needs a number as name."""

    dtype: str = flag("float32", choices=list(modeling.DTYPES))
    """Type of the SavedModel's matrix products: the one that is fast on the
    machine that serves. The weights in the files are float32."""


define(Flags)

prediction_flags.define_model_options()


def main(_: list[str]) -> int:
    """Find the model and its task, write the SavedModel."""
    require(FLAGS, "init_checkpoint", "export_dir")
    saved_model.check_new(FLAGS.export_dir.rstrip("/"))
    checkpoint = training_flags.open_init_checkpoint(FLAGS)
    settings = loading.describe(
        checkpoint,
        FLAGS.task,
        prediction_flags.model_options(FLAGS) | {"dtype": FLAGS.dtype},
        needs_rows=False,
    )
    prediction_flags.warn_of_ignored(FLAGS, settings.task)
    if settings.task == "encoder":
        checkpoint.warn_of_untrained_pooler()
    export = loading.load_graph(settings, has_texts=True)
    saved_model.write(export, FLAGS.export_dir)
    return 0


if __name__ == "__main__":
    script.run(main)
