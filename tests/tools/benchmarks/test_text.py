"""The text parts of the benchmark, on a small text."""

from base.errors import UserError

import pytest

from tools.benchmarks import text as benchmarks_text

VOCAB = "[PAD] [UNK] [CLS] [SEP] [MASK] the a cat dog sat ran . ##s".split()


@pytest.fixture
def text(tmp_path):
    """A text of 40 documents with its vocabulary."""
    vocab, lines = tmp_path / "vocab.txt", tmp_path / "text.txt"
    vocab.write_text("\n".join(VOCAB) + "\n")
    documents = [
        f"The {one}.\nA {two} ran.\n{three} the dogs.\n\n"
        for one in ("cat", "dog", "cats", "dogs")
        for two in ("cat", "dog", "a cat", "a dog", "sat")
        for three in ("Sat", "Ran")
    ]
    lines.write_text("".join(documents))
    with benchmarks_text.prepared_text(str(lines), str(vocab)) as found:
        assert found.files == [str(lines)]
        assert found.vocab_file == str(vocab)
        yield found


def test_tokenizers_are_timed_on_the_text(text):
    assert len(text.lines()) == 160
    rows = list(benchmarks_text.measure_tokenizer(text))
    assert [row.what for row in rows] == [
        "tokenizer, lines_to_ids",
        "tokenizer, text_to_ids",
    ]
    assert all(row.figures["megabytes_per_second"] > 0 for row in rows)


@pytest.mark.slow
def test_tokenizers_in_the_graph_are_timed_in_both_casings(text):
    pytest.importorskip("tensorflow_text")
    rows = list(benchmarks_text.measure_graph_tokenizer(text))
    assert [row.what for row in rows] == [
        "tokenizer in the graph, lower-cased",
        "tokenizer in the graph, cased",
    ]


def test_reader_without_records_is_refused(text):
    with pytest.raises(UserError, match="reader needs generator"):
        next(benchmarks_text.measure_reader(text))


@pytest.mark.slow
def test_generator_and_reader_share_the_records(text, monkeypatch):
    monkeypatch.setattr(benchmarks_text, "_READER_BATCHES", 2)
    rows = list(benchmarks_text.measure_generator(text, dupe_factor=2))
    assert [row.what for row in rows] == [
        "generator, 1 worker",
        "generator, 2 workers",
        "generator, 2 workers against 1",
    ]
    assert rows[0].figures["megabytes"] > 10
    (row,) = benchmarks_text.measure_reader(text)
    assert row.figures["records_per_second"] > 0


@pytest.mark.slow
def test_without_files_the_text_is_the_manual_of_python():
    with benchmarks_text.prepared_text(None, None) as found:
        assert len(found.lines()) > 10_000
        with open(found.vocab_file, encoding="utf-8") as file:
            size = sum(1 for _ in file)
        assert size == benchmarks_text.VOCAB_SIZE
        folder = found.folder
    assert not folder.exists(), "the temporary folder is removed"
