"""classifier/task_files.py: the table of tasks, and tasks by name."""

from base.errors import UserError

import pytest

from tasks.classifier import scores as classifier_scores
from tasks.classifier import task_files


def test_every_task_is_complete_and_its_scores_exist():
    assert set(task_files.TASK_NAMES) == {
        *("cola", "sst-2", "mrpc", "sts-b", "qqp", "mnli", "qnli", "rte"),
        *("wnli", "ax", "xnli", "tsv"),
    }
    for name, task in task_files.TASKS.items():
        assert (task.labels is None) == (name == "sts-b")
        assert "0" not in (task.names or ())
        assert task.test
        for metric in task.metrics:
            assert classifier_scores.score(metric, [0, 1, 1], [0, 1, 1]) == 1
        assert (not task.train) == (name == "ax")
        for split in task.test.values():
            assert split.columns.label is None
    assert list(task_files.TASKS["mnli"].dev) == [
        "dev_matched",
        "dev_mismatched",
    ]


def test_a_task_is_found_by_its_name_in_any_case():
    assert task_files.find("MRPC").metrics == ("accuracy", "f1")
    assert task_files.find("SST-2") is task_files.TASKS["sst-2"]


def test_the_error_of_an_unknown_name_lists_the_known_ones():
    with pytest.raises(UserError, match="unknown.*; choose from cola"):
        task_files.find("snli")


def test_labels_take_the_order_of_a_model(caplog):
    task = task_files.TASKS["mrpc"]
    names = ("not_equivalent", "equivalent")
    for order in (1, -1):
        for labels in (task.labels, names):
            found = task_files.with_labels_of(task, labels[::order], "model")
            assert found.labels == task.labels[::order]
            assert found.names == names[::order]
            assert found.labels[found.positive_id] == "1"
    assert "model does not name" not in caplog.text
    for labels in (None, ("LABEL_0", "LABEL_1")):
        caplog.clear()
        assert task_files.with_labels_of(task, labels, "model") == task
        assert "model does not name its labels (id2label)" in caplog.text
    numbers = task_files.TASKS["sts-b"]
    for labels in (None, ("LABEL_0",)):
        found = task_files.with_labels_of(numbers, labels, "model")
        assert found == numbers


def test_names_for_classes_that_are_numbers_keep_their_order(caplog):
    """Models of MRPC on the hub have them."""
    task = task_files.TASKS["mrpc"]
    labels = ("different", "same")
    assert task_files.with_labels_of(task, labels, "model") == task
    assert "names its classes different, same" in caplog.text


@pytest.mark.parametrize(
    "labels", [("no", "1"), ("0",), ("0", "1", "2"), ("a", "b", "c")]
)
def test_a_model_of_other_labels_does_not_fit(labels):
    with pytest.raises(UserError, match="the labels 0, 1, but model was fine"):
        task = task_files.TASKS["mrpc"]
        task_files.with_labels_of(task, labels, "model")


@pytest.mark.parametrize("name, is_pair", [("cola", False), ("ax", True)])
def test_a_model_reads_what_the_task_has(name, is_pair):
    task = task_files.TASKS[name]
    task_files.check_pairs(task, is_pair, "model")
    with pytest.raises(UserError, match="but model was fine-tuned on"):
        task_files.check_pairs(task, not is_pair, "model")
