"""Summarize a generator run in lines of text; warn of likely mistakes.

The counts are those of `generation.generate`.
"""

import collections

from pretraining.data import sources
from pretraining.data.schema import InstanceConfig


def summarize(counts: dict[str, int], config: InstanceConfig) -> list[str]:
    """Return the lines of the closing summary."""
    c = collections.Counter(counts)
    instances, predictions = c["instances"], c["predictions"]
    mean_length = c["filled"] / instances
    before_truncation = c["filled"] + c["truncated_tokens"]
    lines = [
        f"documents: {c['documents']:,}",
        *sources.summarize(c),
        f"sentences: {c['sentences']:,} "
        f"({c['lines_without_tokens']:,} lines without a token skipped)",
        f"tokens: {c['tokens']:,}, of them [UNK] "
        f"{c['unknown_tokens'] / c['tokens']:.3%}",
        f"instances: {instances:,}",
        f"mean length: {mean_length:.1f}, "
        f"{mean_length / config.max_seq_length:.1%} of max_seq_length",
        f"tokens cut off: {c['truncated_tokens'] / before_truncation:.2%}, of "
        f"{c['cut_instances'] / instances:.1%} of the instances, which were "
        "full before their last sentence ended (less with a larger "
        "--max_seq_length, or shorter sentences)",
        "predictions: drawn by run_pretraining.py"
        if config.unmasked
        else f"predictions: {predictions / instances:.2f} per instance, "
        f"{predictions / c['filled']:.2%} of the tokens",
        f"random next sentences: {c['random_next'] / instances:.2%}",
    ]
    if config.pack_sequences:
        rows = c["rows"]
        lines += [
            f"rows: {rows:,}, {instances / rows:.3f} sequences in each (at "
            f"most {config.max_sequences_per_pack})",
            f"fill: {c['filled'] / rows / config.max_seq_length:.2%} of the "
            "rows' tokens; one sequence in each row would fill "
            f"{mean_length / config.max_seq_length:.2%}",
        ]
    if config.pack_sequences and not config.unmasked:
        places = c["places_for_predictions"]
        unused = places - predictions
        lines += [
            f"places for predictions: {places // rows} in each row, "
            f"{predictions / rows:.2f} used; {unused:,} of {places:,} unused "
            f"({unused / places:.2%})"
        ]
    return lines


def find_warnings(counts: dict[str, int], config: InstanceConfig) -> list[str]:
    """Return a line for each count that makes a mistake in the input likely."""
    c = collections.Counter(counts)
    unknown = c["unknown_tokens"] / c["tokens"]
    continued = c["continued_tokens"] / c["tokens"]
    single = c["one_sentence_parts"] / c["parts_with_text"]
    long = c["sentences_too_long"] / c["sentences"]
    length, limit = c["filled"] / c["instances"], config.max_sequences_per_pack
    rows = c["rows"] if config.pack_sequences else c["instances"]
    fill, mean = (
        c["filled"] / rows / config.max_seq_length,
        c["instances"] / rows,
    )
    warnings = {
        f"{unknown:.1%} of the tokens are [UNK]: does the vocabulary fit the "
        "language and casing (--do_lower_case) of the text?": unknown > 0.05,
        f"--do_whole_word_mask changes next to nothing: {continued:.2%} of the "
        "tokens continue a word (##...), as in Chinese text": (
            config.do_whole_word_mask and continued < 0.01
        ),
        f"{single:.0%} of the documents have one sentence only, so that they "
        "have no true next sentence: remove the blank lines if they stand "
        "between sentences, or train with --objective=mlm": single > 0.5,
        f"{long:.0%} of the lines are longer than "
        f"--max_seq_length={config.max_seq_length}, and are cut: a larger one "
        "keeps more. If lines are paragraphs, prepare_corpus.py makes "
        "sentences of them": long > 0.1,
        f"sequences are filled to {fill:.0%} on average: the documents are "
        f"short for --max_seq_length={config.max_seq_length}": (
            not config.pack_sequences and fill < 0.5
        ),
        # Rows have the limit on average only if most were closed by it.
        f"rows are filled to {fill:.0%} with {mean:.1f} sequences on average: "
        f"--max_sequences_per_pack={limit} is small for sequences of "
        f"{length:.0f} tokens": (
            config.pack_sequences and fill <= 0.95 and mean >= 0.5 * limit
        ),
        f"{c['files_without_text']} input files have no text": bool(
            c["files_without_text"]
        ),
    }
    return [text for text, is_seen in warnings.items() if is_seen]
