"""Plans: which commands the tables need, their order, what they share."""

import pytest
import reproduction_runs

from tools.reproduction import experiments, scales, steps, tasks

FINETUNING, PRETRAINING, RECORDS = "finetuning", "pretraining", "records"

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
    data = {"glue_dir": str(glue), **ner}

    def build_with(
        *names, num_seeds=1, settings=(), extra=("MRPC",), checkpoint=""
    ):
        only = [f"{n}.tasks=[]" for n in experiments.NAMES if n != "table8"]
        only += ['table8.tasks=["NER", "NER-features"]']
        seeds = f"num_seeds={num_seeds}"
        scale = scales.read("smoke", [*SETTINGS, *only, *settings, seeds])
        return experiments.build(names, scale, extra, data, checkpoint)

    return build_with


def of_kind(plan, kind, words=""):
    """Return the flags of the steps of a kind, whose names have some words."""
    return [
        step.flags
        for step in plan.steps.values()
        if step.name.startswith(kind) and words in step.name
    ]


def finetuned(plan, table, column="MRPC"):
    """Return the flags of the first run of each cell of a column."""
    return [
        plan.steps[table.cells[row.label, column].steps[0]].flags
        for row in table.rows
    ]


def test_steps_come_after_those_they_need_and_seed_after_seed(build):
    plan, _ = build(*experiments.NAMES, num_seeds=2)
    done = set()
    for name, step in plan.steps.items():
        assert done.issuperset(step.after), name
        done.add(name)
    seeds = [name.split("/seed")[1][0] for name in done if "/seed" in name]
    ordered = [n.split("/seed")[1][0] for n in plan.steps if "/seed" in n]
    assert ordered == sorted(seeds) and {*seeds} == {"1", "2"}
    # A run of more seeds begins with the same commands.
    one, _ = build(*experiments.NAMES)
    assert one.steps.items() <= plan.steps.items()


def test_both_phases_are_of_one_run(build):
    plan, _ = build("table5")
    one, two = of_kind(plan, PRETRAINING, "/mlm_nsp_")
    assert one["num_train_steps"] == two["num_train_steps"] == "1000"
    assert one["stop_after_steps"] == "900" and "do_eval" not in one
    assert two["resume_from"] == one["output_dir"]
    assert "stop_after_steps" not in two and two["do_eval"]
    assert (one["max_seq_length"], two["max_seq_length"]) == ("64", "128")
    assert "length64" in one["input_file"] and "length128" in two["input_file"]
    # 64 x 0.15 = 9.6 and 128 x 0.15 = 19.2 tokens.
    predictions = [f["max_predictions_per_seq"] for f in (one, two)]
    assert predictions == ["10", "20"]


def test_figure_5_takes_checkpoints_of_table_5(build):
    plan, (table, figure) = build("table5", "figure5")
    alone, _ = build("table5")
    assert of_kind(plan, PRETRAINING) == of_kind(alone, PRETRAINING)
    folders = [f["init_checkpoint"] for f in finetuned(plan, figure)[::2]]
    begin = "$work_dir/pretraining/mlm_nsp_L4_H32_A2_mask80-10-10_steps1000"
    assert folders == [
        f"{begin}/seed1/{place}"
        for place in ("phase1/step-250", "phase1", "phase2/step-950", "phase2")
    ]
    # The last point is a cell of Table 5.
    last = figure.cells[figure.rows[-2].label, "MRPC"]
    assert last.steps == table.cells["BERT", "MRPC"].steps
    kept = [flags.get("keep_steps") for flags in of_kind(plan, PRETRAINING)]
    assert kept == ["250", "950"] * 3


def test_figure_5_always_has_the_last_step():
    """The paper's 1M steps are drawn there."""
    settings = ["figure5.shares=[0.2, 0.5]", SETTINGS[0]]
    assert steps.kept_steps(scales.read("smoke", settings)) == [200, 500, 1000]


def test_table_8_has_six_maskings_and_shares_the_first_with_table_5(build):
    plan, (_, table) = build("table5", "table8")
    assert len(of_kind(plan, PRETRAINING)) == (3 + 5) * 2
    assert len(of_kind(plan, RECORDS)) == 6 * 2 + 1
    rates = [
        (flags["mask_token_prob"], flags["random_token_prob"])
        for flags in of_kind(plan, RECORDS, "train_length64")
    ]
    assert rates == [
        ("0.8", "0.1"),
        ("1", "0"),
        ("0.8", "0.2"),
        ("0.8", "0"),
        ("0", "0.8"),
        ("0", "1"),
    ]
    assert finetuned(plan, table, "NER-features")[0]["feature_based"]
    assert "feature_based" not in finetuned(plan, table, "NER")[0]
    # All models are measured on the same held-out records.
    measured = {f.get("eval_input_file") for f in of_kind(plan, PRETRAINING)}
    assert len(measured - {None}) == 1


def test_table_8_may_have_models_of_its_own(build):
    size = "{num_hidden_layers=2, hidden_size=64, num_attention_heads=4}"
    _, (_, table) = build("table5", "table8", settings=[f"table8.size={size}"])
    assert {row.size.name for row in table.rows} == {"L2_H64_A4"}


def test_table_6_averages_its_restarts(build):
    restarts = ["table6.restarts=5"]
    plan, (table,) = build("table6", num_seeds=2, settings=restarts)
    assert len(table.cells["L2_H32_A2", "perplexity"].steps) == 2
    names = table.cells["L2_H32_A2", "MRPC"].steps
    seeds = {plan.steps[name].flags["random_seed"] for name in names}
    assert len(seeds) == len(names) == 10


def test_values_of_the_scale_reach_the_scripts(build):
    settings = [
        'pretraining.flags=["-use_tpu", "--tpu_name=a=b"]',
        "corpus.do_lower_case=false",
        "dtype=bfloat16",
        "finetuning.learning_rates=[5e-5, 3e-5]",
        "finetuning.bias_correction=false",
    ]
    plan, _ = build("table5", settings=settings)
    for step in plan.steps.values():
        flags, kind = step.flags, step.name.partition("/")[0]
        is_pretraining = kind == PRETRAINING
        assert (flags.get("tpu_name") == "a=b") == is_pretraining
        assert ("use_tpu" in flags) == is_pretraining
        is_finetuning = kind == FINETUNING
        assert ("dtype" in flags) == (is_pretraining or is_finetuning)
        reads_case = kind in ("vocab.txt", RECORDS, FINETUNING)
        assert ("do_lower_case" in flags) == reads_case
        if is_finetuning:
            assert flags["sweep_learning_rates"] == "5e-05,3e-05"
            assert flags["bias_correction"] == "False"
            assert "learning_rate" not in flags


def test_activations_are_not_shared_between_encoders(build):
    plan, _ = build("table8", num_seeds=2, settings=["table8.restarts=2"])
    runs = of_kind(plan, FINETUNING, "NER-features")
    assert len(runs) == 6 * 2 * 2  # maskings, seeds, restarts
    for flags in runs:
        assert flags["records_dir"] == f"{flags['output_dir']}/records"


def test_table_7_has_six_choices_of_layers(build):
    plan, (table,) = build("table7", settings=["table7.tasks=['NER']"])
    layers = [f.get("feature_layers") for f in finetuned(plan, table, "NER")]
    assert layers == [
        None,
        "embeddings",
        "second_to_last",
        "last",
        "weighted_sum_last_four",
        "concat_last_four",
        "weighted_sum_all",
    ]
    frozen = [f.get("feature_based") for f in finetuned(plan, table, "NER")]
    assert frozen == [None] + [True] * 6


def test_an_ensemble_is_of_the_runs_of_a_seed(tmp_path):
    """Also after TriviaQA, on which a model is trained once."""
    (tmp_path / "a.json").touch()
    names = ("squad_train_file", "squad_dev_file", "triviaqa_file")
    data = dict.fromkeys(names, str(tmp_path / "a.json"))
    data["triviaqa_evidence_dir"] = str(tmp_path)
    rates = "tasks.SQuAD.learning_rates=[5e-5, 3e-5]"
    settings = ["table2.restarts=3", "num_seeds=2", rates]
    scale = scales.read("smoke", settings)
    plan, (table,) = experiments.build(["table2"], scale, [], data, "bert")
    cells = table.cells
    assert cells["Ensemble", "EM"].steps == cells["Ensemble", "SQuAD"].steps
    single, ensemble, _, other = (
        table.cells[row.label, "SQuAD"].steps for row in table.rows
    )
    assert len(single) == 6 and len(ensemble) == 2
    flags = plan.steps[ensemble[0]].flags
    assert flags["ensemble_dirs"].split(",") == [
        f"$work_dir/{name}" for name in single[:3]
    ]
    assert plan.steps[ensemble[0]].after == tuple(single[:3])
    assert flags["init_checkpoint"] == "bert"
    trained = of_kind(plan, PRETRAINING)
    assert [f["train_file"] for f in trained] == ["$triviaqa_file"] * 2
    # A sweep needs data to score.
    assert [f.get("learning_rate") for f in trained] == ["5e-05"] * 2
    assert "sweep_learning_rates" in plan.steps[single[0]].flags
    first = plan.steps[plan.steps[other[0]].after[0]].flags
    assert first["init_checkpoint"] == trained[0]["output_dir"]
    # Without TriviaQA the table has two rows less.
    del data["triviaqa_file"]
    _, (table,) = experiments.build(["table2"], scale, [], data, "bert")
    assert table.labels == ["Single", "Ensemble"]
    assert "no --triviaqa_file" in table.left_out["TriviaQA"]


def test_a_task_without_data_is_left_out(tmp_path):
    folder = tmp_path / "MNLI"
    folder.mkdir()
    data = {"glue_dir": str(tmp_path)}
    for name in ("train.tsv", "dev_matched.tsv"):
        (folder / name).touch()
    missing = folder / "dev_mismatched.tsv"
    assert tasks.missing("MNLI", data) == f"no {missing}"
    missing.touch()
    assert not tasks.missing("MNLI", data)
