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

import collections
import dataclasses
import os
import re
import tempfile
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from base import beam, file_system, logs, script, startup, text_files
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


TABLE = "bert/embeddings/word_embeddings"
BIAS = "cls/predictions/output_bias"
POSITIONS = "bert/embeddings/position_embeddings"

UNUSED = re.compile(r"\[unused\d+\]")

# Why words are left out, the predicate of a sentence, -> these words.
LeftOut = dict[str, list[str]]


class NewWord(NamedTuple):
    """A word that becomes a token.

    It is what the tokenizer's first steps leave: without spaces, punctuation
    marks and, in an uncased vocabulary, capitals and accents. Only such a word
    can be one token.
    """

    word: str
    pieces: tuple[str, ...]  # the tokens that it is split into before
    count: int  # occurrences in the text; 0 without text


def main(_: list[str]) -> None:
    """Read the model, choose words, extend it and write it."""
    positions = FLAGS.max_position_embeddings
    if not (FLAGS.new_words_file or FLAGS.num_new_words or positions):
        raise UserError(
            "nothing to add: give --new_words_file, --num_new_words or "
            "--max_position_embeddings"
        )
    with startup.importing():
        from checkpoints import lookup
        from checkpoints.checkpoint import read_weights, write_checkpoint
    lookup.check_no_checkpoint(FLAGS.output_dir, "output_dir")
    checkpoint = training_flags.open_init_checkpoint(FLAGS)
    config, tokenizer = checkpoint.config, checkpoint.tokenizer
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
    lines, ids = extend(tokenizer.vocabulary, words)
    if words:
        old = tokenizer.wordpiece_tokenizer
        new = tokenization.WordpieceTokenizer(
            {line.strip(): number for number, line in enumerate(lines)},
            max_input_chars_per_word=old.max_input_chars_per_word,
        )
        measured = counts or {word.word: 1 for word in words}
        before, after = (pieces_per_word(measured, t) for t in (old, new))
        logs.say(
            "Pieces per word: %.3f before, %.3f after, in %s (%+.1f%%)",
            before,
            after,
            f"{sum(counts.values()):,} words of the text"
            if counts
            else "the new words alone",
            100 * (after / before - 1),
        )
        values = add_words(values, config, tokenizer, words, lines, ids)
    if positions:
        values = add_positions(values, config, positions)
    file_system.make_directory(FLAGS.output_dir, flag="output_dir")
    if words:
        rows = ["id\tword\tcount\tpieces\n"]
        for number, (word, pieces, count) in zip(ids, words, strict=True):
            rows.append(f"{number}\t{word}\t{count}\t{' '.join(pieces)}\n")
        path = os.path.join(FLAGS.output_dir, "new_words.tsv")
        file_system.write_text(path, "".join(rows))
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


# --- Words -------------------------------------------------------------------


def choose_words(
    tokenizer: tokenization.FullTokenizer, counts: Mapping[str, int]
) -> list[NewWord]:
    """Return the words to add; say which are left out, and why.

    `counts` are those of the words of a text; empty without one.
    """
    if FLAGS.new_words_file:
        words, left_out = read_list(FLAGS.new_words_file, tokenizer, counts)
    elif FLAGS.num_new_words:
        words, left_out = choose_from_text(
            counts, tokenizer, FLAGS.num_new_words, FLAGS.min_frequency
        )
    else:
        return []
    source = FLAGS.new_words_file or FLAGS.input_file
    logs.say("%d words of %s are added", len(words), source)
    if left_out:
        count = sum(map(len, left_out.values()))
        logs.say(
            "%d of %d words are left out, as they %s (--verbosity=0 names all)",
            count,
            len(words) + count,
            in_words(left_out),
        )
    for what, some in left_out.items():
        logging.info("Words that %s: %s", what, " ".join(some))
    return words


def in_words(left_out: LeftOut) -> str:
    """Return why how many words are left out, and the first three of each."""
    return "; ".join(
        f"{what} ({len(words):,}: {', '.join(map(repr, words[:3]))}"
        f"{', ...' * (len(words) > 3)})"
        for what, words in left_out.items()
    )


def read_list(
    path: str,
    tokenizer: tokenization.FullTokenizer,
    counts: Mapping[str, int],
) -> tuple[list[NewWord], LeftOut]:
    """Return the words of a file, one a line, that can be added; and others.

    Raises:
        UserError: the file cannot be read, or no line of it can be added.
    """
    lines = [*map(str.strip, text_files.read_text(path).split("\n"))]
    left_out: LeftOut = collections.defaultdict(list)
    words: dict[str, NewWord] = {}
    for line in filter(None, lines):
        parts = tokenizer.basic_tokenizer.tokenize(line)
        if problem := _problem(line, parts, tokenizer, words):
            left_out[problem].append(line)
        else:
            count = counts.get(parts[0], 0)
            words[parts[0]] = _new_word(parts[0], tokenizer, count)
    if not any(lines):
        raise UserError(
            f"--new_words_file={path} is empty: wanted one word per line"
        )
    if not words:
        raise UserError(
            f"--new_words_file={path}: none of its "
            f"{sum(map(len, left_out.values()))} words can be added, as they "
            f"{in_words(left_out)}"
        )
    return [*words.values()], left_out


def _problem(
    line: str,
    parts: Sequence[str],
    tokenizer: tokenization.FullTokenizer,
    words: Collection[str],
) -> str | None:
    """Return why a line with these words cannot be added; None if it can."""
    longest = tokenizer.wordpiece_tokenizer.max_input_chars_per_word
    if len(line.split()) > 1:
        return "contain spaces, and a token is one word"
    if not parts:
        return "have no character that the tokenizer keeps"
    if len(parts) > 1:
        return "are split at punctuation marks or between ideographs"
    if len(parts[0]) > longest:
        return f"have more than {longest} characters"
    if parts[0] in tokenizer.vocab:
        return "are tokens already"
    if parts[0] in words:
        return "repeat an earlier line, perhaps in other capitals or accents"
    return None


def choose_from_text(
    counts: Mapping[str, int],
    tokenizer: tokenization.FullTokenizer,
    num_words: int,
    min_frequency: int,
) -> tuple[list[NewWord], LeftOut]:
    """Return the words of a text, {word: count}, that cost most extra pieces.

    After them come others that are split. Words without a letter, such as
    numbers, are left out: there are very many, each of them rare.

    Raises:
        UserError: no word of the text can be added.
    """
    words, left_out = [], collections.defaultdict(list)
    for text in sorted(counts):
        word = _new_word(text, tokenizer, counts[text])
        if word.pieces == ("[UNK]",):
            what = "are [UNK] and not added; --new_words_file can name them"
            left_out[what].append(text)
        elif len(word.pieces) == 1:  # a token already, which needs no note
            continue
        elif not any(map(str.isalpha, text)):
            left_out["are split and have no letter"].append(text)
        elif word.count < min_frequency:
            what = f"are split and occur less than {min_frequency} times"
            left_out[what].append(text)
        else:
            words.append(word)
    if not words:
        raise UserError(
            f"--input_file: none of the {len(counts)} different words occurs "
            f"{min_frequency} times (--min_frequency) and is split into "
            "pieces: there is nothing to add"
        )
    if len(words) < num_words:
        logging.warning(
            "--num_new_words=%d: the text has only %d that can be added",
            num_words,
            len(words),
        )
    # Words of one cost stay in the order of the alphabet.
    words.sort(key=lambda word: -word.count * (len(word.pieces) - 1))
    if rest := [word.word for word in words[num_words:]]:
        left_out["cost fewer extra pieces (--num_new_words)"] = rest
    return words[:num_words], left_out


def _new_word(
    word: str, tokenizer: tokenization.FullTokenizer, count: int
) -> NewWord:
    pieces = tokenizer.wordpiece_tokenizer.pieces_of(word)
    return NewWord(word, tuple(pieces), count)


# --- Vocabulary --------------------------------------------------------------


def extend(
    vocabulary: tokenization.Vocabulary, words: Sequence[NewWord]
) -> tuple[list[str], list[int]]:
    """Return the lines of a vocabulary with more words, and the words' ids.

    A word takes the place of an [unused] token, whose row no text has used;
    when these are used up, words are appended. Every other token keeps its id.
    """
    # Not its tokens: blank lines have other names there.
    lines = vocabulary.content.decode().split("\n")[:-1]
    ids = [i for i, line in enumerate(lines) if UNUSED.fullmatch(line.strip())]
    ids = [*ids, *range(len(lines), len(lines) + len(words))][: len(words)]
    lines += [""] * (max(ids, default=-1) + 1 - len(lines))
    for number, word in zip(ids, words, strict=True):
        lines[number] = word.word
    return lines, ids


def pieces_per_word(
    counts: Mapping[str, int], tokenizer: tokenization.WordpieceTokenizer
) -> float:
    """Return into how many pieces the words of a text are split, on average."""
    pieces = (n * len(tokenizer.pieces_of(word)) for word, n in counts.items())
    return sum(pieces) / sum(counts.values())


# --- Weights -----------------------------------------------------------------


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
    num_appended = len(lines) - len(tokenizer.vocab)
    logs.say(
        "%d words replace [unused] tokens, %d are appended; vocab_size %s",
        len(words) - num_appended,
        num_appended,
        f"stays {before}"
        if before == config.vocab_size
        else f"{before} becomes {config.vocab_size}",
    )
    extended = dict(values)
    for name in {TABLE, BIAS} & values.keys():
        old = values[name]  # [V, H]; of the bias [V]
        new = np.zeros([config.vocab_size, *old.shape[1:]], np.float32)
        new[: len(old)] = old
        for number, word in zip(ids, words, strict=True):
            rows = old[tokenizer.convert_tokens_to_ids(word.pieces)]
            new[number] = rows.mean(axis=0, dtype=np.float64)
        extended[name] = new
    return extended


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


if __name__ == "__main__":
    script.run(main)
