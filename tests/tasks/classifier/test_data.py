"""classifier/data.py: the files of every task, and the original's features."""

import os
from pathlib import Path

from base.errors import UserError

import numpy as np
import pytest
import text_rows
from hypothesis import given
from hypothesis import strategies as st
from paths import GOLDEN

import tokenization
from tasks import rows
from tasks.classifier import data as classifier_data
from tasks.classifier import task_files
from tasks.classifier.data import Example

GLUE = Path(os.environ.get("GLUE_DIR", "/nonexistent"))
GLUE_FOLDERS = {
    "cola": ("CoLA", [8551, 1043], 1063),
    "sst-2": ("SST-2", [67349, 872], 1821),
    "mrpc": ("MRPC", [3668, 408], 1725),
    "sts-b": ("STS-B", [5749, 1500], 1379),
    "rte": ("RTE", [2490, 277], 3000),
    "wnli": ("WNLI", [635, 71], 146),
    "ax": ("diagnostic", [], 1104),
}


@pytest.fixture(scope="module")
def tokenizer():
    return tokenization.FullTokenizer(str(GOLDEN / "vocab" / "uncased.txt"))


def write(folder: Path, name: str, *rows: str) -> None:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(row + "\n" for row in rows), encoding="utf-8")


def tabs(*cells: str) -> str:
    return "\t".join(cells)


def read(folder: Path, files: task_files.TaskFiles, split) -> list[Example]:
    return classifier_data.read_examples(split.in_folder(str(folder)), files)


def own(folder: Path, text: str = "text", label: str = "label", **more):
    """Return the task of a user's own files of single texts."""
    columns = task_files.Columns(text, None, label)
    return classifier_data.own_files(str(folder), columns, **more)


# --- Files -------------------------------------------------------------------


def test_each_layout_of_the_original_is_read(tmp_path):
    """One line of each layout the original reads, and the newer ones."""
    task = task_files.TASKS["cola"]
    write(tmp_path, "train.tsv", tabs("gj04", "1", "", 'He said "no".'))
    write(tmp_path, "test.tsv", tabs("index", "sentence"), tabs("0", "Why?"))
    assert read(tmp_path, task, task.train) == [
        Example("0", 'He said "no".', None, "1")
    ]
    assert read(tmp_path, task, task.test["CoLA"]) == [
        Example("0", "Why?", None, None)
    ]
    task = task_files.TASKS["mrpc"]
    header = tabs("\ufeffQuality", "#1 ID", "#2 ID", "#1 String", "#2 String")
    write(tmp_path, "dev.tsv", header, tabs("0", "7", "8", "A .", '" B ."'))
    assert read(tmp_path, task, task.dev["dev"]) == [
        Example("0", "A .", '" B ."', "0")
    ]
    task = task_files.TASKS["mnli"]
    names = ["index", "promptID", "sentence1", "sentence2", "label1"]
    write(
        tmp_path,
        "dev_mismatched.tsv",
        tabs(*names, "gold_label"),
        tabs("31", "x", "P", "H", "neutral", "entailment"),
    )
    assert read(tmp_path, task, task.dev["dev_mismatched"]) == [
        Example("31", "P", "H", "entailment")
    ]
    task = task_files.TASKS["sts-b"]
    write(
        tmp_path,
        "dev.tsv",
        tabs("index", "genre", "sentence1", "sentence2", "score"),
        tabs("0", "g", "A", "B", "3.25"),
    )
    assert read(tmp_path, task, task.dev["dev"])[0].label == "3.25"


def test_xnli_keeps_its_language(tmp_path):
    task = task_files.find("xnli", "de")
    write(
        tmp_path,
        "multinli/multinli.train.de.tsv",
        tabs("premise", "hypo", "label"),
        tabs("P", "H", "contradictory"),
    )
    parses = [f"{name}_parse" for name in ("a", "b", "c", "d")]
    names = ["language", "gold_label", *parses, "sentence1", "sentence2"]
    write(
        tmp_path,
        "xnli.dev.tsv",
        tabs(*names),
        tabs("ar", "neutral", "", "", "", "", "x", "y"),
        tabs("de", "neutral", "", "", "", "", "A", "B"),
    )
    assert read(tmp_path, task, task.train)[0].label == "contradiction"
    assert read(tmp_path, task, task.dev["dev"]) == [
        Example("1", "A", "B", "neutral")
    ]


@pytest.mark.parametrize("kind", ["tsv", "csv", "jsonl"])
def test_own_files_of_each_kind_hold_the_same(tmp_path, kind):
    lines = {
        "tsv": [tabs("id", "text", "class"), tabs("1", 'a "b"', "10")]
        + [tabs("2", "c", "9")],
        "csv": ["id,text,class", '1,"a ""b""",10', "2,c,9"],
        "jsonl": [
            '{"text": "a \\"b\\"", "class": 10}',
            '{"class": 9, "text": "c"}',
        ],
    }[kind]
    write(tmp_path, f"train.{kind}", *lines)
    task = own(tmp_path, label="class")
    assert task.labels == ("9", "10") and not task.dev and not task.test
    assert read(tmp_path, task, task.train) == [
        Example("0", 'a "b"', None, "10"),
        Example("1", "c", None, "9"),
    ]
    task = own(tmp_path, label="class", is_regression=True)
    assert task.labels is None and task.metrics == ("pearson", "spearman")


def test_damaged_lines_of_glue_are_left_out_with_one_warning(tmp_path, caplog):
    """Line 97,931 of the published train.tsv of QQP has 3 of 6 columns."""
    task = task_files.TASKS["qqp"]
    names = ["id", "qid1", "qid2", "question1", "question2", "is_duplicate"]
    lines = [
        tabs(*names),
        tabs("8", "1", "2", "A", "B", "1"),
        tabs("9", "3", "4", '"Was he real?'),
        tabs('"', "Is there evidence?", "0"),
        tabs("10", "5", "6", "C", "D", "0"),
        tabs("11", "7", "8", "E", "F", "G", "0"),
        tabs("12", "9", "9", "", "H", "0"),
    ]
    write(tmp_path, "train.tsv", *lines)
    for _ in range(2):  # as a run does that writes mistakes
        assert read(tmp_path, task, task.train) == [
            Example("0", "A", "B", "1"),
            Example("3", "C", "D", "0"),
        ]
    (record,) = caplog.records
    assert record.message == (
        f"{tmp_path}/train.tsv, line 3: 4 columns, wanted 6 as in the first "
        "line; such lines are left out, 4 in all"
    )


def test_a_pair_lacks_neither_text(tmp_path, caplog):
    """As PAWS-X and Quora do; GLUE's server wants an answer to such a pair."""
    lines = [tabs("id", "q1", "q2", "label"), tabs("1", "A", "B", "1")]
    lines += [tabs("2", "C", "", "0"), tabs("3", "D", " ", "0")]
    lines += [tabs("", "", "", ""), tabs("5", "", "E", "1")]
    write(tmp_path, "train.tsv", *lines)
    columns = task_files.Columns("q1", "q2", "label")
    with pytest.raises(
        UserError, match="'q2' is empty in 2 of 4 rows .*line 3"
    ):
        classifier_data.own_files(str(tmp_path), columns)
    assert "1 row of empty cells passed over (first: line 5)" in caplog.text
    # A test file has an answer for each row.
    files = classifier_data.own_files(
        "", columns, given={"test": str(tmp_path / "train.tsv")}, labels=("0",)
    )
    found = classifier_data.read_examples(files.test["test"], files)
    assert [(x.guid, x.text_a, x.text_b) for x in found] == [
        *(("0", "A", "B"), ("1", "C", ""), ("2", "D", " "), ("3", "", "")),
        ("4", "", "E"),
    ]
    assert "'q2' is empty in 2 of 5 rows (first: line 3): their" in caplog.text
    task, names = (
        task_files.TASKS["qqp"],
        ["question1", "question2", "is_duplicate"],
    )
    write(tmp_path, "dev.tsv", tabs(*names), tabs("A", "", "0"), tabs(*"AB0"))
    assert len(read(tmp_path, task, task.dev["dev"])) == 1
    assert "dev.tsv, line 2: column 'question2' is empty; such" in caplog.text
    names[2] = "id"
    write(tmp_path, "test.tsv", tabs(*names), tabs("A", "", "0"), tabs(*"AB1"))
    assert len(read(tmp_path, task, task.test["QQP"])) == 2


def test_rows_on_which_annotators_did_not_agree(tmp_path, caplog):
    """SNLI's and MultiNLI's; in other files "-" and -1 may be classes."""
    names = ["sentence1", "sentence2", "gold_label"]
    labels = ["entailment", "-", "neutral", "-", "contradiction"]
    lines = [tabs("A", "B", label) for label in labels]
    write(tmp_path, "train.tsv", tabs(*names), *lines)
    columns = task_files.Columns(*names)
    task = classifier_data.own_files(str(tmp_path), columns)
    assert task.labels == task_files.TASKS["mnli"].labels
    for files in task, task_files.TASKS["mnli"]:
        found = read(
            tmp_path,
            files,
            files.train._replace(path="train.tsv", columns=columns),
        )
        assert [x.label for x in found] == labels[::2]
    assert (
        "line 3: label '-', no agreement on one; such lines are left out, 2"
        in (caplog.text)
    )
    for labels, wanted in (
        ("-1 0 1", "classes"),
        ("-2 -1 0 1 2", "classes"),
        ("-1 1", "classes"),
        ("- +", "classes"),
        ("-1 0 1 2 2", "'-1' of 1 row .first: line 2. may be a class"),
        ("2.0 0.0 1.0 -1.0", "'-1.0' of 1 row .first: line 5. may be"),
        ("yes - - no", "'-' of 2 rows .first: line 3. may be a class, or"),
    ):
        lines = [tabs("A", label) for label in labels.split()]
        write(tmp_path, "train.tsv", tabs("text", "label"), *lines)
        if wanted == "classes":
            assert {*own(tmp_path).labels} == {*labels.split()}
            continue
        with pytest.raises(UserError, match=wanted):
            own(tmp_path)


def test_a_test_file_of_glue_has_to_be_whole(tmp_path):
    """GLUE's server wants an answer for every line."""
    task = task_files.TASKS["qqp"]
    lines = [tabs("id", "question1", "question2"), tabs("0", "A", "B")]
    write(tmp_path, "test.tsv", *lines, tabs("1", "C"))
    line = error(tmp_path, task, task.test["QQP"])
    assert "test.tsv, line 3: 2 columns, wanted 3" in line


@pytest.mark.skipif(not GLUE.exists(), reason="GLUE_DIR names no folder")
@pytest.mark.parametrize("name", GLUE_FOLDERS)
def test_distributed_files_have_the_published_sizes(name):
    """GLUE as it is distributed: every example of every file."""
    folder, counts, test_count = GLUE_FOLDERS[name]
    task = task_files.TASKS[name]
    data_files = [task.train, *task.dev.values()] if task.train else []
    found = [len(read(GLUE / folder, task, split)) for split in data_files]
    assert found == counts
    (split,) = task.test.values()
    assert len(read(GLUE / folder, task, split)) == test_count


# --- Features ----------------------------------------------------------------


@given(st.integers(0, 60), st.integers(1, 40))
def test_head_and_tail_of_a_text(count, kept):
    """A fourth from the beginning, rounded down, the others from the end."""
    text = list(range(count))
    places = list(rows.kept_places(count, min(count, kept), "head_tail"))
    if count <= kept:
        assert places == text
        return
    head = int(kept * 128 / 510)
    assert places == text[:head] + text[count - (kept - head) :]


def test_the_paper_keeps_128_and_382_pieces():
    places = list(rows.kept_places(1000, 510, "head_tail"))
    assert places == [*range(128), *range(618, 1000)]


def test_a_second_sentence_without_tokens_is_none(tokenizer):
    """As in the original: nothing, or nothing that is a token."""
    texts = [("a b", text) for text in (None, "", " \u0007 ")]
    features, _ = text_rows.features(texts, 8, tokenizer)
    for values in features.values():
        assert (values == values[0]).all()
    assert features["input_mask"][0].sum() == 4


def test_features_of_a_pair_and_of_a_sentence(tokenizer):
    vocab = tokenizer.vocab
    texts = [
        ("the dog", "a cat sat"),
        ("the the the the the the the the the", None),
        ("dog dog dog dog dog dog", "cat cat"),
    ]
    features, left_out = text_rows.features(texts, 9, tokenizer)

    def ids(text: str) -> list[int]:
        found = [vocab[token] for token in text.split()]
        return found + [0] * (9 - len(found))

    wanted = [
        ids("[CLS] the dog [SEP] a cat sat [SEP]"),
        ids("[CLS] the the the the the the the [SEP]"),
        ids("[CLS] dog dog dog dog [SEP] cat cat [SEP]"),
    ]
    np.testing.assert_array_equal(features["input_ids"], wanted)
    np.testing.assert_array_equal(
        features["input_mask"], (np.array(wanted) != 0).astype(int)
    )
    np.testing.assert_array_equal(
        features["segment_ids"],
        [[0] * 4 + [1] * 4 + [0], [0] * 9, [0] * 6 + [1] * 3],
    )
    assert left_out == [0, 2, 2]


@pytest.mark.parametrize("kind, label", [("int64", 1), ("float32", 0.5)])
def test_features_of_records_with_a_label(tokenizer, kind, label):
    schema = rows.schema(9, label_ids=kind, is_real_example="int64")
    records = [
        rows.labeled(rows.row_of_texts(text, None, 9, tokenizer), value)
        for text, value in (("the dog", label), ("a", 0))
    ]
    features = rows.features(records, schema)
    assert features.keys() == schema.keys()
    assert features["label_ids"].dtype == kind
    np.testing.assert_array_equal(features["label_ids"], [label, 0])
    np.testing.assert_array_equal(features["is_real_example"], [1, 1])
    ids = [tokenizer.vocab[x] for x in ("[CLS]", "the", "dog", "[SEP]")]
    np.testing.assert_array_equal(features["input_ids"][0], [*ids, *[0] * 5])
    assert features["input_mask"].sum(axis=1).tolist() == [4, 3]


@pytest.mark.skipif(not GLUE.exists(), reason="GLUE_DIR names no folder")
@pytest.mark.parametrize(
    "name, folder, length", [("cola", "CoLA", 32), ("mrpc", "MRPC", 64)]
)
def test_the_originals_features(tokenizer, name, folder, length):
    """$GLUE_GOLDEN/classifier_*.npz: what the original made of these files."""
    golden = np.load(
        Path(os.environ["GLUE_GOLDEN"]) / f"classifier_{name}_dev_{length}.npz"
    )
    task = task_files.TASKS[name]
    examples = read(GLUE / folder, task, task.dev["dev"])
    schema = rows.schema(length, label_ids="int64", is_real_example="int64")
    records = [
        rows.labeled(
            rows.row_of_texts(x.text_a, x.text_b, length, tokenizer),
            task.label_id(x.label),
        )
        for x in examples
    ]
    features = rows.features(records, schema)
    for key in golden:
        np.testing.assert_array_equal(features[key], golden[key], err_msg=key)


# --- Errors ------------------------------------------------------------------


def error(folder: Path, task, split) -> str:
    with pytest.raises(UserError) as caught:
        read(folder, task, split)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    "lines, words",
    [
        ([], ["holds no example"]),
        (
            [tabs("a", "b", "c")],
            ["no column 'sentence1'", "'a', 'b', 'c'", "--text_a_column"],
        ),
        (
            [tabs("index", "sentence1", "sentence2", "label"), tabs("0", "x")],
            ["train.tsv, line 2", "2 columns", "wanted 4"],
        ),
        (
            [
                tabs("index", "sentence1", "sentence2", "label"),
                tabs("0", "x", "y", "entailment"),
                tabs("1", "x", "y", "maybe"),
            ],
            ["line 3", "'maybe'", "entailment, not_entailment"],
        ),
        (
            [
                tabs("index", "sentence1", "sentence2", "label"),
                tabs("0", " ", "y", "entailment"),
            ],
            ["line 2", "'sentence1' is empty"],
        ),
    ],
)
def test_damaged_lines_are_named(tmp_path, lines, words):
    task = task_files.TASKS["rte"]
    write(tmp_path, "train.tsv", *lines)
    line = error(tmp_path, task, task.train)
    assert all(word in line for word in words), line


def test_damaged_files_are_named(tmp_path):
    task = task_files.TASKS["sts-b"]
    assert "cannot be read" in error(tmp_path, task, task.train)
    header = tabs("index", "sentence1", "sentence2", "score")
    write(tmp_path, "train.tsv", header, tabs("0", "a", "b", "nan"))
    assert "'nan' is not a number" in error(tmp_path, task, task.train)


def test_damaged_own_files_are_named(tmp_path):
    with pytest.raises(UserError, match="no train, dev or test file"):
        own(tmp_path)
    write(tmp_path, "train.jsonl", '{"text": "a"}')
    found = r"no key 'label'; it has 'text': give --label_column=NAME$"
    with pytest.raises(UserError, match=found):
        own(tmp_path)
    write(tmp_path, "train.jsonl", '{"text": "a", "label": 1}')
    with pytest.raises(UserError, match="has 1 different labels"):
        own(tmp_path)
    write(tmp_path, "train.csv", "text,label")
    with pytest.raises(UserError, match="train.csv and train.jsonl"):
        own(tmp_path)
    (tmp_path / "train.jsonl").unlink()
    rows = [f"a,{number / 7}" for number in range(1001)]
    write(tmp_path, "train.csv", "text,label", *rows)
    with pytest.raises(UserError, match="need --regression"):
        own(tmp_path)


@pytest.mark.parametrize(
    "text, label, words",
    [
        ("3", "1", "'text' is 3, wanted a string"),
        ('"a"', "[1]", "'label' is [1], wanted a string or a whole"),
        ('"a"', "NaN", "'label' is nan, wanted a string or a whole"),
    ],
)
def test_json_of_another_type_is_no_text(tmp_path, text, label, words):
    lines = (
        '{"text": "a", "label": 0}',
        f'{{"text": {text}, "label": {label}}}',
    )
    write(tmp_path, "train.jsonl", *lines)
    with pytest.raises(UserError, match="train.jsonl, line 2: ") as caught:
        own(tmp_path)
    assert words in str(caught.value)


def test_labels_of_json_are_strings_numbers_or_booleans(tmp_path):
    values = ('"a"', "1", "2.5", "true")
    lines = [f'{{"text": "x", "label": {value}}}' for value in values]
    write(tmp_path, "train.jsonl", *lines)
    assert set(own(tmp_path).labels) == {"a", "1", "2.5", "True"}


def own_labels(folder: Path, *labels: str) -> tuple[str, ...]:
    """Return the labels of a training file with these, in their order."""
    lines = ["sentence\tlabel", *(f"words\t{label}" for label in labels)]
    (folder / "train.tsv").write_text("\n".join(lines) + "\n")
    return own(folder, "sentence").labels


def test_labels_have_one_order(tmp_path):
    """Numbers by value, all else as text."""
    assert own_labels(tmp_path, "10", "9", "9.5") == ("9", "9.5", "10")
    long = ("12345678901234567890", "12345678901234567891")  # one float
    assert own_labels(tmp_path, *long) == long
    assert own_labels(tmp_path, "10", "9", "nan") == ("10", "9", "nan")


def test_empty_cells_are_named_with_their_number(tmp_path):
    """But not rows without any cell, which Excel leaves at the end."""
    write(tmp_path, "train.csv", "text;label", "a;x", "b; ", "c;y", "d;", ";")
    words = r"train.csv: column 'label' is empty in 2 of 4 rows \(first: line 3"
    with pytest.raises(UserError, match=words):
        own(tmp_path)
    write(tmp_path, "train.csv", "text;label", "a;x", " ;", "b;y", ";")
    task = own(tmp_path)
    assert len(read(tmp_path, task, task.train)) == 2
    write(tmp_path, "train.csv", "text;label", ";x", "b;y")
    with pytest.raises(
        UserError, match="'text' is empty in 1 of 2 rows .first"
    ):
        own(tmp_path)


@pytest.mark.parametrize(
    "labels, words",
    [
        (("x", "x ", "y"), "line 3: the label 'x ' is 'x' of "),
        (("x", "y\\n"), "line 3: label 'y\\n' has a tab or a line end"),
        (("x", "\\ud800"), r"line 3: label '\ud800' has a lone surrogate"),
    ],
)
def test_labels_that_cannot_be_told_apart_or_written(tmp_path, labels, words):
    lines = ['{"text": "a", "label": "x"}']
    lines += [f'{{"text": "a", "label": "{label}"}}' for label in labels]
    write(tmp_path, "train.jsonl", *lines)
    with pytest.raises(UserError) as caught:
        own(tmp_path)
    assert words in str(caught.value)


def test_a_column_in_another_case_is_named_with_its_flag(tmp_path):
    write(tmp_path, "train.tsv", tabs("Text", "label"), tabs("a", "b"))
    with pytest.raises(UserError) as caught:
        own(tmp_path)
    words = "no column 'text' (did you mean 'Text'?); it has 'Text', 'label'"
    assert str(caught.value).endswith(f"{words}: give --text_a_column=Text")
    write(tmp_path, "train.tsv", tabs("cafe\u0301", "label"), tabs("a", "b"))
    with pytest.raises(UserError, match=r"did you mean 'cafe\\u0301'\?"):
        own(tmp_path, text="caf\xe9")


@pytest.mark.parametrize(
    "name, line, column",
    [
        ("mrpc", "1\t702876\t702977\tA b .\tC d .", "#1 String"),
        ("xnli", "A b .\tC d .\tneutral", "premise"),
    ],
)
def test_an_example_in_place_of_a_header(tmp_path, name, line, column):
    task = task_files.find(name)
    path = tmp_path / task.train.path
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"{line}\n{line}\n")
    with pytest.raises(UserError, match=f"line 1: no column '{column}'"):
        read(tmp_path, task, task.train)


@pytest.mark.parametrize(
    "name, lines",
    [
        ("train.jsonl", ["1", "0", "1.0"]),
        ("train.jsonl", ["1", "0", '"1.0"']),
        ("train.jsonl", ["true", "false", '"true"']),
        ("train.tsv", ["1", "0", "1.0"]),
        ("train.csv", ["1", "0", " 1"]),
        ("train.csv", ["True", "FALSE", "TRUE"]),
        ("train.tsv", ["1,0", "0", "2,1.0"]),
        ("train.csv", ["Caf\xe9", "x", "Cafe\u0301"]),
        ("train.tsv", ["New York", "x", "New\xa0York"]),
        ("train.jsonl", ['"x"', '"y"', '"\ufeffx"']),
    ],
)
def test_one_label_in_two_spellings(tmp_path, name, lines):
    """They were two classes; a column of pandas has 1 and 1.0."""
    if name.endswith("jsonl"):
        lines = [f'{{"sentence": "a", "label": {label}}}' for label in lines]
        numbers = "line 3: .* of .*line 1 in another spelling"
    else:
        sign = "\t" if name.endswith("tsv") else ","
        lines = [f"{name}{sign}{label}" for label in ["label", *lines]]
        lines[0] = f"sentence{sign}label"
        numbers = "line 4: .* of .*line 2 in another spelling"
    write(tmp_path, name, *lines)
    is_several = lines[-1].count(",") > (name.endswith("csv"))
    with pytest.raises(UserError, match=numbers):
        own(tmp_path, "sentence", multi_label=is_several)


def test_labels_that_differ_in_case_are_warned_of(tmp_path, caplog):
    assert own_labels(tmp_path, "Yes", "no", "yes") == ("Yes", "no", "yes")
    assert "3 different labels, some of which differ in case" in caplog.text


@pytest.mark.parametrize("label", ["[1]", "[" * 100_000, '["a"', '["a", 1]'])
def test_several_labels_that_are_no_json_list(tmp_path, label):
    (tmp_path / "train.tsv").write_text(f"text\tlabel\na\tx,y\nb\t{label}\n")
    with pytest.raises(UserError, match="line 3: .* no JSON list of strings"):
        own(tmp_path, multi_label=True)


@pytest.mark.parametrize("label", ["1e39", "-1e39", "nan", "1_0", "x"])
def test_a_number_to_predict_has_32_bits(tmp_path, label):
    (tmp_path / "train.tsv").write_text(
        f"sentence\tlabel\na\t3e38\nb\t{label}\n"
    )
    task = own(tmp_path, "sentence", is_regression=True)
    with pytest.raises(UserError, match=f"line 3: '{label}' is not a number"):
        read(tmp_path, task, task.train)
