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
    c, found = collections.Counter(counts), []
    unknown = c["unknown_tokens"] / c["tokens"]
    if unknown > 0.05:
        found.append(
            f"{unknown:.1%} of the tokens are [UNK]: does the vocabulary fit "
            "the language and casing (--do_lower_case) of the text?"
        )
    continued = c["continued_tokens"] / c["tokens"]
    if config.do_whole_word_mask and continued < 0.01:
        found.append(
            f"--do_whole_word_mask changes next to nothing: {continued:.2%} of "
            "the tokens continue a word (##...), as in Chinese text"
        )
    single = c["one_sentence_parts"] / c["parts_with_text"]
    if single > 0.5:
        found.append(
            f"{single:.0%} of the documents have one sentence only, so that "
            "they have no true next sentence: remove the blank lines if they "
            "stand between sentences, or train with --objective=mlm"
        )
    long = c["sentences_too_long"] / c["sentences"]
    if long > 0.1:
        found.append(
            f"{long:.0%} of the lines are longer than "
            f"--max_seq_length={config.max_seq_length}, and are cut: "
            "a larger one keeps more. If lines are paragraphs, "
            "prepare_corpus.py makes sentences of them"
        )
    length, limit = c["filled"] / c["instances"], config.max_sequences_per_pack
    if not config.pack_sequences:
        fill = length / config.max_seq_length
        if fill < 0.5:
            found.append(
                f"sequences are filled to {fill:.0%} on average: the documents "
                f"are short for --max_seq_length={config.max_seq_length}"
            )
    else:
        fill = c["filled"] / c["rows"] / config.max_seq_length
        mean = c["instances"] / c["rows"]
        # Rows have the limit on average only if most were closed by it.
        if fill <= 0.95 and mean >= 0.5 * limit:
            found.append(
                f"rows are filled to {fill:.0%} with {mean:.1f} sequences on "
                f"average: --max_sequences_per_pack={limit} is small for "
                f"sequences of {length:.0f} tokens"
            )
    if c["files_without_text"]:
        found.append(f"{c['files_without_text']} input files have no text")
    return found
