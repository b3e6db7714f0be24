"""Estimated times, against operations counted by hand."""

import json

import pytest
import reproduction_runs

from tools.reproduction import estimate, experiments, scales
from tools.reproduction.estimate import Examples, Speed
from tools.reproduction.plan import FINETUNING, Step
from tools.reproduction.scales import Size
from tools.reproduction.tasks import Data

SIZE = Size(2, 10, 2)


def test_operations_of_an_encoder():
    """Products of [S, H] with [H, H], four times, with [H, 4H], [4H, H]:

    2 * 7 * (4 * 10 * 10 + 2 * 10 * 40) = 16,800, and 2 * 2 * 7 * 7 * 10 =
    1,960 of attention; two layers.
    """
    assert estimate.encoder_flops(SIZE, 7) == 2 * (16_800 + 1_960)


def test_operations_of_a_head():
    """3 positions: [10, 10] and [10, 50]."""
    assert estimate.head_flops(SIZE, 3, 50) == 3 * 2 * (100 + 500)


def test_operations_of_a_bilstm():
    """Input of 10, 3 units: each direction has [10, 12] and [3, 12].

    2 * 2 * (120 + 36) = 624; a second layer has [6, 12] and [3, 12], so
    2 * 2 * (72 + 36) = 432.
    """
    assert estimate.bilstm_flops(10, 3) == 624
    assert estimate.bilstm_flops(10, 3, 2) == 624 + 432


@pytest.fixture
def plan(tmp_path):
    """Table 5 on MRPC, two phases."""
    glue = reproduction_runs.make_glue(tmp_path)
    settings = [
        "pretraining.phases=[{max_seq_length=64, train_batch_size=8, "
        "share=0.9}, {max_seq_length=128, train_batch_size=8, share=0.1}]",
        "pretraining.num_train_steps=100",
    ]
    scale = scales.read("smoke", settings)
    data = Data(glue_dir=str(glue))
    return experiments.build(("table5",), scale, (), data, [1], False)[0]


def test_a_left_to_right_model_predicts_every_position(plan):
    phases = {
        name: step
        for name, step in plan.steps.items()
        if name.endswith("phase1")
    }
    masked, ltr = (
        next(s for n, s in phases.items() if f"/{kind}_L4" in n)
        for kind in ("mlm", "ltr")
    )
    size = masked.size
    encoder = estimate.encoder_flops(size, 64)
    for step, positions in ((masked, 10), (ltr, 64)):
        head = estimate.head_flops(size, positions, 2000)
        found = estimate.pretraining_flops(step, 2000)
        assert found == 3 * (encoder + head) * 8 * 90


def test_seconds_follow_from_the_measured_rate(plan):
    step = next(s for n, s in plan.steps.items() if n.endswith("phase2"))
    speed = Speed({64: 1e9, 1024: 1e10}, 12.0, "")
    estimator = estimate.Estimator(speed, Data(), {}, 2000)
    flops = estimate.pretraining_flops(step, 2000)
    assert estimator.seconds(step) == 12 + flops / 1e9


def test_fine_tuning_counts_epochs_rates_and_scoring(plan):
    step = next(s for s in plan.steps.values() if s.task == "MRPC")
    examples = Examples(train=1000, dev=100, tokens=20.0)
    each = estimate.encoder_flops(step.size, 20)
    # Smoke: a tenth of an epoch.
    wanted = each * (3 * 0.1 * 1000 + 100)
    found = estimate.finetuning_flops(step, examples)
    assert found == pytest.approx(wanted)
    flags = dict(step.flags)
    flags["sweep_learning_rates"] = "1,2,3"
    step = step._replace(flags=tuple(flags.items()))
    assert estimate.finetuning_flops(step, examples) == pytest.approx(
        3 * wanted
    )


def ner_features(**more):
    """Return a step of NER-features: 2 layers of 10, an epoch, 3 units."""
    flags = {
        "max_seq_length": "64",
        "num_train_epochs": "1",
        "feature_based": "true",
        "lstm_units": "3",
        **more,
    }
    return Step("a", "", FINETUNING, "", tuple(flags.items()), size=SIZE)


def test_frozen_features_count_the_encoder_once_and_the_bilstm_always():
    # 100 sentences to train on and 10 to score, 7 words each.
    examples = Examples(100, 10, 7)
    encoder = 2 * (16_800 + 1_960)
    # Input: four layers of 10. 2 * 2 * (40 + 3) * 12 = 2,064; then 432.
    bilstm = 7 * (2064 + 432)
    wanted = 110 * encoder + (3 * 100 + 10) * bilstm
    assert estimate.finetuning_flops(ner_features(), examples) == wanted
    sweep = ner_features(sweep_learning_rates="1,2")
    wanted += (3 * 100 + 10) * bilstm
    assert estimate.finetuning_flops(sweep, examples) == wanted


def test_a_bilstm_on_a_fine_tuned_encoder_is_counted():
    examples = Examples(100, 10, 7)
    step = ner_features(
        feature_based="false", bilstm_layers="2", bilstm_units="3"
    )
    each = 2 * (16_800 + 1_960) + 7 * (624 + 432)
    assert estimate.finetuning_flops(step, examples) == 310 * each


def test_each_run_of_a_sweep_is_started(tmp_path):
    ner = reproduction_runs.make_ner(tmp_path)
    speed = Speed({64: 1e30}, 10.0, "")  # nothing but starts counts
    estimator = estimate.Estimator(speed, Data(**ner), {}, 2000)
    for rates, starts in (("1", 1), ("1,2,3", 4)):
        step = ner_features(sweep_learning_rates=rates)._replace(task="NER")
        assert estimator.seconds(step) == pytest.approx(10 * starts)


def test_examples_are_counted(tmp_path):
    glue = reproduction_runs.make_glue(tmp_path)
    ner = reproduction_runs.make_ner(tmp_path)
    squad = tmp_path / "squad.json"
    paragraph = {"context": "x" * 360, "qas": [{}, {}, {}]}
    squad.write_text(json.dumps({"data": [{"paragraphs": [paragraph] * 2}]}))
    data = Data(str(glue), f"{squad},{squad}", str(squad), **ner)
    assert estimate.count_examples("MRPC", data)[:2] == (12, 12)
    assert estimate.count_examples("NER", data)[:2] == (12, 12)
    found = estimate.count_examples("SQuAD", data)
    assert found == (12, 6, pytest.approx(420 / 4.2))


def test_the_nearest_sizes_are_measured():
    assert estimate.sizes_to_measure([64, 128]) == ["tiny"]
    assert estimate.sizes_to_measure([128, 256, 256]) == ["tiny", "mini"]
    assert estimate.sizes_to_measure([768, 1024]) == ["base"]


def test_finished_steps_correct_the_estimate_of_their_kind():
    assert estimate.corrections([]) == {}
    # The speed of text processing tells nothing of that of training.
    assert estimate.corrections([("vocabulary", 50, 1)]) == {}
    finished = [
        ("vocabulary", 50, 1),
        ("pretraining", 30, 10),
        ("pretraining", 10, 10),
    ]
    assert estimate.corrections(finished) == {
        "vocabulary": 50,
        "records": 1,
        "pretraining": 2,
        "finetuning": 2,
    }
    finished.append(("finetuning", 5, 10))
    found = estimate.corrections(finished)
    assert (found["pretraining"], found["finetuning"]) == (2, 0.5)


def test_a_measurement_is_kept(tmp_path, monkeypatch):
    figures = {
        "matrix product": {"flops": 1.0},
        "training step, mini, batch 32": {
            "matmul_peak_share": 0.5,
            "peak_flops": 4e11,
            "seconds": 0.25,
            "first_call_seconds": 8.0,
        },
    }
    line = json.dumps({"machine": {}, "figures": figures})
    scripts_dir = tmp_path / "scripts"
    scripts_dir.mkdir()
    script = scripts_dir / "benchmark.py"
    script.write_text(f"print('| table |')\nprint({line!r})\n")
    monkeypatch.setattr(estimate, "_load", lambda: 3.0)
    first = estimate.measure([256], "float32", str(scripts_dir), str(tmp_path))
    assert "busy with 3.0 processes per core" in first.how
    assert first.rates == {256: 2e11} and first.start_seconds == 13
    assert "--sizes=mini" in first.how and "0.25 s" in first.how
    assert estimate.known_speed(str(tmp_path)) == first
    assert estimate.known_speed(str(scripts_dir)) == estimate.UNMEASURED
    script.write_text("import sys\nsys.exit('ERROR: no')\n")
    again = estimate.measure([256], "float32", str(scripts_dir), str(tmp_path))
    assert again == first
    with pytest.raises(ValueError, match="benchmark.py failed: no"):
        estimate.measure([128], "float32", str(scripts_dir), str(tmp_path))
