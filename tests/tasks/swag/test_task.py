"""swag/task.py: the questions in SWAG's and in own files, and bad files."""

import json
from pathlib import Path

from base.errors import UserError

import pytest

from tasks.swag import task as swag_task
from tasks.swag.task import Question

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
    assert swag_task.read_questions(path) == [
        Question(
            "7",
            'A man "is" here, alone.',
            ("He runs, then\nfalls.", "He sits.", "He eats.", "He waves."),
            2,
        )
    ]


def test_a_test_file_has_no_label(tmp_path):
    path = write(tmp_path / "test.csv", HEADER, ROW)
    (question,) = swag_task.read_questions(path, has_labels=False)
    assert question.label is None and question.guid == "7"


def test_columns_by_name_and_any_number_of_endings(tmp_path):
    path = write(
        tmp_path / "t.csv", "ending1,label,sent1,ending0,sent2", "b,1,c,a,"
    )
    (question,) = swag_task.read_questions(path)
    assert question == Question("0", "c", ("a", "b"), 1)


def test_json_lines(tmp_path):
    given = {"context": "c", "choices": ["a", "é", "b"], "label": 0}
    lines = [
        json.dumps(given),
        "",
        json.dumps(given | {"start": "So", "id": "q-2", "source": 1}),
    ]
    path = write(tmp_path / "t.jsonl", *lines)
    assert swag_task.read_questions(path) == [
        Question("0", "c", ("a", "é", "b"), 0),
        Question("q-2", "c", ("So a", "So é", "So b"), 0),
    ]
    del given["label"]
    path = write(tmp_path / "test.jsonl", json.dumps(given))
    assert swag_task.read_questions(path, False)[0].label is None


GOOD = '{"context": "c", "choices": ["a", "b"], "label": 0}'


@pytest.mark.parametrize(
    "name, lines, words",
    [
        ("t.csv", [HEADER], "t.csv, line 1: no column 'label'; it has ''"),
        (
            "t.csv",
            ["sent1,sent2,ending0,ending1,ending3,label", "c,s,a,b,d,0"],
            "no key 'ending2'; it has 'sent1', 'sent2', 'ending0'",
        ),
        ("t.csv", [HEADER + ",label"], "holds no question"),
        ("t.csv", [], "holds no question"),
        (
            "t.csv",
            [HEADER + ",label", ROW + ",4"],
            "line 2: label 4 is none of the 4 choices, which are 0 to 3",
        ),
        ("t.csv", [HEADER + ",label", ROW + ",-1"], "label -1 is none of"),
        ("t.csv", [HEADER + ",label", ROW + ",gold"], "label 'gold' is not"),
        ("t.csv", [HEADER + ",label", ROW + ","], "label '' is not the number"),
        ("t.csv", ["sent1,sent2,ending0,label", "c,s,a,0"], "no key 'ending1'"),
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
        (
            "t.jsonl",
            [GOOD.replace("{", '{"id": "a\\tb", ')],
            "id 'a\\tb' has a tab or a line end, which a .tsv file cannot hold",
        ),
        (
            "t.jsonl",
            ['{"context": "c", "choices": ["a"], "label": 0}'],
            "line 1: 1 choices, wanted two or more",
        ),
        ("t.jsonl", ['{"choices": []}'], "no key 'context'; it has 'choices'"),
        (
            "t.jsonl",
            ['{"context": "c", "choices": "ab", "label": 0}'],
            "'choices' is 'ab', wanted a list",
        ),
        ("t.jsonl", [GOOD.replace("0", '"0"')], "'label' is '0', wanted a"),
        ("t.jsonl", [GOOD.replace("0", "true")], "'label' is True, wanted a"),
        ("t.jsonl", [GOOD.replace("0", "2")], "label 2 is none of the 2"),
        ("t.jsonl", [GOOD.replace('"b"', "1")], "'choices' is 1, wanted a"),
        ("t.jsonl", [GOOD.replace('"c"', '""')], "the context is empty"),
    ],
)
def test_damaged_files_name_the_line(tmp_path, name, lines, words):
    path = write(tmp_path / name, *lines)
    with pytest.raises(UserError) as caught:
        swag_task.read_questions(path)
    assert words in str(caught.value), caught.value
    assert str(caught.value).startswith(path)


def test_one_file_of_a_part_is_found(tmp_path):
    with pytest.raises(UserError, match="holds no val.csv or val.jsonl or dev"):
        swag_task.find_file(str(tmp_path), "dev")
    path = write(tmp_path / "val.csv")
    assert swag_task.find_file(str(tmp_path), "dev") == path
    write(tmp_path / "dev.jsonl")
    with pytest.raises(UserError, match="holds val.csv and dev.jsonl: found 2"):
        swag_task.find_file(str(tmp_path), "dev")
