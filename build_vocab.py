r"""Learn a WordPiece vocabulary from plain text.

    python build_vocab.py --input_file='books/*.txt' --output_file=vocab.txt

writes vocab.txt with 30,522 tokens, one per line (32 MB of novels take 15
seconds), and ends with

    Wrote vocab.txt: 30522 tokens (5 special, 99 unused, 106 single characters,
    30312 longer pieces); set "vocab_size": 30522 in bert_config.json
    7281242 words, 49004 different; 1.01 pieces per word, 0.00% [UNK]

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

import codecs
import collections
import os
from collections.abc import Callable, Iterator, Sequence

from base import errors, file_system, progress
from base.errors import UserError

import tokenizers
from absl import flags, logging
from tokenizers import models, pre_tokenizers, trainers

import tokenization

FLAGS = flags.FLAGS

# Required
flags.DEFINE_string(
    "input_file",
    None,
    "UTF-8 text files: patterns such as 'books/*.txt', separated by commas. "
    "The quotes keep the shell from expanding them.",
)
flags.DEFINE_string(
    "output_file", None, "The vocabulary to write; an older one is replaced."
)

# What is learned
flags.DEFINE_integer(
    "vocab_size",
    30522,
    "Number of tokens, special and unused ones included. A small text gives "
    "fewer. Published: 30522 (uncased), 28996 (cased).",
    lower_bound=1,
)
flags.DEFINE_bool(
    "do_lower_case",
    True,
    "Lower-case the text and remove accents. Every later step needs the same "
    "value.",
)
flags.DEFINE_integer(
    "min_frequency",
    2,
    "Join two pieces to a longer one if they occur together at least this "
    "often.",
    lower_bound=1,
)
flags.DEFINE_integer(
    "limit_alphabet",
    1000,
    "Number of different characters to keep, the most frequent ones. A word "
    "with any other character is [UNK]. Chinese, Japanese and multilingual "
    "text needs more (the published Chinese vocabulary has over 7,000 "
    "ideographs).",
    lower_bound=1,
)
flags.DEFINE_integer(
    "num_unused_tokens",
    99,
    "Number N of tokens [unused1] to [unusedN]; with 99 of them [UNK] has id "
    "100 as in the published vocabularies.",
    lower_bound=0,
)

_BLOCK_BYTES = 1 << 22

# Different words of raw text kept at once (about 200 MB), so that the memory
# does not grow with the corpus.
_MAX_RAW_WORDS = 1 << 21

# The trainer gets each word as often as it occurs, in texts of this length.
_TRAINER_CHARS = 1 << 20

# Warn if a larger share of the words is [UNK].
_MUCH_UNKNOWN = 0.01

# --- Reading -----------------------------------------------------------------


def read_blocks(path: str, report: Callable[[int], None]) -> Iterator[str]:
    """Yield the text of a file in blocks that end between two words.

    Args:
        path: UTF-8 text.
        report: called with the number of bytes of every block read.

    Raises:
        UserError: the file cannot be read or is not UTF-8; names the line.
    """
    decoder = codecs.getincrementaldecoder("utf-8")()
    num_lines, rest = 0, ""
    with file_system.open_for_reading(path) as file:
        while True:
            data = file.read(_BLOCK_BYTES)
            try:
                text = rest + decoder.decode(data, final=not data)
            except UnicodeDecodeError as error:
                before = error.object[: error.start]
                line = num_lines + before.count(b"\n") + 1
                raise UserError(
                    f"{path}: line {line} is not UTF-8 text (byte "
                    f"0x{error.object[error.start]:02x}); convert the file, "
                    "for example with iconv -t UTF-8"
                ) from None
            if not data:
                yield text
                return
            num_lines += data.count(b"\n")
            report(len(data))
            # Text without any space or line end is cut at the end of the block.
            end = max(text.rfind("\n"), text.rfind(" ")) + 1 or len(text)
            rest = text[end:]
            yield text[:end]


def count_words(
    paths: Sequence[str], do_lower_case: bool
) -> collections.Counter[str]:
    """Return word -> number of occurrences in text files.

    Words are as BasicTokenizer splits them. Splitting is slow, so the text is
    first split at spaces only, and each different result is split once.

    Raises:
        UserError: the files have no text.
    """
    basic = tokenization.BasicTokenizer(do_lower_case)
    words, raw_words = collections.Counter(), collections.Counter()

    def split_raw_words() -> None:
        for raw_word, count in raw_words.items():
            for word in basic.split_word(raw_word):
                words[word] += count
        raw_words.clear()

    total = total_bytes(paths)
    with progress.bar(total, "B", "Reading", unit_scale=True) as bar:
        for path in paths:
            for block in read_blocks(path, bar.update):
                raw_words.update(tokenization.clean(block).split())
                if len(raw_words) > _MAX_RAW_WORDS:
                    split_raw_words()
    split_raw_words()
    if not words:
        raise UserError(
            f"--input_file: no text in {len(paths)} file(s), the first of them "
            f"{paths[0]}"
        )
    return words


def total_bytes(paths: Sequence[str]) -> int | None:
    """Return the size of local files in bytes; None if any is remote."""
    if any(map(file_system.is_remote, paths)):
        return None
    return sum(map(os.path.getsize, paths))


# --- Learning ----------------------------------------------------------------


def special_tokens(num_unused: int) -> list[str]:
    """Return the first tokens of a vocabulary, in the published order."""
    pad, *others = tokenization.SPECIAL_TOKENS
    unused = [f"[unused{number}]" for number in range(1, num_unused + 1)]
    return [pad, *unused, *others]


def choose_alphabet(
    words: collections.Counter[str], limit: int
) -> tuple[set[str], int]:
    """Return the `limit` most frequent characters and the number of all."""
    counts = collections.Counter()
    for word, count in words.items():
        for char in word:
            counts[char] += count
    ranked = sorted(counts, key=lambda char: (-counts[char], char))
    return set(ranked[:limit]), len(ranked)


def single_pieces(words: Sequence[str], alphabet: set[str]) -> list[str]:
    """Return the pieces of one character that any word can be built from.

    Every character gets a piece that begins a word, "a". Those of words of
    two characters or more also get one that continues a word, "##a".
    Punctuation marks and ideographs do not: the tokenizer makes each of them
    a word of its own.
    """
    inner = set()
    for word in words:
        if len(word) > 1:
            inner.update(word)
    return sorted(alphabet) + sorted("##" + char for char in inner)


def check_vocab_size(
    vocab_size: int, num_reserved: int, num_single: int
) -> None:
    """Raise a UserError if even the single characters are too many."""
    wanted = num_reserved + num_single
    if vocab_size < wanted:
        raise UserError(
            f"--vocab_size={vocab_size} is too small: wanted at least "
            f"{wanted}, {num_reserved} for special and unused tokens and "
            f"{num_single} for single characters; raise it, or lower "
            "--limit_alphabet or --num_unused_tokens"
        )


def learn_pieces(
    words: Sequence[str],
    counts: collections.Counter[str],
    single: Sequence[str],
    num_pieces: int,
    min_frequency: int,
) -> list[str]:
    """Return WordPiece pieces learned from words and their frequencies.

    Args:
        words: sorted, so that ties are broken the same way every time.
        counts: number of occurrences of each word.
        single: the pieces of one character to begin with.
        num_pieces: number of pieces to return; fewer if the words have no
            more.
        min_frequency: two pieces that occur together less often are not
            joined.

    Returns:
        `single`, then the longer pieces as they were learned.
    """
    # The trainer numbers characters in the order of a hash table with a random
    # seed, and breaks ties by these numbers. As special tokens, the characters
    # are numbered first and in our order, so the result is always the same.
    trainer = trainers.WordPieceTrainer(
        vocab_size=num_pieces,
        min_frequency=min_frequency,
        special_tokens=list(single),
        show_progress=progress.is_terminal(),
    )
    model = tokenizers.Tokenizer(models.WordPiece(unk_token="[UNK]"))
    # The words are split already (tokenization.py); only spaces part them.
    model.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    model.train_from_iterator(repeat_words(words, counts), trainer)
    ids = model.get_vocab()
    return sorted(ids, key=ids.__getitem__)


def is_coverable(word: str, alphabet: set[str]) -> bool:
    """Return whether the tokenizer can split a word into known pieces.

    It has characters of the alphabet only, and not too many.
    """
    return len(word) <= tokenization.MAX_CHARS_PER_WORD and (
        alphabet.issuperset(word)
    )


def repeat_words(
    words: Sequence[str], counts: collections.Counter[str]
) -> Iterator[str]:
    """Yield texts that hold each word as often as it was counted."""
    for word in words:
        at_once = max(1, _TRAINER_CHARS // len(word))
        for start in range(0, counts[word], at_once):
            yield f"{word} " * min(at_once, counts[word] - start)


# --- Writing -----------------------------------------------------------------


def check_output_file(path: str, input_files: Sequence[str]) -> None:
    """Check that the file can be written, before the work begins.

    Raises:
        UserError: it cannot, or it is one of the input files.
    """
    if not os.path.basename(path):
        raise UserError(f"--output_file={path}: wanted the name of a file")
    if file_system.is_remote(path):
        return
    folder = os.path.dirname(path) or "."
    if os.path.isdir(path):
        raise UserError(f"--output_file={path} is a directory; add a file name")
    if not os.path.isdir(folder):
        raise UserError(f"--output_file={path}: there is no directory {folder}")
    if not os.access(folder, os.W_OK):
        raise UserError(f"--output_file={path}: cannot write in {folder}")
    if not os.path.exists(path):
        return
    if any(
        not file_system.is_remote(name) and os.path.samefile(path, name)
        for name in input_files
    ):
        raise UserError(
            f"--output_file={path} is also one of --input_file: it would be "
            "read as text, then replaced; name another file"
        )
    logging.info("%s exists and will be replaced", path)


def write_vocab(path: str, tokens: Sequence[str]) -> None:
    """Write one token per line; the file appears when it is complete."""
    try:
        with file_system.atomic_file(path) as file:
            file.write("".join(f"{token}\n" for token in tokens).encode())
    except OSError as error:
        raise UserError(
            f"--output_file={path}: cannot be written: "
            f"{error.strerror or error}"
        ) from error


def measure(
    words: collections.Counter[str], tokens: Sequence[str]
) -> tuple[float, float]:
    """Return the mean pieces per word and the share of words that are [UNK]."""
    vocab = {token: index for index, token in enumerate(tokens)}
    wordpiece = tokenization.WordpieceTokenizer(vocab)
    num_pieces = num_unknown = 0
    for word, count in words.items():
        pieces = wordpiece.split_word(word)
        num_pieces += count * len(pieces)
        num_unknown += count * (pieces == ["[UNK]"])
    total = sum(words.values())
    return num_pieces / total, num_unknown / total


def report(
    words: collections.Counter[str], tokens: Sequence[str], num_single: int
) -> None:
    """Log the size of the vocabulary and how well it covers the text."""
    num_special = len(tokenization.SPECIAL_TOKENS)
    num_learned = len(tokens) - FLAGS.num_unused_tokens - num_special
    logging.info(
        "Wrote %s: %d tokens (%d special, %d unused, %d single characters, %d"
        ' longer pieces); set "vocab_size": %d in bert_config.json',
        FLAGS.output_file,
        len(tokens),
        num_special,
        FLAGS.num_unused_tokens,
        num_single,
        num_learned - num_single,
        len(tokens),
    )
    pieces_per_word, unknown = measure(words, tokens)
    logging.info(
        "%d words, %d different; %.2f pieces per word, %.2f%% [UNK]",
        sum(words.values()),
        len(words),
        pieces_per_word,
        100 * unknown,
    )
    if len(tokens) < FLAGS.vocab_size:
        logging.warning(
            "--vocab_size=%d was not reached: no other two pieces of the text "
            "occur together --min_frequency=%d times",
            FLAGS.vocab_size,
            FLAGS.min_frequency,
        )
    if unknown > _MUCH_UNKNOWN:
        logging.warning(
            "%.1f%% of all words are [UNK]: raise --limit_alphabet=%d",
            100 * unknown,
            FLAGS.limit_alphabet,
        )


# --- The script --------------------------------------------------------------


def check_flags() -> None:
    """Raise a UserError if a required flag is missing."""
    for name in ("input_file", "output_file"):
        if not FLAGS[name].value:
            raise UserError(f"--{name} is required")


def main(_: list[str]) -> None:
    """Count the words of the input, learn pieces and write the vocabulary."""
    check_flags()
    input_files = sorted(file_system.find_files(FLAGS.input_file))
    check_output_file(FLAGS.output_file, input_files)
    words = count_words(input_files, FLAGS.do_lower_case)
    alphabet, num_chars = choose_alphabet(words, FLAGS.limit_alphabet)
    logging.info(
        "%d different words of %d different characters, of which %d are kept",
        len(words),
        num_chars,
        len(alphabet),
    )
    # Words with other characters will be [UNK]: their pieces would be useless.
    known = [word for word in sorted(words) if is_coverable(word, alphabet)]
    single = single_pieces(known, alphabet)
    reserved = special_tokens(FLAGS.num_unused_tokens)
    check_vocab_size(FLAGS.vocab_size, len(reserved), len(single))
    num_pieces = FLAGS.vocab_size - len(reserved)
    logging.info("Learning up to %d pieces", num_pieces)
    pieces = learn_pieces(known, words, single, num_pieces, FLAGS.min_frequency)
    tokens = reserved + pieces
    write_vocab(FLAGS.output_file, tokens)
    report(words, tokens, len(single))


if __name__ == "__main__":
    errors.run(main)
