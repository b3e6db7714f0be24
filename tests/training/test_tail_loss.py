"""The loss of the last steps: which steps count, and restarts."""

import json
import math

import pytest

from training.tail_loss import TailLoss, TailMeter, read_sign


def sums(loss: float, steps: int, examples: int) -> dict:
    return {"loss": (loss, steps), "tokens": (1.0, examples)}


@pytest.mark.parametrize(
    "last, batch, first",
    [
        (343, 32, 308),  # a tenth, rounded up: 35 steps
        (18, 32, 14),  # 4 steps for 100 examples
        (6, 32, 3),  # at most half of the run
        (1, 32, 1),
    ],
)
def test_the_last_tenth_counts_or_a_hundred_examples(
    tmp_path, last, batch, first
):
    assert TailMeter(str(tmp_path), last, batch).first == first


def test_the_mean_is_that_of_the_last_steps(tmp_path):
    meter = TailMeter(str(tmp_path), 100, 32)
    assert math.isnan(meter.value().loss)
    meter.add(0, sums(1e9, 90, 2880))
    meter.add(90, sums(6.0, 4, 128))
    meter.add(94, sums(3.0, 6, 192))
    assert meter.value() == TailLoss(0.9, 10, 320)


def test_a_run_that_goes_on_has_the_sums_of_all_parts(tmp_path):
    meter = TailMeter(str(tmp_path), 100, 32)
    meter.add(90, sums(6.0, 4, 128))
    meter.save(94)
    meter.add(94, sums(1.0, 3, 96))
    meter.save(97)
    for done, rest in ((97, (3, 96)), (94, (6, 192))):
        again = TailMeter(str(tmp_path), 100, 32)
        again.restore(done)
        again.add(done, sums(2.0, *rest))
        assert again.value()[1:] == (10, 320)
    again.save(100)
    finished = TailMeter(str(tmp_path), 100, 32)
    finished.restore(100)
    assert finished.value() == again.value()


def test_a_run_killed_twice_while_it_saves_the_same_step(tmp_path):
    """The sums of step 97 are written, but not its checkpoint."""
    meter = TailMeter(str(tmp_path), 100, 32)
    meter.add(90, sums(6.0, 4, 128))
    meter.save(94)
    for _ in range(3):
        meter = TailMeter(str(tmp_path), 100, 32)
        meter.restore(94)
        assert meter.value() == TailLoss(1.5, 4, 128)
        meter.add(94, sums(1.0, 3, 96))
        meter.save(97)
    meter.restore(97)
    assert meter.value() == TailLoss(1.0, 7, 224)


def test_nothing_is_written_before_the_last_steps(tmp_path):
    TailMeter(str(tmp_path), 100, 32).save(90)
    assert not list(tmp_path.iterdir())


def test_the_sign_of_a_failed_run_is_that_of_one_step(tmp_path):
    """A run that goes on loses it."""
    meter = TailMeter(str(tmp_path), 100, 32)
    meter.write_sign(100, None)
    assert not list(tmp_path.iterdir())
    meter.save(100)
    meter.write_sign(100, "the loss is high")
    assert read_sign(str(tmp_path), 100) == "the loss is high"
    assert read_sign(str(tmp_path), 99) is None
    meter.restore(100)  # the sums are there still
    TailMeter(str(tmp_path), 200, 32).save(200)
    assert read_sign(str(tmp_path), 100) is None
    meter.write_sign(100, "the loss is high")
    meter.write_sign(100, None)
    assert read_sign(str(tmp_path), 100) is None


@pytest.mark.parametrize(
    "text", ["{", "[]", '{"last_step": 100}', '{"last_step": 100, "sums": [1]}']
)
def test_a_damaged_file_is_as_none(tmp_path, text):
    (tmp_path / "tail_loss.json").write_text(text)
    assert read_sign(str(tmp_path), 97) is None
    meter = TailMeter(str(tmp_path), 100, 32)
    meter.write_sign(97, "x")
    meter.restore(97)
    meter.add(97, sums(2.0, 3, 96))
    assert meter.value().num_examples == 96


def test_sums_of_a_run_of_another_length_are_not_used(tmp_path):
    meter = TailMeter(str(tmp_path), 100, 32)
    meter.add(90, sums(6.0, 10, 320))
    meter.save(100)
    longer = TailMeter(str(tmp_path), 110, 32)
    longer.restore(100)
    assert longer.value().num_steps == 0
    longer.add(100, sums(1.0, 10, 320))
    longer.save(110)
    found = json.loads((tmp_path / "tail_loss.json").read_text())
    assert list(found["sums"]) == ["110"]
