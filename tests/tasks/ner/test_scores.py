"""ner/scores.py: the numbers of conlleval itself, and lines of predictions."""

import json
import re
from pathlib import Path

import pytest
from paths import GOLDEN

from tasks.ner import data as ner_data
from tasks.ner import scores as ner_scores
from tasks.ner.data import Columns

GOLDEN_NER = GOLDEN / "ner"


def test_scores_are_those_of_conlleval(tmp_path):
    """golden/ner/conlleval.txt is what conlleval.pl prints of tagged.txt."""
    path = str(GOLDEN_NER / "tagged.txt")
    gold, predicted = (
        [s.tags for s in ner_data.read_file(path, Columns(0, c)).sentences]
        for c in (1, 2)
    )
    scores = ner_scores.entity_scores(gold, predicted)
    wanted = {}
    for line in (GOLDEN_NER / "conlleval.txt").read_text().splitlines()[1:]:
        name = re.match(r" *(\S+): precision", line)
        prefix = f"{name[1]}_" if name else ""
        for key, value in re.findall(r"(\w+): +([\d.]+)%?", line):
            if key in ("accuracy", "precision", "recall", "FB1"):
                wanted[prefix + key.replace("FB1", "f1")] = float(value)
    assert len(wanted) == 4 + 3 * 3
    assert set(scores) == set(wanted)
    for name, value in wanted.items():
        assert scores[name] == pytest.approx(value / 100, abs=5e-5), name


def test_scores_without_anything_to_count_are_0():
    """Half an entity is none; a type is never predicted, or never right."""
    scores = ner_scores.entity_scores(
        [["B-a", "I-a", "O", "B-b"], ["B-a"]],
        [["B-a", "I-a", "O", "O"], ["B-c"]],
    )
    assert scores["precision"] == 1 / 2 and scores["recall"] == 1 / 3
    assert scores["b_f1"] == scores["b_precision"] == scores["c_f1"] == 0
    assert scores["accuracy"] == 3 / 5
    assert ner_scores.entity_scores([["B-a"]], [["O"]])["f1"] == 0


def read(path: Path, text: str) -> ner_data.File:
    path.write_text(text, encoding="utf-8")
    return ner_data.read_file(str(path), Columns())


@pytest.mark.parametrize(
    "text, wanted",
    [
        (
            "-DOCSTART- O\n\na O\nb  B-x \n\n\nc O\n",
            "-DOCSTART- O O\n\na O T1\nb  B-x T2\n\n\nc O T3\n",
        ),
        ("a\tO\nb\tO\n\t\nc\tO", "a\tO\tT1\nb\tO\tT2\n\t\nc\tO\tT3\n"),
        ("a\r\nb\r\n\r\nc\r\n", "a T1\nb T2\n\nc T3\n"),
    ],
)
def test_columns_line_for_line(tmp_path, text, wanted):
    file = read(tmp_path / "x", text)
    lines = ner_scores.prediction_lines(file, [["T1", "T2"], ["T3"]])
    assert "\n".join(lines) + "\n" == wanted


def test_json_line_for_line(tmp_path):
    text = '{"tokens": ["a", "b"], "n": 1.50}\n\n{"tokens": []} \n'
    text += '{"id": "\u00fc\\ud800", "tokens": ["c"]}\n'
    file = read(tmp_path / "x.jsonl", text)
    lines = ner_scores.prediction_lines(file, [["T1", "T2"], ["T3"]])
    assert lines[0].startswith('{"tokens": ["a", "b"], "n": 1.50, "pred')
    assert lines[1] == ""
    found = [json.loads(line)["predicted_tags"] for line in lines if line]
    assert found == [["T1", "T2"], [], ["T3"]]
    assert lines[3].startswith('{"id": "\u00fc\\ud800"')


def test_earlier_predictions_are_replaced(tmp_path):
    """Not repeated; the order of the keys stays."""
    text = '{"predicted_tags": ["O"], "tokens": ["\\ud800"]}\n\x0b\n'
    file = read(tmp_path / "x.jsonl", text)
    lines = ner_scores.prediction_lines(file, [["T1"]])
    assert lines == [
        '{"predicted_tags": ["T1"], "tokens": ["\\ud800"]}',
        "\x0b",
    ]
