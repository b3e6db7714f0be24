"""swag_data.py: SWAG's files and others', and what goes into the records."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest

import tokenization
from base.errors import UserError
from records import tfrecord
from swag import data as swag_data
from swag import records as swag_records
from swag.data import Question

HEADER = (
    ",video-id,fold-ind,startphrase,sent1,sent2,gold-source,"
    "ending0,ending1,ending2,ending3"
)
# Of SWAG's training file, with quotes, commas and a line break of its own.
ROW = (
    '7,anetv_1,3,x,"A man ""is"" here, alone.",He,gold,"runs, then'
    '\nfalls.",sits.,eats.,waves.'
)


def write(path: Path, *lines: str) -> str:
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return str(path)


def test_swag_as_distributed(tmp_path):
    path = write(tmp_path / "train.csv", HEADER + ",label", ROW + ",2")
    assert swag_data.read_questions(path) == [
        Question(
            "7",
            'A man "is" here, alone.',
            ("He runs, then\nfalls.", "He sits.", "He eats.", "He waves."),
            2,
        )
    ]


def test_a_test_file_has_no_label(tmp_path):
    path = write(tmp_path / "test.csv", HEADER, ROW)
    (question,) = swag_data.read_questions(path, has_labels=False)
    assert question.label is None and question.guid == "7"


def test_columns_by_name_and_any_number_of_endings(tmp_path):
    path = write(
        tmp_path / "t.csv", "ending1,label,sent1,ending0,sent2", "b,1,c,a,"
    )
    (question,) = swag_data.read_questions(path)
    assert question == Question("0", "c", ("a", "b"), 1)


def test_json_lines(tmp_path):
    given = {"context": "c", "choices": ["a", "é", "b"], "label": 0}
    lines = [
        json.dumps(given),
        "",
        json.dumps(given | {"start": "So", "id": "q-2", "source": 1}),
    ]
    path = write(tmp_path / "t.jsonl", *lines)
    assert swag_data.read_questions(path) == [
        Question("0", "c", ("a", "é", "b"), 0),
        Question("q-2", "c", ("So a", "So é", "So b"), 0),
    ]
    del given["label"]
    path = write(tmp_path / "test.jsonl", json.dumps(given))
    assert swag_data.read_questions(path, False)[0].label is None


def test_both_formats_hold_the_same(tmp_path):
    path = write(tmp_path / "train.csv", HEADER + ",label", ROW + ",2")
    with open(path, newline="") as file:
        (row,) = csv.DictReader(file)
    given = {
        "id": row[""],
        "context": row["sent1"],
        "start": row["sent2"],
        "choices": [row[f"ending{i}"] for i in range(4)],
        "label": int(row["label"]),
    }
    other = write(tmp_path / "train.jsonl", json.dumps(given))
    found = swag_data.read_questions(other)
    assert found == swag_data.read_questions(path)


GOOD = '{"context": "c", "choices": ["a", "b"], "label": 0}'


@pytest.mark.parametrize(
    "name, lines, words",
    [
        ("t.csv", [HEADER], "t.csv: no column 'label'; its header has ''"),
        ("t.csv", ["a,b"], "no column 'sent1'; its header has 'a', 'b'"),
        ("t.csv", ["sent1,sent2,label,x"], "no column 'ending0'"),
        (
            "t.csv",
            ["sent1,sent2,ending0,ending1,ending3,label", "c,s,a,b,d,0"],
            "no column 'ending2'; its header has 'sent1', 'sent2', 'ending0'",
        ),
        (
            "t.csv",
            ["sent1,sent2,ending0,ending1,ending1,label", "c,s,a,b,d,0"],
            "more than one column 'ending1'",
        ),
        ("t.csv", ["sent1,sent1,sent2,label"], "more than one column 'sent1'"),
        ("t.csv", [HEADER + ",label"], "holds no question"),
        ("t.csv", [], "no column 'sent1'; its header has nothing"),
        (
            "t.csv",
            [HEADER + ",label", ROW + ",2", ROW],
            "line 4: 11 columns, wanted 12 as in the header",
        ),
        (
            "t.csv",
            [HEADER + ",label", ROW + ",4"],
            "line 2: label 4 is none of the 4 choices, which are 0 to 3",
        ),
        ("t.csv", [HEADER + ",label", ROW + ",-1"], "label -1 is none of"),
        ("t.csv", [HEADER + ",label", ROW + ",gold"], "label 'gold' is not"),
        ("t.csv", [HEADER + ",label", ROW + ","], "label '' is not the number"),
        ("t.csv", [HEADER + ",label", '0,"x" y,'], "line 2: "),
        (
            "t.csv",
            [HEADER + ",label", ROW + ",2", '8,"never closed', ROW, ROW],
            "the row that begins in line 4: ",
        ),
        (
            "t.csv",
            [HEADER + ",label", ROW + ",2", '8,"x', "y", "z"],
            "the row that begins in line 4: a quote is not closed",
        ),
        (
            "t.csv",
            ["sent1,sent2,ending0,label", "c,s,a,0"],
            "no column 'ending1'; its header has",
        ),
        (
            "t.csv",
            ["sent1,sent2,ending0,ending1,label", "c,s,a,,0"],
            "line 2: choice 1 is empty",
        ),
        (
            "t.csv",
            ["sent1,sent2,ending0,ending1,label", " ,s,a,b,0"],
            "line 2: the context is empty",
        ),
        (
            "t.jsonl",
            [GOOD, '{"context": "c", "choices": ["a", "b", "d"], "label": 0}'],
            "line 2: 3 choices, wanted 2 as in the first question",
        ),
        ("t.jsonl", [""], "holds no question"),
        ("t.jsonl", [GOOD, "{"], "line 2: not JSON"),
        ("t.jsonl", [GOOD, "1" * 5000], "line 2: not JSON: Exceeds the limit"),
        ("t.jsonl", [GOOD, "[" * 10**5], "line 2: not JSON: maximum recursion"),
        (
            "t.jsonl",
            [GOOD.replace("{", '{"id": "a\\tb", ')],
            "id 'a\\tb' has a tab or a line end, which test.tsv cannot hold",
        ),
        (
            "t.jsonl",
            ['{"context": "c", "choices": ["a"], "label": 0}'],
            "line 1: 1 choices; a question needs two or more",
        ),
        ("t.jsonl", ["[1]"], "line 1: wanted a JSON object"),
        ("t.jsonl", ['{"choices": []}'], "'context' has to be of type str, f"),
        (
            "t.jsonl",
            ['{"context": "c", "choices": "ab", "label": 0}'],
            "key 'choices' has to be of type list, found 'ab'",
        ),
        (
            "t.jsonl",
            [GOOD.replace("0", '"0"')],
            "key 'label' has to be of type int, found '0'",
        ),
        ("t.jsonl", [GOOD.replace("0", "true")], "of type int, found True"),
        ("t.jsonl", [GOOD.replace("0", "2")], "label 2 is none of the 2"),
        ("t.jsonl", [GOOD.replace('"b"', "1")], "all choices have to be strings"),
        ("t.jsonl", [GOOD.replace('"c"', '""')], "the context is empty"),
    ],
)
def test_bad_files(tmp_path, name, lines, words):
    path = write(tmp_path / name, *lines)
    with pytest.raises(UserError) as caught:
        swag_data.read_questions(path)
    assert words in str(caught.value), caught.value
    assert str(caught.value).startswith(path)


def test_find_file(tmp_path):
    with pytest.raises(UserError, match="holds no val.csv or val.jsonl or dev"):
        swag_data.find_file(str(tmp_path), "dev")
    path = write(tmp_path / "val.csv")
    assert swag_data.find_file(str(tmp_path), "dev") == path
    write(tmp_path / "dev.jsonl")
    with pytest.raises(UserError, match="holds val.csv and dev.jsonl: found 2"):
        swag_data.find_file(str(tmp_path), "dev")


# --- Records --------------------------------------------------------------

VOCAB = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *"abcdefgh"]


def create_data(tmp_path: Path, length: int = 12) -> swag_records.SwagRecords:
    vocab_file = write(tmp_path / "vocab.txt", *VOCAB)
    tokenizer = tokenization.FullTokenizer(vocab_file)
    folder = str(tmp_path)
    return swag_records.SwagRecords(
        folder, folder, tokenizer, len(VOCAB), length, False
    )


def test_a_row_for_every_choice(tmp_path, monkeypatch):
    """Sentence A the context, B start and choice, one after the other."""
    monkeypatch.setattr(swag_records, "_CHUNK", 2)  # several parts
    lines = [
        {"context": "a b", "start": "c", "choices": ["d", "e f"], "label": 1},
        {"context": "a", "choices": ["h " * 20, "g"], "label": 0},
        {"context": "a b c d e f g h", "choices": ["a b c d", "h"], "label": 1},
    ]
    write(tmp_path / "train.jsonl", *map(json.dumps, lines))
    found = create_data(tmp_path).split("train", "train")
    assert (found.num_records, found.num_choices) == (3, 2)
    wanted = [
        "[CLS] a b [SEP] c d [SEP]",
        "[CLS] a b [SEP] c e f [SEP]",
        "[CLS] a [SEP]" + " h" * 8 + " [SEP]",
        "[CLS] a [SEP] g [SEP]",
        "[CLS] a b c d e [SEP] a b c d [SEP]",
        "[CLS] a b c d e f g h [SEP] h [SEP]",
    ]
    examples = [
        tfrecord.decode_example(record)
        for record in tfrecord.read_records(str(tmp_path / "train.tf_record"))
    ]
    assert [int(e["label_ids"][0]) for e in examples] == [1, 1, 0, 0, 1, 1]
    for example, text in zip(examples, wanted, strict=True):
        ids = [VOCAB.index(token) for token in text.split()]
        padding = [0] * (12 - len(ids))
        assert example["input_ids"].tolist() == ids + padding
        mask = [1] * len(ids) + padding
        assert example["input_mask"].tolist() == mask
        second = ids.index(3) + 1
        segments = [0] * second + [1] * (len(ids) - second) + padding
        assert example["segment_ids"].tolist() == segments


def test_batches_hold_whole_questions(tmp_path):
    """[B, C, S]: a question's choices together, in order, with its label."""
    rng = np.random.default_rng(0)
    questions = []
    for number in range(40):
        choices = ["a " * rng.integers(1, 20) + VOCAB[4 + c] for c in range(3)]
        label = int(rng.integers(3))
        context = "b " * (number % 7 + 1)
        questions.append(
            {"context": context, "choices": choices, "label": label}
        )
    write(tmp_path / "train.jsonl", *map(json.dumps, questions))
    found = create_data(tmp_path, 32).split("train", "train")
    batches = found.training(5, seed=1, is_fine=True)
    seen = []
    for step in range(8):
        batch, chosen = batches.batch(step), batches.plan.batch(step)
        length = batches.length(step)
        assert batch["input_ids"].shape == (5, 3, length)
        assert batch["label_ids"].shape == (5, 3)
        longest = 0
        for place, number in enumerate(chosen):
            question = questions[number]
            assert (batch["label_ids"][place] == question["label"]).all()
            for choice in range(3):
                ids = batch["input_ids"][place, choice]
                count = batch["input_mask"][place, choice].sum()
                longest = max(longest, count)
                assert VOCAB[ids[count - 2]] == VOCAB[4 + choice]
                assert (ids == 5).sum() == number % 7 + 1 + (choice == 1)
        assert length - 8 < longest <= length
        seen += chosen.tolist()
    assert len(seen) == 40  # within a window some come twice, see Plan
    np.testing.assert_array_equal(
        found.by_question(np.arange(120))[39], [117, 118, 119]
    )
