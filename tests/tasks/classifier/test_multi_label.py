"""Thresholds by brute force; labels in cells of a table."""

import numpy as np
import pytest

from tasks.classifier import job as classifier_job
from tasks.classifier import scores as classifier_scores
from tasks.classifier import task_files
from tasks.classifier.task import joined


def test_no_other_threshold_has_a_better_f1():
    rng = np.random.default_rng(1)
    labels = (rng.random((60, 4)) < [0.1, 0.5, 0.9, 0]).astype(int)
    probs = np.clip(labels * 0.3 + rng.random((60, 4)) * 0.7, 0, 1).round(2)
    found = classifier_job.best_thresholds(labels, probs)
    for number in range(3):
        right, shares = labels[:, number], probs[:, number]

        def f1(limit, right=right, shares=shares):
            hits = (shares >= limit) @ right
            return 2 * hits / ((shares >= limit).sum() + right.sum())

        best = max(map(f1, np.linspace(0, 1, 1001)))
        assert f1(found[number]) == pytest.approx(best)
        # No probability is so near that rounding would change a prediction.
        assert np.abs(shares - found[number]).min() > 1e-3
    assert found[3] == 0.5  # no example has this label


def test_a_label_without_examples_counts_in_macro_f1_alone():
    labels = np.array([[1, 0], [0, 0]])
    probs = np.array([[0.9, 0.2], [0.4, 0.1]])
    logits = np.log(probs / (1 - probs))
    found = classifier_scores.label_scores(logits, labels, probs >= 0.5)
    assert found["micro_f1"] == found["accuracy"] == 1.0
    assert found["macro_f1"] == 0.5
    assert found["mean_average_precision"] == 1.0
    loss = -np.log([0.9, 0.6, 0.8, 0.9]).mean()
    assert found["loss"] == pytest.approx(loss)


@pytest.mark.parametrize(
    ("cell", "labels"),
    [
        ("", ()),
        ("a", ("a",)),
        (" a , b,", ("a", "b")),
        ('["a, b", "c"]', ("a, b", "c")),
        ("[]", ()),
    ],
)
def test_labels_of_a_cell(cell, labels):
    assert task_files.split_labels(cell) == labels


@pytest.mark.parametrize("labels", [(), ("a", "b c"), ("a, b", "\u00fc")])
def test_labels_that_are_written_are_read_again(labels):
    assert task_files.split_labels(joined(labels)) == labels
