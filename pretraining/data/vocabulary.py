"""Learn a WordPiece vocabulary: choose characters, join pieces.

build_vocab.py describes the layout of a vocabulary and how pieces are learned.
"""

import collections
import itertools
from collections.abc import Iterator, Sequence

from base import logs

import tokenizers
from absl import logging
from tokenizers import models, pre_tokenizers, trainers

import tokenization

# The trainer gets each word as often as it occurs, in texts of this length.
_TRAINER_CHARS = 1 << 12

# The most occurrences of a pair of pieces that the trainer gets. They are half
# of what it can count, since counts are rounded up when they are divided.
_MAX_PAIRS = 1 << 30

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
    inner = {char for word in words if len(word) > 1 for char in word}
    return sorted(alphabet) + sorted("##" + char for char in inner)


def learn_pieces(
    words: Sequence[str],
    counts: collections.Counter[str],
    single: Sequence[str],
    num_pieces: int,
    min_frequency: int,
) -> list[str]:
    """Return WordPiece pieces learned from words and their frequencies.

    First come `single`, the pieces of one character, then the longer ones as
    they were learned: num_pieces in all, or fewer if the words have no more.
    The words are sorted, so that ties are broken the same way every time. Two
    pieces that occur together less than min_frequency times are not joined.
    """
    # The trainer numbers characters in the order of a hash table with a random
    # seed, and breaks ties by these numbers. As special tokens, the characters
    # are numbered first and in our order, so the result is always the same.
    divisor = count_divisor(counts)
    if divisor > 1:
        logging.info(
            "Dividing the counts of words by %d: two pieces occur together "
            "more often than the trainer counts",
            divisor,
        )
        counts = {word: -(-n // divisor) for word, n in counts.items()}
    trainer = trainers.WordPieceTrainer(
        vocab_size=num_pieces,
        min_frequency=-(-min_frequency // divisor),
        special_tokens=list(single),
        show_progress=logs.is_terminal(),
    )
    model = tokenizers.Tokenizer(models.WordPiece(unk_token="[UNK]"))
    # The words are split already (tokenization.py); only spaces part them.
    model.pre_tokenizer = pre_tokenizers.WhitespaceSplit()

    def texts() -> Iterator[str]:
        """Yield texts that hold each word as often as it was counted."""
        for word in words:
            at_once = max(1, _TRAINER_CHARS // len(word))
            for start in range(0, counts[word], at_once):
                yield f"{word} " * min(at_once, counts[word] - start)

    model.train_from_iterator(texts(), trainer)
    ids = model.get_vocab()
    return sorted(ids, key=ids.__getitem__)


def count_divisor(counts: collections.Counter[str]) -> int:
    """Return by what to divide the counts of words, 1 for most texts.

    The trainer counts how often two pieces occur together in 32 bits, and
    never joins those whose count has become negative. In English "th" occurs
    2^31 times in about 100 GB.
    """
    pairs = collections.Counter()
    for word, count in counts.items():
        for pair in itertools.pairwise(word):
            pairs[pair] += count
    return max(1, -(-max(pairs.values(), default=0) // _MAX_PAIRS))


# --- Writing -----------------------------------------------------------------


def measure(
    words: collections.Counter[str], tokens: Sequence[str]
) -> tuple[float, float]:
    """Return the mean pieces per word and the share of words that are [UNK]."""
    vocab = {token: index for index, token in enumerate(tokens)}
    wordpiece = tokenization.WordpieceTokenizer(vocab)
    num_pieces = num_unknown = 0
    for word, count in words.items():
        pieces = wordpiece.pieces_of(word)
        num_pieces += count * len(pieces)
        num_unknown += count * (pieces == ["[UNK]"])
    total = sum(words.values())
    return num_pieces / total, num_unknown / total
