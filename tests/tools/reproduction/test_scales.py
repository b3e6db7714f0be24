"""Scales: those of the project, a user's own, single values, mistakes."""

from base.errors import UserError

import pytest

from tools.reproduction import scales


def changed(before, after):
    """Return the values of a scale that another one has not."""
    return {k: v for k, v in after.items() if before.get(k) != v}


def test_paper_is_what_the_paper_says():
    """Sections 3, 4.1, 5 and appendix A.2."""
    scale = scales.read("paper")
    assert scale.size.name == "L12_H768_A12"
    given = scale.table("pretraining")
    assert given.num_train_steps == 1_000_000
    assert [tuple(phase.values()) for phase in given.phases] == [
        (128, 256, 0.9),
        (512, 256, 0.1),
    ]
    assert given.learning_rate == 1e-4
    assert given.warmup_proportion * 1e6 == 10_000
    assert scale["model.dropout"] == 0.1
    # Section 4.1; the original's Adam does not correct its bias.
    usual = scale.table("finetuning")
    assert usual.learning_rates == [5e-5, 4e-5, 3e-5, 2e-5]
    assert not usual.bias_correction and not given.bias_correction
    assert usual.train_batch_size == 32
    assert [scales.Size(**s).name for s in scale["table6.sizes"]] == [
        "L3_H768_A12",
        "L6_H768_A3",
        "L6_H768_A12",
        "L12_H768_A12",
        "L12_H1024_A16",
        "L24_H1024_A16",
    ]
    assert vars(scale.table("bilstm")) == {"layers": 2, "units": 768}
    # Sections 4.2 to 4.4.
    tuned = [scale.for_task(name) for name in ("SQuAD", "SQuAD2", "SWAG")]
    assert [
        (t.num_train_epochs, t.learning_rates, t.train_batch_size)
        for t in tuned
    ] == [(3, [5e-5], 32), (2, [5e-5], 48), (3, [2e-5], 16)]
    restarts = [scale[f"table{n}.restarts"] for n in (2, 6, 7)]
    assert restarts == [7, 5, 5]


def test_values_are_replaced():
    small = scales.read("small")
    settings = [
        "dtype=bfloat16",
        "tasks.RTE.num_train_epochs=5",
        'figure5.tasks=["MRPC", "SST-2"]',
        "pretraining.phases=[{max_seq_length=64, train_batch_size=8, share=1}]",
    ]
    scale = scales.read("small", settings)
    phase = {"max_seq_length": 64, "train_batch_size": 8, "share": 1.0}
    assert changed(small, scale) == {
        "dtype": "bfloat16",
        "tasks.RTE.num_train_epochs": 5.0,
        "figure5.tasks": ["MRPC", "SST-2"],
        "pretraining.phases": [phase],
    }
    assert scale.for_task("RTE").num_train_epochs == 5
    assert scale.for_task("MRPC") == scale.table("finetuning")


@pytest.mark.parametrize(
    ("setting", "problem"),
    [
        ("num_sedes=2", "unknown key num_sedes; known are num_seeds"),
        ("table5", "unknown key table5; known are"),
        ("pretraining.lerning_rate=1", "unknown key pretraining.lerning_rate"),
        ("tasks.squad.doc_stride=5", "unknown key tasks.squad.doc_stride"),
        ("num_seeds=2.5", "num_seeds = 2.5: wanted one such as 1"),
        ("num_parallel=0", "num_parallel = 0: must be at least 1"),
        ("num_seeds=true", "num_seeds = True: wanted one such as 1"),
        ("model.dropout=no", "model.dropout = 'no': wanted one such as 0.1"),
        ("finetuning.learning_rates=1", "wanted one such as [5e-05, "),
        ("pretraining.phases=1", "wanted one such as [{'max_seq_length'"),
        ("pretraining.phases=[{share=1}]", "wanted one such as {'max_seq_len"),
        ("table5.tasks=['XYZ']", "unknown task 'XYZ'; choose from MNLI, QNLI"),
    ],
)
def test_a_mistake_is_one_line(setting, problem):
    with pytest.raises(UserError) as error:
        scales.read("small", [setting])
    assert problem in str(error.value) and "\n" not in str(error.value)
    assert str(error.value).startswith("--set=")
