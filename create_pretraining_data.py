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

from base import beam, lazy, logs, script
from base.flags import define, read

from absl import flags, logging

from pretraining.data import generation, summary
from pretraining.data.generation import GeneratorFlags
from pretraining.data.schema import InstanceConfig

FLAGS = flags.FLAGS

# What programs written against the original import.
__getattr__ = lazy.attributes_of("compat.create_pretraining_data")


define(GeneratorFlags)
define(InstanceConfig, words={"unmasked": ""})
define(beam.Flags)


def main(_: list[str]) -> None:
    """Write the record files; summarize them and warn of likely mistakes."""
    beam.check_flags(FLAGS, "output_file")
    config = read(InstanceConfig, FLAGS)
    if config.unmasked and not FLAGS["dupe_factor"].present:
        config = dataclasses.replace(config, dupe_factor=1)
    plan = generation.make_plan(read(GeneratorFlags, FLAGS), config)
    if not config.unmasked:
        config.warn_of_few_predictions()
    began = time.monotonic()
    counts = generation.generate(plan, read(beam.Flags, FLAGS))
    logging.info("Took %.1f s", time.monotonic() - began)
    for line in summary.summarize(counts, config):
        logging.info("%s", line)
    for line in summary.find_warnings(counts, config):
        logging.warning(line)
    tokens = counts["filled"] / counts["instances"]
    logs.say(
        f"Wrote {counts['instances']:,} sequences of {tokens:.1f} tokens on "
        f"average to {FLAGS.output_file}, of {counts['documents']:,} documents "
        f"with {counts['sentences']:,} sentences"
    )


if __name__ == "__main__":
    script.run(main)
