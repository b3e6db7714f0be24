"""Entity-level scores by conlleval's rules, and prediction files.

An entity counts where its type, its first and its last word are right.
"""

import json
from collections.abc import Callable, Sequence

from base.errors import UserError

import numpy as np

from classifier.scores import log_softmax
from ner.data import File, class_ids


def load_scorer() -> Callable:
    """Return the library's function; also called before hours of training.

    Raises:
        UserError: seqscore is missing.
    """
    try:
        from seqscore.scoring import score_label_sequences
    except ImportError as error:
        raise UserError(
            f"{error.name} is missing: pip install 'seqscore>=0.9,<0.10'"
        ) from error
    return score_label_sequences


def entity_scores(
    gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]
) -> dict[str, float]:
    """Return precision, recall and f1, over all and of each type; accuracy.

    A score without anything to count is 0, as conlleval's.

    Args:
        gold: the tags of each sentence.
        predicted: the same; an I- that continues nothing begins an entity.
    """
    score = load_scorer()
    entities, words = score(predicted, gold, "BIO", repair="conlleval")
    parts = {"": entities} | {
        f"{name}_": found for name, found in entities.type_scores.items()
    }
    scores = {
        prefix + name: float(getattr(found, name))
        for prefix, found in parts.items()
        for name in ("precision", "recall", "f1")
    }
    return scores | {"accuracy": float(words.accuracy)}


def mean_loss(logits: np.ndarray, file: File, labels: Sequence[str]) -> float:
    """Return the mean cross entropy of the words of a file.

    Args:
        logits: [words, K].
        file: with tags.
        labels: names of the K classes.
    """
    ids = class_ids(labels)
    right = [ids[tag] for s in file.sentences for tag in s.tags]
    return float(-log_softmax(logits)[np.arange(len(right)), right].mean())


def by_sentence(file: File, tags: Sequence[str]) -> list[list[str]]:
    """Return the tags of all words, cut into those of each sentence."""
    ends = np.cumsum([len(sentence.words) for sentence in file.sentences])
    starts = [0, *ends[:-1]]
    return [list(tags[a:b]) for a, b in zip(starts, ends.tolist(), strict=True)]


def prediction_lines(
    file: File, predicted: Sequence[Sequence[str]]
) -> list[str]:
    """Return the lines of a file with a column of predictions appended.

    Blank lines stay; the first line of a document gets an O. In JSONL the
    tags become `predicted_tags`, in place of those that are there.

    Args:
        file: as it was read.
        predicted: the tags of each sentence.
    """
    pairs = list(zip(file.sentences, predicted, strict=True))
    if not file.separator:
        tags_at = {s.lines[0]: tags for s, tags in pairs}
        return [
            _with_tags(line, tags_at.get(number, []))
            for number, line in enumerate(file.lines, 1)
        ]
    tag_at = {
        number: tag
        for sentence, tags in pairs
        for number, tag in zip(sentence.lines, tags, strict=True)
    }
    return [
        line.rstrip(" ") + file.separator + tag_at.get(number, "O")
        if line.strip(" \t")
        else line
        for number, line in enumerate(file.lines, 1)
    ]


def _with_tags(line: str, tags: Sequence[str]) -> str:
    """Append to a JSON object, whose own text stays as it is.

    Unless it was predicted for before: no key may stand there twice.
    """
    if not line.strip():
        return line
    added = {"predicted_tags": tags}
    value = json.loads(line)
    if value.keys() & added.keys():
        return json.dumps(value | added)
    opened = line.rstrip().removesuffix("}")
    return f"{opened}, {json.dumps(added)[1:]}"
