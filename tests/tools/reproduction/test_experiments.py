"""Plans: which commands the tables need, their order, what they share."""

import pytest
import reproduction_runs

from tools.reproduction import experiments, scales, steps
from tools.reproduction.plan import FINETUNING, PRETRAINING, RECORDS
from tools.reproduction.tasks import Data

SETTINGS = [
    "pretraining.num_train_steps=1000",
    "pretraining.phases=[{max_seq_length=64, train_batch_size=8, share=0.9}, "
    "{max_seq_length=128, train_batch_size=8, share=0.1}]",
    "figure5.shares=[0.25, 0.9, 0.95, 1.0]",
]


@pytest.fixture
def build(tmp_path):
    """Return a function: experiments -> plan and tables, on MRPC and NER."""
    glue = reproduction_runs.make_glue(tmp_path)
    ner = reproduction_runs.make_ner(tmp_path)
    data = Data(glue_dir=str(glue), **ner)

    def build_with(*names, num_seeds=1, settings=(), extra=("MRPC",)):
        only = [f"{n}.tasks=[]" for n in experiments.NAMES if n != "table8"]
        only += ['table8.tasks=["NER", "NER-features"]']
        scale = scales.read("smoke", [*SETTINGS, *only, *settings])
        seeds = range(1, num_seeds + 1)
        return experiments.build(names, scale, extra, data, seeds, False)

    return build_with


def count(plan, kind):
    """Return the number of steps of a kind."""
    return sum(step.kind == kind for step in plan.steps.values())


def flags_of(plan, name):
    """Return the flags of a step."""
    return dict(plan.steps[name].flags)


def test_every_step_comes_after_those_it_needs(build):
    plan, _ = build(*experiments.NAMES, num_seeds=2)
    done = set()
    for name, step in plan.steps.items():
        assert done.issuperset(step.after), name
        done.add(name)
    outputs = [step.output for step in plan.steps.values()]
    assert len(set(outputs)) == len(outputs)


def test_table_5_has_three_models_and_four_rows(build):
    plan, (table,) = build("table5")
    assert count(plan, PRETRAINING) == 3 * 2  # two phases
    assert count(plan, RECORDS) == 2 + 1  # two lengths, held-out at the last
    assert count(plan, FINETUNING) == 4
    assert [row.label for row in table.rows] == [
        "BERT",
        "No NSP",
        "LTR & No NSP",
        "+ BiLSTM",
    ]
    ltr, bilstm = (
        flags_of(plan, row.cells["MRPC"].steps[0]) for row in table.rows[2:]
    )
    assert ltr["init_checkpoint"] == bilstm["init_checkpoint"]
    assert "bilstm_layers" not in ltr
    assert bilstm["bilstm_layers"] == "2"
    assert bilstm["output_dir"] != ltr["output_dir"]


def test_both_phases_are_of_one_run(build):
    plan, _ = build("table5")
    one, two = [
        dict(s.flags)
        for s in plan.steps.values()
        if s.kind == PRETRAINING and "/mlm_nsp_" in s.name
    ]
    assert one["num_train_steps"] == two["num_train_steps"] == "1000"
    assert one["stop_after_steps"] == "900" and "do_eval" not in one
    assert two["resume_from"] == one["output_dir"]
    assert "stop_after_steps" not in two and two["do_eval"] == "true"
    assert (one["max_seq_length"], two["max_seq_length"]) == ("64", "128")
    assert "length64" in one["input_file"] and "length128" in two["input_file"]
    # 64 x 0.15 = 9.6 and 128 x 0.15 = 19.2 tokens.
    predictions = [f["max_predictions_per_seq"] for f in (one, two)]
    assert predictions == ["10", "20"]


def test_figure_5_takes_checkpoints_of_table_5(build):
    plan, (_, figure) = build("table5", "figure5")
    alone, _ = build("table5")
    assert [s for s in plan.steps if s.startswith("pretraining")] == [
        s for s in alone.steps if s.startswith("pretraining")
    ]
    folders = [
        flags_of(plan, row.cells["MRPC"].steps[0])["init_checkpoint"]
        for row in figure.rows
        if row.curve == "BERT"
    ]
    begin = "{work_dir}/pretraining/mlm_nsp_L4_H32_A2_mask80-10-10_steps1000"
    assert folders == [
        f"{begin}/seed1/{place}"
        for place in ("phase1/step-250", "phase1", "phase2/step-950", "phase2")
    ]
    # The last point is a cell of Table 5.
    assert plan.experiments[figure.rows[-2].cells["MRPC"].steps[0]] == [
        "table5",
        "figure5",
    ]
    kept = [
        dict(s.flags).get("keep_steps")
        for s in plan.steps.values()
        if s.kind == PRETRAINING
    ]
    # Masked LM with next sentences, masked LM alone, left to right.
    assert kept == ["250", "950", None, None, "250", "950"]


def test_figure_5_always_has_the_last_step():
    """The paper's 1M steps are drawn there."""
    scale = scales.read("smoke", ["figure5.shares=[0.2, 0.5]"])
    scale = scale._replace(
        pretraining=scale.pretraining._replace(num_train_steps=1000)
    )
    assert experiments.kept_steps(scale) == [200, 500, 1000]


def test_table_8_has_six_maskings_and_shares_the_first_with_table_5(build):
    plan, (_, table) = build("table5", "table8")
    assert count(plan, PRETRAINING) == (3 + 5) * 2
    assert count(plan, RECORDS) == 6 * 2 + 1
    rates = [
        (flags["mask_token_prob"], flags["random_token_prob"])
        for step in plan.steps.values()
        if step.kind == RECORDS
        and (flags := dict(step.flags))["max_seq_length"] == "64"
    ]
    assert rates == [
        ("0.8", "0.1"),
        ("1", "0"),
        ("0.8", "0.2"),
        ("0.8", "0"),
        ("0", "0.8"),
        ("0", "1"),
    ]
    frozen = flags_of(plan, table.rows[0].cells["NER-features"].steps[0])
    assert frozen["feature_based"] == "true"
    tuned = flags_of(plan, table.rows[0].cells["NER"].steps[0])
    assert "feature_based" not in tuned
    # All models are measured on the same held-out records.
    held_out = {
        dict(s.flags)["eval_input_file"]
        for s in plan.steps.values()
        if "eval_input_file" in dict(s.flags)
    }
    assert len(held_out) == 1


def test_table_6_averages_its_restarts(build):
    plan, (table,) = build(
        "table6", num_seeds=2, settings=["table6.restarts=5"]
    )
    cell = table.rows[0].cells["MRPC"]
    assert len(cell.steps) == 10
    assert len(table.rows[0].cells["perplexity"].steps) == 2
    seeds = {flags_of(plan, name)["random_seed"] for name in cell.steps}
    assert len(seeds) == 10


def test_sizes_share_the_model_of_table_5_where_they_agree(build):
    plan, _ = build("table5", "table6")
    size = "L4_H32_A2"
    runs = [
        name
        for name in plan.steps
        if name.startswith(f"pretraining/mlm_nsp_{size}_")
    ]
    assert len(runs) == 2  # phases
    assert plan.experiments[runs[0]] == ["table5", "table6"]
    plan, _ = build("table5", "table6", settings=["table6.num_train_steps=500"])
    runs = [
        n for n in plan.steps if n.startswith(f"pretraining/mlm_nsp_{size}")
    ]
    assert len(runs) == 4


def test_all_of_the_first_seed_comes_before_the_second(build):
    plan, _ = build(*experiments.NAMES, num_seeds=2)
    seeds = [
        name.split("/seed")[1][0] for name in plan.steps if "/seed" in name
    ]
    assert seeds == sorted(seeds)
    assert set(seeds) == {"1", "2"}


def test_a_run_of_more_seeds_begins_with_the_same_commands(build):
    one, _ = build("table5")
    two, _ = build("table5", num_seeds=2)
    for name, step in one.steps.items():
        assert two.steps[name] == step


def test_several_learning_rates_are_a_sweep(build):
    settings = ["finetuning.learning_rates=[5e-5, 3e-5]"]
    plan, (table,) = build("table5", settings=settings)
    flags = flags_of(plan, table.rows[0].cells["MRPC"].steps[0])
    assert flags["sweep_learning_rates"] == "5e-05,3e-05"
    assert "learning_rate" not in flags


def test_a_size_may_have_its_own_learning_rate(build):
    sizes = (
        "table6.sizes=[{num_hidden_layers=2, hidden_size=64, "
        "num_attention_heads=2, learning_rate=0.003}]"
    )
    plan, _ = build("table6", settings=[sizes])
    (first, _) = [s for s in plan.steps.values() if s.kind == PRETRAINING]
    assert dict(first.flags)["learning_rate"] == "0.003"
    assert "_lr0.003_" in first.name


def test_flags_of_the_scale_reach_the_scripts(build):
    settings = [
        'pretraining.flags=["--use_tpu", "--tpu_name=x"]',
        "corpus.do_lower_case=false",
        "dtype=bfloat16",
    ]
    plan, _ = build("table5", settings=settings)
    for step in plan.steps.values():
        flags = dict(step.flags)
        assert (flags.get("tpu_name") == "x") == (step.kind == PRETRAINING)
        trains = step.kind in (PRETRAINING, FINETUNING)
        assert ("dtype" in flags) == trains
        assert ("do_lower_case" in flags) == (step.kind != PRETRAINING)


def test_activations_are_not_shared_between_encoders(build):
    plan, _ = build("table8", num_seeds=2, settings=["table8.restarts=2"])
    folders = {}
    for step in plan.steps.values():
        if step.task == "NER-features":
            flags = dict(step.flags)
            folder = flags["records_dir"]
            assert folder.startswith(flags["output_dir"])
            folders.setdefault(folder, set()).add(flags["init_checkpoint"])
    assert len(folders) == 6 * 2 * 2  # maskings, seeds, restarts
    assert all(len(encoders) == 1 for encoders in folders.values())


@pytest.mark.parametrize(
    ("value", "flag"), [("false", "false"), ("true", None)]
)
def test_the_bias_of_adam_is_corrected_unless_the_scale_forbids(
    build, value, flag
):
    plan, _ = build("table8", settings=[f"finetuning.bias_correction={value}"])
    found = {
        dict(step.flags).get("bias_correction")
        for step in plan.steps.values()
        if step.kind == FINETUNING
    }
    assert found == {flag}


def test_models_that_ner_features_cannot_read_have_empty_cells(build):
    plan, tables = build("table5", "table6", extra=("MRPC", "NER-features"))
    reasons = [table.left_out for table in tables]
    assert reasons[0]["NER-features of + BiLSTM"].startswith("it has a BiLSTM")
    assert reasons[1] == {
        "NER-features of L2_H32_A2": "it reads the last 4 layers, the model "
        "has 2"
    }
    assert ["NER-features" in row.cells for row in tables[0].rows] == [
        True,
        True,
        True,
        False,
    ]
    assert "MRPC" in tables[0].rows[3].cells
    for step in plan.steps.values():
        if step.task == "NER-features":
            assert step.size.num_hidden_layers >= 4
            assert "bilstm_layers" not in dict(step.flags)


def test_further_flags_may_have_one_dash_or_two(build):
    settings = ["finetuning.flags=['-use_tpu', '--tpu_name=a=b']"]
    plan, _ = build("table8", settings=settings)
    step = next(s for s in plan.steps.values() if s.kind == FINETUNING)
    assert step.flags[-2:] == (("use_tpu", "true"), ("tpu_name", "a=b"))


def test_kept_checkpoints_are_where_pretraining_writes_them():
    from pretraining import run  # imports TensorFlow

    scale = scales.read("smoke", SETTINGS)
    model = steps.Pretrained(scale.model.size, "ltr", steps.STANDARD, 1000, 1)
    folder, step = steps.checkpoint_of(model, scale, 250)
    assert folder == run.kept_folder(step, 250)
