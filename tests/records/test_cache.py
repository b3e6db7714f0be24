"""Record files are reused for the same data, and for no other."""

import threading

from base import cluster, file_system

import numpy as np
import pytest

from records import cache as record_cache
from records import tfrecord

SCHEMA = {
    "input_ids": tfrecord.Feature("int64", 8),
    "input_mask": tfrecord.Feature("int64", 8),
}


def writer(value: int, made: list[int]):
    def write(path: str) -> None:
        made.append(value)
        ids = np.full([3, 8], value)
        with file_system.atomic_file(path) as file:
            with tfrecord.RecordWriter(file) as out:
                out.write_examples(
                    {"input_ids": ids, "input_mask": np.ones_like(ids)}
                )

    return write


def test_records_are_written_once_and_again_for_other_data(tmp_path):
    cache = record_cache.RecordCache(str(tmp_path), SCHEMA, 10, False)
    made: list[int] = []
    for value in (1, 1, 2, 2, 1):
        data = cache.records("dev", {"data": value}, writer(value, made))
        assert (data.features["input_ids"] == value).all()
    assert made == [1, 2, 1]


def test_a_file_of_a_killed_run_is_written_again(tmp_path):
    """The old fingerprint must not stay beside new records."""
    cache = record_cache.RecordCache(str(tmp_path), SCHEMA, 10, False)
    made: list[int] = []
    cache.records("dev", {"data": 1}, writer(1, made))

    def killed(path: str) -> None:
        writer(2, made)(path)  # the file is there, its fingerprint not yet
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cache.records("dev", {"data": 2}, killed)
    data = cache.records("dev", {"data": 1}, writer(1, made))
    assert (data.features["input_ids"] == 1).all()


@pytest.fixture
def chief(monkeypatch):
    """Run a function as the chief 0.2 s later; the test is another machine."""
    monkeypatch.setattr(record_cache, "_SECONDS_BETWEEN_LOOKS", 0.01)
    thread = threading.current_thread()
    started = []

    def start(function) -> None:
        monkeypatch.setattr(
            cluster,
            "is_chief",
            lambda: threading.current_thread() is not thread,
        )
        started.append(threading.Timer(0.2, function))
        started[-1].start()

    yield start
    for timer in started:
        timer.join()


def written_before(folder, made: list[int]) -> record_cache.RecordCache:
    cache = record_cache.RecordCache(str(folder), SCHEMA, 10, False)
    cache.records("dev", {"data": 1}, writer(1, made))
    return cache


@pytest.mark.parametrize("before", ["other data", "deleted"])
def test_other_machines_wait_for_the_chief(tmp_path, chief, before):
    """Whatever an earlier run left: files, or a fingerprint alone."""
    made: list[int] = []
    cache = written_before(tmp_path, made)
    value = 1 if before == "deleted" else 2
    if before == "deleted":
        (tmp_path / "dev.tf_record").unlink()
    told = {"data": value}
    chief(lambda: cache.make(cache.path("dev"), told, writer(value, made)))
    data = cache.records("dev", told, writer(3, made))
    assert (data.features["input_ids"] == value).all()
    assert made == [1, value]
