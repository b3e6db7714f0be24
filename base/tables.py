"""Read rows of tables (.tsv, .csv), JSON lines (.jsonl) and lines (.txt).

A .csv file may be one of Excel's: with semicolons or tabs, and in UTF-16.

A row is a dictionary by the names of its columns or keys, whatever kind of file
it is from:

    for at, row in tables.rows("train.csv", ["text"]):
        text = tables.require(row, "text", str, at)

`at` is its place, "train.csv, line 3", with which errors begin.
"""

import collections
import contextlib
import csv
import decimal
import io
import itertools
import json
import os
import re
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from base import file_system, logs, text_files
from base.errors import UserError, counted

Row = dict[str | int, Any]

# Endings of tables.
TABLES = (".csv", ".tsv")

_HEAD = 1 << 16  # bytes that hold the header of a table

_FIRST_ROWS = 100  # from which the separator of a .csv follows

_SHOWN = 5  # rows that a warning names

_LONGEST_NAME = 80  # characters of a column's name that an error shows

# A name of a column with more words than this may be a text.
_MOST_WORDS = 4

# What may be wrong with a table whose first line has texts.
_NO_HEADER = " (is the header missing? Line 1 has to name the columns)"

# Characters without a width, which a label may have from a web page.
_INVISIBLE = dict.fromkeys(map(ord, "\u200b\u2060\ufeff"))

# How to mend a .tsv with quotes, such as one with line ends in a text.
_CSV = "; if its texts are in quotes, rename the file to .csv"

# Types of JSON in words.
_WORDS = {
    str: "a string",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    list: "a list",
    dict: "an object",
}


def find_one_file(data_dir: str, names: Sequence[str]) -> str | None:
    """Return the one of these files that data_dir has; None if it has none.

    Raises:
        UserError: it has several.
    """
    held = [n for n in names if file_system.exists(os.path.join(data_dir, n))]
    # Not simply the first: a forgotten train.csv would replace train.jsonl.
    if len(held) > 1:
        raise UserError(
            f"--data_dir={data_dir} holds {' and '.join(held)}: found "
            f"{len(held)} files, wanted one; remove the others"
        )
    return held[0] if held else None


def rows(
    path: str,
    columns: Collection[str | int] | None = (),
    hint: str = "",
    has_header: bool = True,
    damaged: list[str] | None = None,
    whole: bool = False,
) -> Iterator[tuple[str, Row]]:
    """Yield (place, row) of each row of a file; blank lines are none.

    A row of a table is passed over if all its cells are empty. A warning counts
    such rows, except at the end of the file, where Excel leaves them.

    A line of a .txt is {"text": line}. A row of a table has no column whose
    name another column has, too.

    Args:
        path: a .tsv without quotes, a .csv, .jsonl or .txt. The cells of a
            .csv are separated by commas, semicolons or tabs.
        columns: names that every row must have. Without a header they are
            numbers from 0. A mapping to the flags that choose them, or "",
            lets the error name these. None: all that the table has, for a
            caller that writes them again; then columns of one name are an
            error, unless they are empty.
        hint: how to mend a lack of columns, for the error.
        has_header: whether the first line of a table names the columns.
        damaged: gets a line for each row of a table that has more or fewer
            cells than the first line; such a row is {}. None: it is an error.
        whole: rows of empty cells count, for a caller that answers each row.
            In a table of one column a blank line counts too, but not at the
            end.

    Raises:
        UserError: the file cannot be read, is damaged, or lacks a column.
    """
    kind = os.path.splitext(path)[1].lower()
    if kind not in (*TABLES, ".jsonl", ".txt"):
        mend = {
            ".xlsx": "; in Excel: Save as, CSV UTF-8",
            ".gz": ": unpack it",
            ".parquet": "; DataFrame.to_csv of pandas writes a .csv",
        }
        kinds = ".tsv, .csv or .jsonl"
        if {*(columns or ())} <= {"text"}:  # the one column of lines
            kinds = ".tsv, .csv, .jsonl or .txt"
        raise UserError(f"{path}: wanted a {kinds} file" + mend.get(kind, ""))
    text = text_files.read_text(path)
    if kind == ".jsonl":
        for number, value in text_files.json_objects(path, text):
            at = f"{path}, line {number}"
            _check_names(at, list(value), columns or (), "key", hint)
            yield at, value
        return
    # Not splitlines(): a text may hold U+2028, which would end its line.
    lines = (line.removesuffix("\r") for line in text.split("\n"))
    numbered = enumerate(lines, 1)
    if kind == ".txt":
        for number, line in numbered:
            if line.strip():
                yield f"{path}, line {number}", {"text": line}
        return
    if kind == ".csv":
        table = _csv_cells(path, text, columns or ())
    else:
        # Not the csv module: GLUE's files are not quoted, and a text may begin
        # with a quotation mark that no other one closes.
        table = ((n, line.split("\t") if line else []) for n, line in numbered)
    names: list[str | int] = []
    for number, cells in _rows_with_cells(path, table, whole):
        at = f"{path}, line {number}"
        if not names:
            names = cells if has_header else list(range(len(cells)))
            quoted = kind == ".tsv" and any(c.startswith('"') for c in cells)
            hint += _CSV * quoted
            _check_names(at, names, columns or (), "column", hint)
            places = {n: i for i, n in enumerate(names) if names.count(n) == 1}
            if has_header:
                continue
        # A tab inside a text would shift the columns after it: the label would
        # be read from the wrong one.
        if len(cells) == len(names):
            held = [n for n, c in zip(names, cells, strict=True) if c.strip()]
            lost = [name for name in held if name not in places]
            if lost and columns is None:
                raise UserError(
                    f"{at}: more than one column {lost[0]!r}, and all columns "
                    "are written again: give each a name of its own"
                )
            yield at, {name: cells[place] for name, place in places.items()}
            continue
        problem = (
            f"{at}: {counted(len(cells), 'column')}, wanted {len(names)} as in "
            "the first line"
        )
        if kind == ".csv":
            problem += "; put texts with commas or semicolons in quotes"
        problem += _NO_HEADER * _are_texts(names)
        if damaged is None:
            quoted = kind == ".tsv" and any(c.startswith('"') for c in cells)
            raise UserError(problem + _CSV * quoted)
        damaged.append(problem)
        yield at, {}


def _rows_with_cells(
    path: str, table: Iterable[tuple[int, list[str]]], whole: bool
) -> Iterator[tuple[int, list[str]]]:
    """Yield the rows of a table; rows of empty cells only if `whole`."""
    width, passed = 0, []
    waiting: list[tuple[int, list[str]]] = []  # for a row that holds something
    for number, cells in table:
        is_empty = not any(map(str.strip, cells))
        if is_empty and (width == 1 or width and len(cells) > 1):
            filled = cells if len(cells) == width else [""] * width
            waiting.append((number, filled))
        if is_empty and not (whole and cells):
            continue
        if whole:
            yield from waiting
        else:
            passed += waiting
        waiting = []
        if not is_empty:
            width = width or len(cells)
            yield number, cells
    if passed:
        logs.warn_once(
            f"{path}: {counted(len(passed), 'row')} of empty cells passed over "
            f"(first: line {passed[0][0]})"
        )


def _check_names(
    at: str,
    names: list[str | int],
    columns: Collection[str | int],
    what: str,
    hint: str,
) -> None:
    """Raise a UserError unless each of the columns is there once."""
    wrong, given = [], []
    for column in columns:
        if names.count(column) == 1:
            continue
        many = "more than one" if column in names else "no"
        wrong.append(f"{many} {what} {column!r}")
        alike = [
            n for n in names if _plain(n) == _plain(column) and n != column
        ]
        if alike:
            wrong[-1] += f" (did you mean {_quoted(alike[0], column)}?)"
        if isinstance(columns, Mapping) and columns[column]:
            given.append(f"{columns[column]}={alike[0] if alike else 'NAME'}")
    if wrong:
        if given:
            hint = f": give {' and '.join(given)}{hint}"
        if what == "column" and _are_texts(names):
            hint = _NO_HEADER + hint
        shown = ", ".join(f"{name!r:.{_LONGEST_NAME}}" for name in names)
        raise UserError(
            f"{at}: {' and '.join(wrong)}; it has {shown or 'nothing'}{hint}"
        )


def _plain(name: str | int) -> str:
    """Return a name as it is compared with one in another case."""
    return _looks(str(name)).casefold()


def _looks(text: str) -> str:
    """Return one text for all that look alike, whatever their white space.

    An accented letter is one character (NFC), or two in names from macOS.
    """
    text = unicodedata.normalize("NFC", text.translate(_INVISIBLE))
    return " ".join(text.split())


def _quoted(text: str, other: str) -> str:
    """Return a text in quotes, with escapes if another prints as it does."""
    one, two = (unicodedata.normalize("NFC", str(x)) for x in (text, other))
    return ascii(text) if one == two else repr(text)


def _are_texts(names: list[str | int]) -> bool:
    """Whether names of columns may be texts: then the header is missing."""
    return any(len(str(name).split()) > _MOST_WORDS for name in names)


def _csv_cells(
    path: str, text: str, columns: Collection[str | int]
) -> Iterator[tuple[int, list[str]]]:
    """Yield (number of its first line, cells) of each row of a CSV text.

    A row covers several lines if a quoted cell has line ends. `columns` should
    be there, see `_delimiter`.
    """
    # A cell may be a whole document; the default limit is 128 kB.
    csv.field_size_limit(max(csv.field_size_limit(), len(text)))
    lines = io.StringIO(text, newline="")
    begins, first = 1, []
    long: dict[int, list[list[str]]] = {}  # rows whose lines may be rows, too
    try:
        delimiter = _delimiter(lines, columns)
        row_lines: list[str] = []  # the lines of a row
        kept = (row_lines.append(line) or line for line in lines)
        reader = csv.reader(kept, delimiter=delimiter, strict=True)
        for row in reader:
            first = first or row
            if len(row_lines) > 1 and row is not first:
                cells = [line.split(delimiter) for line in row_lines]
                # Or as if the quotation mark closed at the end of the line.
                closed = next(csv.reader(row_lines[:1], delimiter=delimiter))
                if len(closed) == len(first):
                    cells[0] = closed
                if {*map(len, cells)} == {len(first)}:
                    long[begins] = cells
            row_lines.clear()
            yield begins, row
            begins = reader.line_num + 1
    except csv.Error as error:
        why = "a quote is not closed" if "end of data" in str(error) else error
        raise UserError(
            f"{path}, the row that begins in line {begins}: {why}"
            + _NO_HEADER * _are_texts(first)
        ) from error
    if long:
        _warn_of_quotes(path, text, delimiter, long)


def _warn_of_quotes(
    path: str, text: str, delimiter: str, long: dict[int, list[list[str]]]
) -> None:
    """Warn of rows that a quotation mark may have swallowed.

    A quoted cell may have line ends, and its lines even as many commas as the
    table. They look like rows if tabs separate the cells, or if in some column
    each of them has a number or a word, such as a label, that other rows have.

    Args:
        path: the file.
        text: its text.
        delimiter: what separates its cells.
        long: {line in which a row begins: the cells of each of its lines}, of
            rows that cover several.
    """

    def kinds(row: list[str]) -> list[tuple[int, str]]:  # numbers are alike
        return [*enumerate(re.sub(r"\d[\d.]*", "0", c.strip()) for c in row)]

    table = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    rows = itertools.chain(table, *long.values())
    seen = collections.Counter(kind for row in rows for kind in kinds(row))
    spans = []
    for begins, lines in long.items():
        columns = zip(*map(kinds, lines), strict=True)
        if delimiter == "\t" or any(
            all(seen[kind] > 1 and kind[1] for kind in column)
            for column in columns
        ):
            spans.append(f"{begins} to {begins + len(lines) - 1}")
    if spans:
        mend = "; or rename the file to .tsv, which has no quotes"
        mend *= delimiter == "\t"
        logs.warn_once(
            f"{path}: a quotation mark makes one row of each of the lines "
            f"{', '.join(spans[:_SHOWN])} ({counted(len(spans), 'such row')}), "
            "which look like rows themselves. If they are, close each mark in "
            "its line, or write a mark that belongs to a text twice, in "
            f"quotes{mend}"
        )


def _delimiter(lines: io.StringIO, columns: Collection[str | int]) -> str:
    """Return what separates the cells of a CSV text: comma, semicolon or tab.

    Excel writes semicolons in countries with a decimal comma. The best one
    gives the header most of the columns. Of several, one is better that gives
    all rows as many cells, and then one that gives the header more.
    """

    def quality(delimiter: str) -> tuple[int, bool, int]:
        lines.seek(0)
        reader = csv.reader(lines, delimiter=delimiter)
        rows = itertools.islice(reader, _FIRST_ROWS)
        header, *others = [row for row in rows if row] or [[]]
        width = len(header)
        is_even = width > 1 and all(len(row) == width for row in others)
        return len({*columns} & {*header}), is_even, width

    delimiter = max(",;\t", key=quality)  # of equal ones the first
    lines.seek(0)
    return delimiter


def renamed(
    columns: Mapping[str, Any], prediction: Collection[str]
) -> dict[str, Any]:
    """Return the columns of an input that stand beside its prediction.

    If the prediction has such a name, too, as label, it is input_label.

    Raises:
        UserError: there is an input_label, too.
    """
    others: dict[str, Any] = {}
    for name, value in columns.items():
        new = f"input_{name}" if name in prediction else name
        if new != name and new in columns:
            raise UserError(
                f"the column {name!r} would be {new!r} beside the prediction's "
                f"own {name}, and there is such a column: rename one of them"
            )
        others[new] = value
    return others


def csv_text(rows: Sequence[Mapping[str | int, Any]], like: str = "") -> str:
    """Return rows as a CSV text; its header has the names of all of them.

    What a row lacks is an empty cell; lists and objects are JSON. `like` is the
    path of a file with the input. If that is a .csv, the text has the same
    separator, and a byte order mark if that has one: so Excel opens both.
    """
    names = dict.fromkeys(name for row in rows for name in row)
    file, delimiter = io.StringIO(), ","
    if like.lower().endswith(".csv"):
        with file_system.reading(like) as table:
            head = table.read(_HEAD)
        is_utf_16 = head.startswith(text_files.UTF_16)
        text = head.decode("utf-16" if is_utf_16 else "utf-8", "replace")
        start = io.StringIO(text.removeprefix("\ufeff"), newline="")
        delimiter = _delimiter(start, names)
        if is_utf_16 or text.startswith("\ufeff"):
            file.write("\ufeff")
    writer = csv.DictWriter(
        file, names, delimiter=delimiter, lineterminator="\n"
    )
    writer.writeheader()
    for row in rows:
        texts = {
            name: json.dumps(value, ensure_ascii=False)
            for name, value in row.items()
            if isinstance(value, (list, dict))
        }
        writer.writerow({**row, **texts})
    return file.getvalue()


# --- Values ------------------------------------------------------------------


def require(
    row: Any,
    key: str | int,
    kind: type | tuple[type, ...],
    at: str = "",
    hint: str = "",
) -> Any:
    """Return a value of a row or of an object in it.

    A bool counts as a number only where bools are wanted, too; NaN never does.

    Args:
        row: the row or object.
        key: name of the value.
        kind: its type, or several.
        at: the place of the row; "": the caller names it.
        hint: how to mend it, for the error.

    Raises:
        UserError: it is not there, or of another type.
    """
    place = f"{at}: " if at else ""
    if not isinstance(row, dict):
        raise UserError(
            f"{place}found {type(row).__name__}, wanted an object with the key "
            f"{key!r}{hint}"
        )
    if key not in row:
        raise UserError(
            f"{place}no key {key!r}; it has "
            f"{', '.join(map(repr, row)) or 'nothing'}{hint}"
        )
    value, kinds = row[key], kind if isinstance(kind, tuple) else (kind,)
    is_right = isinstance(value, kinds) and value == value
    if not is_right or (isinstance(value, bool) and bool not in kinds):
        raise UserError(
            f"{place}{key!r} is {value!r:.40}, wanted "
            f"{' or '.join(_WORDS[one] for one in kinds)}{hint}"
        )
    return value


def require_strings(
    row: Any, key: str, at: str = "", hint: str = ""
) -> list[str]:
    """Return a list of strings of a row; see `require`."""
    items = require(row, key, list, at, hint)
    for item in items:
        require({key: item}, key, str, at, hint)
    return items


def check_utf8(text: str, what: str) -> None:
    """Raise a UserError for a text that UTF-8 cannot hold.

    JSON may escape half of a character ("\\ud800"). `what` is the text's place.
    """
    if not file_system.is_utf_8(text):
        raise UserError(
            f"{what} {text!r:.40} has a lone surrogate, half of a character, "
            "which UTF-8 cannot hold"
        )


def check_cell(value: str, what: str) -> None:
    """Raise a UserError for a value that a cell of a .tsv file cannot hold.

    That is a tab, a line end, or half of a character. `what` is its place:
    "dev.csv, line 3: label".
    """
    if re.search(r"[\t\n\r]", value):
        raise UserError(
            f"{what} {value!r} has a tab or a line end, which a .tsv file "
            "cannot hold"
        )
    check_utf8(value, what)


def check_spelling(
    label: str, at: str, seen: dict[str | decimal.Decimal, tuple[str, str]]
) -> None:
    """Raise a UserError for a label that was seen in another spelling.

    That is a number of the same value (1 and 1.0), true and True, or a label
    that looks the same. They would be two classes.

    Args:
        label: as the file has it; a number of JSON in Python's spelling.
        at: its place: "dev.csv, line 3".
        seen: {what the label stands for: (label, its first place)}, to which
            the label is added.
    """
    stands_for = _looks(label)
    if stands_for.lower() in ("true", "false"):
        stands_for = stands_for.lower()
    with contextlib.suppress(decimal.InvalidOperation):
        number = decimal.Decimal(stands_for)
        if number.is_finite() and "_" not in stands_for:
            stands_for = number
    first, place = seen.setdefault(stands_for, (label, at))
    if first != label:
        raise UserError(
            f"{at}: the label {_quoted(label, first)} is "
            f"{_quoted(first, label)} of {place} in another spelling: write "
            "both alike, or give two classes names that do not look the same"
        )
