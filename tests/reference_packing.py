"""A second, slow best-fit decreasing, which looks at every open row."""

from collections.abc import Sequence


def assign_rows(
    lengths: Sequence[int],
    predictions: Sequence[int],
    max_seq_length: int,
    predictions_per_row: int,
    max_sequences: int,
) -> list[int]:
    """Return the row of each sequence; arguments as in packing.py.

    Of the rows with equally little room, the one that came to this room last
    is looked at; if it has too few places, rows with more room follow.
    """
    rows: list[dict] = []  # in the order in which they were begun
    assigned = [0] * len(lengths)
    clock = 0
    for index in sorted(range(len(lengths)), key=lambda i: -lengths[i]):
        latest: dict[int, dict] = {}  # room -> the row last changed
        for row in sorted(rows, key=lambda row: row["changed"]):
            if row["count"] < max_sequences:
                latest[max_seq_length - row["tokens"]] = row
        fitting = [
            row
            for room, row in sorted(latest.items())
            if room >= lengths[index]
            and row["places"] + predictions[index] <= predictions_per_row
        ]
        if not fitting:
            rows.append(
                {"tokens": 0, "places": 0, "count": 0, "number": len(rows)}
            )
            fitting = rows[-1:]
        row, clock = fitting[0], clock + 1
        row["tokens"] += lengths[index]
        row["places"] += predictions[index]
        row["count"] += 1
        row["changed"] = clock
        assigned[index] = row["number"]
    return assigned
