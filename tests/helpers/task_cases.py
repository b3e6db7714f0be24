"""A row for every task: its data, its script, and what it has to give.

tests/test_tasks_contract.py asks the same of all of them. Predictions have the
form that batch_predict.py writes, whoever makes them.
"""

import dataclasses
import itertools
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import by_hand
import classifier_runs
import ner_runs
import numpy as np
import squad_runs
import swag_runs
import tensorflow as tf
import tiny

import modeling

Predictions = list[dict]


class TaskCase(NamedTuple):
    """A task with a small set of data.

    Attributes:
        name: of the case, for pytest -k.
        script: that fine-tunes it.
        write: writes data and a model into a folder; returns the flags that
            train, score and predict. The examples that are scored are also the
            ones to predict.
        inputs: the same examples as JSON lines for batch_predict.py.
        truths: what is right for each of them.
        predicted: (output_dir, model) -> what --do_predict has written.
        score: (truths, predictions) -> the scores that have to be in
            eval_results.txt, by hand.
        good: a name of these scores, and the least value of a model that has
            learned.
        by_hand: (model, input, prediction) -> what the model gives, by hand;
            None if the input is longer than a row.
        served: (SavedModel's signatures, inputs) -> its predictions.
        trivial: what a failed run is compared with.
        options: flags of whatever predicts with the checkpoint.
        head: the variable of the output layer.
    """

    name: str
    script: str
    write: Callable[[Path, Path], dict]
    inputs: list[dict]
    truths: list
    predicted: Callable[[Path, Path], Predictions]
    score: Callable[[list, Predictions], dict[str, float]]
    good: tuple[str, float]
    by_hand: Callable[[by_hand.Model, dict, dict], dict | None]
    served: Callable[..., Predictions]
    trivial: str
    options: dict = {}
    head: str = "output_weights"


BILSTM = {"bilstm_layers": 1, "bilstm_units": 6}


def _write_rows(path: Path, rows: Sequence[Sequence[str]]) -> None:
    path.write_text("".join("\t".join(row) + "\n" for row in rows))


# --- Classes and numbers -----------------------------------------------------

_SENTENCES = classifier_runs.sentences(50, 2)
_LENGTH = 24  # some sentences are cut


def _write_sentences(folder: Path, out: Path, **more) -> dict:
    flags = _write_tables(
        folder,
        out,
        ["sentence", "label"],
        classifier_runs.sentences(200, 1),
        _SENTENCES,
    )
    return flags | {"max_seq_length": _LENGTH, "long_texts": "tail"} | more


def _write_tables(
    folder: Path, out: Path, header, train, dev, **settings
) -> dict:
    """Write tables of which the last column is the label, and a model."""
    for name, rows in (("train", train), ("dev", dev)):
        _write_rows(folder / f"{name}.tsv", [header, *rows])
    _write_rows(folder / "test.tsv", [row[:-1] for row in (header, *dev)])
    config = dataclasses.replace(classifier_runs.CONFIG, **settings)
    model = tiny.write_model(folder / "model", config, classifier_runs.VOCAB)
    return classifier_runs.flags_for(model, folder, out)


def _pairs(count: int, seed: int) -> list[tuple[str, str, str]]:
    """Two texts; which of good and bad the second has is the class."""
    rng = np.random.default_rng(seed)
    rows = []
    for _ in range(count):
        texts = [
            rng.choice(classifier_runs.WORDS[2:], rng.integers(1, 15)).tolist()
            for _ in range(2)
        ]
        label = ("neither", "bad", "good")[rng.integers(3)]
        if label != "neither":
            texts[1].insert(rng.integers(len(texts[1]) + 1), label)
        rows.append((*map(" ".join, texts), label))
    return rows


_PAIRS = _pairs(50, 2)


def _write_pairs(folder: Path, out: Path) -> dict:
    flags = _write_tables(
        folder, out, ["a", "b", "label"], _pairs(200, 1), _PAIRS
    )
    flags |= {"text_a_column": "a", "text_b_column": "b"}
    return flags | {"learning_rate": 1e-2} | BILSTM


def _numbers(rows: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    return [(text, {"good": "1.5"}.get(label, "-0.5")) for text, label in rows]


def _write_numbers(folder: Path, out: Path) -> dict:
    """Write the data of a regression, and a left-to-right model for it."""
    flags = _write_tables(
        folder,
        out,
        ["sentence", "label"],
        _numbers(classifier_runs.sentences(240, 1)),
        _numbers(_SENTENCES),
        attention_direction=modeling.LEFT_TO_RIGHT,
    )
    return flags | _HEAD_TAIL | {"regression": True}


def _table(path: Path) -> np.ndarray:
    return np.loadtxt(path, ndmin=2)


def _labels_of(model: Path) -> list[str]:
    config = json.loads((model / "bert_config.json").read_text())
    return list(config["id2label"].values())


def _class(labels: Sequence[str], shares: Sequence[float]) -> dict:
    return {
        "label": labels[int(np.argmax(shares))],
        "score": float(max(shares)),
        "probabilities": dict(zip(labels, map(float, shares), strict=True)),
    }


def _check_table(out: Path, answers: Sequence) -> None:
    """Check that test.tsv has these answers."""
    lines = [f"{number}\t{answer}" for number, answer in enumerate(answers)]
    found = (out / "test.tsv").read_text().splitlines()
    assert found == ["index\tprediction", *lines]


def _predicted_classes(out: Path, model: Path) -> Predictions:
    labels = _labels_of(model)
    found = [_class(labels, row) for row in _table(out / "test_results.tsv")]
    _check_table(out, [one["label"] for one in found])
    return found


def _predicted_numbers(out: Path, _) -> Predictions:
    return [{"value": float(x)} for x in _table(out / "test_results.tsv")[:, 0]]


def _score_classes(truths: list, found: Predictions) -> dict[str, float]:
    scores = by_hand.classes(
        truths,
        [one["label"] for one in found],
        [
            one["probabilities"][truth]
            for one, truth in zip(found, truths, strict=True)
        ],
        [one["score"] for one in found],
    )
    accuracy, loss = scores["accuracy"], scores["loss"]
    return scores | {"eval_accuracy": accuracy, "eval_loss": loss}


def _score_numbers(truths: list, found: Predictions) -> dict[str, float]:
    return by_hand.numbers(truths, [one["value"] for one in found])


def _texts(given: dict) -> list[list[str]]:
    """Return the words of a text, or of two; some single ones are cut."""
    if "text" in given:
        return [given["text"].split()[2 - _LENGTH :]]
    return [given["text_a"].split(), given["text_b"].split()]


# Of texts with more than 12 words.
_HEAD_TAIL = {"long_texts": "head_tail", "max_seq_length": 14}


def _head_and_tail(given: dict) -> list[str]:
    """Return 3 and 9 words of a text with more than 12."""
    words = given["text"].split()
    return words if len(words) <= 12 else [*words[:3], *words[-9:]]


def _windows(words: list[str], size: int, stride: int, most: int) -> list:
    """Return parts of so many words of which each text has one at least."""
    found = [words[:size]]
    while len(found) < most and len(words) > (len(found) - 1) * stride + size:
        start = len(found) * stride
        found.append(words[start : start + size])
    return found


def _class_by_hand(model: by_hand.Model, given: dict, _) -> dict:
    shares = by_hand.softmax(model.logits(*_texts(given)))
    return _class(list(model.settings["id2label"].values()), shares)


def _number_by_hand(model: by_hand.Model, given: dict, _) -> dict:
    return {"value": float(model.logits(_head_and_tail(given))[0])}


def _strings(inputs: Sequence[dict]) -> dict[str, tf.Tensor]:
    """Return fields of JSON lines as tensors of strings."""
    return {
        name: tf.constant([given[name] for given in inputs])
        for name in inputs[0]
    }


def _rows_of(outputs: dict[str, tf.Tensor]) -> Predictions:
    """Return the outputs of a signature as a dictionary for each example."""
    arrays = {name: value.numpy() for name, value in outputs.items()}
    count = len(next(iter(arrays.values())))
    return [
        {
            name: value[number].decode()
            if isinstance(value[number], bytes)
            else value[number].tolist()
            for name, value in arrays.items()
        }
        for number in range(count)
    ]


def _served_classes(
    signatures, inputs: list[dict], labels: list
) -> Predictions:
    found = _served(signatures, inputs)
    for one in found:
        shares = one["probabilities"]
        one["probabilities"] = dict(zip(labels, shares, strict=True))
    return found


def _served(signatures, inputs: list[dict], *_) -> Predictions:
    return _rows_of(signatures["serving_default"](**_strings(inputs)))


# --- Any number of labels ----------------------------------------------------

_LABELS = ("bad", "film", "good")  # those of a text are its words


def _labeled(count: int, seed: int) -> list[tuple[str, str]]:
    rows = []
    for text, _ in classifier_runs.sentences(count, seed):
        words = text.split()[:6]
        labels = [name for name in _LABELS if name in words]
        rows.append((" ".join(words), ",".join(labels)))
    return rows


_LABELED = _labeled(60, 2)


def _write_labeled(folder: Path, out: Path) -> dict:
    flags = _write_tables(
        folder, out, ["sentence", "label"], _labeled(400, 1), _LABELED
    )
    flags |= {"max_seq_length": 6, "learning_rate": 1e-2, "doc_stride": 2}
    flags |= {"long_texts": "windows", "window_pooling": "max"}
    return flags | {"multi_label": True}


def _several(model: Path | dict, shares: Sequence[float]) -> dict:
    """Return the labels whose probability reaches their threshold."""
    if isinstance(model, Path):
        model = json.loads((model / "bert_config.json").read_text())
    names = list(model["id2label"].values())
    of_all = dict(zip(names, map(float, shares), strict=True))
    limits = dict(zip(names, model["thresholds"], strict=True))
    return {
        "labels": [n for n, share in of_all.items() if share >= limits[n]],
        "probabilities": of_all,
    }


def _predicted_labels(out: Path, model: Path) -> Predictions:
    found = [_several(model, row) for row in _table(out / "test_results.tsv")]
    _check_table(out, [",".join(one["labels"]) for one in found])
    return found


def _score_labels(truths: list, found: Predictions) -> dict[str, float]:
    return by_hand.several(
        truths,
        [one["labels"] for one in found],
        [one["probabilities"] for one in found],
    )


def _labels_by_hand(model: by_hand.Model, given: dict, _) -> dict:
    parts = _windows(given["text"].split(), 4, 2, 8)
    logits = np.max([model.logits(part) for part in parts], axis=0)
    return _several(model.settings, 1 / (1 + np.exp(-logits)))


def _served_labels(signatures, inputs: list[dict], labels: list) -> Predictions:
    found = _served_classes(signatures, inputs, labels)
    for one in found:
        one["labels"] = [name.decode() for name in one["labels"] if name]
    return found


# --- Questions ---------------------------------------------------------------

_LENGTHS = {"doc_stride": 12, "max_query_length": 8, "max_answer_length": 4}
_QUESTIONS = {
    version: squad_runs.squad(40, 2, impossible)["data"][0]["paragraphs"]
    for version, impossible in (("1", 0.0), ("2", 0.4))
}


def _write_questions(version: str, **more) -> Callable[[Path, Path], dict]:
    def write(folder: Path, out: Path) -> dict:
        squad_runs.write_data(folder)
        return squad_runs.flags_for(folder, out, version) | more

    return write


def _questions(version: str) -> tuple[list[dict], list[str]]:
    """Return questions with their contexts, and the answers."""
    rows = [(part["context"], part["qas"][0]) for part in _QUESTIONS[version]]
    return (
        [{"question": qa["question"], "context": c} for c, qa in rows],
        [qa["answers"][0]["text"] if qa["answers"] else "" for _, qa in rows],
    )


def likely(nbest: list[dict]) -> dict[str, list[float]]:
    """Return {answer: probability and score}; equally unlikely ones differ."""
    return {
        entry["text"]: [entry["probability"], entry["score"]]
        for entry in nbest
        if entry["probability"] > 1e-3
    }


def _predicted_answers(out: Path, _) -> Predictions:
    best = squad_runs.read(out / "predictions.json")
    nbest = squad_runs.read(out / "nbest_predictions.json")
    odds = {}
    if (out / "null_odds.json").exists():
        odds = squad_runs.read(out / "null_odds.json")
    assert list(best) == list(nbest)
    found = []
    for key, answer in best.items():
        listed = [
            entry | {"score": entry["start_logit"] + entry["end_logit"]}
            for entry in nbest[key]
        ]
        one = {"answer": answer, "nbest": likely(listed)}
        found.append(one | ({"null_odds": odds[key]} if odds else {}))
    return found


def _score_answers(truths: list, found: Predictions) -> dict[str, float]:
    scores = by_hand.answers(truths, [one["answer"] for one in found])
    if "null_odds" not in found[0]:
        return {"exact_match": scores["exact"], "f1": scores["f1"]}
    of_kind = {}
    for kind, is_empty in (("HasAns", False), ("NoAns", True)):
        pairs = [
            (truth, one["answer"])
            for truth, one in zip(truths, found, strict=True)
            if (truth == "") == is_empty
        ]
        for name, score in by_hand.answers(*zip(*pairs, strict=True)).items():
            of_kind[f"{kind}_{name}"] = score
    return scores | of_kind


def _answer_by_hand(model: by_hand.Model, given: dict, _) -> dict | None:
    """Return the best span of a context that fits into one window."""
    words = given["context"].split()
    question = ["how", "?"]
    if len(words) + len(question) + 3 > 32:
        return None
    logits = model.logits(question, [word.lower() for word in words])
    starts, ends = logits.T
    first = len(question) + 2
    score, start, end = max(
        (starts[first + i] + ends[first + j], i, j)
        for i in range(len(words))
        for j in range(i, min(i + 4, len(words)))
    )
    answer = {"answer": " ".join(words[start : end + 1])}
    if not model.settings["version_2_with_negative"]:
        return answer | {"score": score}
    return {"null_odds": starts[0] + ends[0] - score}


def _served_answers(signatures, inputs: list[dict], *_) -> Predictions:
    found = _served(signatures, inputs)
    for one, given in zip(found, inputs, strict=True):
        part = given["context"][one.pop("start") : one.pop("end")]
        assert part == one["answer"]
        one["answer"] = " ".join(part.split())
        if not part:
            del one["score"]
    return found


def _question_case(name: str, version: str, **more) -> TaskCase:
    inputs, truths = _questions(version)
    return TaskCase(
        name,
        "run_squad",
        _write_questions(version, **more),
        inputs,
        truths,
        _predicted_answers,
        _score_answers,
        ("f1", 85.0),
        _answer_by_hand,
        _served_answers,
        {"1": "and 0 with no answer to all", "2": "left without an answer"}[
            version
        ],
        _LENGTHS,
        "cls/squad/output_weights",
    )


# --- Entities ----------------------------------------------------------------

_TAGGED = ner_runs.sentences(40, 2)


def _in_iob2(tags: Sequence[str]) -> list[str]:
    """Return tags of IOB1, of which I- begins an entity too."""
    return [
        f"B{tag[1:]}" if tag[0] == "I" and before[1:] != tag[1:] else tag
        for before, tag in zip(["O", *tags], tags, strict=False)
    ]


def _write_tagged(**more) -> Callable[[Path, Path], dict]:
    def write(folder: Path, out: Path) -> dict:
        ner_runs.write_data(folder)
        model = tiny.write_model(
            folder / "model", ner_runs.CONFIG, ner_runs.VOCAB
        )
        flags = ner_runs.flags_for(model, folder, out) | more
        return flags | {"test_file": flags["dev_file"]}

    return write


def _predicted_tags(out: Path, _) -> Predictions:
    text = (out / "predictions.txt").read_text()
    parts = [part.split("\n") for part in text.strip().split("\n\n")]
    return [{"tags": [row.split(" ")[-1] for row in rows]} for rows in parts]


def _score_tags(truths: list, found: Predictions) -> dict[str, float]:
    return by_hand.tags(truths, [one["tags"] for one in found])


def _tags_by_hand(model: by_hand.Model, given: dict, _) -> dict | None:
    """Return the classes at the first pieces of words in one window."""
    pieces = model.pieces(given["tokens"])
    places = np.cumsum([1, *map(len, pieces)])
    if places[-1] + 1 > 32:
        return None
    shares = by_hand.softmax(model.logits(sum(pieces, [])))[places[:-1]]
    names = list(model.settings["id2label"].values())
    tags = [names[best] for best in shares.argmax(-1)]
    return {"tags": _in_iob2(tags), "scores": shares.max(-1).tolist()}


def _served_tags(signatures, inputs: list[dict], *_) -> Predictions:
    """Return tags of texts; words, each by itself, have to get the same."""
    texts = tf.constant([" ".join(given["tokens"]) for given in inputs])
    found = _rows_of(signatures["serving_default"](text=texts))
    width = max(len(given["tokens"]) for given in inputs)
    words = [g["tokens"] + [""] * (width - len(g["tokens"])) for g in inputs]
    of_words = _rows_of(signatures["words"](words=tf.constant(words)))
    for one, other, given in zip(found, of_words, inputs, strict=True):
        size = len(given["tokens"])
        assert [word.decode() for word in one.pop("words")[:size]] == (
            given["tokens"]
        )
        assert one["tags"] == other["tags"]
        assert set(one["tags"][size:]) <= {b""}
        np.testing.assert_allclose(one["scores"], other["scores"], atol=1e-5)
        one["tags"] = [tag.decode() for tag in one["tags"][:size]]
        one["scores"] = one["scores"][:size]
    return found


def _tagger_case(name: str, **more) -> TaskCase:
    return TaskCase(
        name,
        "run_ner",
        _write_tagged(**more),
        [{"tokens": [word for word, _ in row]} for row in _TAGGED],
        [_in_iob2([tag for _, tag in row]) for row in _TAGGED],
        _predicted_tags,
        _score_tags,
        ("f1", 0.9),
        _tags_by_hand,
        _served_tags,
        "f1 is 0, and 0 with the tag O for all",
    )


# --- Choices -----------------------------------------------------------------

_CHOICES = swag_runs.questions(40, 2)


def _write_choices(folder: Path, out: Path) -> dict:
    swag_runs.write_data(folder)
    rows = swag_runs.csv_lines(_CHOICES, has_labels=False)
    (folder / "test.csv").write_text(rows)
    model = tiny.write_model(
        folder / "model", swag_runs.CONFIG, swag_runs.VOCAB
    )
    return swag_runs.flags_for(model, folder, out)


def _choice(shares: Sequence[float]) -> dict:
    values = [float(share) for share in shares]
    return {"answer": int(np.argmax(values)), "probabilities": values}


def _predicted_choices(out: Path, _) -> Predictions:
    found = list(map(_choice, _table(out / "test_results.tsv")))
    _check_table(out, [one["answer"] for one in found])
    return found


def _score_choices(truths: list, found: Predictions) -> dict[str, float]:
    classes = [
        one | {"label": one["answer"], "score": max(one["probabilities"])}
        for one in found
    ]
    scores = _score_classes(truths, classes)
    del scores["macro_f1"]
    return scores


def _choice_by_hand(model: by_hand.Model, given: dict, _) -> dict:
    context = given["context"].split()
    scores = [
        model.logits(context, choice.split())[0] for choice in given["choices"]
    ]
    return _choice(by_hand.softmax(np.array(scores)))


# --- Vectors -----------------------------------------------------------------

_LIKE = list(itertools.pairwise(_SENTENCES[:31]))


def _write_like(folder: Path, out: Path) -> dict:
    """Write pairs of sentences, which score 5 if both are good, or bad."""
    train = list(itertools.pairwise(classifier_runs.sentences(321, 1)))
    for name, pairs in (("train", train), ("dev", _LIKE)):
        header = ["sentence1", "sentence2", "score"]
        rows = [[a, b, "5" if x == y else "0"] for (a, x), (b, y) in pairs]
        _write_rows(folder / f"{name}.tsv", [header, *rows])
    texts = [text for pair in _LIKE for text, _ in pair]
    (folder / "test.txt").write_text("\n".join(texts))
    model = tiny.write_model(
        folder / "model", classifier_runs.CONFIG, classifier_runs.VOCAB
    )
    flags = classifier_runs.flags_for(model, folder, out)
    del flags["task_name"], flags["data_dir"]
    files = {
        f"{name}_file": folder / f"{name}.{ending}"
        for name, ending in (("train", "tsv"), ("dev", "tsv"), ("test", "txt"))
    }
    return (
        flags
        | files
        | {"max_seq_length": 12, "max_score": 5}
        | {"long_texts": "windows", "doc_stride": 4, "max_windows": 3}
        | {"pooling": "mean", "normalize": True}
    )


def _predicted_vectors(out: Path, _) -> Predictions:
    lines = (out / "embeddings.jsonl").read_text().splitlines()
    return [{"embedding": json.loads(line)["embedding"]} for line in lines]


def _score_like(truths: list, found: Predictions) -> dict[str, float]:
    vectors = np.array([one["embedding"] for one in found])
    cosines = [float(a @ b) for a, b in vectors.reshape(len(truths), 2, -1)]
    return by_hand.numbers(truths, cosines)


def _vector_by_hand(model: by_hand.Model, given: dict, _) -> dict:
    parts = _windows(given["text"].split(), 10, 4, 3)
    vector = np.mean([model.states(part).mean(0) for part in parts], axis=0)
    return {"embedding": (vector / np.linalg.norm(vector)).tolist()}


# --- All ---------------------------------------------------------------------

_CLASSIFIER = TaskCase(
    "classifier",
    "run_classifier",
    _write_sentences,
    [{"text": text} for text, _ in _SENTENCES],
    [label for _, label in _SENTENCES],
    _predicted_classes,
    _score_classes,
    ("accuracy", 0.8),
    _class_by_hand,
    _served_classes,
    "with class",
)

CASES = [
    _CLASSIFIER,
    _CLASSIFIER._replace(
        name="pairs_bilstm",
        write=_write_pairs,
        inputs=[{"text_a": a, "text_b": b} for a, b, _ in _PAIRS],
        truths=[label for *_, label in _PAIRS],
        good=("accuracy", 0.9),
    ),
    _CLASSIFIER._replace(
        name="regression",
        write=_write_numbers,
        truths=[float(number) for _, number in _numbers(_SENTENCES)],
        predicted=_predicted_numbers,
        score=_score_numbers,
        good=("pearson", 0.7),
        by_hand=_number_by_hand,
        served=_served,
        trivial="and 0 with the same number for all",
    ),
    _CLASSIFIER._replace(
        name="multi_label",
        write=_write_labeled,
        inputs=[{"text": text} for text, _ in _LABELED],
        truths=[labels.split(",") if labels else [] for _, labels in _LABELED],
        predicted=_predicted_labels,
        score=_score_labels,
        good=("micro_f1", 0.85),
        by_hand=_labels_by_hand,
        served=_served_labels,
        trivial="with the same labels for all",
    ),
    _question_case("squad_1", "1"),
    _question_case(
        "squad_2_bilstm",
        "2",
        tune_null_threshold=True,
        bilstm_layers=2,
        bilstm_units=6,
    ),
    _tagger_case("ner"),
    # A new BiLSTM learns less in these few steps.
    _tagger_case("ner_bilstm", **BILSTM)._replace(good=("f1", 0.2)),
    TaskCase(
        "swag",
        "run_swag",
        _write_choices,
        [
            {"context": context, "choices": [f"he {e}" for e in endings]}
            for context, endings, _ in _CHOICES
        ],
        [label for _, _, label in _CHOICES],
        _predicted_choices,
        _score_choices,
        ("accuracy", 0.9),
        _choice_by_hand,
        _served,
        "with choice",
    ),
    TaskCase(
        "embeddings",
        "run_embeddings",
        _write_like,
        [{"text": text} for pair in _LIKE for text, _ in pair],
        [float(x == y) for (_, x), (_, y) in _LIKE],
        _predicted_vectors,
        _score_like,
        ("spearman", 0.7),
        _vector_by_hand,
        _served,
        "and 0 with the same number for all",
        head="bert/embeddings/word_embeddings",
    ),
]
