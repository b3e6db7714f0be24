"""conlleval's rules, by hand: what the scorer of CoNLL 2003 makes of a file.

It reads the last two columns, the right and the predicted tag. Every line that
is not blank counts as a word, unless its first column is -X-, and has to have
as many columns as the first one. Columns are separated by single spaces, or by
the delimiter of -d.
"""

BOUNDARY = "-X-"


def report(text: str, delimiter: str = " ") -> dict[str, float]:
    """Return tokens, phrases, found, correct, and the scores in percent.

    Raises:
        ValueError: conlleval would refuse the file.
    """
    width, rows = 0, []
    for line in text.split("\n"):
        cells = line.split(delimiter)
        while cells and not cells[-1]:  # as Perl's split
            del cells[-1]
        if not cells or cells[0] == BOUNDARY:
            rows.append((BOUNDARY, "O", "O"))
            continue
        width = width or len(cells)
        if len(cells) != width or width < 2:
            raise ValueError(f"{line!r} has {len(cells)} columns, not {width}")
        word = cells[0] if width > 2 else ""
        rows.append((word, *cells[-2:]))
    gold, found = (_phrases([row[column] for row in rows]) for column in (1, 2))
    words = [(a, b) for word, a, b in rows if word != BOUNDARY]
    correct = len(gold & found)
    precision = 100 * correct / len(found) if found else 0.0
    recall = 100 * correct / len(gold) if gold else 0.0
    both = precision + recall
    return {
        "tokens": len(words),
        "phrases": len(gold),
        "found": len(found),
        "correct": correct,
        "accuracy": 100 * sum(a == b for a, b in words) / len(words),
        "precision": precision,
        "recall": recall,
        "f1": 2 * precision * recall / both if both else 0.0,
    }


def _phrases(tags: list[str]) -> set[tuple[int, int, str]]:
    """Return first and last place and type of the phrases of tags.

    The places B, I, E and O are known, and others are inside of a phrase.
    """
    found, first = set(), None
    before, its_type = "O", ""
    for at, tag in enumerate([*tags, "O"]):
        place, _, kind = tag.partition("-")
        is_other = kind != its_type
        ends = before != "O" and (
            is_other
            or (before in "BI" and place in "BO")
            or (before == "E" and place in "EIO")
        )
        begins = place != "O" and (
            is_other or place == "B" or (before in "OE" and place in "EI")
        )
        if ends and first is not None:
            found.add((first, at - 1, its_type))
            first = None
        if begins:
            first = at
        before, its_type = place, kind
    return found
