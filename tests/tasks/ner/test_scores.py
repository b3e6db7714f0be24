"""ner/scores.py: the numbers of conlleval itself, and lines of predictions."""

import json
import re
from pathlib import Path

import conlleval
import numpy as np
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
            "-DOCSTART- O\n\na O\nb  S-x \n \n\nc B-x\nd E-x\n",
            "\n\na O T1\nb B-x T2\n\n\nc B-x T3\nd I-x T4\n",
        ),
        (
            "-DOCSTART- (1)\n# a\na\tO\nb\tI-x\n\t\nc\tI-x\nd\tB-x",
            "\na\tO\tT1\nb\tB-x\tT2\n\nc\tB-x\tT3\nd\tB-x\tT4\n",
        ),
        # Without tags nothing can be scored, and every line stays.
        (
            "-DOCSTART-\r\n# a\r\na\r\nb\r\n\r\nc\r\nd",
            "-DOCSTART-\n# a\na T1\nb T2\n\nc T3\nd T4\n",
        ),
    ],
)
def test_columns_line_for_line(tmp_path, text, wanted):
    file = read(tmp_path / "x", text)
    lines = ner_scores.prediction_lines(file, [["T1", "T2"], ["T3", "T4"]])
    assert "\n".join(lines) + "\n" == wanted


def test_the_right_tag_moves_beside_the_predicted_one(tmp_path):
    path = tmp_path / "x"
    path.write_text("1\ta\tS-x\tO\n2\tb\tO\tO\n")
    for label in (2, -2):
        file = ner_data.read_file(str(path), Columns(1, label))
        lines = ner_scores.prediction_lines(file, [["O", "B-y"]])
        assert lines == ["1\ta\tO\tB-x\tO", "2\tb\tO\tO\tB-y"]


def test_conlleval_by_hand_is_conlleval():
    text = (GOLDEN_NER / "tagged.txt").read_text()
    found = conlleval.report(text)
    counts = "processed {tokens} tokens with {phrases} phrases; "
    counts += "found: {found} phrases; correct: {correct}.\n"
    scores = "accuracy: {accuracy:6.2f}%; precision: {precision:6.2f}%; "
    scores += "recall: {recall:6.2f}%; FB1: {f1:6.2f}\n"
    wanted = (GOLDEN_NER / "conlleval.txt").read_text()
    assert wanted.startswith((counts + scores).format(**found))


def written_in(scheme: str, tags: list[str]) -> list[str]:
    """Return tags of IOB2 in another scheme."""
    if scheme in ("BIOES", "BILOU"):
        classes = [f"{place}-a" for place in scheme]
        return list(ner_data.as_classes(tags, classes))
    found = list(tags)
    for first, last, kind in ner_data.entities(tags):
        if scheme == "IOE2":
            found[first : last + 1] = [f"I-{kind}"] * (last - first)
            found.insert(last, f"E-{kind}")
        touches = first and tags[first - 1][1:] == f"-{kind}"
        if scheme == "IOB1" and not touches:
            found[first] = f"I-{kind}"
    return found


@pytest.mark.parametrize("scheme", ["IOB1", "IOB2", "IOE2", "BIOES", "BILOU"])
def test_conlleval_finds_our_scores_in_predictions(tmp_path, scheme):
    """Of every scheme, of a perfect tagger and of others."""
    rng = np.random.default_rng(len(scheme))
    names = ["O", "O", "B-a", "I-a", "B-b", "I-b"]
    gold, found = (
        [
            ner_data.normalized_tags(rng.choice(names, size).tolist())
            for size in (1, 4, 30, 30, 30)
        ]
        for _ in "ab"
    )
    for sign, start in ((" ", "-DOCSTART-  -X- O"), ("\t", "-DOCSTART- (1)")):
        lines = [start, "###id:1", ""]
        for number, tags in enumerate(gold):
            lines.append(f"# sent_id = {number}")
            rows = enumerate(written_in(scheme, tags))
            lines += [sign.join((f"w{at}", "N", tag)) for at, tag in rows]
            lines.append("")
        file = read(tmp_path / "x", "\n".join(lines))
        file = ner_data.with_iob2_tags(file)
        assert [sentence.tags for sentence in file.sentences] == gold
        for tags in (gold, found):
            lines = ner_scores.prediction_lines(file, tags)
            report = conlleval.report("\n".join(lines) + "\n", sign)
            scores = ner_scores.entity_scores(gold, tags)
            for name in ("accuracy", "precision", "recall", "f1"):
                assert report[name] == pytest.approx(100 * scores[name]), name
            assert report["tokens"] == 95 and (
                tags is found or scores["f1"] == 1
            )
            assert report["phrases"] == sum(
                len(ner_data.entities(tags)) for tags in gold
            )


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


def test_tags_of_json_are_in_the_scheme_of_the_predicted_ones(tmp_path):
    text = '{"tokens": ["a"], "n": 1.50, "tags": ["U-x"]}\n'
    text += '{"tokens": ["b"], "n": 1.50, "tags": ["B-x"]}\n'
    file = read(tmp_path / "x.jsonl", text)
    lines = ner_scores.prediction_lines(file, [["B-x"], ["O"]])
    assert lines == [
        '{"tokens": ["a"], "n": 1.5, "tags": ["B-x"], '
        '"predicted_tags": ["B-x"]}',
        '{"tokens": ["b"], "n": 1.50, "tags": ["B-x"], '
        '"predicted_tags": ["O"]}',
    ]


def test_earlier_predictions_are_replaced(tmp_path):
    """Not repeated; the order of the keys stays."""
    text = '{"predicted_tags": ["O"], "tokens": ["\\ud800"]}\n\x0b\n'
    file = read(tmp_path / "x.jsonl", text)
    lines = ner_scores.prediction_lines(file, [["T1"]])
    assert lines == [
        '{"predicted_tags": ["T1"], "tokens": ["\\ud800"]}',
        "\x0b",
    ]
