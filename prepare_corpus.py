r"""Turn dumps and raw text into sentences for create_pretraining_data.py.

    python prepare_corpus.py --input_file='enwiki-*-pages-articles*.xml.bz2' \
        --output_dir=wiki --heldout_fraction=0.01

Input: Wikipedia dumps, WikiExtractor's files, JSON lines, parquet or plain
text, also compressed; the script recognises each by its content. Output: files
`wiki/train-00000-of-00064.txt`, ... with one sentence per line and a blank line
behind each document,
`wiki/heldout/heldout-00000-of-00001.txt`, and `wiki/corpus.json` with
counts of all that was read, kept and dropped.

Equal documents are kept once. The hash of its text decides whether a document
is held out, in which file it stands and where. So the bytes written depend on
the texts and the flags alone, not on --num_workers, nor on the order of the
input or how it is split into files, and a document that is held out stays so
when files are added. The memory needed does not grow with the input. A file
appears when it is complete. If a run is killed, the same command resumes it
and ends with the same bytes. --language chooses how sentences are found.

What cannot be read (a truncated file, a broken page) is named in a warning and
counted, and the rest is used. The exit status is 0 if there is at least one
document; with --strict the first such problem ends the run with status 1.
"""

import dataclasses

from base import beam, logs, script
from base.flags import define, flag, read

from absl import flags, logging

from corpus import generation, summary
from corpus.items import CorpusFlags

FLAGS = flags.FLAGS


@dataclasses.dataclass(frozen=True)
class Flags:
    """What is read and written."""

    input_file: str = flag(required=True)
    """Files to read: MediaWiki XML dumps, WikiExtractor's files, JSON lines,
    parquet or plain text, also compressed (gzip, bzip2, xz); patterns such as
    dumps/*.bz2, separated by commas."""

    output_dir: str = flag(required=True, is_output=True, alias="output")
    """Directory for train-*.txt, heldout/heldout-*.txt and corpus.json."""

    strict: bool = flag(False)
    """End with an error at the first file, page, line or row that cannot be
    read, instead of a warning."""


define(Flags)
define(CorpusFlags)
define(beam.Flags)


def main(_: list[str]) -> None:
    """Write the corpus; summarize it and warn of likely mistakes."""
    beam.check_flags(FLAGS, "output_dir")
    corpus_flags, runner = read(CorpusFlags, FLAGS), read(beam.Flags, FLAGS)
    report = generation.generate(
        FLAGS.input_file, FLAGS.output_dir, corpus_flags, FLAGS.strict, runner
    )
    logs.say("%s", "\n  ".join(["Corpus:", *summary.summarize(report)]))
    for line in summary.find_warnings(report):
        logging.warning(line)
    count = report["train"]["documents"] + report["heldout"]["documents"]
    logs.say("Wrote %d documents to %s", count, FLAGS.output_dir)


if __name__ == "__main__":
    script.run(main)
