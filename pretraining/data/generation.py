"""Write the record files of a plan, and log some of their instances."""

import collections
import contextlib
import itertools

from base import workers
from base.jobs import engine

from absl import logging

import tokenization
from pretraining.data import schema
from pretraining.data.plan import Plan
from records import tfrecord

_NUM_EXAMPLES_LOGGED = 20
_FEATURES_LOGGED = tuple(schema.packed_schema(1, 1, 1))


def generate(
    plan: Plan, num_workers: int | None = None, beam_options: str | None = None
) -> dict[str, int]:
    """Write all output files that are not complete yet.

    Args:
        plan: the run.
        num_workers: number of processes on this machine; None: all cores.
        beam_options: of a pipeline of Apache Beam, which then does the work.

    Returns:
        Counts over all output files, by name; see `summary.summarize`.

    Raises:
        UserError: bad input, or output files of a different command.
    """
    done = engine.make_files(
        plan.job,
        plan.steps,
        plan.steps.sources(plan.input_files),
        num_workers or workers.num_cores(),
        beam_options,
        sum(size for _, size in plan.input_files),
    )
    if done.made:
        _log_examples(plan, done.made[0])
    counts = collections.Counter(done.total["counts"])
    texts = done.total["num_documents"]
    counts["files_without_text"] = sum(
        not texts.get(path) for path, _ in plan.input_files
    )
    for entry in done.entries.values():
        counts.update(entry["counts"])
    return dict(counts)


def _log_examples(plan: Plan, path: str) -> None:
    """Log the first instances of a file of records, as the original does."""
    vocab = tokenization.load_vocab(plan.vocab_file)
    tokens = {index: token for token, index in vocab.items()}
    with contextlib.closing(tfrecord.read_records(path)) as file:
        for record in itertools.islice(file, _NUM_EXAMPLES_LOGGED):
            features = tfrecord.decode_example(record)
            length = int(features["input_mask"].sum())
            shown = [tokens[i] for i in features["input_ids"][:length].tolist()]
            logging.info("*** Example ***")
            logging.info("tokens: %s", " ".join(shown))
            for name in _FEATURES_LOGGED:
                if name not in features:
                    continue  # of packed records only
                values = " ".join(map(str, features[name].tolist()))
                logging.info("%s: %s", name, values)
