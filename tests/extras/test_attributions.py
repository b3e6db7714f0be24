"""classifier/attributions.py and the words that its numbers are for."""

import types

import numpy as np
import pytest
import tensorflow as tf
import tiny
from task_settings import settings_of

from extras import attributions
from tasks import registry
from tasks.rows import Row, pad
from tasks.task import Input, Place

VOCAB = [*tiny.SPECIAL, "un", "##aff", "##able", "film", "is", "##n", "'", "t"]


def task_of(folder, name="classifier", labels=("no", "yes"), **more):
    (folder / "vocab.txt").write_text("\n".join(VOCAB) + "\n")
    vocab_file = folder / "vocab.txt"
    more["max_seq_length"] = 12
    return registry.create_task(settings_of(name, vocab_file, labels, **more))


def explained(task, function, vectors, *texts) -> tuple[dict, dict]:
    """Return outputs and prediction of function([B, S, H]) -> logits."""

    def logits(features) -> tf.Tensor:
        words = features.get("word_vectors")
        if words is None:
            words = tf.gather(vectors, features["input_ids"])
        mask = tf.cast(features["input_mask"], tf.float32)
        return function(words * mask[..., None])

    def run(features) -> dict[str, np.ndarray]:
        found = logits({n: tf.constant(v) for n, v in features.items()})
        if task.labels is None:
            return {"value": found[:, 0].numpy()}
        squash = tf.nn.softmax if task.name == "classifier" else tf.sigmoid
        return {"probabilities": squash(found).numpy()}

    layers = types.SimpleNamespace(word_embeddings=vectors)
    logits.bert = types.SimpleNamespace(embeddings=layers)
    graph = types.SimpleNamespace(model=logits, task=task)
    model = attributions.explaining(graph, run)
    named = dict(zip(task.text_names, texts, strict=True))
    encoded = task.encode([Input(1, Place("x", 1), named)])
    (row,) = encoded.units[0]
    # Beside another row, which has padding.
    batch = pad([Row(row.input_ids[:3], row.segment_ids[:3]), row], len(row[0]))
    outputs = {name: values[1] for name, values in model(batch).items()}
    task = attributions.explaining_task(task)
    found = task.decode(encoded, [outputs])
    return outputs, next(found)


@pytest.fixture
def vectors() -> np.ndarray:
    rng = np.random.default_rng(1)
    return rng.normal(size=[len(VOCAB), 5]).astype(np.float32)


TASKS = [
    ("classifier", ("no", "yes")),
    ("multi_label_classification", ("no", "yes")),
    ("classifier", None),
]


@pytest.mark.parametrize("name, labels", TASKS, ids=str)
def test_those_of_a_linear_model_are_exact(tmp_path, vectors, name, labels):
    """(e - [PAD]) w for each word, and 0 for [CLS] and [SEP]."""
    task = task_of(tmp_path, name, labels)
    weights = np.random.default_rng(2).normal(size=[5, len(labels or "1")])
    weights = weights.astype(np.float32)
    outputs, found = explained(
        task,
        lambda x: tf.reduce_sum(x @ weights, 1) + 0.5,
        vectors,
        "Film is unaffable",
    )
    best = outputs.get("probabilities", np.zeros(1)).argmax()
    own = weights[:, best]
    if name == "classifier" and labels:
        own = own - weights[:, 1 - best]  # log odds of two classes
    wanted = (vectors - vectors[0]) @ own
    ids = [VOCAB.index(t) for t in ("film", "is", "un", "##aff", "##able")]
    np.testing.assert_allclose(
        outputs["attributions"], [0, *wanted[ids], 0], atol=1e-5
    )
    listed = found["attributions"]
    assert [word for word, _ in listed["text"]] == ["Film", "is", "unaffable"]
    adds = [value for _, value in listed["text"]]
    pieces = wanted[ids]
    assert adds == pytest.approx(
        [pieces[0], pieces[1], pieces[2:].sum()], abs=1e-5
    )
    assert sum(adds) == pytest.approx(listed["value"] - listed["baseline"])
    assert listed.get("label") == (labels and labels[best])


def test_more_points_are_taken_where_32_do_not_do(
    tmp_path, vectors, monkeypatch
):
    """And what they miss is said where they are not allowed."""
    task = task_of(tmp_path, labels=None)
    ends = [vectors[[2, i, i, 3]].sum() for i in (0, VOCAB.index("film"))]
    middle = np.float32(0.3 * ends[0] + 0.7 * ends[1])

    def steep(x: tf.Tensor) -> tf.Tensor:
        return tf.sigmoid(50 * (tf.reduce_sum(x, [1, 2])[:, None] - middle))

    _, found = explained(task, steep, vectors, "film film")
    assert "gap" not in found["attributions"]
    monkeypatch.setattr(attributions, "_MOST_STEPS", 32)
    _, found = explained(task, steep, vectors, "film film")
    own = found["attributions"]
    difference = own["value"] - own["baseline"]
    missed = abs(sum(adds for _, adds in own["text"]) - difference)
    assert own["gap"] == pytest.approx(missed / abs(difference), rel=1e-3)
    assert own["gap"] > attributions.TOLERANCE


def test_words_of_pairs_and_of_texts_that_are_cut(tmp_path, vectors):
    """A word that is cut has the attribution of the pieces that are read.

    [CLS] is ##n ' t film [SEP] film film un ##aff [SEP]: 12 tokens.
    """
    task = task_of(tmp_path, sentence_pairs=True)
    outputs, found = explained(
        task,
        lambda x: tf.reduce_sum(x, 1)[:, :2],
        vectors,
        "isn't film",
        "film film unaffable film",
    )
    adds = outputs["attributions"]
    parts = {
        "text_a": {"isn't": adds[1:5], "film": adds[5:6]},
        "text_b": {"film": adds[7:8], "unaffable": adds[9:11]},
    }
    for name, words in parts.items():
        for word, pieces in words.items():
            own = dict(found["attributions"][name])[word]
            assert own == pytest.approx(pieces.sum(), rel=1e-5)
    listed = [word for word, _ in found["attributions"]["text_b"]]
    assert listed == ["film", "film", "unaffable"]
