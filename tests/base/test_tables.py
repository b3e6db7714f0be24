"""Rows of tables, JSON lines and lines: what is read, and what is wrong."""

from pathlib import Path

from base import tables
from base.errors import UserError

import pytest


def rows(path: Path, text: str, *columns: str, **more) -> list:
    """Return the rows of a file, with their places in it."""
    path.write_text(text, newline="")
    found = tables.rows(str(path), columns, " (--columns)", **more)
    return [(at.removeprefix(f"{path}, line "), row) for at, row in found]


def test_rows_are_the_same_in_every_kind_of_file(tmp_path):
    wanted = [{"a": "1", "b": 'say "hi"'}, {"a": "", "b": "x\u2028y"}]
    for name, text in (
        ("x.tsv", 'a\tb\r\n1\tsay "hi"\r\n\r\n\tx\u2028y\n\t\t\n'),
        ("x.csv", 'a,b\n1,"say ""hi"""\n\n,x\u2028y\n," "\n'),
        (
            "x.jsonl",
            '\n{"a": "1", "b": "say \\"hi\\""}\n \n{"a": "", "b": "x\u2028y"}',
        ),
    ):
        assert rows(tmp_path / name, text, "a", "b") == [
            ("2", wanted[0]),
            ("4", wanted[1]),
        ]
    found = rows(tmp_path / "x.txt", "a\u2028b\n \nc\tc\r\n")
    assert found == [("1", {"text": "a\u2028b"}), ("3", {"text": "c\tc"})]


def test_exports_of_excel_are_read(tmp_path):
    """Semicolons where the comma is the decimal point; UTF-16 has tabs."""
    wanted = [("2", {"a": 'x;,\t"\ny', "b, c": "\u00fc"})]
    for mark, mode in ((";", "utf-8-sig"), ("\t", "utf-16"), (",", "utf-8")):
        name = '"b, c"' if mark == "," else "b, c"
        text = f'a{mark}{name}\r\n"x;,\t""\ny"{mark}\u00fc\r\n'
        path = tmp_path / "X.CSV"
        path.write_bytes(text.encode(mode))
        found = [
            (at.removeprefix(f"{path}, line "), row)
            for at, row in tables.rows(str(path), ["a"])
        ]
        assert found == wanted
    for data, words in (
        ("a;b\n\u00fc;1".encode("cp1252"), "line 2 is not UTF-8.*CSV UTF-8"),
        ("a\n\u00fc".encode("utf-16")[:-1], "begins as UTF-16 and is damaged"),
    ):
        path.write_bytes(data)
        with pytest.raises(UserError, match=words):
            list(tables.rows(str(path)))


def test_a_table_is_written_as_csv(tmp_path):
    """With the marks of the one that it is like."""
    rows = [{"a": 1.5, "b": "x,\n"}, {"b": ["\u00fc"], "c": True}]
    text = tables.csv_text(rows)
    assert text == 'a,b,c\n1.5,"x,\n",\n,"[""\u00fc""]",True\n'
    for start, wanted in (
        ("\ufeffa;b, c\n1,5;2\n", "\ufeffa;c\n1,5;\n"),
        ("a\tb", "a\tc\n1,5\t\n"),
        ("a", 'a,c\n"1,5",\n'),
    ):
        path = tmp_path / "X.CSV"
        path.write_text(start)
        assert tables.csv_text([{"a": "1,5", "c": ""}], str(path)) == wanted
    path.write_text("a;b\n", "utf-16")
    assert tables.csv_text([{"a": 1, "b": 2}], str(path)) == "\ufeffa;b\n1;2\n"
    found = tables.renamed({"label": 1, "b": 2}, {"label": 3})
    assert found == {"input_label": 1, "b": 2}


def test_a_sentence_with_commas_may_stand_before_a_semicolon(tmp_path):
    """Without a header, too: what is wrong then is said of whole cells."""
    text = "\ufeff" + 'a, "b", c;x\n"d; e, f";y\n' * 60
    ((_, row), *_) = rows(tmp_path / "x.csv", text)
    assert row == {'a, "b", c': "d; e, f", "x": "y"}
    # Of two separators with as many cells in all rows, the columns decide.
    assert rows(tmp_path / "x.csv", "a;b,c\n1;2,3\n", "a")[0][1]["a"] == "1"
    for lines, words in (
        (
            "It, so far as I saw, was low\na\n",
            "1 column, wanted 3.*is the header missing",
        ),
        (
            'It was so very low\n"a"b\n',
            "in line 2: .* after .*is the header missing",
        ),
    ):
        with pytest.raises(UserError, match=words):
            rows(tmp_path / "x.csv", lines)


def test_a_csv_row_has_the_line_it_begins_in(tmp_path):
    found = rows(tmp_path / "x.csv", 'a,b\n\n"1\n2",3\r\n4,5\n')
    assert found == [
        ("3", {"a": "1\n2", "b": "3"}),
        ("5", {"a": "4", "b": "5"}),
    ]


def test_a_cell_may_be_a_document(tmp_path):
    """The library's limit is 131,072 characters."""
    ((_, row),) = rows(tmp_path / "x.csv", f'a\n"{"long " * 40_000}"\n')
    assert len(row["a"]) == 200_000


def test_columns_without_a_header_are_numbers(tmp_path):
    path = tmp_path / "x.tsv"
    assert rows(path, "a\tb\n", has_header=False) == [("1", {0: "a", 1: "b"})]
    with pytest.raises(UserError, match="line 1: no column 2; it has 0, 1"):
        path.write_text("a\tb\n")
        next(tables.rows(str(path), [2], has_header=False))


def test_rows_of_empty_cells_are_passed_over_and_counted(tmp_path, caplog):
    """Those at the end, which Excel leaves there, without a word."""
    text = 'a,b\n1,2\n,\n\n" ",\n3,4\n,\n'
    assert len(rows(tmp_path / "x.csv", text)) == 2
    assert f"{tmp_path}/x.csv: 2 rows of empty cells passed over (first: " in (
        caplog.text
    )
    found = rows(tmp_path / "x.csv", text, whole=True)
    assert [at for at, _ in found] == ["2", "3", "5", "6", "7"]
    # In one column a blank line is a row, but at the end.
    for name in ("x.csv", "x.tsv"):
        found = rows(tmp_path / name, "a\n\n1\n\n\n", whole=True)
        assert found == [("2", {"a": ""}), ("3", {"a": "1"})]
    found = rows(tmp_path / "x.csv", 'a\n1\n""\n', whole=True)
    assert found == [("2", {"a": "1"}), ("3", {"a": ""})]


@pytest.mark.parametrize(
    "text, rows_of",
    [
        ('n\ta\tb\n1\t"x\ty\n2\tx\ty\n3\tz"\ty\n4\tx\ty\n', "2 to 4"),
        ('a\tb\n"x\ty\nx"\ty\nz\ty\n', "2 to 3"),
        ('l,a\n1,"x, y\n0,x\n1,y"\n0,z\n', "2 to 4"),
        ('l;a\ngood;"x\nbad;y"\ngood;z\nbad;z\n', "2 to 3"),
        ('a,l\n"x,1\ny,0\nz",1\nx,0\n', "2 to 4"),
        # Texts with line ends, as many of them as separators.
        ('l,a\n1,"Dear Sir,\nI came, truly"\n0,x\n', None),
        ('a,l\n"x, y\nz",good\nx,bad\ny,good\n', None),
        ('a,b\n"x\n\ny",1\n"1\n2",2\n', None),
        ('a\n"x\ny"\nz\n', None),
        ('a\tb\n"x\r\ny"\t1\r\nz\t"2\n"\n', None),
    ],
)
def test_a_quotation_mark_that_swallows_rows(tmp_path, caplog, text, rows_of):
    found = rows(tmp_path / "x.csv", text)
    assert ("a quotation mark makes one row" in caplog.text) == bool(rows_of)
    if rows_of:
        assert f"lines {rows_of} (1 such row)" in caplog.text
        assert (".tsv" in caplog.text) == ("\t" in text)
    if rows_of and "\t" in text:
        assert len(rows(tmp_path / "x.tsv", text)) > len(found)
        assert len(caplog.records) == 1


def test_columns_of_the_same_name_are_in_no_row(tmp_path):
    assert rows(tmp_path / "x.tsv", "a\tb\ta\n1\t2\t3") == [("2", {"b": "2"})]
    with pytest.raises(UserError, match="more than one column 'a'"):
        rows(tmp_path / "x.tsv", "a\tb\ta\n1\t2\t3", "a")


def test_damaged_rows_can_be_passed_over(tmp_path):
    damaged: list[str] = []
    path = tmp_path / "x.tsv"
    found = rows(path, "a\tb\n1\n2\t3\n", damaged=damaged)
    assert found == [("2", {}), ("3", {"a": "2", "b": "3"})]
    assert damaged == [
        f"{path}, line 2: 1 column, wanted 2 as in the first line"
    ]


@pytest.mark.parametrize(
    "name, text, words",
    [
        ("x.csv", 'a,b\na,"b\nc\n', "begins in line 2: a quote is not closed"),
        ("x.csv", 'a,b\n"a"b,c', "that begins in line 2: .* expected after"),
        ("x.csv", "a,b\nc,d,e", "line 2: 3 columns, wanted 2 .* in quotes"),
        ("x.tsv", "a\n1\t2", "line 2: 2 columns, wanted 1 as in the first"),
        ("x.tsv", "b\n1", "line 1: no column 'a'; it has 'b' .--columns"),
        (
            *("x.csv", "b;c\n1;2"),
            "line 1: no column 'a' and no column 'd'; it has 'b', 'c' ",
        ),
        ("x.tsv", '"a"\n1', "in quotes, rename the file to .csv"),
        ("x.tsv", 'a\tb\n"c\nd"\te', "in quotes, rename the file to .csv"),
        ("x.xlsx", "", "in Excel: Save as, CSV UTF-8"),
        ("x.jsonl", '{"b": 1}', "line 1: no key 'a'; it has 'b' .--columns"),
        ("x.jsonl", "{}\n[1]", "line 1: no key 'a'; it has nothing"),
        ("x.jsonl", "[1]", "line 1: found list, wanted a JSON object"),
        ("x.json", "{}", "x.json: wanted a .tsv, .csv or .jsonl file$"),
        ("x.parquet", "", ".jsonl file; DataFrame.to_csv of pandas writes"),
        ("x.csv", "a\u2060\n1", r"no column 'a' .did you mean 'a\\u2060'"),
        ("x.csv", "A\n1", "no column 'a' .did you mean 'A'.*; it has 'A' .--c"),
        (
            *("x.csv", "It was as low as that, by a fire\na, b"),
            "it has 'It was as low as that', .* .is the header missing.*--col",
        ),
    ],
)
def test_what_is_wrong_is_named(tmp_path, name, text, words):
    with pytest.raises(UserError, match=words) as caught:
        rows(tmp_path / name, text, "a", *(["d"] if ";" in text else []))
    assert str(caught.value).startswith(f"{tmp_path / name}")


@pytest.mark.parametrize(
    "value, kind, words",
    [
        ("1", int, "'a' is '1', wanted a whole number (--a)"),
        (True, int, "'a' is True, wanted a whole number (--a)"),
        (None, str, "'a' is None, wanted a string (--a)"),
        ([1], (str, float), "'a' is [1], wanted a string or a number (--a)"),
        (float("nan"), float, "'a' is nan, wanted a number (--a)"),
        ("x" * 99, dict, f"'a' is '{'x' * 39}, wanted an object (--a)"),
    ],
)
def test_a_value_of_another_type_is_named(value, kind, words):
    for at, place in (("", ""), ("x, line 1", "x, line 1: ")):
        with pytest.raises(UserError) as caught:
            tables.require({"a": value}, "a", kind, at, " (--a)")
        assert str(caught.value) == place + words


def test_values_that_are_required():
    row = {"a": True, "b": 1.5, "c": ["x", ""]}
    assert tables.require(row, "a", (int, bool)) is True
    assert tables.require(row, "b", (int, float)) == 1.5
    assert tables.require_strings(row, "c") == ["x", ""]
    with pytest.raises(UserError, match="no key 'd'; it has 'a', 'b', 'c'"):
        tables.require(row, "d", str)
    with pytest.raises(UserError, match="'c' is 1, wanted a string"):
        tables.require_strings({"c": ["x", 1]}, "c")
    with pytest.raises(UserError, match="found list, wanted an object with"):
        tables.require([], "d", str)
