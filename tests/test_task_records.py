"""Records made once, and never mistaken for those of other data."""

import threading

import numpy as np
import pytest

import devices
import records
import task_records

SCHEMA = {
    "input_ids": records.Feature("int64", 8),
    "input_mask": records.Feature("int64", 8),
}


def writer(value: int, made: list[int]):
    def write(path: str) -> None:
        made.append(value)
        ids = np.full([3, 8], value)
        with records.atomic_file(path) as file:
            with records.RecordWriter(file) as out:
                out.write_examples(
                    {"input_ids": ids, "input_mask": np.ones_like(ids)}
                )

    return write


def test_made_once_and_again_for_other_data(tmp_path):
    cache = task_records.RecordCache(str(tmp_path), SCHEMA, 10, False)
    made: list[int] = []
    for value in (1, 1, 2, 2, 1):
        data = cache.records("dev", {"data": value}, writer(value, made))
        assert (data.features["input_ids"] == value).all()
    assert made == [1, 2, 1]


def test_killed_while_writing_leaves_no_lie(tmp_path):
    """The old note must not vouch for records of which some are new."""
    cache = task_records.RecordCache(str(tmp_path), SCHEMA, 10, False)
    made: list[int] = []
    cache.records("dev", {"data": 1}, writer(1, made))

    def killed(path: str) -> None:
        writer(2, made)(path)  # in place, but not yet vouched for
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cache.records("dev", {"data": 2}, killed)
    data = cache.records("dev", {"data": 1}, writer(1, made))
    assert (data.features["input_ids"] == 1).all()


def test_other_machines_wait_for_the_chief(tmp_path, monkeypatch):
    cache = task_records.RecordCache(str(tmp_path), SCHEMA, 10, False)
    made: list[int] = []
    cache.records("dev", {"data": 1}, writer(1, made))
    monkeypatch.setattr(task_records, "_SECONDS_BETWEEN_LOOKS", 0.01)
    chief = threading.Event()
    thread = threading.current_thread()
    monkeypatch.setattr(
        devices, "is_chief", lambda: threading.current_thread() is not thread
    )

    def be_chief() -> None:
        chief.wait()
        cache.make(cache.path("dev"), {"data": 2}, writer(2, made))

    other = threading.Thread(target=be_chief)
    other.start()
    threading.Timer(0.2, chief.set).start()
    data = cache.records("dev", {"data": 2}, writer(3, made))
    other.join()
    assert (data.features["input_ids"] == 2).all() and made == [1, 2]
