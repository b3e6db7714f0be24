"""run_classifier.py --num_folds and --heldout_fraction: what is scored."""

import codecs
import shutil

from base import tables

import classifier_runs
import numpy as np
import pytest
import scripts
import tiny
from marks import nightly

from extras import sweeps

run_classifier = scripts.load("run_classifier")


def read(path) -> list[dict]:
    return [row for _, row in tables.rows(str(path))]


def write_table(path) -> dict:
    """Write a table of two texts; return the flags that name it."""
    rows = classifier_runs.sentences(60, 1)
    lines = [
        f"{text},{text} a,{kind},{n % 20}"
        for n, (text, kind) in enumerate(rows)
    ]
    path.write_text("\n".join(["text,other,kind,author", *lines]))
    flags = {"data_dir": None, "train_file": str(path), "num_train_epochs": 1}
    return flags | {"text_a_column": "text", "label_column": "kind"}


@pytest.mark.slow
@pytest.mark.parametrize(
    "split, others",
    [
        (
            {"heldout_fraction": 0.2, "heldout_seed": 7},
            [
                (
                    {"heldout_seed": 3},
                    "with heldout_seed = 7, not 3: it would be",
                ),
                ({"heldout_fraction": 0.3}, "heldout_fraction = 0.2, not 0.3"),
                (
                    {"group_column": "author"},
                    "group_column = its default, not author",
                ),
            ],
        ),
        nightly(
            {"num_folds": 3, "fold": 1, "group_column": "author"},
            [
                ({"fold": 2}, "fold = 1, not 2"),
                (
                    {"group_column": "kind", "num_folds": 2},
                    "num_folds = 3, not 2",
                ),
            ],
        ),
    ],
)
def test_the_rows_that_were_held_out_belong_to_the_run(
    split, others, encoder_dir, tmp_path
):
    """A command that scores alone draws no others; nothing is replaced."""
    out, table = tmp_path / "out", tmp_path / "all.csv"
    flags = classifier_runs.flags_for(encoder_dir, tmp_path, out)
    flags |= write_table(table) | split
    assert scripts.run(run_classifier, **flags | {"random_seed": 9}) == 0
    names = ("eval_results.txt", "errors.tsv", "bert_model.ckpt.index")
    wanted = {name: (out / name).read_bytes() for name in names}
    flags |= {"do_train": False}
    flags |= dict.fromkeys(("init_checkpoint", "heldout_seed"))
    # The table at another place, the model in another folder or of a sweep.
    moved = tmp_path / "moved.csv"
    shutil.copy(table, moved)
    sweep = tmp_path / "sweep"
    sweep.mkdir()
    (sweep / "sweep_results.txt").write_text("")
    sweeps.copy_best(str(out), str(sweep), ())
    again = [{}, {"train_file": moved}, {"output_dir": sweep}]
    again += [{"output_dir": tmp_path / "new", "init_checkpoint": sweep}]
    for more in again:
        place = tmp_path / more.get("output_dir", out)
        assert scripts.run(run_classifier, **flags | more) == 0
        for name in names[:2]:
            assert (place / name).read_bytes() == wanted[name], more
    shutil.copytree(out, tmp_path / "bare")
    (tmp_path / "bare" / "training_config.json").unlink()
    with moved.open("a") as file:
        file.write("\na good book,a good book,good,3")
    others += [
        ({"train_file": moved}, "was trained with other data: "),
        (
            {"text_a_column": "other"},
            "columns = {'text_a': 'text'}, not {'text_a': 'other'}",
        ),
        (
            {"output_dir": tmp_path / "bare"},
            "bare/bert_model.ckpt has no training_config.json",
        ),
        (
            {"init_checkpoint": tmp_path / "bare", "output_dir": sweep / "new"},
            f"{tmp_path}/bare/bert_model.ckpt has no training_config",
        ),
    ]
    # Nor is a model trained on that has learned the rows to score.
    further = {"do_train": True, "init_checkpoint": out}
    others += [(others[0][0] | further | {"output_dir": sweep / "new"}, "not ")]
    for more, message in others:
        for calibrate in (False, True):
            more |= {"calibrate": calibrate}
            line = scripts.error_of(run_classifier, **flags | more)
            assert message in line and "that it may have learned" in line
    for name, content in wanted.items():
        assert (out / name).read_bytes() == content
    assert not (sweep / "new").exists()


def test_one_table_is_enough(encoder_dir, tmp_path):
    """A part of it is scored, with the same rows after an interruption."""
    rows = classifier_runs.sentences(60, 1)
    lines = ["text;day;kind", *(f"{text};1,5;{kind}" for text, kind in rows)]
    (tmp_path / "all.csv").write_text("\r\n".join(lines), "utf-8-sig")
    out = tmp_path / "out"
    flags = classifier_runs.flags_for(encoder_dir, tmp_path, out)
    flags |= {"data_dir": None, "train_file": str(tmp_path / "all.csv")}
    flags["task_name"] = None  # a file of one's own says it
    flags |= {"text_a_column": "text", "label_column": "kind"}
    flags |= {"num_train_epochs": 1, "do_predict": True}
    flags |= {"test_file": flags["train_file"]}
    message = scripts.error_of(run_classifier, **flags)
    assert "no development file: hold out rows of the" in message
    flags["heldout_fraction"] = 0.2
    assert scripts.run(run_classifier, **flags) == 0
    held_out = read(out / "heldout.csv")
    assert len(held_out) == 12
    assert {(row["text"], row["kind"]) for row in held_out} < {*rows}
    # As the table that it is from, to be opened by the same program.
    data = (out / "heldout.csv").read_bytes()
    assert data.startswith(codecs.BOM_UTF8 + b"text;day;kind\n")
    assert {row["day"] for row in held_out} == {"1,5"}
    for row in tables.rows(str(out / "errors.tsv")):
        line = lines[int(row[1]["line"]) - 1]
        assert line == f"{row[1]['text_a']};1,5;{row[1]['truth']}"
    predicted = read(out / "test_results.csv")
    assert [row["text"] for row in predicted] == [text for text, _ in rows]
    shares = np.loadtxt(out / "test_results.tsv")
    for row, own in zip(predicted, shares, strict=True):
        assert row["label"] == ("bad", "good")[own.argmax()]
        assert float(row["probability"]) == pytest.approx(own.max(), abs=1e-6)
    before = (out / "heldout.csv").read_bytes()
    (out / "heldout.csv").unlink()
    assert scripts.run(run_classifier, **flags) == 0
    assert (out / "heldout.csv").read_bytes() == before
    message = scripts.error_of(run_classifier, **flags | {"heldout_seed": 3})
    assert "data = {'heldout_seed': 12345}, not {'heldout_seed': 3}" in message
    parsed = scripts.parse(run_classifier, **flags | {"num_restarts": 2})
    command = sweeps.from_flags(parsed, "s.py").command("seed12346", "x")
    assert {"--random_seed=12346", "--heldout_seed=12345"} < {*command}


@pytest.mark.nightly
def test_each_fold_is_scored_by_a_model_that_has_not_seen_it(tmp_path):
    """The runs of a sweep, one after the other in this process."""
    classifier_runs.write_data(tmp_path)
    (tmp_path / "dev.tsv").unlink()
    model = tiny.write_model(
        tmp_path / "model", classifier_runs.CONFIG, classifier_runs.VOCAB
    )
    flags = classifier_runs.flags_for(
        model, tmp_path, tmp_path / "out", num_train_epochs=0.1, num_folds=3
    )
    flags["num_errors"] = 1000
    parsed = scripts.parse(run_classifier, **flags)
    sweep = sweeps.from_flags(parsed, "s.py")
    names = list(sweep.runs)
    assert names == [f"fold{n}_seed12345" for n in (1, 2, 3)]
    wrong, counts = set(), []
    for run, values in sweep.runs.items():
        out = tmp_path / run
        assert "--num_folds=3" in sweep.command(run, str(out))
        assert f"--fold={values['fold']}" in sweep.command(run, str(out))
        own = {"output_dir": str(out), "records_dir": flags["output_dir"]}
        assert scripts.run(run_classifier, **flags | values | own) == 0
        lines = (out / "errors.tsv").read_text().splitlines()[1:]
        counts.append(len(lines))
        wrong |= set(lines)
        accuracy = tiny.results_of(out)["accuracy"]
        size = round(len(lines) / (1 - accuracy))
        assert size in (66, 67)
    assert len(wrong) == sum(counts)  # no example is in two parts
    results = {name: {"accuracy": 0.5} for name in names}
    assert "over 3 runs" in sweeps.table(results, "accuracy")[-1]
