"""classifier/tasks.py: the table of tasks, and tasks by name."""

from base.errors import UserError

import pytest

from classifier import scores as classifier_scores
from classifier import tasks as classifier_tasks


def test_every_task_is_complete_and_its_scores_exist():
    assert set(classifier_tasks.TASK_NAMES) == {
        *("cola", "sst-2", "mrpc", "sts-b", "qqp", "mnli", "qnli", "rte"),
        *("wnli", "ax", "xnli", "tsv"),
    }
    for name, task in classifier_tasks.TASKS.items():
        assert (task.labels is None) == (name == "sts-b")
        assert task.test and set(task.metrics) <= set(classifier_scores.NAMES)
        assert (not task.train) == (name == "ax")
        for split in task.test.values():
            assert split.columns.label is None
    assert list(classifier_tasks.TASKS["mnli"].dev) == [
        "dev_matched",
        "dev_mismatched",
    ]


def test_a_task_is_found_by_its_name_in_any_case_or_an_alias():
    assert classifier_tasks.task_of("MRPC").metrics == ("accuracy", "f1")
    assert classifier_tasks.task_of("SST2") is classifier_tasks.TASKS["sst-2"]


def test_the_error_of_an_unknown_name_lists_the_known_ones():
    with pytest.raises(UserError, match="unknown; choose from cola"):
        classifier_tasks.task_of("snli")
