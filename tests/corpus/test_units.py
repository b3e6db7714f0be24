"""corpus/units.py: what is written for a chunk, and read by range of keys."""

import json
import os

from base.errors import UserError

import corpus_runs
import hypothesis
import pytest
from hypothesis import strategies

from corpus import reading, units
from corpus.documents import HELDOUT, TRAIN, DocumentSettings
from corpus.units import Unit, UnitSettings


@pytest.fixture
def chunk():
    (chunk,) = reading.read_chunks(
        [str(corpus_runs.ENGLISH), str(corpus_runs.ENGLISH)],
        corpus_runs.settings(),
    )
    return chunk


def settings(folder, **more) -> UnitSettings:
    plain = DocumentSettings(heldout_fraction=0.4)
    return UnitSettings(str(folder), plain, False)._replace(**more)


def test_unit_of_a_chunk(tmp_path, chunk):
    reports = []
    lines, num_bytes = units.make_unit(
        settings(tmp_path), chunk, reports.append
    )
    assert lines == []
    assert sum(reports) == chunk.num_bytes
    assert num_bytes == sum(len(item.data) for item in chunk.items)
    result = units.unit_result(str(tmp_path), 0)
    assert result["counts"]["pages"] == 20
    assert result["counts"]["duplicates"] == 6
    assert sum(result["num_documents"].values()) == 6
    assert result["inputs"][str(corpus_runs.ENGLISH)]["items"] == 20
    unit = units.as_unit(0, result)
    found = {}
    for split in units.SPLITS:
        texts = list(units.read_texts(str(tmp_path), unit, split, 0, 2**64))
        assert [key for key, _ in texts] == sorted(key for key, _ in texts)
        found.update(texts)
    documents = [
        outcome.document
        for outcome in corpus_runs.outcomes_of(corpus_runs.ENGLISH)
        if outcome.document
    ]
    assert found == {document.key: document.text for document in documents}


def test_unit_without_all_its_files_is_not_complete(tmp_path, chunk):
    units.make_unit(settings(tmp_path), chunk, lambda _: None)
    assert units.unit_result(str(tmp_path), 0)
    path = units.unit_path(str(tmp_path), 0, TRAIN)
    os.truncate(path, os.path.getsize(path) - 1)
    assert units.unit_result(str(tmp_path), 0) is None
    os.remove(path)
    assert units.unit_result(str(tmp_path), 0) is None
    (tmp_path / "unit-000001.json").write_text('{"end"')
    assert units.unit_result(str(tmp_path), 1) is None


def test_strict_ends_with_the_first_problem(tmp_path):
    (tmp_path / "x").write_text('{"text": "a"}\n{"text": 1}\n{"text": 2}\n')
    (chunk,) = reading.read_chunks(
        [str(tmp_path / "x")], corpus_runs.settings()
    )
    with pytest.raises(
        UserError, match=r"x, line 2: has a number.*\(--strict\)"
    ):
        units.make_unit(
            settings(tmp_path, is_strict=True), chunk, lambda _: None
        )
    assert units.unit_result(str(tmp_path), 0) is None


def test_problems_are_all_counted_and_the_first_are_listed(tmp_path):
    (tmp_path / "x").write_text("{}\n" * 250 + '{"text": "A."}\n')
    (chunk,) = reading.read_chunks(
        [str(tmp_path / "x")], corpus_runs.settings()
    )
    lines, _ = units.make_unit(settings(tmp_path), chunk, lambda _: None)
    result = units.unit_result(str(tmp_path), 0)
    assert len(lines) == len(result["problems"]) == units.MAX_PROBLEMS
    assert result["counts"]["broken_item"] == 250
    total = units.sum_results([result, json.loads(json.dumps(result))])
    assert total["counts"]["broken_item"] == 500
    assert len(total["problems"]) == units.MAX_PROBLEMS
    assert total["inputs"][str(tmp_path / "x")] == {
        "kind": "json_lines",
        "language": "en",
        "items": 502,
        "bytes": 2 * (2 * 250 + 14),
        "problems": 500,
    }


@hypothesis.settings(
    suppress_health_check=[hypothesis.HealthCheck.function_scoped_fixture]
)
@hypothesis.given(
    keys=strategies.lists(strategies.integers(0, 2**64 - 1), max_size=12),
    bounds=strategies.tuples(
        strategies.integers(0, 2**64), strategies.integers(0, 2**64)
    ),
)
def test_any_range_of_keys_is_read(tmp_path, keys, bounds):
    keys += [0, 2**64 - 1]
    texts = {key: b"%d\n" % key for key in keys}
    size = units._write_texts(units.unit_path(str(tmp_path), 0, HELDOUT), texts)
    unit = Unit(0, {HELDOUT: len(texts)}, {HELDOUT: size})
    for low, high in (sorted(bounds), (0, 2**64), (keys[0], keys[0] + 1)):
        found = list(units.read_texts(str(tmp_path), unit, HELDOUT, low, high))
        assert found == [
            (key, texts[key]) for key in sorted(texts) if low <= key < high
        ]


def test_smallest_of_equal_documents_is_kept_in_any_order():
    for order in ((b"a b\n", b"a\nb\n"), (b"a\nb\n", b"a b\n")):
        texts = {}
        added = [units.add_text(texts, 7, text) for text in order]
        assert added == [False, True]
        assert texts == {7: b"a\nb\n"}
