"""The tasks of the tables: which data they need."""

from reproduction import tasks
from reproduction.tasks import Data


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
