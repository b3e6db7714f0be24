r"""Write a LiteRT file (.tflite) from any BERT checkpoint, for CPUs and phones.

    python export_litert.py --init_checkpoint=mrpc --export_path=mrpc.tflite \
        --quantize=int8
    python litert_model.py --model=mrpc.tflite --input_file=pairs.tsv

The file has the weights, the vocabulary, the labels and all settings. Its
inputs are input_ids, input_mask and segment_ids. The exact tokenizer needs
operations that LiteRT lacks, so litert_model.py or the tokenizer of another
platform makes the ids, outside of the file. MediaPipe's
TextClassifier and TextEmbedder run classifiers and encoders as they are.
"""

import dataclasses

from base import file_system, script
from base.flags import define, flag, require

from absl import flags, logging

from serving import flags as prediction_flags
from serving.litert import convert, export
from tasks import loading
from tasks.task import Settings
from training import flags as training_flags
from training.flags import ModelFlags

FLAGS = flags.FLAGS

define(ModelFlags)


@dataclasses.dataclass(frozen=True)
class Flags:
    """The file to write."""

    export_path: str | None = flag(is_output=True, alias="output")
    """File to write, such as mrpc.tflite; must not exist."""

    quantize: str = flag("none", choices=list(convert.BYTES_PER_WEIGHT))
    """Store the weights as float32 (none), float16 (half the size, the same
    speed) or int8 (a quarter of the size, several times as fast, less
    exact)."""


define(Flags)

prediction_flags.define_model_options()


def main(_: list[str]) -> int:
    """Find the model, convert it, write the file."""
    check_flags()
    settings = find_model()
    model = loading.load_graph(settings)
    prefix = settings.checkpoint.prefix
    logging.info("Converting %s (%s)", prefix, settings.task)
    data = export.create(model, FLAGS.quantize)
    with file_system.atomic_file(FLAGS.export_path) as file:
        file.write(data)
    export.log_mediapipe(settings)
    logging.info(
        "Wrote %s: %s, weights %s, %.1f MB",
        FLAGS.export_path,
        settings.task,
        {"none": "float32"}.get(FLAGS.quantize, FLAGS.quantize),
        len(data) / 1e6,
    )
    return 0


def find_model() -> Settings:
    """Return the settings of --init_checkpoint with those of other flags."""
    checkpoint = training_flags.open_init_checkpoint(FLAGS)
    settings = loading.describe(
        checkpoint, FLAGS.task, prediction_flags.model_options(FLAGS)
    )
    prediction_flags.warn_of_ignored(FLAGS, settings.task)
    if settings.task == "encoder":
        checkpoint.warn_of_untrained_pooler()
    return settings


def check_flags() -> None:
    """Check all flags before anything is read."""
    require(FLAGS, "init_checkpoint", "export_path")
    convert.check_converter()
    export.check_new(FLAGS.export_path)


if __name__ == "__main__":
    script.run(main)
