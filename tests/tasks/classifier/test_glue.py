"""classifier/glue.py: the table of tasks, and tasks by name."""

from base.errors import UserError

import pytest

from tasks.classifier import glue
from tasks.classifier import scores as classifier_scores


def test_every_task_is_complete_and_its_scores_exist():
    assert set(glue.TASK_NAMES) == {
        *("cola", "sst-2", "mrpc", "sts-b", "qqp", "mnli", "qnli", "rte"),
        *("wnli", "ax", "xnli", "tsv"),
    }
    for name, task in glue.TASKS.items():
        assert (task.labels is None) == (name == "sts-b")
        assert "0" not in (task.names or ())
        assert task.test
        for metric in task.metrics:
            assert classifier_scores.score(metric, [0, 1, 1], [0, 1, 1]) == 1
        assert (not task.train) == (name == "ax")
        for split in task.test.values():
            assert split.columns.label is None
    assert list(glue.TASKS["mnli"].dev) == ["dev_matched", "dev_mismatched"]


def test_a_task_is_found_by_its_name_in_any_case_or_an_alias():
    assert glue.find("MRPC").metrics == ("accuracy", "f1")
    assert glue.find("SST2") is glue.TASKS["sst-2"]


def test_the_error_of_an_unknown_name_lists_the_known_ones():
    with pytest.raises(UserError, match="unknown.*; choose from cola"):
        glue.find("snli")


def test_labels_take_the_order_of_a_model(caplog):
    task = glue.TASKS["mrpc"]
    names = ("not_equivalent", "equivalent")
    for order in (1, -1):
        for labels in (task.labels, names):
            found = glue.with_labels_of(task, labels[::order], "model")
            assert found.labels == task.labels[::order]
            assert found.names == names[::order]
            assert found.labels[found.positive_id] == "1"
    assert "model does not name" not in caplog.text
    for labels in (None, ("LABEL_0", "LABEL_1")):
        caplog.clear()
        assert glue.with_labels_of(task, labels, "model") == task
        assert "model does not name its labels (id2label)" in caplog.text
    numbers = glue.TASKS["sts-b"]
    for labels in (None, ("LABEL_0",)):
        found = glue.with_labels_of(numbers, labels, "model")
        assert found == numbers


def test_names_for_classes_that_are_numbers_keep_their_order(caplog):
    """Models of MRPC on the hub have them."""
    task = glue.TASKS["mrpc"]
    labels = ("different", "same")
    assert glue.with_labels_of(task, labels, "model") == task
    assert "names its classes different, same" in caplog.text


@pytest.mark.parametrize(
    "labels", [("no", "1"), ("0",), ("0", "1", "2"), ("a", "b", "c")]
)
def test_a_model_of_other_labels_does_not_fit(labels):
    with pytest.raises(UserError, match="the labels 0, 1, but model was fine"):
        task = glue.TASKS["mrpc"]
        glue.with_labels_of(task, labels, "model")


@pytest.mark.parametrize("name, is_pair", [("cola", False), ("ax", True)])
def test_a_model_reads_what_the_task_has(name, is_pair):
    task = glue.TASKS[name]
    glue.check_pairs(task, is_pair, "model")
    with pytest.raises(UserError, match="but model was fine-tuned on"):
        glue.check_pairs(task, not is_pair, "model")
