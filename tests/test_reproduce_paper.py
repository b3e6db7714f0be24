"""tools.reproduce_paper as a user runs it, with stand-ins for the scripts."""

import hashlib
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time

from base import file_system

import pytest
import scripts
from marks import nightly
from paths import ROOT
from reproduction_runs import Runs

from tools.reproduction import experiments, scales, work_dir


@pytest.fixture
def run(tmp_path):
    return Runs(tmp_path)


def locked(run):
    """Lock a work directory inside the block, as a run does."""
    return file_system.locked_folder(str(run.work / "lock"), "it")


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """All experiments on MRPC and NER have run; its state is not changed."""
    run = Runs(tmp_path_factory.mktemp("whole"))
    run.set_stand_ins(degenerate="finetuning/mlm_L4")
    path = run.folder / "own.flags"
    path.write_text(
        "--tasks=MRPC\n--set=num_parallel=4\n"
        "--set=table1.tasks=['MRPC']\n--set=table5.tasks=[]\n"
        "--set=table6.tasks=[]\n--set=figure5.tasks=[]\n"
    )
    run.values = {"experiment": "all", "flagfile": str(path)}
    assert run(**run.values, **run.ner) == 0
    return run


# --- What a run leaves -------------------------------------------------------


def test_a_model_is_trained_once_for_all_tables(whole):
    names = [call["script"] for call in whole.calls()]
    assert names.count("build_vocab.py") == 1
    # Three objectives, five more maskings, one more size.
    assert names.count("run_pretraining.py") == 3 + 5 + 1
    assert names.count("prepare_corpus.py") == 1
    # Six maskings, held-out text.
    assert names.count("create_pretraining_data.py") == 6 + 1
    left = [path.parts for path in whole.work.rglob("*.ckpt*")]
    assert any("pretraining" in parts for parts in left)
    assert not any("finetuning" in parts for parts in left)


def test_a_dry_run_prints_the_commands_that_a_run_makes(whole, capsys):
    count = len(whole.calls())
    assert whole(dry_run=True, **whole.values, **whole.ner) == 0
    printed = capsys.readouterr().out
    lines = printed.replace("\\\n", " ").splitlines()
    commands = [shlex.split(x) for x in lines if x and not x.startswith("#")]
    assert "--report_only" in commands.pop(0)
    listed = []
    for _, script, *flags in commands:
        pairs = [flag.removeprefix("--").partition("=") for flag in flags]
        call = {name: value or "true" for name, _, value in pairs}
        listed.append({"script": os.path.basename(script), **call})

    def sort(calls):
        return sorted(sorted(call.items()) for call in calls)

    assert sort(listed) == sort(whole.calls())
    assert printed.count("; finished") == count == len(whole.calls())
    assert printed.startswith((whole.work / "commands.sh").read_text()[:50])


def test_the_report_joins_tables_pictures_data_and_commands(whole):
    report = whole.report()
    text = (whole.folder / "text.txt").read_bytes()
    for words in (
        "## Table 5",
        "## Table 8: percent of [MASK]",
        "train.conll",
        hashlib.sha256(text).hexdigest()[:16],
        f"{len(whole.calls())} commands: [commands.sh]",
        '"memory": ',
        '"pretraining.learning_rate": 0.002,',
        '"table6.restarts": 2,',
    ):
        assert words in report, words
    assert " run_classifier.py" in (whole.work / "commands.sh").read_text()
    assert whole.cells()["No NSP", "MRPC"] == ["degenerate"]
    picture = (whole.work / "figure5.png").read_bytes()
    assert picture.startswith(b"\x89PNG") and len(picture) < 150_000


def test_lists_and_reports_do_not_wait_for_a_run(whole, capsys):
    (whole.work / "table5.csv").unlink()
    with locked(whole):
        assert whole(dry_run=True, **whole.values, **whole.ner) == 0
        assert whole(report_only=True, **whole.values, **whole.ner) == 0
    assert whole.cells()["BERT", "MRPC"] == [65]


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ({"set": "model.dropout=0.2"}, "_dropout_prob was 0.1, is 0.2"),
        ({"scale": "small"}, "corpus: --num_shards was 1, is 8"),
        ({"input_file": "{0}/other.txt"}, "corpus: text.txt was "),
        ({"vocab_file": "{0}/vocab.txt"}, "vocab.txt was not there, is "),
        ({"glue_dir": "{0}/other"}, "MRPC/run1: dev.tsv was "),
        ({"set": "corpus.dupe_factor=2"}, "--dupe_factor was 1, is 2"),
        (
            {"set": "tasks.MRPC.num_train_epochs=9"},
            "MRPC/run1: --num_train_epochs was 0.1, is 9",
        ),
    ],
)
def test_a_work_dir_of_another_command_is_refused(values, problem, whole):
    folder = whole.folder
    shutil.copy(folder / "text.txt", folder / "other.txt")
    (folder / "vocab.txt").write_text("[PAD]\n")
    shutil.copytree(folder / "glue", folder / "other", dirs_exist_ok=True)
    with (folder / "other" / "MRPC" / "dev.tsv").open("a") as file:
        file.write("1\t1\t2\ta\tb\n")
    values = {key: value.format(folder) for key, value in values.items()}
    error = whole.error(**{**whole.values, "experiment": "table5", **values})
    assert "begun by a different command" in error and problem in error


@pytest.mark.parametrize(
    "values",
    [
        {"set": "tasks.SST-2.num_train_epochs=5", "tasks": "SST-2"},
        {"set": "table5.restarts=2", "num_seeds": 2},
        {"set": "pretraining.num_train_steps=20"},
        {"glue_dir": "{0}/moved"},
    ],
)
def test_what_no_step_was_begun_with_may_change(values, whole):
    shutil.copytree(
        whole.folder / "glue", whole.folder / "moved", dirs_exist_ok=True
    )
    if "glue_dir" in values:
        values = {"glue_dir": values["glue_dir"].format(whole.folder)}
    values = {**whole.values, "experiment": "table5", **values}
    assert whole(report_only=True, **values) == 0


# --- The same command again, and others after it -----------------------------


@pytest.mark.nightly
def test_seeds_and_tasks_use_what_is_there(run):
    assert run(set="table5.tasks=['MRPC']") == 0
    count = len(run.calls())
    assert run(num_seeds=2, set="table5.tasks=['MRPC']") == 0
    seeds = {call.get("random_seed") for call in run.calls()}
    assert seeds == {None, "12345", "12346"}
    assert len(run.calls()) < 2 * count, "text and vocabulary are used again"
    count = len(run.calls())
    assert run(num_seeds=2, set="table5.tasks=['MRPC', 'SST-2']") == 0
    new = [(c["script"], c["task_name"]) for c in run.calls()[count:]]
    assert new == [("run_classifier.py", "SST-2")] * 8
    cells = run.cells()
    assert cells["BERT", "MRPC"] == [65, 66]  # of the seeds
    assert cells["No NSP", "MRPC"] == [55, 56]
    assert ("No NSP", "SQuAD") not in cells
    text = (run.work / "table5.md").read_text()
    assert "65.5 ± 0.7 (2)" in text and "-10.0 (-0.2)" in text
    # Commands that ran elsewhere have left no markers.
    shutil.rmtree(run.work / "steps")
    (run.work / "steps").mkdir()
    assert run(report_only=True, set="table5.tasks=['MRPC']") == 0
    assert run.cells()["BERT", "MRPC"] == [65]


@pytest.mark.nightly
def test_a_failed_step_is_in_its_cell_and_is_tried_again(run, caplog):
    run.set_stand_ins(fails="bilstm_layers")
    words = "it is broken"
    only = {"set": "table5.tasks=['MRPC']"}
    assert run(**only) == 1
    assert run.cells()["+ BiLSTM", "MRPC"] == ["failed"]
    assert run.cells()["LTR & No NSP", "MRPC"] == [50]
    assert words in caplog.text and "farewell" not in run.report()
    # A report that is written later has the failures too.
    assert run(report_only=True, **only) == 1
    assert words in run.report()
    assert run.cells()["+ BiLSTM", "MRPC"] == ["failed"]
    count = len(run.calls())
    run.set_stand_ins()
    assert run(**only) == 0
    assert run(report_only=True, **only) == 0
    assert len(run.calls()) == count + 1


@pytest.mark.nightly
def test_another_command_may_cure_a_failed_step(run):
    run.set_stand_ins(fails="bilstm_layers")
    assert run() == 1
    run.set_stand_ins()
    assert run(set="bilstm.units=16") == 0
    assert run.calls()[-1]["bilstm_units"] == "16"


def test_scores_between_the_steps_of_a_run_are_not_its_score(run):
    only = {"set": "table5.tasks=['MRPC']"}
    assert run(**only) == 0
    (marker,) = run.work.glob("steps/finetuning/*mlm_nsp*/**/MRPC/run1.json")
    begun = json.loads(marker.read_text())
    del begun["finished"]
    marker.write_text(json.dumps(begun))
    assert run(report_only=True, **only) == 0
    assert run.cells()["BERT", "MRPC"] == ["not run"]


def test_what_needs_a_failed_step_is_left_out(run):
    run.set_stand_ins(fails="--objective=ltr")
    assert run(tasks="MRPC", set="table5.tasks=[]") == 1
    assert run.cells()["LTR & No NSP", "MRPC"] == ["failed"]
    assert run.cells()["BERT", "MRPC"] == [65]


@pytest.mark.parametrize("number", [nightly(signal.SIGKILL), signal.SIGTERM])
def test_a_run_that_was_stopped_goes_on(number, run):
    """Only the step that was running is repeated; if it may end, times add."""
    run.set_stand_ins(hangs="objective=ltr")
    only = {"set": "table5.tasks=['MRPC']"}
    flags = [f"--{key}={value}" for key, value in run.flags(**only).items()]
    flags.append("--set=num_parallel=1")
    process = subprocess.Popen(
        [sys.executable, "-m", "tools.reproduce_paper", *flags],
        cwd=run.scripts,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stderr=subprocess.PIPE,
        text=True,
    )
    run.wait_for("ltr")
    time.sleep(2)
    process.send_signal(number)
    _, text = process.communicate(timeout=60)
    assert process.returncode and "Traceback" not in text
    if number == signal.SIGTERM:  # a run that may still write has its tables
        assert run.cells()["No NSP", "MRPC"] == [55]
    before = run.calls()
    run.set_stand_ins()
    assert run(**only) == 0
    repeated = [call for call in run.calls()[len(before) :] if call in before]
    assert [call.get("objective") for call in repeated] == ["ltr"]
    (marker,) = (run.work / "steps").glob("pretraining/ltr*/**/*.json")
    seconds = json.loads(marker.read_text())["seconds"]
    assert 2 * (number == signal.SIGTERM) <= seconds < 60


def test_a_given_model_needs_no_text(run):
    (run.folder / "my bert").mkdir()
    (run.folder / "my bert" / "bert_model.ckpt.index").touch()
    own = {
        "experiment": "table1,table7",
        "init_checkpoint": str(run.folder / "my bert"),
        "input_file": None,
        **run.ner,
    }
    assert run(**own, num_seeds=2) == 0
    calls = run.calls()
    # MRPC and SST-2; fine-tuned and six choices of frozen layers.
    scripts = [call["script"] for call in calls]
    assert scripts.count("run_classifier.py") == 2 * 2
    assert scripts.count("run_ner.py") == len(calls) - 4 == 2 * 7
    assert {c["init_checkpoint"] for c in calls} == {own["init_checkpoint"]}
    assert {c["random_seed"] for c in calls} == {"12345", "12346"}
    assert "| BERT | " in (run.work / "table1.md").read_text()
    assert run.cells("table7")["Last Hidden", "NER"] == [50, 51]
    # Nor do models of its own need another --work_dir, and the reverse.
    assert run(report_only=True) == 0
    assert run(report_only=True, **own) == 0
    own["init_checkpoint"] = str(run.folder / "other")
    assert "--init_checkpoint was " in run.error(**own)


@pytest.mark.parametrize("checkpoint", [None, "bert"])
def test_files_of_the_user_are_not_replaced(checkpoint, run):
    run.work.mkdir()
    (run.work / "report.md").write_text("mine")
    own = {"experiment": "table1", "init_checkpoint": checkpoint}
    assert "holds report.md, which this script did" in run.error(**own)
    assert (run.work / "report.md").read_text() == "mine"


def test_an_empty_vocab_file_is_none(run, capsys):
    assert run(vocab_file="", dry_run=True) == 0
    assert "build_vocab.py" in capsys.readouterr().out


# --- Before anything runs ----------------------------------------------------


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ({"experiment": "table9"}, "'table9': value should be one of"),
        ({"scale": "big"}, "--scale=big: value should be one of <smoke|small"),
        ({"dry_run": True, "report_only": True}, "--dry_run or --report_only"),
        ({"input_file": None}, "--input_file is empty"),
        ({"init_checkpoint": "a"}, "table5 pre-trains models of its own"),
        (
            {"experiment": "table1,table5", "init_checkpoint": "a"}
            | {"input_file": None},
            "--input_file is empty",
        ),
        ({"swag_dir": "nowhere"}, "--swag_dir=nowhere is not a directory"),
        ({"squad_dev_file": "a"}, "--squad_dev_file=a: no such file"),
        ({"work_dir": "w,x"}, "--work_dir=w,x: ',' has a meaning in the lists"),
        ({"input_file": "gs://a/b"}, "must be local"),
        ({"work_dir": "/proc/nowhere"}, "--work_dir=/proc/nowhere cannot be"),
        ({"glue_dir": "."}, "no task has data; left out are table5: MNLI (no"),
        ({"glue_dir": None}, "table5: MNLI (no --glue_dir), table5: QNLI (no "),
        ({"set": "table5.tasks=[]"}, "no task has data; left out are none"),
        ({"tasks": "MRPC,XYZ"}, "'XYZ': value should be one of <MNLI|"),
        (
            {"set": "tasks.MRPC.max_seq_length=600"},
            "max_seq_length = 600 exceeds model.max_position_embeddings = 128",
        ),
        ({"vocab_file": "none.txt"}, "cannot read the vocabulary 'none.txt'"),
    ],
)
def test_a_mistake_is_one_line(values, problem, run, monkeypatch):
    monkeypatch.chdir(run.folder)
    run.work.mkdir()
    assert problem in run.error(**values)
    assert not list(run.work.iterdir())


def test_two_runs_cannot_share_a_work_dir(run):
    run.work.mkdir()
    with locked(run):
        assert "another run is writing" in run.error()


def test_what_the_user_gives_is_counted_and_named(run, capsys):
    """Text to hold out, and a vocabulary, without any run."""
    (run.folder / "own.txt").write_text("One.\n\nTwo.\n")
    # U+2028 is a token of the Chinese vocabulary, and not the end of a line.
    vocab = run.folder / "tokens.txt"
    vocab.write_text("[PAD]\na\u0085b\n\u2028\nc\n\n", encoding="utf-8")
    own = {"held_out_file": run.folder / "own.txt", "vocab_file": vocab}
    assert run(num_seeds=3, report_only=True, **own) == 0
    (config,) = (run.work / "configs").iterdir()
    assert json.loads(config.read_text())["vocab_size"] == 4
    assert run.cells()["BERT", "MRPC"] == ["not run"] * 3
    report = run.report()
    for words in ('"num_seeds": 3,', '/own.txt": [', '/tokens.txt": ['):
        assert words in report
    # It is not trained on.
    own |= {"input_file": f"{run.folder}/*[nt].txt", "dry_run": True}
    assert run(**own) == 0
    assert f"--input_file={run.folder}/text.txt \\\n" in capsys.readouterr().out


# --- The real scripts --------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["paper", *(nightly(n) for n in ("smoke", "small", "night"))]
)
def test_scripts_accept_every_command(name, run):
    """With the values of each scale; paths alone are stand-ins."""
    squad = run.folder / "squad.json"
    squad.write_text("{}")
    for part in ("train", "val"):
        (run.folder / f"{part}.csv").touch()
    files = ("squad_train", "squad_dev", "squad2_train", "squad2_dev")
    data = {
        "glue_dir": str(run.folder / "glue"),
        **{f"{name}_file": str(squad) for name in (*files, "triviaqa")},
        "triviaqa_evidence_dir": str(run.folder),
        "swag_dir": str(run.folder),
        **run.ner,
    }
    tasks = ("MRPC", "SST-2", "SQuAD", "NER", "NER-features")
    plan, _ = experiments.build(
        experiments.NAMES, scales.read(name), tasks, data
    )
    used = set()
    for step in plan.steps.values():
        own = scripts.load(step.script.removesuffix(".py")).FLAGS
        own.unparse_flags()
        own(work_dir.WorkDir("", {}).words(step))
        used.add(step.script)
    assert len(used) == 8


@pytest.mark.nightly
def test_a_tiny_run_ends_with_scores(run):
    """Table 6 with one size and one task, as a user starts it."""
    size = "{num_hidden_layers=1, hidden_size=16, num_attention_heads=2}"
    settings = [
        f"table6.sizes=[{size}]",
        "table6.tasks=['MRPC']",
        "table6.restarts=1",
        "pretraining.num_train_steps=4",
        "pretraining.phases=[{max_seq_length=32, train_batch_size=4, share=1}]",
        "pretraining.flags=['--nojit_compile']",  # compiling takes longest
        "finetuning.flags=['--nojit_compile']",
        "corpus.vocab_size=300",
        "corpus.held_out_share=0.3",
        "finetuning.max_seq_length=32",
        "finetuning.num_train_epochs=1",
        "finetuning.train_batch_size=4",
    ]
    flags = [f"--{k}={v}" for k, v in run.flags(experiment="table6").items()]
    flags += [f"--set={setting}" for setting in settings]
    result = subprocess.run(
        [sys.executable, "-m", "tools.reproduce_paper", *flags],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0, result.stderr
    cells = run.cells("table6")
    row = "L1_H16_A2"
    assert row in result.stdout
    for column, low, high in ("perplexity", 1, 1000), ("MRPC", 0, 100):
        (score,) = cells[row, column]
        assert score == "degenerate" or low <= score <= high
    assert (row, "MNLI-m") not in cells
