r"""Learn a WordPiece vocabulary from plain text.

    python build_vocab.py --input_file='books/*.txt' --output_file=vocab.txt

reads the files (32 MB of novels: 15 seconds), writes 30,522 tokens, one per
line, and ends with

    Wrote vocab.txt: 30522 tokens (5 special, 99 unused, 106 single characters,
    30312 longer pieces); set "vocab_size": 30522 in bert_config.json
    7281242 words, 49004 different; 1.01 pieces per word, 0.00% [UNK]

The text is cleaned, lower-cased and split by tokenization.py, so the pieces
are learned from the very words they will have to cover. The same text and
flags give the same bytes, whatever the order of the files.

Layout: [PAD] has id 0, then come [unused1], [unused2], ... (free rows for words
of your own), [UNK], [CLS], [SEP], [MASK], the single characters, and the longer
pieces in the order they were learned, frequent ones first. With the default of
99 unused tokens the special ones have the ids of the published vocabularies,
100 to 103.
"""

import codecs
import collections
import os
import sys
from collections.abc import Iterator, Sequence

from base import errors, file_system
from base.errors import UserError

import tokenizers
import tqdm
from absl import flags, logging
from tokenizers import models, pre_tokenizers, trainers

import tokenization

FLAGS = flags.FLAGS

# Required
flags.DEFINE_string(
    "input_file",
    None,
    "UTF-8 text files: globs, separated by commas. Quote them, so that the "
    "shell leaves the * alone.",
)
flags.DEFINE_string(
    "output_file", None, "The vocabulary to write; an older one is replaced."
)

# What is learned
flags.DEFINE_integer(
    "vocab_size",
    30522,
    "Lines of the vocabulary, special and unused tokens included. Little text "
    "gives fewer. Published: 30522 (uncased), 28996 (cased).",
    lower_bound=1,
)
flags.DEFINE_bool(
    "do_lower_case",
    True,
    "Lower-case the text and drop accents. Every later step needs the same.",
)
flags.DEFINE_integer(
    "min_frequency",
    2,
    "Two pieces are joined to a longer one if they meet at least this often.",
    lower_bound=1,
)
flags.DEFINE_integer(
    "limit_alphabet",
    1000,
    "Keep this many different characters, the most frequent. A word with any "
    "other is [UNK]. Chinese, Japanese and many-language text needs more "
    "(the published Chinese vocabulary has over 7,000 ideographs).",
    lower_bound=1,
)
flags.DEFINE_integer(
    "num_unused_tokens",
    99,
    "Reserve [unused1] to [unusedN]; 99 puts [UNK] at id 100 as published.",
    lower_bound=0,
)

_BLOCK_BYTES = 1 << 22
# Distinct words of raw text held at once (some 200 MB), however much is read.
_MAX_RAW_WORDS = 1 << 21
# The trainer is given each word as often as it occurs, so many at a time.
_TRAINER_CHARS = 1 << 20
_MUCH_UNKNOWN = 0.01


# === Reading ===


def read_blocks(path: str, bar: tqdm.tqdm) -> Iterator[str]:
    """Yield the text of a file in blocks that end between two words."""
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
                    f"{path}: line {line} is not UTF-8 text (byte"
                    f" 0x{error.object[error.start]:02x}); convert the file,"
                    " for example with iconv -t UTF-8"
                ) from None
            if not data:
                yield text
                return
            num_lines += data.count(b"\n")
            bar.update(len(data))
            # Text without any space or line end is cut where the block ends.
            end = max(text.rfind("\n"), text.rfind(" ")) + 1 or len(text)
            rest = text[end:]
            yield text[:end]


def count_words(
    paths: Sequence[str], do_lower_case: bool
) -> collections.Counter[str]:
    """Count the words of text files, as BasicTokenizer splits them."""
    basic = tokenization.BasicTokenizer(do_lower_case)
    words, raw_words = collections.Counter(), collections.Counter()

    def split_raw_words() -> None:
        for raw_word, count in raw_words.items():
            for word in basic.split_word(raw_word):
                words[word] += count
        raw_words.clear()

    with tqdm.tqdm(
        desc="Reading",
        total=total_bytes(paths),
        unit="B",
        unit_scale=True,
        mininterval=0.2 if sys.stderr.isatty() else 10,
    ) as bar:
        for path in paths:
            for block in read_blocks(path, bar):
                raw_words.update(tokenization.clean(block).split())
                if len(raw_words) > _MAX_RAW_WORDS:
                    split_raw_words()
    split_raw_words()
    if not words:
        raise UserError(
            f"--input_file: no text in {len(paths)} file(s), the first of them"
            f" {paths[0]}"
        )
    return words


def total_bytes(paths: Sequence[str]) -> int | None:
    """Return the size of local files; None if any is remote."""
    if any(map(file_system.is_remote, paths)):
        return None
    return sum(map(os.path.getsize, paths))


# === Learning ===


def special_tokens(num_unused: int) -> list[str]:
    """Return the tokens a vocabulary begins with, in the published order."""
    pad, *others = tokenization.SPECIAL_TOKENS
    unused = [f"[unused{number}]" for number in range(1, num_unused + 1)]
    return [pad, *unused, *others]


def choose_alphabet(
    words: collections.Counter[str], limit: int
) -> tuple[set[str], int]:
    """Return the most frequent characters, and how many there are in all."""
    counts = collections.Counter()
    for word, count in words.items():
        for char in word:
            counts[char] += count
    ranked = sorted(counts, key=lambda char: (-counts[char], char))
    return set(ranked[:limit]), len(ranked)


def single_pieces(words: Sequence[str], alphabet: set[str]) -> list[str]:
    """Return the pieces of one character that cover words of `alphabet`.

    Each character can begin a word; those of longer words can continue one.
    Punctuation marks and ideographs, which are always words of their own,
    cannot.
    """
    inner = set()
    for word in words:
        if len(word) > 1:
            inner.update(word)
    return sorted(alphabet) + sorted("##" + char for char in inner)


def check_vocab_size(
    vocab_size: int, num_reserved: int, num_single: int
) -> None:
    """Raise a UserError if there is no room for anything to be learned."""
    wanted = num_reserved + num_single
    if vocab_size < wanted:
        raise UserError(
            f"--vocab_size={vocab_size} is too small: wanted at least {wanted},"
            f" {num_reserved} for special and unused tokens and {num_single}"
            " for single characters; raise it, or lower --limit_alphabet or"
            " --num_unused_tokens"
        )


def learn_pieces(
    words: Sequence[str],
    counts: collections.Counter[str],
    single: Sequence[str],
    num_pieces: int,
    min_frequency: int,
) -> list[str]:
    """Learn pieces that cover words with as few of them as possible.

    Args:
        words: sorted.
        counts: how often each word occurs.
        single: the pieces of one character to begin with.
        num_pieces: wanted in all; there are fewer if the words have no more.
        min_frequency: two pieces that meet more rarely are not joined.

    Returns:
        `single`, then the longer pieces as they were learned.
    """
    # The trainer numbers characters in the order of a randomly seeded hash
    # table and breaks ties by these numbers. Given as special tokens they are
    # numbered first, in our order, and the result is the same every time.
    trainer = trainers.WordPieceTrainer(
        vocab_size=num_pieces,
        min_frequency=min_frequency,
        special_tokens=list(single),
        show_progress=sys.stderr.isatty(),
    )
    model = tokenizers.Tokenizer(models.WordPiece(unk_token="[UNK]"))
    # tokenization.py has done the splitting; only its words are to be parted.
    model.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    model.train_from_iterator(repeat_words(words, counts), trainer)
    ids = model.get_vocab()
    return sorted(ids, key=ids.__getitem__)


def is_coverable(word: str, alphabet: set[str]) -> bool:
    """Tell whether pieces of one character can cover a word."""
    return len(word) <= tokenization.MAX_CHARS_PER_WORD and (
        alphabet.issuperset(word)
    )


def repeat_words(
    words: Sequence[str], counts: collections.Counter[str]
) -> Iterator[str]:
    """Yield text in which each word stands as often as it was counted."""
    for word in words:
        at_once = max(1, _TRAINER_CHARS // len(word))
        for start in range(0, counts[word], at_once):
            yield f"{word} " * min(at_once, counts[word] - start)


# === Writing ===


def check_output_file(path: str, input_files: Sequence[str]) -> None:
    """Raise a UserError now for what would fail after all the work."""
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
            f"--output_file={path} is also one of --input_file: it would be"
            " read as text, then replaced"
        )
    logging.info("%s exists and will be replaced", path)


def write_vocab(path: str, tokens: Sequence[str]) -> None:
    """Write one token per line; the file appears when it is complete."""
    try:
        with file_system.atomic_file(path) as file:
            file.write("".join(f"{token}\n" for token in tokens).encode())
    except OSError as error:
        raise UserError(
            f"--output_file={path}: cannot be written:"
            f" {error.strerror or error}"
        ) from error


def measure(
    words: collections.Counter[str], tokens: Sequence[str]
) -> tuple[float, float]:
    """Return (mean pieces per word, share of [UNK] among words) of the text."""
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
    """Log what has come out, and whatever looks wrong about it."""
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
            "--vocab_size=%d was not reached: the text has no more pieces that"
            " occur --min_frequency=%d times",
            FLAGS.vocab_size,
            FLAGS.min_frequency,
        )
    if unknown > _MUCH_UNKNOWN:
        logging.warning(
            "%.1f%% of all words are [UNK]: raise --limit_alphabet=%d",
            100 * unknown,
            FLAGS.limit_alphabet,
        )


def main(unused_argv: Sequence[str]) -> None:
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
    # The others are [UNK] and have nothing to teach.
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
    flags.mark_flags_as_required(["input_file", "output_file"])
    errors.run(main)
