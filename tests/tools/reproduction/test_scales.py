"""Scales: those of the project, a user's own, single values, mistakes."""

import types

from base.errors import UserError

import pytest

from tools.reproduction import scales


def replaced(values, **others):
    """Return a table of a scale with other values."""
    return types.SimpleNamespace(**{**vars(values), **others})


def test_paper_is_what_the_paper_says():
    """Sections 3, 4.1, 5 and appendix A.2."""
    scale = scales.read("paper")
    assert scale.size.name == "L12_H768_A12"
    assert scale.pretraining.num_train_steps == 1_000_000
    assert scale.pretraining.phases == [
        scales.Phase(128, 256, 0.9),
        scales.Phase(512, 256, 0.1),
    ]
    assert scale.pretraining.learning_rate == 1e-4
    assert scale.pretraining.warmup_proportion * 1e6 == 10_000
    assert scale.model.dropout == 0.1
    # Section 4.1; the original's Adam does not correct its bias.
    assert scale.finetuning.learning_rates == [5e-5, 4e-5, 3e-5, 2e-5]
    assert not scale.finetuning.bias_correction
    assert not scale.pretraining.bias_correction
    assert scale.finetuning.train_batch_size == 32
    assert scale.table6.restarts == 5
    assert [s.name for s in scale.table6.sizes] == [
        "L3_H768_A12",
        "L6_H768_A3",
        "L6_H768_A12",
        "L12_H768_A12",
        "L12_H1024_A16",
        "L24_H1024_A16",
    ]
    assert vars(scale.bilstm) == {"layers": 2, "units": 768}
    # Sections 4.2 to 4.4.
    tuned = [scale.for_task(name) for name in ("SQuAD", "SQuAD2", "SWAG")]
    assert [
        (t.num_train_epochs, t.learning_rates, t.train_batch_size)
        for t in tuned
    ] == [(3, [5e-5], 32), (2, [5e-5], 48), (3, [2e-5], 16)]
    assert scale.table2.restarts == 7 and scale.table7.restarts == 5


def test_values_are_replaced():
    settings = [
        "table6.num_train_steps=500",
        "dtype=bfloat16",
        "tasks.RTE.num_train_epochs=5",
        'figure5.tasks=["MRPC", "SST-2"]',
        "pretraining.phases=[{max_seq_length=64, train_batch_size=8, share=1}]",
    ]
    scale = scales.read("small", settings)
    assert scale.steps("table6") == 500
    assert scale.steps("table8") == scale.pretraining.num_train_steps
    assert scale.dtype == "bfloat16"
    assert scale.for_task("RTE").num_train_epochs == 5
    assert scale.for_task("MRPC") == scale.finetuning
    assert scale.figure5.tasks == ["MRPC", "SST-2"]
    assert scale.pretraining.phases == [scales.Phase(64, 8, 1.0)]
    assert scales.read("small").dtype == "float32"  # nothing is left behind


def test_triviaqa_is_trained_on_as_squad_at_one_rate():
    scale = scales.read("paper", ["tasks.SQuAD.learning_rates=[5e-5, 3e-5]"])
    wanted = replaced(scale.for_task("SQuAD"), learning_rates=[5e-5])
    assert scale.for_task("TriviaQA") == wanted
    assert wanted.max_seq_length > scale.finetuning.max_seq_length


@pytest.mark.parametrize("name", ["SQuAD", "squad"])
def test_a_value_of_a_task_leaves_its_other_values(name, tmp_path):
    """However the task is spelled, with --set and in a file."""
    before = scales.read("small").for_task("SQuAD")
    wanted = replaced(before, num_train_epochs=1.0)
    found = scales.read("small", [f"tasks.{name}.num_train_epochs=1"])
    assert found.for_task("SQuAD") == wanted
    path = tmp_path / "mine.toml"
    text = f'base = "small"\n[tasks.{name}]\nnum_train_epochs = 1\n'
    path.write_text(text)
    assert scales.read(str(path)).for_task("SQuAD") == wanted
    found = scales.read(str(path), ["tasks.sQuAD.doc_stride=32"])
    wanted = replaced(wanted, doc_stride=32)
    assert found.for_task("SQuAD") == wanted


def test_a_file_of_ones_own_begins_from_a_scale(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(
        'base = "small"\nnum_seeds = 5\n[pretraining]\nlearning_rate = 3e-4\n'
    )
    mine, small = scales.read(str(path)), scales.read("small")
    assert mine.num_seeds == 5
    assert mine.pretraining == replaced(small.pretraining, learning_rate=3e-4)
    assert mine.table5 == small.table5
    path.write_text("num_seeds = 1\n")
    assert scales.read(str(path)) == scales.read("paper")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("num_sedes = 2", "unknown key num_sedes; known are num_seeds"),
        ("[pretraining]\nlerning_rate = 1", "pretraining: unknown key lerning"),
        ("num_seeds = 2.5", "num_seeds = 2.5: wanted one such as 1"),
        ("num_seeds = true", "num_seeds = True: wanted one such as 1"),
        (
            '[model]\ndropout = "no"',
            "model: dropout = 'no': wanted one such as 0.1",
        ),
        ("num_seeds = 0", "num_seeds = 0: must be at least 1"),
        ("[finetuning]\nlearning_rates = 1", "wanted one such as [5e-05, "),
        ("[pretraining]\nphases = 1", "= 1: wanted a table of max_seq_length"),
        ("[tasks]\nsquad = 5", "tasks: SQuAD = 5: wanted a table of keys"),
        ("[table5]\ntasks = ['XYZ']", "table5: tasks: unknown task 'XYZ'"),
        (
            "[[table6.sizes]]\nnum_hidden_layers = 4\nhidden_size = 32\n"
            "num_attention_heads = 2\n" * 2,
            "table6.sizes has a size twice; a row is a size",
        ),
        (
            "[pretraining]\nphases = [{max_seq_length=64, train_batch_size=8, "
            "share=0.5}]",
            "the shares of pretraining.phases add up to 0.5, wanted 1",
        ),
        ("num_seeds =", "not valid TOML"),
        ("base = 'tiny'", "base = 'tiny'; choose from paper, small, night"),
        ("base = ['small']", "base = ['small']; choose from paper, small"),
    ],
)
def test_a_mistake_in_a_file_is_one_line(text, problem, tmp_path):
    path = tmp_path / "mine.toml"
    if "base" not in text:
        text = f'base = "small"\n{text}'
    path.write_text(text)
    with pytest.raises(UserError) as error:
        scales.read(str(path))
    assert problem in str(error.value) and "\n" not in str(error.value)
    assert "mine.toml" in str(error.value)
