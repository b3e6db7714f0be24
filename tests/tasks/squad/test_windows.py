"""Windows and their records: goldens and hand-made cases."""

import doctest
import itertools

import numpy as np
import pytest
import squad_files
from hypothesis import given
from hypothesis import strategies as st
from paths import GOLDEN
from squad_files import content, question

import tokenization
from records import tfrecord
from tasks import rows
from tasks.squad import data as squad_data
from tasks.squad import windows as squad_windows


@pytest.mark.parametrize("version", ["v1", "v2"])
@pytest.mark.parametrize("kind", ["train", "predict"])
def test_windows_are_the_originals(version, kind, tokenizer, tmp_path):
    wanted = np.load(GOLDEN / f"squad_{version}" / "features.npz")
    lengths = squad_files.GOLDEN_LENGTHS[version]
    data = squad_data.read_squad(
        [squad_files.golden_file(version, tmp_path)],
        kind == "train",
        version == "v2",
    )
    ids = [example.qas_id for example in data.examples]
    assert ids == wanted[f"{kind}_qas_id"].tolist()
    windows = squad_windows.convert(data, tokenizer, lengths)
    path = str(tmp_path / "r")
    records = list(
        squad_windows.records(windows, tokenizer.vocab, kind == "train")
    )
    schema = squad_windows.schema(lengths.max_seq_length)
    with open(path, "wb") as file, tfrecord.RecordWriter(file) as writer:
        writer.write_examples(rows.features(records, schema))
    names = {n: n for n in ("input_ids", "input_mask", "segment_ids")}
    names["unique_ids"] = "unique_id"
    is_training = {"is_impossible"} if kind == "train" else set()
    if is_training:
        names |= {f"{n}_positions": f"{n}_position" for n in ("start", "end")}
    found = [tfrecord.decode_example(r) for r in tfrecord.read_records(path)]
    assert set(found[0]) == set(names) | is_training
    for name, golden in names.items():
        values = np.stack([record[name] for record in found])
        np.testing.assert_array_equal(
            values.squeeze(), wanted[f"{kind}_{golden}"], err_msg=name
        )
    np.testing.assert_array_equal(
        windows.example, wanted[f"{kind}_example_index"]
    )


def original_label(words, first, last, answer, tokenizer) -> tuple[int, int]:
    """Return the pieces of an answer as the original finds them.

    It takes the first pieces of the words from first to last that spell the
    answer, or else all pieces of these.
    """
    pieces = [tokenizer.tokenize(word) for word in words]
    before = sum(map(len, pieces[:first]))
    own = list(itertools.chain(*pieces[first : last + 1]))
    wanted = tokenizer.tokenize(answer)
    for at in range(len(own) - len(wanted) + 1):
        if own[at : at + len(wanted)] == wanted:
            return before + at, before + at + len(wanted) - 1
    return before, before + len(own) - 1


def test_labels_that_differ_from_the_originals(tokenizer, tmp_path):
    """Of the golden files' none; of others those in words like 7-7."""
    others = content(
        (
            "The Japanese won 7-7, (Jobs) (7-7) and 2015 in (2015).",
            [
                question(name, "?", (answer, start))
                for name, answer, start in (
                    ("ends in a piece", "Japan", 4),
                    ("alone", "won", 13),
                    ("first", "7", 17),
                    ("second", "7", 19),
                    ("brackets", "Jobs", 23),
                    ("second in brackets", "7", 32),
                    ("in a word of one piece", "15", 41),
                    ("in a word of several", "15", 50),
                )
            ],
        )
    )
    different, num_compared = [], 0
    for version in ("v1", "v2", "others"):
        if version == "others":
            path = squad_files.write(tmp_path, others)
        else:
            path = squad_files.golden_file(version, tmp_path)
        data = squad_data.read_squad([path], True, version == "v2")
        for example in data.examples:
            paragraph = data.paragraphs[example.paragraph]
            words = paragraph.words()
            if example.place is None:
                continue
            num_compared += 1
            counts = [len(tokenizer.tokenize(word)) for word in words]
            of_word = np.repeat(np.arange(len(words)), counts)
            found = squad_windows.answer_pieces(
                example.place, paragraph, of_word, tokenizer.spans
            )
            first, last = paragraph.words_in(*example.place)
            answer = example.answers[0]
            if found != original_label(words, first, last, answer, tokenizer):
                different.append(example.qas_id)
    assert num_compared == 150 + 53 + 8
    assert different == ["second", "second in brackets", "in a word of several"]


def test_examples_of_docstrings():
    assert doctest.testmod(squad_windows) == (0, 2)


def test_long_questions_are_cut_and_counted(tokenizer):
    data = squad_data.SquadData(
        [squad_data.make_paragraph("a b c")],
        [
            squad_data.SquadExample("a", "one two three four", 0),
            squad_data.SquadExample("b", "one two", 0),
        ],
    )
    lengths = squad_windows.Lengths(16, 4, 2)
    windows = squad_windows.convert(data, tokenizer, lengths)
    assert windows.left_out.tolist() == [2, 0]
    assert windows.doc_offset.tolist() == [4, 4]  # behind [CLS] q q [SEP]


@given(st.integers(1, 60), st.integers(1, 20), st.integers(1, 25))
def test_spans_cover_the_paragraph(length, limit, stride):
    spans = list(squad_windows.spans(length, limit, stride))
    assert spans[0][0] == 0 and sum(spans[-1]) == length
    for (a, n), (b, _) in zip(spans, spans[1:], strict=False):
        assert n == limit and b - a == min(stride, limit)


@pytest.mark.parametrize(
    "text, answer, start, wanted",
    [
        ("The founder (Steve Jobs) left", "Steve Jobs", 13, (3, 4)),
        ("left Japanese, left", "Japan", 5, (1, 1)),  # ends inside of a piece
        ("left (Japanese)", "panes", 8, (2, 2)),
        ("It ended 7-7", "7", 11, (4, 4)),
        ("jobs 7-jobs jobs", "jobs", 7, (3, 3)),
        ("北京大學在北京", "北京", 5, (5, 6)),
        # White space and dropped characters at the edges of an answer.
        ("It (jobs jobs)", " (jobs ", 2, (1, 2)),
        ("jobs \u200bjobs jobs", "\u200bjobs", 5, (1, 1)),
        ("jobs jobs\u0301 jobs", "jobs\u0301 ", 5, (1, 1)),
        # Accents, and letters that become two: U+0130 and Hangul.
        ("7\u00e9, e\u0301", "e\u0301", 4, (3, 3)),
        ("\u0130ee-7", "e", 2, (2, 2)),
        ("x한한-7-7", "7", 6, (4, 4)),
        # Unknown words are one piece.
        ("\u2603\u2603 left \u2603\u2603,", "\u2603", 9, (2, 2)),
        # Two code units in UTF-16, one character.
        ("\U0001f600 7-7", "7", 4, (3, 3)),
        # The text is not at its place: the nearest one in the words there.
        ("7-7 7-7-7 7", "7", 7, (5, 5)),
        ("jobs7jobs7 7", "7", 5, (1, 1)),
        ("The  founder\n(Steve Jobs)", "founder (Steve", 5, (1, 3)),
    ],
    ids=ascii,
)
def test_labels_are_the_pieces_of_the_characters(
    tmp_path, text, answer, start, wanted
):
    """Not the first pieces of the words that look the same."""
    tokens = "the founder it ended left ( steve jobs ) japanese 7 - , e ##7"
    tokens += " ##e ##jobs i 北 京 大 在 ?"
    vocab = [*tokenization.SPECIAL_TOKENS, *tokens.split()]
    path = squad_files.write(tmp_path, "\n".join(vocab) + "\n", "vocab.txt")
    tokenizer = tokenization.FullTokenizer(path)
    qas = [question("1", "?", (answer, start))]
    path = squad_files.write(tmp_path, content((text, qas)))
    data = squad_data.read_squad([path], True, False)
    lengths = squad_windows.Lengths(32, 8, 8)
    windows = squad_windows.convert(data, tokenizer, lengths)
    found = windows.start_positions[0] - 3, windows.end_positions[0] - 3
    assert found == wanted  # behind [CLS] ? [SEP]
