"""classifier/records.py: labels as numbers, and which records are reused."""

from pathlib import Path

from base.errors import UserError

import pytest

import tokenization
from records import tfrecord
from tasks.classifier import data as classifier_data
from tasks.classifier import records as classifier_records

VOCAB = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *"abcd"]


def create_records(
    folder: Path, is_regression: bool = False
) -> classifier_records.ClassifierRecords:
    vocab_file = folder / "vocab.txt"
    vocab_file.write_text("\n".join(VOCAB) + "\n")
    task = classifier_data.own_task(
        str(folder), "text", None, "label", is_regression
    )
    return classifier_records.ClassifierRecords(
        task,
        str(folder),
        str(folder),
        tokenization.FullTokenizer(str(vocab_file)),
        len(VOCAB),
        max_seq_length=8,
        pad_to_max_length=False,
    )


def write_train(folder: Path, *rows: str) -> None:
    (folder / "train.csv").write_text("\n".join(["text,label", *rows]) + "\n")


@pytest.mark.parametrize("is_regression", [False, True])
def test_labels_are_class_ids_or_numbers(tmp_path, is_regression):
    write_train(tmp_path, "a b,2.5", "c,10")
    records = create_records(tmp_path, is_regression)
    data = records.split("train", records.task.train)
    wanted = [2.5, 10] if is_regression else [0, 1]
    assert data.features["label_ids"].tolist() == wanted
    path = str(tmp_path / "train.tf_record")
    example = tfrecord.decode_example(next(tfrecord.read_records(path)))
    assert example["input_ids"].tolist() == [2, 4, 5, 3, 0, 0, 0, 0]


def test_records_are_made_again_when_the_file_changes(tmp_path, caplog):
    for text, is_new in (("a", True), ("a", False), ("b", True)):
        write_train(tmp_path, f"{text},0", "c,1")
        records = create_records(tmp_path)
        caplog.clear()
        with caplog.at_level("INFO", logger="absl"):
            data = records.split("train", records.task.train)
        assert ("Wrote 2 examples" in caplog.text) == is_new
        first = data.features["input_ids"][0, 1]
        assert first == VOCAB.index(text)


def test_the_log_shows_the_first_examples(tmp_path, caplog):
    write_train(tmp_path, "a b,no", "c,yes")
    records = create_records(tmp_path)
    with caplog.at_level("INFO", logger="absl"):
        records.split("train", records.task.train)
    assert "tokens: [CLS] a b [SEP]" in caplog.text
    assert "label: yes (id = 1)" in caplog.text


def test_a_damaged_file_is_found_before_its_records_are_wanted(tmp_path):
    write_train(tmp_path, "a,0", "c,1")
    records = create_records(tmp_path)
    write_train(tmp_path, "a,0", "too,many,columns")
    with pytest.raises(UserError, match="train.csv, line 3: 3 columns"):
        records.check("train", records.task.train)
