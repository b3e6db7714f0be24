"""ner/records.py: outputs come back word by word; what records depend on."""

import ner_pieces
import numpy as np
import pytest
from ner_pieces import LABELS

from tasks.ner import data as ner_data
from tasks.ner import records as ner_records
from tasks.ner.data import Columns


class FakePredictor:
    """Returns the ids of a batch as the output of every position."""

    def batches(self, data, batch_size: int):
        for rows, batch in data.prediction(batch_size):
            ids = batch["input_ids"][: len(rows), :, None]
            yield rows, {"words": ids.astype(np.float32)}


def create_records(folder, **changes) -> ner_records.NerRecords:
    values = {
        "records_dir": str(folder),
        "tokenizer": ner_pieces.tokenizer_in(folder),
        "vocab_size": len(ner_pieces.VOCAB),
        "max_seq_length": 8,
        "pad_to_max_length": False,
        "columns": Columns(),
        "document_context": False,
    }
    return ner_records.NerRecords(**values | changes)


@pytest.fixture
def file(tmp_path) -> ner_data.File:
    """Sentences of different lengths, one longer than a window."""
    path = tmp_path / "x.txt"
    words = [["a", "b"], ["a", "b", "."] * 7, ["."], ["b", "aa", "a", "b"]]
    lines = ["".join(f"{w} O\n" for w in sentence) for sentence in words]
    path.write_text("\n".join(lines))
    return ner_data.read_file(str(path), Columns())


@pytest.mark.parametrize("is_on_disk", [False, True])
def test_outputs_are_in_the_order_of_the_words(tmp_path, file, is_on_disk):
    """Batches are sorted by length, and a sentence may have many windows."""
    data = create_records(tmp_path).split("x", file, LABELS)
    assert data.num_records > len(file.sentences)
    path = str(tmp_path / "x.npy") if is_on_disk else None
    found = ner_records.word_outputs(FakePredictor(), data, 3, "x", path)
    words = [word for s in file.sentences for word in s.words]
    wanted = [ner_pieces.VOCAB.index(word[0]) for word in words]
    assert found.shape == (len(words), 1)
    assert found[:, 0].tolist() == wanted
    if is_on_disk:
        found.flush()
        np.testing.assert_array_equal(np.load(path), found)


def test_records_depend_on_columns_labels_and_context(tmp_path, file):
    wanted = create_records(tmp_path).fingerprint(file, LABELS)
    others = [
        create_records(tmp_path).fingerprint(file, LABELS[:2]),
        create_records(tmp_path, columns=Columns(1)).fingerprint(file, LABELS),
        create_records(tmp_path, document_context=True).fingerprint(
            file, LABELS
        ),
        create_records(tmp_path, max_seq_length=9).fingerprint(file, LABELS),
    ]
    for other in others:
        assert other.keys() == wanted.keys() and other != wanted


def test_one_document_with_context_is_a_warning(tmp_path, file, caplog):
    create_records(tmp_path, document_context=True).split("x", file, LABELS)
    assert "x.txt is one document: no line -DOCSTART-" in caplog.text
