"""The tasks of the tables: which data they need."""

from tools.reproduction import tasks
from tools.reproduction.tasks import Data


def make_mnli(tmp_path, *names, num_examples=12):
    """Write files of MNLI; return the data."""
    folder = tmp_path / "MNLI"
    folder.mkdir()
    for name in names:
        lines = [
            "sentence1\tsentence2\tgold_label",
            *["a\tb\tc"] * num_examples,
        ]
        (folder / name).write_text("\n".join(lines) + "\n")
    return Data(glue_dir=str(tmp_path))


def test_mnli_needs_both_of_its_development_sets(tmp_path):
    data = make_mnli(tmp_path, "train.tsv", "dev_matched.tsv")
    found = tasks.missing("MNLI", data)
    assert found == f"no {tmp_path / 'MNLI' / 'dev_mismatched.tsv'}"
    (tmp_path / "MNLI" / "dev_mismatched.tsv").touch()
    assert tasks.missing("MNLI", data) is None


def test_a_header_is_no_example_and_cola_has_none(tmp_path):
    path = tmp_path / "train.tsv"
    path.write_text("a\tb\n" * 5 + "\n")
    assert tasks.count_rows("MNLI", str(path)) == 4
    assert tasks.count_rows("CoLA", str(path)) == 5
    assert tasks.count_rows("MNLI", str(path), 3) == 3


def test_a_sample_of_a_task_is_left_out(tmp_path):
    names = ("train.tsv", "dev_matched.tsv", "dev_mismatched.tsv")
    data = make_mnli(tmp_path, *names, num_examples=9)
    assert tasks.missing("MNLI", data).endswith("train.tsv has 9 examples")
