"""Windows and their records: goldens and hand-made cases."""

import doctest

import numpy as np
import pytest
import squad_files
from hypothesis import given
from hypothesis import strategies as st
from paths import GOLDEN

import tokenization
from records import tfrecord
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
    with open(path, "wb") as file, tfrecord.RecordWriter(file) as writer:
        for features in squad_windows.record_features(
            windows,
            data.examples,
            tokenizer.vocab,
            lengths.max_seq_length,
            kind == "train",
        ):
            writer.write_examples(features)
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


def test_any_number_of_workers(tokenizer, tmp_path, monkeypatch):
    """The same arrays to the last bit, chunks of several paragraphs."""
    data = squad_data.read_squad(
        [squad_files.golden_file("v1", tmp_path)], True, False
    )
    # A chunk without questions.
    paragraphs = [data.paragraphs[0]] * 4 + data.paragraphs
    examples = [e._replace(paragraph=e.paragraph + 4) for e in data.examples]
    data = squad_data.SquadData(paragraphs, examples)
    lengths = squad_files.GOLDEN_LENGTHS["v1"]
    whole = squad_windows.convert(data, tokenizer, lengths)
    monkeypatch.setattr(squad_windows, "_CHUNK", 3)
    for num_workers in (1, 2):
        found = squad_windows.convert(data, tokenizer, lengths, num_workers)
        for name, wanted in vars(whole).items():
            np.testing.assert_array_equal(getattr(found, name), wanted, name)
            assert getattr(found, name).dtype == wanted.dtype


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
    assert windows.query_length().tolist() == [2, 2]


@given(st.integers(1, 60), st.integers(1, 20), st.integers(1, 25))
def test_spans_cover_the_paragraph(length, limit, stride):
    spans = list(squad_windows.spans(length, limit, stride))
    assert spans[0][0] == 0 and sum(spans[-1]) == length
    for (a, n), (b, _) in zip(spans, spans[1:], strict=False):
        assert n == limit and b - a == min(stride, limit)


@pytest.mark.parametrize(
    "answer, wanted",
    [
        ("Steve Jobs", (3, 4)),  # without the parentheses
        ("Japan", (7, 7)),  # the end is inside of a piece: the whole word
    ],
)
def test_the_examples_of_answer_pieces(tmp_path, answer, wanted):
    pieces = "the founder ( steve jobs ) left japanese".split()
    vocab = [*tokenization.SPECIAL_TOKENS, *pieces, "japan"]
    path = squad_files.write(tmp_path, "\n".join(vocab) + "\n", "vocab.txt")
    tokenizer = tokenization.FullTokenizer(path)
    text = "The founder (Steve Jobs) left Japanese"
    qas = [squad_files.question("1", "?", (answer, text.index(answer)))]
    path = squad_files.write(tmp_path, squad_files.content((text, qas)))
    data = squad_data.read_squad([path], True, False)
    lengths = squad_windows.Lengths(32, 8, 8)
    windows = squad_windows.convert(data, tokenizer, lengths)
    assert windows.doc_words.tolist() == [0, 1, 2, 2, 3, 3, 4, 5]
    begins = windows.query_length()[0] + 2
    assert windows.start_positions[0] == begins + wanted[0]
    assert windows.end_positions[0] == begins + wanted[1]
