"""build_vocab.py: pieces of the plain algorithm, same bytes every time."""

import collections
import gzip
import os
import subprocess
import sys
from pathlib import Path
from pydoc_data import topics

from base import beam
from base.errors import UserError

import pytest
import scripts
from corpora import manual
from paths import ROOT

import tokenization
from pretraining.data import documents, sources, vocabulary, words
from pretraining.data.documents import Range

build_vocab = scripts.load("build_vocab")

# Real text that every interpreter carries.
TEXT = "\n".join(topics.topics[name] for name in sorted(topics.topics)[:25])


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.txt").write_text(TEXT, "utf-8")
    return tmp_path


def build(**values) -> list[str]:
    """Run the script and return the lines it wrote."""
    values = {"input_file": "*.txt", "output_file": "vocab", **values}
    scripts.run(build_vocab, **values)
    lines = Path(values["output_file"]).read_text("utf-8").split("\n")
    assert lines.pop() == ""
    return lines


def error_of(**values) -> str:
    values = {"input_file": "*.txt", "output_file": "vocab", **values}
    before = sorted(os.listdir())
    error = scripts.error_of(build_vocab, **values)
    assert sorted(os.listdir()) == before, "something was left behind"
    return error


def test_layout_is_the_published_one(folder):
    tokens = build(vocab_size=800)
    assert len(tokens) == len(set(tokens)) == 800
    assert tokens[0] == "[PAD]"
    assert tokens[1:100] == [f"[unused{number}]" for number in range(1, 100)]
    assert tokens[100:104] == ["[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    single = [token for token in tokens[104:] if len(token) == 1]
    assert tokens[104:][: len(single)] == sorted(single)
    assert len(tokens[-1].removeprefix("##")) > 1


def test_the_text_it_came_from_is_covered(folder):
    build(vocab_size=800)
    tokenizer = tokenization.FullTokenizer("vocab")
    tokenization.validate_special_tokens(tokenizer.vocab)
    tokens = tokenizer.tokenize(TEXT)
    assert "[UNK]" not in tokens
    words = tokenizer.basic_tokenizer.tokenize(TEXT)
    assert len(tokens) / len(words) < 1.5


def test_casing(folder):
    assert not any(
        token != token.lower() for token in build(vocab_size=800)[104:]
    )
    cased = build(vocab_size=800, do_lower_case=False)
    assert "The" in cased and "the" in cased


def learn_slowly(
    words: collections.Counter[str], single: list[str], num_pieces: int
) -> list[str]:
    """Join the most frequent pair of pieces, again and again."""
    pieces = list(single)
    ids = {piece: index for index, piece in enumerate(pieces)}
    splits = {
        word: [ids[word[0]], *(ids["##" + char] for char in word[1:])]
        for word in words
    }
    while len(pieces) < num_pieces:
        pairs = collections.Counter()
        for word, split in splits.items():
            for pair in zip(split, split[1:], strict=False):
                pairs[pair] += words[word]
        first, second = min(pairs, key=lambda pair: (-pairs[pair], pair))
        joined = pieces[first] + pieces[second].removeprefix("##")
        number = ids.setdefault(joined, len(pieces))
        if number == len(pieces):
            pieces.append(joined)
        for split in splits.values():
            at = 0
            while at < len(split) - 1:
                if (split[at], split[at + 1]) == (first, second):
                    split[at : at + 2] = [number]
                at += 1
    return pieces


def test_pieces_are_those_of_the_plain_algorithm(folder):
    text = TEXT[:20000]
    (folder / "a.txt").write_text(text, "utf-8")
    tokens = build(vocab_size=500, num_unused_tokens=0)
    basic = tokenization.BasicTokenizer(do_lower_case=True)
    words = collections.Counter(basic.tokenize(text))
    alphabet = set("".join(words))
    single = vocabulary.single_pieces(sorted(words), alphabet)
    ordered = collections.Counter({word: words[word] for word in sorted(words)})
    assert tokens[5:] == learn_slowly(ordered, single, 495)


@pytest.mark.slow
def test_same_bytes_every_time(folder):
    """Across processes (hash seeds), thread counts and names of the files."""
    half = TEXT.index("\n", len(TEXT) // 2)
    (folder / "other").mkdir()
    (folder / "other" / "1.txt").write_text(TEXT[half:], "utf-8")
    (folder / "other" / "2.txt").write_text(TEXT[:half], "utf-8")
    outputs = []
    for pattern, threads in (("a.txt", "1"), ("a.txt", "2"), ("other/*", "2")):
        command = [
            *(sys.executable, str(ROOT / "build_vocab.py")),
            *(f"--input_file={pattern}", "--output_file=vocab"),
            "--vocab_size=1500",
        ]
        environment = {**os.environ, "RAYON_NUM_THREADS": threads}
        result = subprocess.run(
            command, env=environment, check=True, capture_output=True
        )
        assert b"\r" not in result.stderr, "a bar was drawn into a pipe"
        outputs.append((folder / "vocab").read_bytes())
    assert outputs[0].count(b"\n") == 1500
    assert outputs[0] == outputs[1] == outputs[2]


def test_small_text_gives_a_small_vocabulary(folder):
    (folder / "a.txt").write_text("hello hello hell", "utf-8")
    tokens = build(num_unused_tokens=0)
    assert tokens[5:9] == ["e", "h", "l", "o"]
    assert "hell" in tokens and "hello" in tokens
    assert len(build(num_unused_tokens=0, min_frequency=9)) == 13
    assert "hello" not in build(num_unused_tokens=0, min_frequency=3)


def test_rare_characters_are_left_out(folder):
    (folder / "a.txt").write_text("aa ab ab ac ☃ x" + "é" * 201, "utf-8")
    tokens = build(num_unused_tokens=0, limit_alphabet=3, do_lower_case=False)
    assert tokens[5:] == ["a", "b", "é", "##a", "##b", "ab"]


def test_ideographs_are_words(folder):
    (folder / "a.txt").write_text("中文中文 中文。", "utf-8")
    tokens = build(num_unused_tokens=0)
    assert tokens[5:] == ["。", "中", "文"]


@pytest.mark.parametrize("block_bytes", [1, 7, 64, 1 << 22])
def test_words_are_counted_across_blocks(folder, monkeypatch, block_bytes):
    text = "one twö 中文\r\nthree\u2028four\u3000fi\x0bve, \ufeffÉtude ΑΣ\n" * 3
    (folder / "a.txt").write_text(text, "utf-8", newline="")
    basic = tokenization.BasicTokenizer()
    monkeypatch.setattr(words, "_BLOCK_BYTES", block_bytes)
    monkeypatch.setattr(words, "_MAX_RAW_WORDS", 3)
    assert "".join(words.read_blocks(Range("a.txt"))) == text
    if block_bytes >= 64:
        counts = words.count_words(
            *sources.read("a.txt", None),
            basic.settings,
            "vocab",
            beam.Flags(1),
        )
        assert counts == collections.Counter(basic.tokenize(text))


def test_ranges_share_the_words(folder):
    text = "one tw\u00f6 \u4e2d\u6587\r\n\nthree\u2028four   fi\u3000ve six\n"
    (folder / "a.txt").write_text(text, "utf-8", newline="")
    size = os.path.getsize("a.txt")
    for step in range(1, size + 2):
        ranges = [
            Range("a.txt", start, min(start + step, size))
            for start in range(0, size, step)
        ]
        found = ["".join(words.read_blocks(some)) for some in ranges]
        assert "".join(found) == text


@pytest.mark.nightly
def test_beam_writes_the_same_bytes(folder, monkeypatch):
    for number, page in enumerate(manual(8)):
        (folder / f"{number}.txt").write_text("\n".join(page))
    build(input_file="?.txt", output_file="local.txt", vocab_size=2000)
    monkeypatch.setattr(documents, "CHUNK_BYTES", 3000)
    build(
        input_file="?.txt",
        output_file="beam.txt",
        vocab_size=2000,
        runner="beam",
        beam_options="--runner=FnApiRunner",
    )
    assert (folder / "beam.txt").read_bytes() == (
        folder / "local.txt"
    ).read_bytes()
    assert not list(folder.glob(".*"))
    (folder / "9.txt").write_bytes(b"so \xe9 so")
    assert "9.txt: line 1 is not UTF-8: byte 0xe9" in scripts.error_of(
        build_vocab,
        input_file="?.txt",
        output_file="bad.txt",
        runner="beam",
        beam_options="--runner=FnApiRunner",
    )
    assert not list(folder.glob(".*")) and not (folder / "bad.txt").exists()


def test_counts_that_the_trainer_cannot_hold_are_divided(monkeypatch):
    """Ten times the text gives the same pieces, within a tenth of the limit."""
    counts = collections.Counter({"the": 60, "thin": 20, "and": 40, "a": 7})
    known = sorted(counts)
    single = vocabulary.single_pieces(known, set("".join(known)))
    expected = vocabulary.learn_pieces(known, counts, single, 30, 2)
    assert "the" in expected and "thin" in expected
    tenfold = collections.Counter({word: 10 * n for word, n in counts.items()})
    assert vocabulary.count_divisor(tenfold) == 1
    # "th" occurs 800 times.
    monkeypatch.setattr(vocabulary, "_MAX_PAIRS", 80)
    assert vocabulary.count_divisor(tenfold) == 10
    assert vocabulary.learn_pieces(known, tenfold, single, 30, 20) == expected
    # The trainer would take 3 * 2^30 for a negative number.
    monkeypatch.undo()
    counts = collections.Counter({"th": 3 << 30})
    assert vocabulary.count_divisor(counts) == 3


@pytest.mark.parametrize(
    ("text", "output", "folder"),
    [
        ("gs://b/c/a.txt", "vocab.txt", "gs://b/c"),
        ("gs://b/c/a.txt", "gs://d/vocab.txt", "gs://d"),
        ("/text/a.txt", "/shared/vocab.txt", "/shared"),
    ],
)
def test_workers_reach_the_counts(text, output, folder):
    assert words._scratch_folder(text, output) == folder


def test_words_that_are_too_long_are_told(folder, caplog):
    """As in a text without spaces: a larger alphabet would not help."""
    (folder / "a.txt").write_text("ab " * 9 + "x" * 201 + " " + "y" * 201)
    build(num_unused_tokens=0)
    assert "longer than 200 characters; put spaces" in caplog.text
    assert "limit_alphabet" not in caplog.text


@pytest.mark.parametrize(
    "data, message",
    [
        (gzip.compress(b"A", mtime=0), "is compressed (gzip): unpack it first"),
        (b"1\n2\n\xe2\x82", "a.txt: line 3 is not UTF-8"),
        (b"\0\xe2\x80\x8b\n", "no text in the 1 input file(s), the first of"),
    ],
)
def test_text_that_cannot_be_read(folder, data, message):
    (folder / "a.txt").write_bytes(data)
    assert message in error_of()


@pytest.mark.parametrize(
    "flags, message",
    [
        ({"input_file": "a.txt,b*.txt"}, "no file matches 'b*.txt'"),
        ({"output_file": "dir"}, "dir is a directory"),
        ({"output_file": "dir/"}, "dir/ is a directory"),
        ({"output_file": "a.txt"}, "is a file of --input_file too"),
        ({"output_file": "/proc/v.txt"}, "cannot be written in /proc"),
    ],
)
def test_files_that_cannot_be(folder, flags, message):
    (folder / "dir").mkdir()
    assert message in error_of(**flags)


def test_vocab_size_too_small(folder):
    (folder / "a.txt").write_text("ab", "utf-8")
    error = error_of(vocab_size=107)
    assert "--vocab_size=107 is too small: wanted at least 108" in error
    assert len(build(vocab_size=108)) == 108


def test_alphabet_that_covers_nothing(folder):
    (folder / "a.txt").write_text("ab ba ab", "utf-8")
    assert build(num_unused_tokens=0, limit_alphabet=1)[5:] == ["a"]
    with pytest.raises(UserError, match="wanted at least 6"):
        build(num_unused_tokens=0, limit_alphabet=1, vocab_size=5)
