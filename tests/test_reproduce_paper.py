"""reproduce_paper.py with stand-ins for the scripts, as a user runs it."""

import hashlib
import json
import shlex
import shutil
import signal

from base.errors import UserError

import pytest
import reproduction_runs
import scripts
from reproduction_runs import read_csv

from tools.reproduction import work_dir

reproduce_paper = reproduction_runs.reproduce_paper


@pytest.fixture
def run(tmp_path, monkeypatch):
    return reproduction_runs.runner(tmp_path, monkeypatch)


# --- Runs --------------------------------------------------------------------


def test_table_5_pretrains_each_model_once(run, tmp_path):
    assert run(num_seeds=2) == 0
    calls = reproduction_runs.calls(tmp_path)
    names = [call["script"] for call in calls]
    assert names.count("build_vocab.py") == 1
    assert names.count("create_pretraining_data.py") == 2
    # Three objectives, two seeds; the BiLSTM has no pre-training of its own.
    assert names.count("run_pretraining.py") == 6
    assert names.count("run_classifier.py") == 4 * 2 * 2
    objectives = [
        call.get("objective", "mlm_nsp")
        for call in calls
        if call["script"] == "run_pretraining.py"
    ]
    assert sorted(objectives) == sorted(["mlm_nsp", "mlm", "ltr"] * 2)


def test_means_and_differences_are_in_the_table(run, tmp_path):
    run(num_seeds=2)
    cells = read_csv(tmp_path)
    first = cells["BERT", "MRPC"]
    # Seeds 1 and 2 score 65 and 66.
    assert float(first["mean"]) == pytest.approx(65.5)
    assert float(first["standard_deviation"]) == pytest.approx(0.5**0.5)
    assert first["runs"] == "2"
    assert first["paper"] == "86.7"
    other = cells["No NSP", "MRPC"]
    assert float(other["difference_to_first_row"]) == pytest.approx(-10)
    assert other["paper_difference_to_first_row"] == "-0.2"
    assert cells["No NSP", "SQuAD"]["mean"] == ""
    text = (tmp_path / "work" / "table5.md").read_text()
    assert "| BERT | " in text and "65.5 ± 0.7 (2)" in text


def test_the_tokens_of_a_vocabulary_are_counted_as_the_scripts_do(
    run, tmp_path
):
    # U+2028 is a token of the Chinese vocabulary, and not the end of a line.
    path = tmp_path / "vocab.txt"
    path.write_text("[PAD]\na\u0085b\n\u2028\nc\n\n", encoding="utf-8")
    run(prepare_only=True, vocab_file=str(path))
    (config,) = (tmp_path / "work" / "configs").iterdir()
    assert json.loads(config.read_text())["vocab_size"] == 4


def test_finished_steps_are_not_repeated(run, tmp_path):
    run()
    count = len(reproduction_runs.calls(tmp_path))
    assert run() == 0
    assert len(reproduction_runs.calls(tmp_path)) == count


def test_more_seeds_tasks_and_experiments_use_what_is_there(run, tmp_path):
    run(set="table5.tasks=['MRPC']")
    count = len(reproduction_runs.calls(tmp_path))
    run(num_seeds=2, set="table5.tasks=['MRPC', 'SST-2']")
    new = reproduction_runs.calls(tmp_path)[count:]
    names = [call["script"] for call in new]
    assert names.count("run_pretraining.py") == 3  # of the second seed
    assert names.count("create_pretraining_data.py") == 0
    assert names.count("run_classifier.py") == 4 + 2 * 4


def test_machines_can_share_the_seeds(run, tmp_path):
    """Seed 1 here, seed 2 there; the copied work directories are one run."""
    run(num_seeds=1)
    run(num_seeds=1, first_seed=2, work_dir=str(tmp_path / "there"))
    seeds = {
        call.get("random_seed") for call in reproduction_runs.calls(tmp_path)
    }
    assert seeds == {None, "12345", "12346"}
    shutil.copytree(tmp_path / "there", tmp_path / "work", dirs_exist_ok=True)
    count = len(reproduction_runs.calls(tmp_path))
    assert run(num_seeds=2) == 0
    assert len(reproduction_runs.calls(tmp_path)) == count
    cell = read_csv(tmp_path)["BERT", "MRPC"]
    # Seeds 1 and 2 score 65 and 66.
    assert float(cell["mean"]) == pytest.approx(65.5) and cell["runs"] == "2"
    report = (tmp_path / "work" / "report.md").read_text()
    assert "| first_seed | 1 |" in report


def test_a_failed_task_is_in_its_cell_and_the_others_go_on(
    run, tmp_path, caplog
):
    assert run({"fails": "bilstm_layers"}.items()) == 1
    cells = read_csv(tmp_path)
    assert cells["+ BiLSTM", "MRPC"]["failed"] == "1"
    assert cells["LTR & No NSP", "MRPC"]["runs"] == "1"
    assert "failed" in (tmp_path / "work" / "table5.md").read_text()
    assert "it is broken" in caplog.text
    assert "--bilstm_layers=2" in caplog.text.split("To repeat it")[1]
    # A report that is written later has the failures too.
    assert run(report_only=True) == 1
    assert "it is broken" in (tmp_path / "work" / "report.md").read_text()
    assert read_csv(tmp_path)["+ BiLSTM", "MRPC"]["failed"] == "1"
    count = len(reproduction_runs.calls(tmp_path))
    assert run() == 0  # mended: only what failed is run
    assert run(report_only=True) == 0
    assert len(reproduction_runs.calls(tmp_path)) == count + 2


def test_scores_that_are_none_are_a_failure_of_their_step(run, tmp_path):
    assert run({"garbles": "bilstm_layers"}.items()) == 1
    cells = read_csv(tmp_path)
    assert cells["+ BiLSTM", "MRPC"]["failed"] == "1"
    assert cells["LTR & No NSP", "MRPC"]["runs"] == "1"
    count = len(reproduction_runs.calls(tmp_path))
    assert run() == 0
    assert len(reproduction_runs.calls(tmp_path)) == count + 2


def test_what_needs_a_failed_step_is_left_out(run, tmp_path):
    assert run({"fails": "--objective=ltr"}.items()) == 1
    cells = read_csv(tmp_path)
    assert cells["LTR & No NSP", "MRPC"]["failed"] == "1"
    assert cells["BERT", "MRPC"]["runs"] == "1"


def test_degenerate_runs_are_counted(run, tmp_path):
    run({"degenerate": "finetuning/mlm_L4"}.items())
    assert read_csv(tmp_path)["No NSP", "MRPC"]["degenerate"] == "1"
    report = (tmp_path / "work" / "report.md").read_text()
    assert "one answer to everything: 2." in report


def test_weights_of_fine_tuned_models_are_removed(run, tmp_path):
    run()
    work = tmp_path / "work"
    assert not list((work / "finetuning").rglob("*.ckpt*"))
    assert list((work / "pretraining").rglob("*.ckpt*"))


# --- Killed and started again ------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_run_that_was_stopped_goes_on(number, tmp_path):
    folder = reproduction_runs.make_scripts(tmp_path, hangs="objective=ltr")
    values = reproduction_runs.arguments(tmp_path, num_parallel=1)
    process = reproduction_runs.start(folder, values)
    reproduction_runs.wait_for_ltr(process, tmp_path)
    process.send_signal(number)
    _, log = process.communicate(timeout=60)
    assert process.returncode
    assert "Traceback" not in log
    before = reproduction_runs.calls(tmp_path)
    reproduction_runs.make_scripts(tmp_path)
    process = reproduction_runs.start(folder, values)
    _, log = process.communicate(timeout=60)
    assert process.returncode == 0, log
    after = reproduction_runs.calls(tmp_path)[len(before) :]
    repeated = [call for call in after if call in before]
    # Only the step that was running is run again.
    assert [call.get("objective") for call in repeated] == ["ltr"]


# --- Lists and reports without running ---------------------------------------


def test_a_dry_run_prints_the_commands_that_a_run_makes(run, tmp_path, capsys):
    assert (
        run(dry_run=True, experiment="all", tasks="MRPC", **ner_flags(tmp_path))
        == 0
    )
    printed = capsys.readouterr().out
    assert not reproduction_runs.calls(tmp_path)
    assert not (tmp_path / "work").exists()
    commands = shell_commands(printed)
    assert "--prepare_only" in commands.pop(0)
    run(experiment="all", tasks="MRPC", **ner_flags(tmp_path))
    made = [sorted(flags_of(line)) for line in commands]
    assert sorted(made) == sorted(
        sorted(f"{k}={v}" for k, v in call.items())
        for call in reproduction_runs.calls(tmp_path)
    )
    assert f"0 of {len(made)} steps are finished" in printed


def ner_flags(tmp_path):
    """Return the flags of named entities."""
    if (tmp_path / "dev.conll").exists():
        parts = ("train", "dev")
        return {f"ner_{p}_file": str(tmp_path / f"{p}.conll") for p in parts}
    return reproduction_runs.make_ner(tmp_path)


def shell_commands(text):
    """Return the commands of a list, each as its words."""
    joined = text.replace("\\\n", " ")
    lines = [x for x in joined.splitlines() if x and not x.startswith("#")]
    return [shlex.split(line) for line in lines]


def flags_of(words):
    """Return a command as the stand-ins note it."""
    pairs = [word.removeprefix("--").partition("=") for word in words[2:]]
    name = words[1].rsplit("/", 1)[-1]
    return [f"script={name}", *(f"{k}={v or 'true'}" for k, _, v in pairs)]


def test_commands_run_elsewhere_can_be_reported(run, tmp_path):
    run()
    shutil.rmtree(tmp_path / "work" / "steps")
    (tmp_path / "work" / "table5.csv").unlink()
    count = len(reproduction_runs.calls(tmp_path))
    assert run(report_only=True) == 0
    assert len(reproduction_runs.calls(tmp_path)) == count
    assert read_csv(tmp_path)["BERT", "MRPC"]["mean"] == "65"


def test_what_has_not_run_is_told(run, tmp_path):
    assert run(report_only=True) == 0
    assert read_csv(tmp_path)["BERT", "MRPC"]["missing"] == "1"
    assert "not run" in (tmp_path / "work" / "table5.md").read_text()


def test_the_report_joins_tables_pictures_data_and_commands(run, tmp_path):
    run(experiment="all", tasks="MRPC", **ner_flags(tmp_path))
    work = tmp_path / "work"
    report = (work / "report.md").read_text()
    for words in (
        "## Table 5",
        "![Table 8: masking](table8.png)",
        "train.conll",
        hashlib.sha256((tmp_path / "text.txt").read_bytes()).hexdigest()[:16],
        "/run_classifier.py",
        "| memory |",
        "No NSP below BERT: MRPC: the same direction, one run has no spread",
    ):
        assert words in report, words
    for name in ("table5", "table6", "table8", "figure5"):
        picture = (work / f"{name}.png").read_bytes()
        assert picture.startswith(b"\x89PNG") and len(picture) < 150_000


# --- Mistakes ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ({"experiment": ""}, "--experiment is required"),
        ({"experiment": "table9"}, "--experiment=table9: unknown; choose"),
        ({"scale": "big"}, "--scale=big: unknown; choose from paper, small"),
        ({"scale": "none.toml"}, "none.toml: cannot be read"),
        (
            {"dry_run": True, "report_only": True},
            "--dry_run and --report_only exclude each other",
        ),
        ({"input_file": None}, "--input_file is required"),
        ({"work_dir": "w,x"}, "--work_dir=w,x: ',' has a meaning in the lists"),
        ({"work_dir": "w[1]"}, "--work_dir=w[1]: '[' has a meaning in the"),
        ({"input_file": "none*.txt"}, "no file matches 'none*.txt'"),
        ({"input_file": "gs://a/b"}, "must be local"),
        ({"work_dir": None}, "--work_dir is required"),
        ({"work_dir": "/proc/nowhere"}, "--work_dir=/proc/nowhere cannot be"),
        ({"glue_dir": "nowhere"}, "--glue_dir=nowhere is not a directory"),
        ({"glue_dir": "."}, "--glue_dir=. has no task"),
        ({"glue_dir": None}, "table5: no task of it has data: MNLI (no --glue"),
        ({"experiment": "figure5"}, "figure5: no task of it has data: MNLI ("),
        ({"tasks": "MRPC,XYZ"}, "--tasks: unknown task 'XYZ'; choose from MNL"),
        ({"squad_dev_file": "a"}, "--squad_dev_file needs --squad_train_file"),
        ({"set": "table5"}, "--set=table5: wanted key=value"),
        ({"set": "table5.restart=2"}, "unknown key restart; did you mean rest"),
        ({"set": "table5.restarts=two"}, "restarts = 'two': wanted an integer"),
        ({"set": "corpus.dupe_factor=0"}, "dupe_factor = 0: must be at least"),
        ({"vocab_file": "none.txt"}, "cannot read the vocabulary 'none.txt'"),
        ({"held_out_file": "none"}, "--held_out_file: no file matches 'none'"),
    ],
)
def test_a_mistake_is_one_line(values, problem, run, tmp_path, monkeypatch):
    (tmp_path / "work").mkdir()
    values = {"work_dir": "work", **values}
    folder = reproduction_runs.make_scripts(tmp_path)
    monkeypatch.setattr(reproduce_paper, "HERE", str(folder))
    flags = reproduction_runs.arguments(tmp_path, **values)
    error = scripts.error_of(reproduce_paper, **flags)
    assert problem in error
    assert not reproduction_runs.calls(tmp_path)
    assert not list((tmp_path / "work").iterdir())


def test_seeds_start_at_one(tmp_path):
    values = reproduction_runs.arguments(tmp_path, num_seeds=0)
    process = reproduction_runs.start(tmp_path, values)
    _, log = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "num_seeds=0" in log and "Traceback" not in log


@pytest.mark.parametrize("count", [0, 1, 3])
def test_a_corpus_of_few_documents_is_refused(count, run, tmp_path):
    path = tmp_path / "few.txt"
    path.write_text("\n\n".join(f"Document {n}." for n in range(count)))
    with pytest.raises(UserError, match="put blank lines between documents"):
        run(input_file=str(path))
    assert not reproduction_runs.calls(tmp_path)


def test_a_corpus_has_a_document_for_each_file_of_records(run, tmp_path):
    with pytest.raises(UserError, match="num_record_files=28, or") as error:
        run(prepare_only=True, set="corpus.num_record_files=40")
    assert (
        "--input_file: the documents to train on (28) have 28 parts, fewer "
        "than the 40 files" in str(error.value)
    )
    # As the message advises.
    assert run(prepare_only=True, set="corpus.num_record_files=28") == 0


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        (
            {"set": "model.dropout=0.2"},
            "_dropout_prob was 0.1, is 0.2",
        ),
        ({"scale": "small"}, "corpus.held_out_share was 0.05, is 0.08; "),
        ({"input_file": "other.txt"}, "text.txt of --input_file was "),
        ({"vocab_file": "vocab.txt"}, "--vocab_file was not there"),
        ({"glue_dir": "other"}, "MRPC/run1: dev.tsv was "),
        ({"set": "corpus.dupe_factor=2"}, "--dupe_factor was 1, is 2"),
        (
            {"set": "tasks.MRPC.num_train_epochs=9"},
            "MRPC/run1: --num_train_epochs was 0.1, is 9",
        ),
    ],
)
def test_a_work_dir_of_another_command_is_refused(
    values, problem, run, tmp_path
):
    run(set="table5.tasks=['MRPC']")
    (tmp_path / "other.txt").write_text((tmp_path / "text.txt").read_text())
    (tmp_path / "vocab.txt").write_text("[PAD]\n")
    shutil.copytree(tmp_path / "glue", tmp_path / "other")
    with (tmp_path / "other" / "MRPC" / "dev.tsv").open("a") as file:
        file.write("1\t1\t2\ta\tb\n")
    with pytest.raises(
        UserError, match="begun by a different command"
    ) as error:
        run(**values)
    assert problem in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize(
    "setting",
    [
        "tasks.SST-2.num_train_epochs=5",
        "table5.restarts=2",
        "pretraining.num_train_steps=20",
        "table6.sizes=[{num_hidden_layers = 1, hidden_size = 8, "
        "num_attention_heads = 2}]",
    ],
)
def test_what_no_step_was_begun_with_may_change(setting, run):
    tasks = "table5.tasks=['MRPC']"
    assert run(set=tasks) == 0
    assert run(set=setting, tasks="SST-2") == 0


def test_two_runs_cannot_share_a_work_dir(run, tmp_path, monkeypatch):
    monkeypatch.setattr(work_dir, "_LOCK_SECONDS", 0)
    (tmp_path / "work").mkdir()
    with (
        work_dir.locked(str(tmp_path / "work")),
        pytest.raises(UserError, match="another run is writing"),
    ):
        run()


def test_lists_and_reports_do_not_wait_for_a_run(run, tmp_path, capsys):
    run()
    (tmp_path / "work" / "table5.csv").unlink()
    with work_dir.locked(str(tmp_path / "work")):
        assert run(dry_run=True) == 0
        assert run(report_only=True) == 0
    assert "steps are finished" in capsys.readouterr().out
    assert read_csv(tmp_path)["BERT", "MRPC"]["runs"] == "1"


def test_the_report_has_all_that_the_numbers_depend_on(run, tmp_path):
    (tmp_path / "own.txt").write_text("One.\n\nTwo.\n")
    (tmp_path / "tokens.txt").write_text("[PAD]\n")
    run(
        num_seeds=3,
        report_only=True,
        held_out_file=str(tmp_path / "own.txt"),
        vocab_file=str(tmp_path / "tokens.txt"),
    )
    report = (tmp_path / "work" / "report.md").read_text()
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in report.splitlines()
    ]
    for row in (
        ["num_seeds", "3"],
        ["finetuning.learning_rates", "[0.0005]"],
        ["tasks.MNLI.num_train_epochs", "0.001"],
        ["table6.restarts", "2"],
    ):
        assert row in rows, row
    named = [row[:2] for row in rows if len(row) == 4]
    assert ["held-out text", "own.txt"] in named
    assert ["vocabulary", "tokens.txt"] in named
    assert "0 of 35 steps have times" in report
