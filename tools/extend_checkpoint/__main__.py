r"""Add words to a model's vocabulary, or positions for longer texts.

    python -m tools.extend_checkpoint --input_file='domain/*.txt' \
        --num_new_words=2000 --output_dir=extended \
        --init_checkpoint=hf://google-bert/bert-base-uncased
    python -m tools.extend_checkpoint --new_words_file=words.txt \
        --init_checkpoint=uncased_L-12_H-768_A-12 --output_dir=extended
    python -m tools.extend_checkpoint --max_position_embeddings=1024 \
        --init_checkpoint=uncased_L-12_H-768_A-12 --output_dir=long

The words come from a list, or are the words of a text that cost the most extra
pieces: count * (pieces - 1). They take the places of the [unused] tokens, and
further ones are appended; every other token keeps its id. The row of a new word
in the embedding table begins as the mean of the rows of its old pieces, and so
does its bias in the masked LM. New positions repeat the old ones.

The output is a model in the original's format: weights, configuration,
vocabulary and casing, and new_words.tsv with a row per new word. Train it
further before use, on records made with the new vocabulary: words are split in
another way now (docs/domain.md has all steps).
"""

import dataclasses
import os
import tempfile
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from base import beam, file_system, logs, script, startup
from base.errors import UserError
from base.flags import define, flag

import numpy as np
from absl import flags, logging

import tokenization
from checkpoints import published
from checkpoints.casing import TokenizerFiles
from checkpoints.published import VOCAB_NAME
from pretraining.data import sources
from pretraining.data import words as pretraining_words
from tools.extend_checkpoint import vocabulary
from tools.extend_checkpoint.vocabulary import NewWord
from training import flags as training_flags
from training.flags import ModelFlags

if TYPE_CHECKING:
    from modeling import BertConfig

FLAGS = flags.FLAGS

define(ModelFlags, required=["init_checkpoint"])


@dataclasses.dataclass(frozen=True)
class Flags:
    """The words that are new, and the checkpoint to write."""

    output_dir: str = flag(required=True, is_output=True, alias="output")
    """Directory to write; must not hold files of a model."""

    new_words_file: str | None = flag(
        excludes={"num_new_words": "a list of words, or so many to be chosen"}
    )
    """UTF-8 text with one word per line: the words to add."""

    input_file: str | None = flag(needs={"num_new_words or new_words_file": ""})
    """Text of the domain: patterns such as 'domain/*.txt', separated by commas.
    With --num_new_words the words to add are chosen from it; with
    --new_words_file it is only measured."""

    num_new_words: int | None = flag(
        low=1, needs={"input_file": "words are chosen from it"}
    )
    """Add this many words of --input_file, those that cost the most extra
    pieces."""

    # The rows of rarer words would hardly be trained.
    min_frequency: int = flag(2, low=1, needs={"num_new_words": ""})
    """With --num_new_words: choose no word of --input_file that occurs less
    often."""

    max_position_embeddings: int | None = flag(low=1, high=10**6)
    """Largest number of tokens that the extended model can read: the learned
    positions are repeated up to here. The new positions are worth little before
    some thousand steps of training."""


define(Flags)


WORDS_NAME = "new_words.tsv"

TABLE = "bert/embeddings/word_embeddings"
BIAS = "cls/predictions/output_bias"
POSITIONS = "bert/embeddings/position_embeddings"


def main(_: list[str]) -> None:
    """Read the model, choose words, extend it and write it."""
    check_flags()
    with startup.importing():
        from checkpoints import lookup
        from checkpoints.checkpoint import read_weights, write_checkpoint
    lookup.check_no_checkpoint(FLAGS.output_dir, "output_dir")
    checkpoint = training_flags.open_init_checkpoint(FLAGS)
    config, tokenizer = checkpoint.config, checkpoint.tokenizer
    positions = FLAGS.max_position_embeddings
    if positions and positions <= config.max_position_embeddings:
        raise UserError(
            f"--max_position_embeddings={positions}: the model has "
            f"{config.max_position_embeddings} already; give a larger number"
        )
    values = read_weights(checkpoint)
    counts = {}
    if FLAGS.input_file:
        with tempfile.TemporaryDirectory() as folder:
            counts = pretraining_words.count_words(
                *sources.read(FLAGS.input_file, None),
                tokenizer.settings,
                os.path.join(folder, "words"),
                beam.Flags(),
            )
    words = choose_words(tokenizer, counts)
    lines, ids = vocabulary.extend(tokenizer.vocabulary, words)
    if words:
        report_splitting(tokenizer, counts, words, lines)
        values = add_words(values, config, tokenizer, words, lines, ids)
    if positions:
        values = add_positions(values, config, positions)
    file_system.make_directory(FLAGS.output_dir, flag="output_dir")
    if words:
        write_words(words, ids)
    extended = TokenizerFiles(
        vocabulary=tokenization.Vocabulary(
            os.path.join(FLAGS.output_dir, VOCAB_NAME),
            "".join(f"{line}\n" for line in lines).encode(),
        ),
        known=checkpoint.tokenizer_settings,
    )
    write_checkpoint(
        FLAGS.output_dir,
        values,
        dataclasses.replace(checkpoint, files=extended),
    )
    logs.say("Wrote the extended model to %s", FLAGS.output_dir)
    if words:
        logging.warning(
            "Make the records anew: words are split in another way now"
        )
    if BIAS not in values:
        logging.warning(
            "%s has no masked LM head (cls/predictions/...), without which it "
            "cannot be pre-trained further; %s. run_pretraining.py --new_head "
            "begins with new weights for it",
            FLAGS.output_dir,
            published.WITH_MASKED_LM,
        )


def choose_words(
    tokenizer: tokenization.FullTokenizer, counts: Mapping[str, int]
) -> list[NewWord]:
    """Return the words to add; say which are left out, and why."""
    if FLAGS.new_words_file:
        source = FLAGS.new_words_file
        words, left_out, notes = vocabulary.read_list(source, tokenizer, counts)
    elif FLAGS.num_new_words:
        source = FLAGS.input_file
        words, left_out, notes = vocabulary.choose_from_text(
            counts,
            tokenizer,
            FLAGS.num_new_words,
            FLAGS.min_frequency,
        )
        if len(words) < FLAGS.num_new_words:
            logging.warning(
                "--num_new_words=%d: the text has only %d that can be added",
                FLAGS.num_new_words,
                len(words),
            )
    else:
        return []
    logs.say("%d words of %s are added", len(words), source)
    if left_out:
        count = sum(map(len, left_out.values()))
        logs.say(
            "%d of %d words are left out, as they %s (--verbosity=0 names all)",
            count,
            len(words) + count,
            vocabulary.in_words(left_out),
        )
    if notes:
        logs.say("Words that %s", vocabulary.in_words(notes))
    for what, some in (left_out | notes).items():
        logging.info("Words that %s: %s", what, " ".join(some))
    return words


def report_splitting(
    tokenizer: tokenization.FullTokenizer,
    counts: Mapping[str, int],
    words: Sequence[NewWord],
    lines: Sequence[str],
) -> None:
    """Log the pieces per word before and after."""
    new_vocab = {line.strip(): number for number, line in enumerate(lines)}
    measured = counts or {word.word: 1 for word in words}
    old = tokenizer.wordpiece_tokenizer
    new = tokenization.WordpieceTokenizer(
        new_vocab, max_input_chars_per_word=old.max_input_chars_per_word
    )
    before, after, longer = vocabulary.compare(measured, old, new)
    logs.say(
        "Pieces per word: %.3f before, %.3f after, %s (%+.1f%%)",
        before,
        after,
        f"in {sum(counts.values()):,} words of the text"
        if counts
        else "in the new words alone",
        100 * (after / before - 1),
    )
    if longer:
        logging.warning(
            "%d words have more pieces than before or are [UNK], as their "
            "beginning is a new word, such as %r",
            len(longer),
            longer[0],
        )


def add_words(
    values: Mapping[str, np.ndarray],
    config: "BertConfig",
    tokenizer: tokenization.FullTokenizer,
    words: Sequence[NewWord],
    lines: Sequence[str],
    ids: Sequence[int],
) -> dict[str, np.ndarray]:
    """Return the weights with rows for new words; set vocab_size.

    A new word begins as the mean of the rows of its old pieces, as which the
    model has read it so far; so does its bias of the masked LM.
    """
    before = config.vocab_size
    config.vocab_size = max(before, len(lines))
    unused = list(filter(vocabulary.UNUSED.fullmatch, tokenizer.vocab))
    num_reused = min(len(words), len(unused))
    logs.say(
        "%d words replace [unused] tokens, %d are appended; vocab_size %s",
        num_reused,
        len(words) - num_reused,
        f"stays {before}"
        if before == config.vocab_size
        else f"{before} becomes {config.vocab_size}",
    )
    found = dict(values)
    for name in {TABLE, BIAS} & values.keys():
        old = values[name]  # [V, H]; of the bias [V]
        new = np.zeros([config.vocab_size, *old.shape[1:]], np.float32)
        new[: len(old)] = old
        for number, word in zip(ids, words, strict=True):
            rows = old[tokenizer.convert_tokens_to_ids(word.pieces)]
            new[number] = rows.mean(axis=0, dtype=np.float64)
        found[name] = new
    return found


def add_positions(
    values: Mapping[str, np.ndarray], config: "BertConfig", count: int
) -> dict[str, np.ndarray]:
    """Return the weights with so many positions; set the configuration's.

    New positions repeat the learned ones (Beltagy et al. 2020,
    arXiv:2004.05150, section 5), so that the model sees familiar positions
    within each part of a long text.
    """
    logging.warning(
        "max_position_embeddings %d becomes %d, the learned positions "
        "repeated: beyond the old limit the model is worth little before "
        "some thousand steps of training",
        config.max_position_embeddings,
        count,
    )
    config.max_position_embeddings = count
    table = values[POSITIONS]  # [old count, H]
    return {**values, POSITIONS: table[np.arange(count) % len(table)]}


def write_words(words: Sequence[NewWord], ids: Sequence[int]) -> None:
    """Write id, word, count and old pieces of each new word."""
    rows = [
        f"{number}\t{word.word}\t{word.count}\t{' '.join(word.pieces)}\n"
        for number, word in zip(ids, words, strict=True)
    ]
    file_system.write_text(
        os.path.join(FLAGS.output_dir, WORDS_NAME),
        "".join(["id\tword\tcount\tpieces\n", *rows]),
    )


def check_flags() -> None:
    """Raise an error for flags that cannot work, before anything is read."""
    has_words = FLAGS.new_words_file or FLAGS.num_new_words
    if not has_words and not FLAGS.max_position_embeddings:
        raise UserError(
            "nothing to add: give --new_words_file, --num_new_words or "
            "--max_position_embeddings"
        )


if __name__ == "__main__":
    script.run(main)
