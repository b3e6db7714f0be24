r"""Write BERT's hidden layers for every token or every line of a text.

    python extract_features.py --input_file=input.txt \
        --output_file=features.jsonl --init_checkpoint=uncased_L-12_H-768_A-12

reads a sentence per line, or a pair `first ||| second`, and writes a JSON
object per line, in the order of the input: the number of the line as
`linex_index` (the original's spelling), and for every token its vectors in
the chosen layers, with six decimals.

--layers chooses the layers, -1 for the last. --pooling=cls or mean writes a
vector per line and layer instead of one per token. --output_format=npz
writes float32 instead of text. Longer lines are cut to
--max_seq_length tokens. The input may be larger than memory. --input_file=-
reads standard input, --output_file=- writes standard output.
"""

import dataclasses
from collections.abc import Iterator

from base import (
    cluster,
    file_system,
    interrupts,
    lazy,
    progress,
    script,
    startup,
)
from base.errors import UserError
from base.flags import define, flag, read

from absl import flags, logging

from tasks import long_texts
from tasks.encoder import lines as features_lines
from tasks.encoder.layers import parse_layers
from tasks.long_texts import LongTextFlags
from tasks.rows import Units, log_example
from tasks.settings import RunSettings
from tasks.task import Model
from training import flags as training_flags
from training.flags import ModelFlags
from training.settings import DeviceChoice, TrainingSettings

FLAGS = flags.FLAGS

# What programs written against the original import.
__getattr__ = lazy.attributes_of("compat.extract_features")

# --- Flags -------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Flags:
    """The lines, the layers and the file to write."""

    # Files
    input_file: str = flag(required=True)
    """Text with a sentence or `first ||| second` per line; -: standard
    input."""

    output_file: str = flag(required=True, is_output=True, alias="output")
    """File to write the features to, in place of an older one; -: standard
    output."""

    output_format: str = flag("jsonl", choices=features_lines.FORMATS)
    """Format of the output. jsonl: the original's JSON lines; npz: arrays for
    numpy.load."""

    # Model and layers
    layers: str = flag("-1,-2,-3,-4")
    """Layers to write, separated by commas: -1 is the last, 0 the first."""

    pooling: str = flag("none", choices=("none", "cls", "mean"))
    """Vectors to write. none: one per token; cls: that of [CLS], or of the last
    token, [SEP], if the model's attention_direction is left_to_right, where
    [CLS] sees itself alone; mean: the mean over all tokens of a line, [CLS] and
    [SEP] included."""

    # Computation
    max_seq_length: int = flag(128, low=3)
    """Tokens that the model reads at once."""

    batch_size: int = flag(32, 1, 2**17)
    """Lines of max_seq_length tokens in a batch; a batch of shorter lines holds
    more."""

    use_one_hot_embeddings: bool = flag(False)
    """Ignored; in the original it avoids slow lookups on the first TPUs."""


define(Flags)


# Model and layers
define(ModelFlags, required=["init_checkpoint"])

define(LongTextFlags, without=("window_pooling",))
define(TrainingSettings, "dtype")
define(DeviceChoice)
define(RunSettings, "pad_to_max_length")

_SHOWN = 5  # examples in the log


def main(_: list[str]) -> None:
    """Read the model, then write the features."""
    check_flags()
    with startup.importing():
        from checkpoints import weight_files
        from tasks.encoder.model import encode_layers
        from training import devices, dtypes, prediction
        from training.task_model import TaskModel
    strategy = devices.create_strategy(read(DeviceChoice, FLAGS))
    dtype = dtypes.resolve(FLAGS.dtype, strategy)
    checkpoint = training_flags.open_init_checkpoint(FLAGS)
    length = checkpoint.fitting_length(
        FLAGS.max_seq_length, FLAGS["max_seq_length"].present > 0
    )
    given = long_texts.read(FLAGS) or checkpoint.long_texts
    long = long_texts.checked(given, length)
    checkpoint = checkpoint.changed(max_seq_length=length, long_texts=long)
    reader = features_lines.Reader(FLAGS.input_file, checkpoint)
    config = checkpoint.config
    layers = parse_layers(FLAGS.layers, config.num_hidden_layers)
    with strategy.scope():
        model = TaskModel(config, dtype)
    weight_files.restore_weights(model.variables, checkpoint.prefix)
    run = prediction.on_devices(
        strategy,
        lambda batch: {
            "features": encode_layers(
                model, batch, layers, FLAGS.pooling, checkpoint.windows
            )
        },
    )
    inputs = [("input_file", FLAGS.input_file)]
    file_system.prepare_output_file(FLAGS.output_file, inputs)
    with interrupts.ending_on_sigterm():
        extract(run, reader, layers, config.hidden_size)


# --- Steps -------------------------------------------------------------------


def extract(
    run: Model,
    reader: features_lines.Reader,
    layers: list[int],
    hidden_size: int,
) -> None:
    """Write the features of all lines, window by window.

    Args:
        run: the model.
        reader: reads the input file.
        layers: indices of the K layers to write.
        hidden_size: H.
    """
    file_system.remove_leftovers(FLAGS.output_file)
    vector = len(layers) * hidden_size * 4  # bytes of float32 [K, H]
    sizes = (vector, 0) if FLAGS.pooling == "none" else (0, vector)

    def features(bar: progress.Bar) -> Iterator[features_lines.Features]:
        for window in features_lines.windows(reader.lines(), *sizes):
            for line in window[: max(0, _SHOWN - window[0].index)]:
                # The tokens show a wrong vocabulary or casing.
                ids = line.row.input_ids.tolist()
                tokens = reader.tokenizer.convert_ids_to_tokens(ids)
                log_example(
                    line.index,
                    ("unique_id", line.index),
                    ("tokens", " ".join(tokens)),
                )
            data = Units(
                [[line.row] for line in window],
                reader.row_length,
                pad_to_max_length=FLAGS.pad_to_max_length,
            )
            yield from features_lines.window_features(
                run, window, data, FLAGS.batch_size, bar
            )

    size = reader.size()
    with progress.Bar(size, "B", "Extracting") as bar:
        features_lines.write(
            FLAGS.output_file,
            FLAGS.output_format,
            features(bar),
            layers,
            reader.tokenizer.inv_vocab,
        )
    reader.log_end(FLAGS.output_file)


def check_flags() -> None:
    """Raise an error for flags that cannot work, before anything is read."""
    if FLAGS.input_file != "-":
        file_system.open_for_reading(FLAGS.input_file).close()
    if cluster.has_other_workers():
        raise UserError(
            "features are extracted by one machine: unset TF_CONFIG, and give "
            "each machine a part of the lines"
        )
    if FLAGS.use_one_hot_embeddings:
        logging.warning(
            "--use_one_hot_embeddings is ignored: lookups give the same numbers"
        )


if __name__ == "__main__":
    script.run(main)
