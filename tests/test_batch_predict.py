"""batch_predict.py: kinds of inputs, bad ones, wrong flags, kill -9 and Beam.

That its predictions are those of the scripts, of SavedModels and of LiteRT
files is in tests/test_tasks_contract.py.
"""

import gzip
import json
import shutil
from pathlib import Path

from base import tables

import classifier_runs
import fine_tuned_models
import ner_runs
import numpy as np
import pytest
import scripts
import squad_runs
import swag_runs
from exports import export
from prediction_runs import (
    batch_predict,
    check_same,
    predict,
    problems,
    write_classifier,
    write_lines,
)
from tiny import write_examples

from tasks import saved_model
from tasks.graph import TaskGraph

pytest.importorskip("tensorflow_text")
run_classifier = scripts.load("run_classifier")
run_squad = scripts.load("run_squad")
run_ner = scripts.load("run_ner")
extract_features = scripts.load("extract_features")

ONLY_PREDICT = {"do_train": False, "do_eval": False, "do_predict": True}


@pytest.fixture(scope="module")
def classifier(tmp_path_factory) -> Path:
    """A folder with a classifier and the task's test file."""
    return write_classifier(tmp_path_factory.mktemp("classifier"))


@pytest.fixture
def sentences(classifier) -> list[str]:
    return (classifier / "test.tsv").read_text().splitlines()[1:]


def without_ids(rows: list[dict]) -> list[dict]:
    return [{k: v for k, v in row.items() if k != "id"} for row in rows]


# --- Kinds of inputs ---------------------------------------------------------


def test_text_json_and_records_give_the_same(
    classifier, sentences, tmp_path, caplog
):
    caplog.set_level("INFO", logger="absl")
    model = classifier / "model"
    lines = [{"id": n, "sentence": text} for n, text in enumerate(sentences)]
    file = write_lines(tmp_path / "in.jsonl", lines)
    wanted = predict(model, file, tmp_path / "1", text_columns="sentence")
    assert [row["id"] for row in wanted] == list(range(21))
    is_long = [len(text.split()) + 2 > 24 for text in sentences]
    assert [row.get("truncated", False) for row in wanted] == is_long
    assert 0 < sum(is_long) < 21
    lost = sum(max(0, len(text.split()) - 22) for text in sentences)
    cut = f"{sum(is_long)} are longer than the model reads and were cut by "
    cut += f"{lost} tokens"
    assert cut in caplog.text
    near = predict(
        *(model, file, tmp_path / "16 bits"),
        text_columns="sentence",
        dtype="bfloat16",
    )
    scores = [[row["score"] for row in rows] for rows in (near, wanted)]
    np.testing.assert_allclose(*scores, atol=0.02)
    assert scores[0] != scores[1]
    wanted = without_ids(wanted)

    with gzip.open(tmp_path / "a.txt.gz", "wt") as packed:
        packed.write("\n".join(sentences[:10]))
    (tmp_path / "b.txt").write_text("\n".join(sentences[10:]) + "\n")
    files = f"{tmp_path}/a.txt.gz,{tmp_path}/b.txt"
    found = predict(model, files, tmp_path / "2")
    assert [row["id"] for row in found] == [
        *(f"{tmp_path}/a.txt.gz:{n}" for n in range(1, 11)),
        *(f"{tmp_path}/b.txt:{n}" for n in range(1, 12)),
    ]
    check_same(without_ids(found), wanted)

    flags = classifier_runs.flags_for(model, classifier, model, **ONLY_PREDICT)
    flags |= {"max_seq_length": 24, "records_dir": str(tmp_path / "records")}
    scripts.run(run_classifier, **flags)
    file = tmp_path / "records" / "predict.tf_record"
    found = predict(model, file, tmp_path / "3")
    assert [row["id"] for row in found] == [
        f"{file}:{number}" for number in range(1, 22)
    ]
    for row in wanted:
        row.pop("truncated", None)  # records hold cut texts
    check_same(without_ids(found), wanted)


def test_tabs_separate_the_texts_of_a_pair(tmp_path):
    model = fine_tuned_models.write_classifier(
        tmp_path / "model",
        classifier_runs.CONFIG,
        classifier_runs.VOCAB,
        None,
        is_pair=True,
    )
    texts = [("good film", "a book"), ("a", "the")]
    (tmp_path / "in.txt").write_text("".join(f"{a}\t{b}\n" for a, b in texts))
    lines = [{"text_a": a, "text_b": b} for a, b in texts]
    file = write_lines(tmp_path / "in.jsonl", lines)
    wanted = predict(model, file, tmp_path / "1")
    found = predict(model, tmp_path / "in.txt", tmp_path / "2")
    assert [row["value"] for row in found] == [row["value"] for row in wanted]
    assert found[0]["value"] != pytest.approx(found[1]["value"], abs=1e-3)


def test_tables_are_read_by_the_columns_of_training(
    classifier, sentences, tmp_path
):
    """The texts are found by training_config.json; other columns are kept."""
    wanted = predict(
        classifier / "model",
        write_lines(tmp_path / "in.jsonl", [{"text": t} for t in sentences]),
        tmp_path / "0",
    )
    model = shutil.copytree(classifier / "model", tmp_path / "model")
    columns = {"text_a": "What", "text_b": None, "label": "label"}
    run = {"fixed": {"data": {"columns": columns}}, "adjustable": {}}
    (model / "training_config.json").write_text(json.dumps(run))
    lines = [f"{n};{text};gold" for n, text in enumerate(sentences)]
    table = "\r\n".join(["no;What;label", *lines, "bad"])
    (tmp_path / "in.csv").write_text(table, "utf-16")
    found = predict(model, tmp_path / "in.csv", tmp_path / "1")
    empty = dict.fromkeys(("label", "score", "probabilities"))
    assert found.pop() == {"id": f"{tmp_path}/in.csv:23", **empty}
    for number, (one, other) in enumerate(zip(found, wanted, strict=True)):
        assert one == other | {
            "id": f"{tmp_path}/in.csv:{number + 2}",
            "no": str(number),
            "input_label": "gold",
        }
    assert [problem["line"] for problem in problems(tmp_path / "1")] == [23]
    batch = {"model": model, "input_file": tmp_path / "in.csv"}
    batch |= {"output_dir": tmp_path / "2", "output_format": "csv"}
    assert scripts.run(batch_predict, **batch) == 0
    path = tmp_path / "2" / "predictions-00000-of-00001.csv"
    *found, last = [row for _, row in tables.rows(str(path), whole=True)]
    assert not any(last.values())
    for row, other, text in zip(found, wanted, sentences, strict=True):
        assert list(row.items())[:3] == [
            ("What", text),
            ("label", other["label"]),
            ("probability", str(other["score"])),
        ]
        assert row["input_label"] == "gold"
        assert row["truncated"] == ("True" if "truncated" in other else "")
    # As lines of text the header would be classified.
    batch |= {"input_file": tmp_path / "in.txt", "output_dir": tmp_path / "3"}
    for text, words in (
        (path.read_text(), "columns What, label, probability, truncated, no"),
        ('a;b;c\n1;"it; was";2\n;;\n', "its first 3 lines has 2 semicolons"),
        ("a\tb\tc\n1\tit was\t2\n", "its first 2 lines has 2 tabs"),
    ):
        (tmp_path / "in.txt").write_text(text)
        line = scripts.error_of(batch_predict, **batch)
        assert "looks like a table" in line and words in line
    batch["input_file"] = tmp_path / "other.csv"
    batch["input_file"].write_text("a;b\nx;y\nx;y\n")
    line = scripts.error_of(batch_predict, **batch)
    assert "other.csv, line 1: no column 'What'; it has 'a', 'b'" in line
    assert "--text_columns=NAME" in line and "line 2" not in line


def test_answers_have_their_characters(tmp_path):
    model = fine_tuned_models.write_reader(
        tmp_path / "reader", squad_runs.CONFIG, squad_runs.VOCAB
    )
    squad_runs.write_data(tmp_path)
    flags = squad_runs.flags_for(tmp_path, model, **ONLY_PREDICT)
    scripts.run(run_squad, **flags | {"init_checkpoint": None})
    options = {"doc_stride": 12, "max_query_length": 8, "max_answer_length": 4}
    (article,) = squad_runs.read(tmp_path / "dev1.json")["data"]
    lines = [
        {"id": qa["id"], "question": qa["question"], "context": p["context"]}
        for p in article["paragraphs"]
        for qa in p["qas"]
    ]
    file = write_lines(tmp_path / "in.jsonl", lines)
    found = predict(model, file, tmp_path / "1", num_answers=20, **options)
    assert len({row["answer"] for row in found}) > 5
    for row, line in zip(found, lines, strict=True):
        for entry in row["nbest"]:
            if entry["text"]:
                part = line["context"][entry["start"] : entry["end"]]
                assert " ".join(part.split()) == entry["text"]
            else:
                assert entry["start"] is entry["end"] is None
    line = scripts.error_of(
        batch_predict,
        input_file=model / "eval.tf_record",
        model=model,
        output_dir=tmp_path / "2",
    )
    assert "lacks its text" in line


def test_entities_have_their_characters_and_records_their_tags(tmp_path):
    model = fine_tuned_models.write_tagger(
        tmp_path / "model", ner_runs.CONFIG, ner_runs.VOCAB, ner_runs.LABELS
    )
    ner_runs.write_data(tmp_path)
    scripts.run(
        run_ner, **ner_runs.flags_for(model, tmp_path, model, **ONLY_PREDICT)
    )
    lines = [
        {"tokens": [word for word, _ in words]}
        for words in ner_runs.sentences(21, 3)
    ]
    file = write_lines(tmp_path / "in.jsonl", lines)
    found = predict(model, file, tmp_path / "1")
    assert any(len(line["tokens"]) > 32 for line in lines)  # several windows
    texts = [{"text": " ".join(x["tokens"])} for x in lines]
    file = write_lines(tmp_path / "texts.jsonl", texts)
    as_text = predict(model, file, tmp_path / "2")
    for row, other, text in zip(as_text, found, texts, strict=True):
        assert [e["text"] for e in row["entities"]] == [
            e["text"] for e in other["entities"]
        ]
        for entity in row["entities"]:
            part = text["text"][entity["start"] : entity["end"]]
            assert part == entity["text"]
    assert sum(len(row["entities"]) for row in found) > 20
    words = tmp_path / "words.txt"
    words.write_text("".join(f"{word} O\n" for word in lines[0]["tokens"]))
    given = {"model": model, "input_file": words, "output_dir": tmp_path / "3"}
    assert "run_ner.py --do_predict" in scripts.error_of(batch_predict, **given)
    records = predict(model, model / "predict.tf_record", tmp_path / "4")
    by_record = [tag for row in records for tag in row["tags"]]
    by_word = [tag for row in found for tag in row["tags"]]
    # A record may begin inside of a sentence, where I- becomes B-.
    assert [t[2:] for t in by_record] == [t[2:] for t in by_word]


def test_questions_with_other_numbers_of_choices(tmp_path):
    """Each is answered beside the others; `start` begins every choice."""
    model = fine_tuned_models.write_chooser(
        tmp_path / "model", swag_runs.CONFIG, swag_runs.VOCAB
    )
    lines = [
        {"context": context, "start": "he", "choices": endings}
        for context, endings, _ in swag_runs.questions(9, 3)
    ]
    two = {**lines[0], "choices": lines[0]["choices"][:2]}
    file = write_lines(tmp_path / "in.jsonl", [*lines[:5], two, *lines[5:]])
    found = predict(model, file, tmp_path / "1")
    shares = found.pop(5)["probabilities"]
    first = found[0]["probabilities"]
    assert shares[0] / shares[1] == pytest.approx(first[0] / first[1], rel=1e-4)
    file = write_lines(tmp_path / "same.jsonl", lines)
    wanted = predict(model, file, tmp_path / "2")
    check_same(without_ids(found), without_ids(wanted))


def test_vectors_are_those_of_extract_features(classifier, sentences, tmp_path):
    """Those of a fine-tuned model too, with --task=encoder."""
    path = tmp_path / "lines.txt"
    path.write_text("\n".join(sentences))
    features = tmp_path / "features.npz"
    scripts.run(
        extract_features,
        input_file=str(path),
        output_file=str(features),
        output_format="npz",
        init_checkpoint=str(classifier / "model"),
        layers="-1",
        pooling="mean",
        max_seq_length=24,
    )
    found = predict(classifier / "model", path, tmp_path / "1", task="encoder")
    np.testing.assert_allclose(
        [row["mean_output"] for row in found],
        np.load(features)["features"][:, 0],
        atol=1e-5,
    )


# --- Columns, and rows without a text ----------------------------------------


def table_of(model: Path, path: Path, out: Path, **flags) -> tuple[str, list]:
    """Return the header and the rows of the table that is written of one."""
    flags |= {"model": model, "input_file": path, "output_format": "csv"}
    assert scripts.run(batch_predict, **flags, output_dir=out) == 0
    path = out / "predictions-00000-of-00001.csv"
    rows = [row for _, row in tables.rows(str(path), whole=True)]
    return path.read_text().split("\n")[0], rows


def test_every_row_of_a_table_has_an_answer(classifier, tmp_path, caplog):
    """An empty one where the text is; a blank line at the end is no row."""
    model = classifier / "model"
    for name, text in (
        ("1.csv", 'text\na film\n""\nthe book\n\n"  "\n""\n\n'),
        ("2.csv", "no,text\n1,a film\n,\n3,the book\n\n4,\n,\n,\n"),
        ("3.tsv", "text\tno\na film\t1\n\t\nthe book\t3\n\t4\n \t\n\t\n"),
        ("4.csv", "text;no\r\na film;1\r\n;\r\nthe book;3\r\n;4\r\n;\r\n;\r\n"),
    ):
        path = tmp_path / name
        path.write_text(text, newline="")
        header, found = table_of(model, path, tmp_path / f"{name}.out")
        assert [row["text"].strip() for row in found] == [
            *("a film", "", "the book", "", "", "")
        ]
        assert [row["label"] != "" for row in found] == [
            *(True, False, True, False, False, False)
        ]
        if "no" in found[0]:
            assert [row["no"] for row in found] == ["1", "", "3", "4", "", ""]
        lines = predict(model, path, tmp_path / f"{name}.lines")
        for line, row in zip(lines, found, strict=True):
            assert (line["label"] or "") == row["label"]
            assert line.get("no", "") == row.get("no", "")
        assert "4 of 6 inputs have an empty answer" in caplog.text
        caplog.clear()
        assert len(problems(tmp_path / f"{name}.out")) == 4


def test_all_columns_of_a_table_are_kept(classifier, tmp_path):
    model, path = classifier / "model", tmp_path / "in.csv"
    path.write_text("key,id,text,label,truncated\nk1,7,a film,x,y\n")
    header, (row,) = table_of(model, path, tmp_path / "1", id_column="key")
    names = "text,label,probability,key,id,input_label,input_truncated"
    assert header == names
    assert [*row.values()][3:] == ["k1", "7", "x", "y"]
    (line,) = predict(model, path, tmp_path / "2", id_column="key")
    own = {"id": "k1", "input_id": "7", "input_label": "x"}
    assert line.items() >= (own | {"input_truncated": "y"}).items()
    given = {"model": model, "input_file": path, "output_dir": tmp_path / "3"}
    for output_format in ("csv", "jsonl"):
        for names, words in (
            ("text,label,input_label", "'label' would be 'input_label' beside"),
            ("text,note,note", "line 2: more than one column 'note'"),
            ("text,,", "line 2: more than one column ''"),
        ):
            path.write_text(f"{names}\na film,x,y\n")
            line = scripts.error_of(
                batch_predict, **given, output_format=output_format
            )
            assert words in line and not (tmp_path / "3").exists()
    # Columns that Excel leaves at the end hold nothing.
    path.write_text("text,,\na film,,\n")
    assert table_of(model, path, tmp_path / "4")[0] == "text,label,probability"
    # Also of JSON lines.
    path = write_lines(
        tmp_path / "in.jsonl",
        [{"key": 1, "id": 7, "text": "a", "label": "x", "score": 3}],
    )
    header, _ = table_of(model, path, tmp_path / "5", id_column="key")
    assert header == "text,label,probability,key,id,input_label,score"


def test_a_pair_without_one_text_has_an_empty_answer(tmp_path, caplog):
    model = fine_tuned_models.write_classifier(
        tmp_path / "model",
        classifier_runs.CONFIG,
        classifier_runs.VOCAB,
        None,
        is_pair=True,
    )
    path = tmp_path / "in.tsv"
    path.write_text("text_a\ttext_b\na film\tthe book\na film\t \n\ta\n")
    _, found = table_of(model, path, tmp_path / "1")
    assert [bool(row["value"]) for row in found] == [True, False, False]
    reasons = [problem["reason"] for problem in problems(tmp_path / "1")]
    assert reasons == ["text_b is empty", "text_a is empty"]
    # A student learns from answers alone.
    (line,) = predict(model, path, tmp_path / "2", as_teacher=True)
    assert line["text_b"] == "the book" and line["teacher"]


# --- Inputs that cannot be predicted -----------------------------------------

BAD = [
    '{"id": 1, "text": "good film"}',
    '{"id": 2, "text": "good film"',
    '{"id": 3, "texts": "good film"}',
    '{"id": 4, "text": 7}',
    '{"id": 5, "text": " "}',
    "[1, 2]",
    '{"id": true, "text": "good"}',
    '{"id": 7, "text": "\\ud800"}',  # half a character
    '{"id": 1, "text": "a book"}',  # the id of the first line
    "",
    '{"text": "the film"}',
]
REASONS = {
    2: "not JSON: Expecting ',' delimiter: column 30",
    3: "no key 'text'; it has 'id', 'texts' (--text_columns)",
    4: "'text' is 7, wanted a string (--text_columns)",
    5: "text is empty",
    6: "found list, wanted a JSON object",
    7: "'id' is True, wanted a string or a whole number",
    8: "text '\\ud800' has a lone surrogate, half of a character, which UTF-8 "
    "cannot hold",
    12: "not UTF-8 (byte 0xff)",
}


def write_bad(path: Path) -> Path:
    """Write BAD and a line that is not UTF-8."""
    path.write_bytes("\n".join(BAD).encode() + b'\n{"text": "\xff"}\n')
    return path


def test_bad_lines_are_named_and_the_others_predicted(
    classifier, tmp_path, caplog
):
    file = write_bad(tmp_path / "in.jsonl")
    found = predict(classifier / "model", file, tmp_path / "1")
    assert [(row["id"], row["label"] is None) for row in found] == [
        *((1, False), (f"{file}:2", True), (3, True), (4, True), (5, True)),
        *((f"{file}:6", True), (f"{file}:7", True), (7, True), (1, False)),
        *((f"{file}:11", False), (f"{file}:12", True)),
    ]
    rows = problems(tmp_path / "1")
    assert {row["line"]: row["reason"] for row in rows} == REASONS
    assert {row["file"] for row in rows} == {str(file)}
    assert [row["text"] for row in rows[:2]] == BAD[1:3]
    assert "8 of 11 inputs have an empty answer" in caplog.text
    assert "blank lines passed over: 1" in caplog.text
    # The same command again has nothing to do; after a change it is another.
    assert predict(classifier / "model", file, tmp_path / "1") == found
    assert "; already predicted: 1 file" in caplog.text
    assert "Nothing left to do: 3 of 11 inputs are pred" in caplog.text
    write_lines(file, [{"text": "good"}])
    flags = {"model": classifier / "model", "input_file": file}
    line = scripts.error_of(batch_predict, **flags, output_dir=tmp_path / "1")
    assert f"{file} has changed since (" in line
    assert f"or delete {tmp_path / '1'}, if it holds nothing else" in line


def test_records_with_other_features_are_named(classifier, tmp_path):
    """Every kind of damage in a file whose first record is right."""
    good = {
        "input_ids": [2, 5, 3, 0],
        "input_mask": [1, 1, 1, 0],
        "segment_ids": [0, 0, 0, 0],
        "unique_ids": [77],
    }
    wrong = [
        ({"input_mask": [1, 0, 1, 0]}, "input_mask is not ones followed by"),
        ({"input_ids": [2, 99, 3, 0]}, "input_ids has 99; there are 14 tokens"),
        ({"input_ids": [2, 2**32 + 5, 3, 0]}, "input_ids has 4294967301; th"),
        ({"segment_ids": [0, 2**32, 0, 0]}, "segment_ids has 4294967296; th"),
        ({"segment_ids": [0, 2, 0, 0]}, "segment_ids has 2; there are 2"),
        ({"segment_ids": [0, 0]}, "4 input_ids, 4 input_mask, 2 segment_ids"),
        ({"segment_ids": None}, "no feature 'segment_ids'; it has input_ids"),
        ({"input_ids": [2.5, 5.0]}, "input_ids holds floats, wanted whole"),
        ({"label_ids": [b"text"]}, "label_ids holds bytes, wanted numbers"),
        ({"unique_ids": [1.5]}, "unique_ids is 1.5, wanted a whole number"),
        ({"unique_ids": [np.nan]}, "unique_ids is nan, wanted a whole number"),
    ]
    path = tmp_path / "in.tf_record"
    records = [good, *(good | change for change, _ in wrong)]
    write_examples(path, [{k: v for k, v in r.items() if v} for r in records])
    found, *others = predict(classifier / "model", path, tmp_path / "1")
    assert found["id"] == 77 and len(others) == len(wrong)
    assert {row["label"] for row in others} == {None}
    rows = problems(tmp_path / "1")
    assert [row["record"] for row in rows] == [*range(2, 13)]
    for row, (_, words) in zip(rows, wrong, strict=True):
        assert words in row["reason"]


@pytest.mark.parametrize(
    "flags, word",
    [
        ({"model": None}, "--model"),
        ({"input_file": None}, "--input_file"),
        ({"output_dir": None}, "--output_dir"),
        ({"model": "/proc/nowhere"}, "--model=/proc/nowhere"),
        ({"output_dir": "/proc/nowhere/x"}, "--output_dir=/proc/nowhere/x"),
        ({"input_file": "/proc/nowhere"}, "'/proc/nowhere'"),
        ({"input_file": "/dev/null"}, "/dev/null"),
        ({"task": "question_answering"}, "it can do classifier"),
        ({"max_seq_length": 65}, "max_position_embeddings=64"),
        ({"text_columns": "a,b"}, "--text_columns=a,b"),
        ({"text_columns": "sentence"}, "line 1 cannot be predicted"),
        ({"id_column": "key"}, "--id_column"),
        ({"beam_options": "--x"}, "--beam_options"),
        ({"runner": "beam", "dtype": "auto"}, "--dtype=auto"),
        ({"vocab_file": "/proc/nowhere"}, "/proc/nowhere"),
        ({"input_format": "tfrecord"}, "begins like jsonl"),
        ({"explain": True, "task": "encoder"}, "--explain is for classifier"),
        ({"explain": True, "dtype": "bfloat16"}, "--dtype=float32"),
    ],
    ids=str,
)
def test_errors_name_the_flag_or_the_file(classifier, tmp_path, flags, word):
    file = write_lines(tmp_path / "in.jsonl", [{"text": "good film"}] * 3)
    given = {
        "model": str(classifier / "model"),
        "input_file": str(file),
        "output_dir": str(tmp_path / "out"),
    }
    line = scripts.error_of(batch_predict, **(given | flags))
    assert word in line, line
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "names, word",
    [
        (["a.jsonl", "b.txt"], "a.jsonl looks like jsonl"),
        (["c.txt"], "empty"),
        (["d.txt.gz"], "no text and no record"),
        (["e.txt"], "line 4"),  # where the first ones are blank
    ],
)
def test_inputs_without_anything_to_predict(classifier, tmp_path, names, word):
    write_lines(tmp_path / "a.jsonl", [{"text": "good"}])
    (tmp_path / "b.txt").write_text("good\n")
    (tmp_path / "c.txt").write_text("")
    (tmp_path / "d.txt.gz").write_bytes(gzip.compress(b"\n"))
    (tmp_path / "e.txt").write_text("\n" * 3 + "two\tcolumns\n")
    flags = {
        "model": str(classifier / "model"),
        "input_file": ",".join(str(tmp_path / name) for name in names),
        "output_dir": str(tmp_path / "out"),
    }
    line = scripts.error_of(batch_predict, **flags)
    assert word in line, line


def test_records_have_no_words_to_explain(classifier, tmp_path):
    path = tmp_path / "records"
    row = {"input_ids": [2, 5, 3], "input_mask": [1, 1, 1]}
    write_examples(path, [row | {"segment_ids": [0, 0, 0]}])
    flags = {"model": classifier / "model", "output_dir": tmp_path / "out"}
    flags |= {"input_file": path, "explain": True}
    assert "no words" in scripts.error_of(batch_predict, **flags)


@pytest.mark.slow
def test_models_without_what_prediction_needs_are_refused(
    classifier, tmp_path, monkeypatch
):
    path = tmp_path / "in.txt"
    path.write_text("good film\n")
    given = {"input_file": str(path), "output_dir": str(tmp_path / "out")}

    def error_of(model: Path, **flags) -> str:
        return scripts.error_of(
            batch_predict, model=str(model), **given, **flags
        )

    model = tmp_path / "model"
    shutil.copytree(classifier / "model", model)
    (model / "vocab.txt").unlink()
    assert "no vocab.txt beside" in error_of(model)
    # The signature for strings takes long to trace.
    monkeypatch.setattr(
        TaskGraph,
        "signatures",
        lambda self: {"serving_default": self.ids_signature()},
    )
    saved = export(classifier / "model", tmp_path / "saved")
    assert "--max_seq_length" in error_of(saved, max_seq_length=8)
    assert "--dtype" in error_of(saved, dtype="bfloat16")
    assert "--explain needs gradients" in error_of(saved, explain=True)
    assert "--task=classifier" in error_of(saved, task="encoder")
    place = saved / saved_model.DESCRIPTION
    place.write_text('{"task": "poetry"}')
    assert "'poetry'" in error_of(saved)
    place.unlink()
    assert "export it again" in error_of(saved)


# --- Interruptions, and Beam -------------------------------------------------


def write_files(folder: Path, number: int) -> str:
    """Write files with bad and good lines; return their pattern."""
    lines = [
        json.dumps({"id": n, "text": text})
        for n, (text, _) in enumerate(classifier_runs.sentences(400, 5))
    ]
    lines[100:100] = BAD
    folder.mkdir()
    for index in range(number):
        text = "\n".join(lines[index::number])
        (folder / f"{index:02}.jsonl").write_text(text)
    return f"{folder}/*"


def bytes_of(out: Path) -> dict[str, bytes]:
    """Return all files but the manifest, which has their absolute paths."""
    names = {path.name for path in out.iterdir()}
    names.remove(".predictions.manifest.json")
    return {name: (out / name).read_bytes() for name in names}


@pytest.mark.nightly
def test_beam_writes_the_same_lines(classifier, tmp_path, monkeypatch):
    pytest.importorskip("apache_beam")
    monkeypatch.setattr("tasks.reading.WINDOW_INPUTS", 50)
    files = write_files(tmp_path / "in", 3)
    # A file without any input makes one too.
    (tmp_path / "in" / "1.jsonl").write_text("\n")
    write_bad(tmp_path / "in" / "bad.jsonl")
    model = classifier / "model"
    predict(model, files, tmp_path / "local", input_format="jsonl")
    wanted = bytes_of(tmp_path / "local")
    assert wanted["errors.jsonl"].count(b"\n") == 15
    assert wanted["predictions-00003-of-00005.jsonl"] == b""
    options = {
        "input_format": "jsonl",
        "runner": "beam",
        "beam_options": "--runner=BundleBasedDirectRunner",
    }
    out = tmp_path / "beam"
    predict(model, files, out, **options)
    assert bytes_of(out) == wanted
    # Files that are there are not made again.
    (out / "predictions-00001-of-00005.jsonl").unlink()
    before = (out / "predictions-00002-of-00005.jsonl").stat().st_mtime_ns
    predict(model, files, out, **options)
    assert bytes_of(out) == wanted
    after = (out / "predictions-00002-of-00005.jsonl").stat().st_mtime_ns
    assert after == before
