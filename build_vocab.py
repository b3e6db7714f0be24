r"""Learn a WordPiece vocabulary from plain text.

    python build_vocab.py --input_file='books/*.txt' --output_file=vocab.txt

writes vocab.txt with 30,522 tokens, one per line (32 MB of novels take 30
seconds), and ends with

    Wrote vocab.txt: 30,522 word pieces (5 special, 99 unused, 106 single
    characters, 30,312 longer ones)
    The text has 7,281,242 words, 49,004 of them different; 1.01 pieces per
    word, 0.00% are unknown ([UNK])

Usual choices: --vocab_size, --nodo_lower_case to keep capitals.

The text is cleaned, lower-cased and split into words by tokenization.py, as
every later step does it. The same text and flags give the same bytes, whatever
the order of the files.

Layout: [PAD] has id 0; then come [unused1], [unused2], ... (rows for words to
be added later), [UNK], [CLS], [SEP], [MASK], the single characters, and the
longer pieces in the order they were learned, frequent ones first. With the
default of 99 unused tokens, [UNK] to [MASK] have the ids of the published
vocabularies, 100 to 103.

How pieces are learned: a word starts as single characters, h ##u ##g. The two
adjacent pieces that occur together most often, say ##u ##g, are joined to a
new piece ##ug in all words, and so on until the vocabulary is full.
"""

import collections
import dataclasses
from collections.abc import Sequence

from base import beam, file_system, logs, script
from base.errors import UserError
from base.flags import define, flag, read

from absl import flags, logging

import tokenization
from pretraining.data import sources, vocabulary
from pretraining.data import words as pretraining_words

FLAGS = flags.FLAGS


@dataclasses.dataclass(frozen=True)
class Flags:
    """The text, what is learned and how the words are counted."""

    input_file: str | None = flag()
    """UTF-8 text files: patterns such as 'books/*.txt', separated by commas.
    The quotes keep the shell from expanding them."""

    output_file: str = flag(required=True, is_output=True, alias="output")
    """The vocabulary to write; an older one is replaced."""

    sources: str | None = flag()
    """Instead of input_file: a TOML file that names sources, with their files,
    and weights or a smoothing over languages, as for
    create_pretraining_data.py."""

    # What is learned
    vocab_size: int = flag(30522, 1, 10**7)
    """Number of tokens, special and unused ones included. A small text gives
    fewer. Published: 30522 (uncased), 28996 (cased)."""

    do_lower_case: bool = flag(True)
    """Lower-case the text and remove accents. Every later step needs the same
    value."""

    # The upper bound is that of the trainer.
    min_frequency: int = flag(2, 1, 2**31 - 1)
    """Join two pieces to a longer one if they occur together at least this
    often."""

    limit_alphabet: int = flag(1000, low=1)
    """Number of different characters to keep, the most frequent ones. A word
    with any other character becomes [UNK]. Chinese, Japanese and multilingual
    text needs more (the published Chinese vocabulary has over 7,000
    ideographs)."""

    num_unused_tokens: int = flag(99, 0, 10**7)
    """Number N of tokens [unused1] to [unusedN]; with 99 of them [UNK] has id
    100 as in the published vocabularies."""


define(Flags)
define(beam.Flags)

# Warn if a larger share of the words is [UNK].
_MUCH_UNKNOWN = 0.01


def main(_: list[str]) -> None:
    """Count the words of the input, learn pieces and write the vocabulary."""
    beam.check_flags(FLAGS, "output_file")
    states, mix = sources.read(FLAGS.input_file, FLAGS.sources)
    inputs = [("input_file", path) for path, *_ in states]
    file_system.prepare_output_file(FLAGS.output_file, inputs)
    settings = tokenization.TokenizerSettings.of(FLAGS.do_lower_case)
    words = pretraining_words.count_words(
        states, mix, settings, FLAGS.output_file, read(beam.Flags, FLAGS)
    )
    alphabet, num_chars = vocabulary.choose_alphabet(
        words, FLAGS.limit_alphabet
    )
    logging.info(
        f"{len(words)} different words of {num_chars} different characters, of "
        f"which {len(alphabet)} are kept"
    )
    # Words with other characters become [UNK]: their pieces would be useless.
    longest = tokenization.MAX_CHARS_PER_WORD
    known = [
        w for w in sorted(words) if len(w) <= longest and alphabet.issuperset(w)
    ]
    single = vocabulary.single_pieces(known, alphabet)
    reserved = vocabulary.special_tokens(FLAGS.num_unused_tokens)
    wanted = len(reserved) + len(single)
    if FLAGS.vocab_size < wanted:
        raise UserError(
            f"--vocab_size={FLAGS.vocab_size} is too small: wanted at least "
            f"{wanted}, {len(reserved)} for special and unused tokens and "
            f"{len(single)} for single characters; raise it, or lower "
            "--limit_alphabet or --num_unused_tokens"
        )
    num_pieces = FLAGS.vocab_size - len(reserved)
    logging.info("Learning up to %d pieces", num_pieces)
    pieces = vocabulary.learn_pieces(
        known, words, single, num_pieces, FLAGS.min_frequency
    )
    tokens = reserved + pieces
    text = "".join(f"{token}\n" for token in tokens)
    file_system.write_text(FLAGS.output_file, text)
    report(words, tokens, len(single))


def report(
    words: collections.Counter[str], tokens: Sequence[str], num_single: int
) -> None:
    """Say the size of the vocabulary and how well it covers the text."""
    num_special = len(tokenization.SPECIAL_TOKENS)
    num_learned = len(tokens) - FLAGS.num_unused_tokens - num_special
    logs.say(
        f"Wrote {FLAGS.output_file}: {len(tokens):,} word pieces "
        f"({num_special} special, {FLAGS.num_unused_tokens} unused, "
        f"{num_single} single characters, {num_learned - num_single:,} longer "
        "ones)"
    )
    pieces_per_word, unknown = vocabulary.measure(words, tokens)
    logs.say(
        f"The text has {sum(words.values()):,} words, {len(words):,} of them "
        f"different; {pieces_per_word:.2f} pieces per word, {unknown:.2%} are "
        "unknown ([UNK])"
    )
    if len(tokens) < FLAGS.vocab_size:
        logging.warning(
            f"--vocab_size={FLAGS.vocab_size} was not reached: no other two "
            "pieces of the text occur together "
            f"--min_frequency={FLAGS.min_frequency} times"
        )
    if unknown <= _MUCH_UNKNOWN:
        return
    longest = tokenization.MAX_CHARS_PER_WORD
    too_long = sum(n for word, n in words.items() if len(word) > longest)
    how = f"raise --limit_alphabet={FLAGS.limit_alphabet}"
    if too_long / sum(words.values()) > unknown / 2:
        how = (
            f"most of them are longer than {longest} characters; put spaces "
            "between the words of a language that is written without, as Thai"
        )
    logging.warning("%.1f%% of all words are [UNK]: %s", 100 * unknown, how)


if __name__ == "__main__":
    script.run(main)
