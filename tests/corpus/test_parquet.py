"""corpus/reading.py: the text column of parquet files."""

import gzip
import sys

from base.errors import UserError

import corpus_runs
import pytest
from corpus_runs import article, items_of, problems_of, texts_of

pyarrow = pytest.importorskip("pyarrow")
from pyarrow import parquet  # noqa: E402


def write(path, columns: dict, **more):
    parquet.write_table(pyarrow.table(columns), path, **more)
    return path


def test_rows_are_documents(tmp_path):
    path = write(
        tmp_path / "x",
        {"id": [1, 2, 3, 4], "text": ["One. Two.\nThree.", None, "", "Ä."]},
    )
    assert texts_of(path) == ["One.\nTwo.\nThree.\n", "Ä.\n"]
    assert [item.number for item in items_of(path)] == [1, 2, 3, 4]
    assert problems_of(path) == []


@pytest.mark.parametrize(
    "kind", ["string", "large_string", "string_view", "dictionary"]
)
def test_text_of_any_type(tmp_path, kind):
    if kind == "string_view" and int(pyarrow.__version__.split(".")[0]) < 21:
        pytest.skip("pyarrow writes string views from 21 on")
    types = {
        "string": pyarrow.string(),
        "large_string": pyarrow.large_string(),
        "string_view": pyarrow.string_view(),
        "dictionary": pyarrow.dictionary(pyarrow.int32(), pyarrow.string()),
    }
    values = pyarrow.array(["A text.", "B text."]).cast(types[kind])
    path = write(tmp_path / "x", {"body": values})
    found = texts_of(path, text_column="body")
    assert found == ["A text.\n", "B text.\n"]


def test_a_column_has_a_name_like_a_part_of_another(tmp_path):
    parts = pyarrow.array([{"b": 1}])
    path = write(tmp_path / "x", {"a": parts, "a.b": ["A text."]})
    assert texts_of(path, text_column="a.b") == ["A text.\n"]


def test_many_row_groups_and_their_share_of_the_bytes(tmp_path):
    texts = [f"Row {n}." for n in range(3000)]
    path = write(tmp_path / "x", {"text": texts}, row_group_size=700)
    assert texts_of(path) == [f"{text}\n" for text in texts]
    from corpus import reading

    read = reading.read_items(str(path), corpus_runs.settings())
    places = [place for _, place in read]
    assert places == sorted(places)
    assert places[-1] == path.stat().st_size


def test_a_compressed_file(tmp_path):
    write(tmp_path / "x", {"text": ["One.", "Two."]})
    packed = gzip.compress((tmp_path / "x").read_bytes())
    (tmp_path / "y").write_bytes(packed)
    # The kind is found inside, though the file as a whole is gzip.
    assert texts_of(tmp_path / "y") == ["One.\n", "Two.\n"]
    (tmp_path / "y").write_bytes(packed[:-20])
    (problem,) = problems_of(tmp_path / "y")
    assert problem == "F: ends in the middle of its gzip stream"


def test_files_without_the_column_are_named(tmp_path):
    path = write(tmp_path / "x", {"id": [1], "body": ["A."], "n": [[2]]})
    assert problems_of(path) == [
        "F: has no column 'text', but id, body, n; name one by --text_column"
    ]
    assert problems_of(path, text_column="id") == [
        "F: has values such as 1 in column 'id'; wanted text"
    ]


def test_damaged_files_are_named(tmp_path):
    texts = [f"{article(n)} {n * n}" for n in range(3000)]
    path = write(tmp_path / "x", {"text": texts}, row_group_size=500)
    data = bytearray(path.read_bytes())
    path.write_bytes(data[: len(data) // 2])
    (problem,) = problems_of(path)
    assert problem.startswith("F: is a damaged parquet file (")
    middle = len(data) // 2
    data[middle : middle + 2000] = bytes(2000)
    path.write_bytes(data)
    (problem,) = problems_of(path)
    number = len(texts_of(path))
    assert 500 <= number < 3000
    assert problem.endswith(f"; the {number:,} rows before the damage are used")


def test_missing_pyarrow_is_an_error_that_helps(tmp_path, monkeypatch):
    path = write(tmp_path / "x", {"text": ["A."]})
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(UserError, match="pip install -r requirements-parquet"):
        items_of(path)
