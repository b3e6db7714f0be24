r"""Make the masked TFRecord files for run_pretraining.py from plain text.

    python create_pretraining_data.py --input_file='books/*.txt' \
        --output_file=train.tfrecord@8 --vocab_file=vocab.txt

Input: one sentence per line, a blank line between documents. Output: files
`train.tfrecord-00000-of-00008`, ... of records with the original's features,
and the hidden file `.train.tfrecord.manifest.json`.

Usual choices: --max_seq_length, --dupe_factor (how often each document is
masked anew), --do_whole_word_mask, --random_seed; or --unmasked, which leaves
the masking to run_pretraining.py.

The documents are dealt out to buckets of --bucket_mb of text, and worker
processes turn one bucket after the other into records, so the memory needed
does not grow with the corpus. The bytes written depend on the flags and the
input alone, not on --num_workers. A file appears when it is complete. If a run
is killed, the same command resumes it and ends with the same bytes.
"""

import dataclasses
import time

from base import beam, lazy, script
from base.errors import UserError

from absl import flags, logging

from pretraining.data import generation, summary
from pretraining.data.instances import InstanceConfig

FLAGS = flags.FLAGS

# What programs written against the original import.
__getattr__ = lazy.attributes_of("compat.create_pretraining_data")

# Required
flags.DEFINE_string(
    "input_file",
    None,
    "Text files, one sentence per line, a blank line between documents: "
    "patterns such as books/*.txt, separated by commas.",
)
flags.DEFINE_string(
    "output_file",
    None,
    "TFRecord files to write: paths separated by commas, or name@N for N "
    "files name-00000-of-0000N and so on.",
)
flags.DEFINE_alias("output", "output_file")
flags.DEFINE_string("vocab_file", None, "The WordPiece vocabulary.")

flags.DEFINE_string(
    "sources",
    None,
    "Instead of input_file: a TOML file that names sources, with their files, "
    "and weights or a smoothing over languages (docs/corpus.md).",
)

# What the records hold
flags.DEFINE_bool(
    "do_lower_case",
    None,
    "Lower-case the text: true for uncased models. Default: what the files of "
    "a tokenizer beside the vocabulary say; they also say whether accents stay "
    "and whether ideographs are words. Without such files: true, unless the "
    "vocabulary has capitals, as a cased model's has; accents stay if many of "
    "its tokens have them.",
)
flags.DEFINE_bool(
    "do_whole_word_mask",
    False,
    "Predict all tokens of a word or none of them. In Chinese every character "
    "is a word, so this changes nothing there.",
)
flags.DEFINE_integer(
    "max_seq_length",
    128,
    "Tokens per sequence.",
    lower_bound=8,
    upper_bound=10**5,
)
flags.DEFINE_integer(
    "max_predictions_per_seq",
    20,
    "Largest number of tokens to predict in a sequence; should be about "
    "max_seq_length * masked_lm_prob.",
    lower_bound=1,
    upper_bound=10**5,
)
flags.DEFINE_integer(
    "random_seed",
    12345,
    "Seed of all random choices.",
    lower_bound=0,
    upper_bound=2**32 - 1,  # the limit of run_pretraining.py
)
flags.DEFINE_integer(
    "dupe_factor",
    10,
    "Passes over the text, each with masks of its own.",
    lower_bound=1,
    upper_bound=10**4,
)
flags.DEFINE_float(
    "masked_lm_prob",
    0.15,
    "Share of tokens to predict.",
    lower_bound=0,
    upper_bound=1,
)
flags.DEFINE_float(
    "mask_token_prob",
    0.8,
    "Share of the tokens to predict that [MASK] replaces.",
    lower_bound=0,
    upper_bound=1,
)
flags.DEFINE_float(
    "random_token_prob",
    0.1,
    "Share of the tokens to predict that a random token replaces; the rest "
    "stays as it is.",
    lower_bound=0,
    upper_bound=1,
)
flags.DEFINE_float(
    "short_seq_prob",
    0.1,
    "Share of sequences made shorter than max_seq_length.",
    lower_bound=0,
    upper_bound=1,
)
flags.DEFINE_bool(
    "unmasked",
    False,
    "Leave the masking to run_pretraining.py, which draws new masks each time "
    "it reads a record. One pass is then enough: --dupe_factor is 1 by "
    "default.",
)
flags.DEFINE_bool(
    "pack_sequences",
    False,
    "Put several sequences into each row of max_seq_length tokens, so that the "
    "rows have hardly any padding. run_pretraining.py recognises such files.",
)
flags.DEFINE_integer(
    "max_sequences_per_pack",
    8,
    "With pack_sequences: largest number of sequences in a row.",
)

# How they are made
flags.DEFINE_integer(
    "num_workers",
    None,
    "Worker processes; default: all cores. The output is the same.",
    lower_bound=1,
    upper_bound=1024,
)
flags.DEFINE_integer(
    "bucket_mb",
    4,
    "MB of text that a worker process turns into records at once, a bucket; it "
    "needs about 100 MB of memory, and ten times the bucket. Random next "
    "sentences come from the same bucket, and instances are shuffled within "
    "it.",
    lower_bound=1,
    upper_bound=1024,
)
flags.DEFINE_string(
    "compression",
    "",
    "Compression of the output: GZIP, or empty for plain TFRecord files.",
)
beam.define_flags()


def main(_: list[str]) -> int:
    """Write the record files; summarize them and warn of likely mistakes."""
    check_flags()
    names = [field.name for field in dataclasses.fields(InstanceConfig)]
    config = InstanceConfig(**{name: FLAGS[name].value for name in names})
    if config.unmasked and not FLAGS["dupe_factor"].present:
        config = dataclasses.replace(config, dupe_factor=1)
    plan = generation.make_plan(
        FLAGS.input_file,
        FLAGS.output_file,
        FLAGS.vocab_file,
        config,
        FLAGS.do_lower_case,
        FLAGS.random_seed,
        FLAGS.bucket_mb,
        FLAGS.compression,
        FLAGS.sources,
    )
    if not config.unmasked:
        config.warn_of_few_predictions()
    began = time.monotonic()
    counts = generation.generate(
        plan, FLAGS.num_workers, beam.options_of(FLAGS)
    )
    logging.info("Took %.1f s", time.monotonic() - began)
    logging.info("***** Pre-training data *****")
    for line in summary.summarize(counts, config):
        logging.info("  %s", line)
    for line in summary.find_warnings(counts, config):
        logging.warning(line)
    logging.info(
        "Wrote %d total instances to %s", counts["instances"], FLAGS.output_file
    )
    return 0


def check_flags() -> None:
    """Check what can be checked before any file is read.

    Raises:
        UserError: names the flag.
    """
    for name in ("output_file", "vocab_file"):
        if not FLAGS[name].value:
            raise UserError(f"--{name} is required")
    if bool(FLAGS.input_file) == bool(FLAGS.sources):
        raise UserError("give --input_file or --sources, but not both")
    masks = ("masked_lm_prob", "mask_token_prob", "random_token_prob")
    masks += ("do_whole_word_mask", "max_predictions_per_seq")
    for name in masks if FLAGS.unmasked else ():
        if FLAGS[name].present:
            raise UserError(
                f"--{name} does nothing with --unmasked: give it to "
                "run_pretraining.py, which draws the masks"
            )
    if FLAGS["max_sequences_per_pack"].present and not FLAGS.pack_sequences:
        raise UserError(
            "--max_sequences_per_pack does nothing without --pack_sequences; "
            "add that or leave this out"
        )
    beam.check_flags(FLAGS, "output_file")


if __name__ == "__main__":
    script.run(main)
