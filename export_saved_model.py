r"""Write a model that programs load, from any BERT checkpoint.

    python export_saved_model.py --init_checkpoint=trained --export_dir=served/1
    python export_saved_model.py --task=encoder --export_dir=embeddings/1 \
        --init_checkpoint=hf://google-bert/bert-base-uncased

writes a SavedModel that tokenizes by itself. Its inputs are strings. Its
outputs are labels and probabilities (classifier), a number (regression), an
answer (question_answering, multiple_choice), a tag for every word
(token_classification), embeddings (encoder), the likeliest tokens for every
[MASK] (masked_lm) or the perplexity of a sentence (sentence_score). Loading it
takes tensorflow and tensorflow_text, and nothing of this project:

    import tensorflow as tf, tensorflow_text
    model = tf.saved_model.load("served/1").signatures["serving_default"]
    model(text=tf.constant(["..."]))["label"]  # of pairs: text_a=, text_b=

A SavedModel is a program, which TensorFlow runs: load one only of an origin
that you trust (docs/SECURITY.md).

    python export_saved_model.py --format=litert --init_checkpoint=mrpc \
        --output=mrpc.tflite --quantize=int8
    python litert_model.py --model=mrpc.tflite --input_file=pairs.tsv

writes a LiteRT file, for CPUs and phones, which has the weights, the
vocabulary, the labels and all settings. Its inputs are input_ids, input_mask
and segment_ids. The exact tokenizer needs operations that LiteRT lacks, so
litert_model.py or the tokenizer of another platform makes the ids, outside of
the file. MediaPipe's TextClassifier and TextEmbedder run classifiers and
encoders as they are.

    python export_saved_model.py --format=onnx --init_checkpoint=mrpc \
        --output=mrpc.onnx

writes an ONNX file, for ONNX Runtime, OpenVINO and browsers. Inputs and outputs
have the names that transformers gives them; properties have the vocabulary and
the settings. It takes pip install -r requirements-onnx.txt.
"""

import dataclasses

from base import script, startup
from base.errors import UserError
from base.flags import define, flag

from absl import flags

from ops.choices import DTYPES
from serving import flags as prediction_flags
from serving.litert.metadata import BYTES_PER_WEIGHT
from tasks.openvino_files import SUFFIX
from training import flags as training_flags
from training.flags import ModelFlags

FLAGS = flags.FLAGS

define(ModelFlags, required=["init_checkpoint"])


@dataclasses.dataclass(frozen=True)
class Flags:
    """What to write."""

    format: str = flag("saved_model", choices=("saved_model", "litert", "onnx"))
    """Format of the output: a SavedModel for servers and programs in Python; a
    LiteRT file (.tflite) for CPUs and phones; or an ONNX file (.onnx) for ONNX
    Runtime, which needs requirements-onnx.txt."""

    export_dir: str = flag(required=True, is_output=True, alias="output")
    """Directory to write, or with --format=litert and onnx the file, such as
    mrpc.tflite; must not exist. TF Serving needs a number as name."""

    dtype: str = flag(
        "float32",
        choices=DTYPES,
        excludes={
            f"format={name}": "other products than float32's do not convert"
            for name in ("litert", "onnx")
        },
    )
    """Type of the SavedModel's matrix products: the one that is fast on the
    machine that serves. The matrices of the layers are stored in it, all other
    weights in float32."""

    quantize: str = flag(
        "none",
        choices=BYTES_PER_WEIGHT,
        needs={"format=litert": ""},
    )
    """With --format=litert: store the weights as float32 (none), float16 (half
    the size, the same speed) or int8 (a quarter of the size, several times as
    fast, less exact)."""


define(Flags)

prediction_flags.define_model_options()


def main(_: list[str]) -> None:
    """Find the model and its task, write it."""
    path = FLAGS.export_dir.rstrip("/")
    if path.endswith(SUFFIX) != (FLAGS.format == "onnx"):
        raise UserError(
            f"--export_dir={path} with --format={FLAGS.format}: the name of an "
            f"ONNX file, and of no other, ends in {SUFFIX}"
        )
    with startup.importing():
        from tasks import loading, saved_model
    saved_model.check_new(path)
    if FLAGS.format == "litert":
        from serving.litert import convert
        from serving.litert import export as litert

        convert.check_converter()
    checkpoint = training_flags.open_init_checkpoint(FLAGS)
    settings = loading.describe(
        checkpoint,
        FLAGS.task,
        prediction_flags.model_options(FLAGS) | {"dtype": FLAGS.dtype},
        needs_rows=FLAGS.format != "saved_model",
    )
    if FLAGS.format == "onnx":
        from serving import onnx_file

        onnx_file.check(settings, "--format=onnx")
    prediction_flags.warn_of_ignored(FLAGS, settings.task)
    if settings.task == "encoder":
        checkpoint.warn_of_untrained_pooler()
    graph = loading.load_graph(settings)
    if FLAGS.format == "litert":
        litert.write(graph, path, FLAGS.quantize)
    elif FLAGS.format == "onnx":
        onnx_file.write(graph, path)
    else:
        saved_model.write(graph, path)


if __name__ == "__main__":
    script.run(main)
