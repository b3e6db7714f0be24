"""Scalars of a run in several parts: order, lost steps, files cut off."""

import tensorflow as tf

from training import event_files
from training.event_files import EventFile


def write_events(folder, suffix, values):
    """Write scalars {(tag, step): value} as TensorBoard does."""
    writer = tf.summary.create_file_writer(str(folder), filename_suffix=suffix)
    with writer.as_default():
        for (tag, step), value in values.items():
            tf.summary.scalar(tag, value, step=step)
    writer.close()


def test_curves_of_a_continued_run_have_the_later_values(tmp_path):
    write_events(tmp_path, ".a", {("loss", 1): 9.0, ("loss", 2): 8.0})
    write_events(
        tmp_path, ".b", {("loss", 2): 7.5, ("loss", 3): 7.0, ("speed", 3): 2.0}
    )
    # Their names begin with the second; these two were written in one.
    names = sorted(path.name for path in tmp_path.iterdir())
    assert len(names) == 2
    for number, suffix in enumerate((".a", ".b")):
        (path,) = tmp_path.glob(f"*{suffix}")
        path.rename(tmp_path / f"events.out.tfevents.{number}{suffix}")
    curves = event_files.joined(event_files.read(str(tmp_path)))
    assert curves == {"loss": {1: 9.0, 2: 7.5, 3: 7.0}, "speed": {3: 2.0}}
    assert list(curves["loss"]) == [1, 2, 3]


def test_a_folder_without_events_has_no_curves(tmp_path):
    assert event_files.joined(event_files.read(str(tmp_path))) == {}


def test_files_are_in_the_order_of_their_creation(tmp_path):
    """Not in that of their names: the eleventh file of a process."""
    for number, name in enumerate(("z", "9", "10")):
        write_events(tmp_path, f".{name}", {("loss", 1): float(number)})
        (path,) = tmp_path.glob(f"*.{name}")
        path.rename(tmp_path / f"events.out.tfevents.1.{name}")
    found = [file.curves["loss"][1] for file in event_files.read(str(tmp_path))]
    assert found == [0.0, 1.0, 2.0]


def test_a_file_that_is_cut_off_is_read_up_to_there(tmp_path, caplog):
    write_events(tmp_path, ".a", {("loss", 1): 9.0, ("loss", 2): 8.0})
    (path,) = tmp_path.iterdir()
    path.write_bytes(path.read_bytes()[:-3])
    caplog.set_level("INFO", logger="absl")
    (file,) = event_files.read(str(tmp_path))
    assert file.curves == {"loss": {1: 9.0}}
    assert "cut off after 2 whole records" in caplog.text


def test_only_the_scalars_that_are_asked_for_are_read(tmp_path):
    write_events(tmp_path, ".a", {("loss", 1): 9.0, ("speed", 1): 8.0})
    (file,) = event_files.read(str(tmp_path), {"loss"})
    assert file.curves == {"loss": {1: 9.0}}


def test_steps_that_were_done_again_are_left_out():
    """The first part was killed at 90, and went on from 60."""
    first = EventFile(1.0, {"loss": {1: 9.0, 60: 6.0, 80: 5.0, 90: 4.0}})
    second = EventFile(3.0, {"loss": {61: 5.5, 100: 3.0}})
    found = event_files.without_lost_steps([first, second], [first, second])
    assert found[0].curves == {"loss": {1: 9.0, 60: 6.0}}
    assert found[1] == second
    # Evaluations after steps 60 and 80 of the first part, 50 of neither: a
    # command scored the best weights after all training.
    scores = [
        EventFile(1.5, {"f1": {60: 0.6}}),
        EventFile(2.0, {"f1": {80: 0.8}}),
        EventFile(4.0, {"f1": {50: 0.5}}),
    ]
    kept = event_files.without_lost_steps(scores, [first, second])
    assert event_files.joined(kept) == {"f1": {50: 0.5, 60: 0.6}}


def test_of_a_run_that_began_anew_nothing_older_is_left():
    old = EventFile(1.0, {"loss": {1: 9.0, 100: 3.0}})
    new = EventFile(2.0, {"loss": {1: 8.0}})
    found = event_files.without_lost_steps([old, new], [old, new])
    assert event_files.joined(found) == {"loss": {1: 8.0}}
    scores = [EventFile(1.5, {"f1": {100: 0.9}})]
    assert not event_files.without_lost_steps(scores, [old, new])[0].curves


def test_a_remote_folder_is_read(tensorflow_files):
    """TensorFlow's file system in memory stands for one."""
    write_events("ram://events/run", ".a", {("loss", 1): 9.0})
    (file,) = event_files.read("ram://events/run")
    assert file.curves == {"loss": {1: 9.0}}
    assert event_files.read("ram://events/nothing") == []
