"""Entity-level scores by conlleval's rules, and the lines of predictions.

conlleval, the scorer of the CoNLL 2003 shared task, counts an entity as found
if its type, its first and its last word are right:

    right        B-PER I-PER  O  B-LOC
    predicted    B-PER I-PER  O  O

has precision 1 of 1, recall 1 of 2 and F1 2/3. Half an entity counts nothing.
Accuracy counts words instead, 3 of 4 here.
"""

import itertools
import json
from collections.abc import Sequence

from tasks.ner.data import DOCUMENT_START, File, cells_of, normalized_tags


def entity_scores(
    gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]
) -> dict[str, float]:
    """Return precision, recall and f1 of all entities and of each type.

    The keys of type X are X_precision, X_recall and X_f1. `accuracy` is that of
    words. A score without anything to count is 0, as in conlleval. By its rule
    a predicted I- that continues no entity of its type begins one.
    """
    # It takes a second to import, which only runs that score need to spend.
    from seqscore import scoring

    entities, words = scoring.score_label_sequences(
        predicted, gold, "BIO", repair="conlleval"
    )
    parts = {"": entities} | {
        f"{name}_": found for name, found in entities.type_scores.items()
    }
    scores = {
        prefix + name: float(getattr(found, name))
        for prefix, found in parts.items()
        for name in ("precision", "recall", "f1")
    }
    return scores | {"accuracy": float(words.accuracy)}


def by_sentence(file: File, values: Sequence) -> list[list]:
    """Return the values of all words of a file as a part per sentence."""
    each, sizes = iter(values), (len(s.words) for s in file.sentences)
    return [list(itertools.islice(each, size)) for size in sizes]


# --- Predictions -------------------------------------------------------------


def prediction_lines(
    file: File, predicted: Sequence[Sequence[str]]
) -> list[str]:
    """Return the lines of a file with the predicted tags added.

    Of a column file with tags, these become the last column but one, in IOB2
    as the predicted ones. conlleval counts each line that is not blank as a
    word: the line that begins a document becomes blank, and comments and other
    rows of no words are left out. All lines of a file without tags stay.

    In JSONL the predicted tags become `predicted_tags`, in place of an earlier
    value, and `tags` are in IOB2, too.
    """
    pairs = list(zip(file.sentences, predicted, strict=True))
    if not file.separator:
        tags_at = {s.lines[0]: tags for s, tags in pairs}
        return [
            _with_tags(line, tags_at.get(number, []))
            for number, line in enumerate(file.lines, 1)
        ]
    rows: dict[int, str] = {}
    for sentence, tags in pairs:
        cells = [
            cells_of(file.lines[number - 1], file.separator)
            for number in sentence.lines
        ]
        if file.label is not None:
            gold = normalized_tags([row.pop(file.label) for row in cells])
            for row, tag in zip(cells, gold, strict=True):
                row.append(tag)
        for number, row, tag in zip(sentence.lines, cells, tags, strict=True):
            rows[number] = file.separator.join([*row, tag])
    lines = []
    for number, line in enumerate(file.lines, 1):
        if number in rows or file.label is None:
            lines.append(rows.get(number, line))
        elif not line.strip() or DOCUMENT_START in line.split():
            lines.append("")
    return lines


def _with_tags(line: str, tags: Sequence[str]) -> str:
    """Return a JSON object with `predicted_tags` added, as text.

    The text of the other keys stays as it is (1.50 does not become 1.5),
    unless the object has predicted tags already, or tags that are not in IOB2:
    a key may not occur twice.
    """
    if not line.strip():
        return line
    added = {"predicted_tags": tags}
    value = json.loads(line)
    gold = value.get("tags") or []
    if gold != (fixed := normalized_tags(gold)):
        added = {"tags": fixed} | added
    if value.keys() & added.keys():
        return json.dumps(value | added)
    opened = line.rstrip().removesuffix("}")
    return f"{opened}, {json.dumps(added)[1:]}"
