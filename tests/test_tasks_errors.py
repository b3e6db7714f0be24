"""What cannot work ends in one line that names the flag or the file.

Nothing is trained: all flags and all data are read first.
"""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import scripts
from marks import nightly
from task_cases import CASES, TaskCase

from checkpoints.run_folder import RunFolder
from finetuning import flags as finetuning_flags
from tasks.fine_tuned import find_source

SCRIPTS = ("run_classifier", "run_squad", "run_ner", "run_swag")
OF_SCRIPTS = [next(c for c in CASES if c.script == name) for name in SCRIPTS]

every_script = pytest.mark.parametrize("case", OF_SCRIPTS, ids=SCRIPTS)
# What the scripts share with each other.
first_script = pytest.mark.parametrize(
    "case", [OF_SCRIPTS[0], *map(nightly, OF_SCRIPTS[1:])], ids=SCRIPTS
)


@pytest.fixture(scope="module")
def flags_of(tmp_path_factory) -> Callable[[TaskCase], dict]:
    """Return a function of a case -> flags that train on its data."""
    made: dict[str, dict] = {}

    def get(case: TaskCase) -> dict:
        if case.script not in made:
            folder = tmp_path_factory.mktemp(case.script)
            made[case.script] = case.write(folder, folder / "out")
        return made[case.script]

    return get


# Flags that cannot work, and what the message names.
EVERYWHERE = [
    ({"do_train": False, "do_eval": False}, "--do_train"),
    ({"output_dir": None}, "--output_dir"),
    ({"init_checkpoint": "/nowhere"}, "--init_checkpoint=/nowhere"),
    ({"init_checkpoint": None}, "--init_checkpoint is required"),
    ({"bert_config_file": "/nowhere"}, "/nowhere"),
    ({"vocab_file": "/nowhere"}, "/nowhere"),
    ({"max_seq_length": 65}, "max_position_embeddings=64"),
    ({"train_batch_size": 10000, "num_train_epochs": 0.1}, "make no step"),
    ({"num_train_epochs": 1e30}, "--num_train_epochs=1e+30"),
    ({"bilstm_layers": 1, "bilstm_units": 10**8}, "1 layer of 100000000 u"),
    ({"gradient_accumulation_steps": 3}, "--gradient_accumulation_steps"),
    ({"early_stopping_patience": 2}, "--eval_steps"),
    ({"do_train": False}, "bert_model.ckpt"),
    ({"do_train": False, "num_restarts": 2}, "--do_train"),
    ({"sweep_learning_rates": "fast"}, "--sweep_learning_rates=fast"),
    ({"bilstm_units": 6}, "--bilstm_layers"),
    ({"freeze_layers": 2}, "--freeze_layers=2: the model has 1"),
    ({"freeze_layers": 1, "do_train": False}, "--do_train"),
    ({"freeze_layers": 1, "init_checkpoint": None}, "--init_checkpoint"),
]

PAIRS = {"text_a_column": "sentence", "text_b_column": "sentence"}
THRESHOLD = {"null_score_diff_threshold": 1.0}
TUNED = {"tune_null_threshold": True, "version_2_with_negative": True}
FEATURES, LAST = {"feature_based": True}, {"feature_layers": "last"}
# Flags for one script alone.
OWN = {
    "run_classifier": [
        ({"task_name": None}, "--task_name"),
        ({"task_name": "snli"}, "cola"),
        (
            {"task_name": "MRCP"},
            "--task_name: unknown 'mrcp'; choose from cola",
        ),
        ({"data_dir": "/nowhere"}, "--data_dir=/nowhere"),
        ({"text_a_column": "text"}, "'text'"),
        ({"label_column": "class"}, "'class'"),
        ({"task_name": "cola", "regression": True}, "--task_name=tsv"),
        ({"task_name": "ax"}, "no training file"),
        (
            {"task_name": "cola", "data_dir": None, "train_file": "/x"},
            "--train_file needs --task_name=tsv",
        ),
        ({"regression": True}, "is not a number"),
        ({"class_weights": "/nowhere"}, 'balanced, or a JSON file {"label":'),
        ({"multi_label": True, "label_smoothing": 0.1}, "--multi_label"),
        ({"regression": True, "label_smoothing": 0.1}, "--label_smoothing"),
        ({"long_texts": "windows", "doc_stride": 23}, "--doc_stride=23"),
        ({"max_windows": 3}, "--long_texts=windows"),
        ({"doc_stride": 3}, "--doc_stride needs --long_texts=windows"),
        (PAIRS | {"long_texts": "windows"}, "for single texts"),
        ({"calibrate": True, "do_eval": False}, "--do_eval"),
        ({"calibrate": True, "multi_label": True}, "--multi_label"),
        ({"calibrate": True, "do_train": False}, "bert_model.ckpt"),
    ],
    "run_squad": [
        ({"train_file": None}, "--train_file"),
        ({"predict_file": None}, "--predict_file"),
        ({"train_file": "/no.json"}, "--train_file"),
        ({"predict_file": "/no.json"}, "--predict_file"),
        ({"predict_file": "/dev/null,"}, "--predict_file"),
        ({"max_seq_length": 11}, "--max_query_length"),
        ({"tune_null_threshold": True}, "--version_2_with_negative"),
        ({"version_2_with_negative": True}, "--version_2_with_negative"),
        ({"ensemble_dirs": "/no", "do_train": False}, "--ensemble_dirs"),
        ({"ensemble_dirs": "/no"}, "--do_train"),
        ({"null_score_diff_threshold": "nan"}, "--null_score_diff_threshold"),
        (THRESHOLD | TUNED, "--tune_null_threshold"),
        ({"triviaqa_evidence_dir": "/no"}, "'Data'"),
    ],
    "run_ner": [
        ({"train_file": None}, "--train_file"),
        ({"dev_file": None}, "--dev_file"),
        ({"dev_file": None, "do_eval": False, "eval_steps": 5}, "--dev_file"),
        ({"do_predict": True, "test_file": None}, "--test_file"),
        ({"train_file": "/nowhere"}, "--train_file=/nowhere"),
        ({"test_file": "/nowhere"}, "--test_file=/nowhere"),
        ({"token_column": 2}, "--token_column=2"),
        ({"label_column": 0}, "--label_column"),
        ({"label_column": 5}, "--label_column=5"),
        (LAST, "--feature_layers"),
        ({"lstm_units": 3}, "--lstm_units"),
        (FEATURES, "1 layers"),
        (FEATURES | {"init_checkpoint": None}, "--init_checkpoint"),
        (FEATURES | {"bilstm_layers": 1, "bilstm_units": 6}, "--bilstm_layers"),
        (FEATURES | {"freeze_layers": 1}, "--freeze_layers"),
        (FEATURES | {"layer_decay": 0.9}, "--layer_decay"),
        (FEATURES | {"recompute": "layers"}, "--recompute"),
        (FEATURES | LAST | {"records_dir": "file:///tmp/x"}, "--records_dir"),
    ],
    "run_swag": [
        ({"data_dir": None}, "--data_dir"),
        ({"data_dir": "/nowhere"}, "--data_dir=/nowhere"),
        ({"data_dir": "/proc/self"}, "train.csv"),
    ],
}


def check_refused(case: TaskCase, flags: dict, out: Path, words: str) -> None:
    """Check that the script names something, and that nothing was trained."""
    given = {"output_dir": out} | flags
    line = scripts.error_of(scripts.load(case.script), **given)
    assert words in line, line
    assert not list(out.glob("*model.ckpt*"))


@first_script
@pytest.mark.parametrize("flags, words", EVERYWHERE, ids=str)
def test_flags_of_all_scripts(flags_of, tmp_path, case, flags, words):
    flags = flags_of(case) | {"output_dir": tmp_path / "out"} | flags
    check_refused(case, flags, tmp_path / "out", words)


@pytest.mark.parametrize(
    "case, flags, words",
    [
        pytest.param(case, *row, id=f"{case.script}-{row}")
        for case in OF_SCRIPTS
        for row in OWN[case.script]
    ],
)
def test_flags_of_one_script(flags_of, tmp_path, case, flags, words):
    flags = flags_of(case) | {"output_dir": tmp_path / "out"} | flags
    check_refused(case, flags, tmp_path / "out", words)


# --- Files -------------------------------------------------------------------

CONFIG = "bert_config.json"


@first_script
@pytest.mark.parametrize(
    "name, content, words",
    [
        (CONFIG, "{", CONFIG),
        (CONFIG, '{"vocab_size": 5}', "vocab_size"),
        (CONFIG, '{"vocab_size": 1000000000000}', "vocab_size"),
        (CONFIG, '{"vocab_size": 2000000000}', "correct vocab_size"),
        (CONFIG, '{"vocab_size": 1e400}', "vocab_size"),
        (CONFIG, '{"vocab_size": 99, "num_hidden_layers": 1001}', "num_hidden"),
        ("vocab.txt", "[PAD]\nx\n", "vocab.txt"),
        ("vocab.txt", None, "vocab_size"),
        ("bert_model.ckpt.index", "", "bert_model.ckpt"),
        ("bert_model.ckpt.data-00000-of-00001", "", "bert_model.ckpt"),
    ],
)
def test_damaged_files_of_a_model(
    flags_of, tmp_path, case, name, content, words
):
    """`content` None: more words than the model has."""
    flags = flags_of(case)
    model = shutil.copytree(flags["init_checkpoint"], tmp_path / "model")
    if content is None:
        content = (model / name).read_text() + "\n".join("qwertyuiop")
    (model / name).write_text(content)
    flags = flags | {"init_checkpoint": model, "output_dir": tmp_path / "out"}
    check_refused(case, flags, tmp_path / "out", words)


@pytest.mark.parametrize("script", [*SCRIPTS, "run_embeddings"])
def test_a_default_length_is_no_more_than_the_models_positions(
    script, flags_of, caplog
):
    module = scripts.load(script)
    case = next(case for case in CASES if case.script == script)
    given = flags_of(case) | {"max_seq_length": None, "max_query_length": None}
    given |= {"do_train": True}
    known = {
        name: value for name, value in given.items() if name in module.FLAGS
    }
    flags = scripts.parse(module, **known)
    caplog.set_level("INFO", logger="absl")
    folder = RunFolder("")
    settings = finetuning_flags.read_settings(flags, folder)
    source = find_source(settings)
    job = module.create_work(settings, source).job
    assert job.source.max_seq_length == 64
    assert "max_seq_length = 64" in caplog.text
    if script == "run_squad":
        assert job.flags.lengths.max_query_length == 16
        assert job.task.lengths == job.flags.lengths


# Lines that damage the files of a task, and what the message says of them.
BAD_LINES = {
    "run_classifier": ("good\tfilm\tbad\n", "line"),
    "run_squad": ("{", "not JSON"),
    "run_ner": ("\nann B-PER\nrome\n", "1 column, wanted 2"),
    "run_swag": ("too,few\n", "2 columns"),
}
FILES = {
    "run_classifier": ("train.tsv", "dev.tsv", "test.tsv"),
    "run_squad": ("train1.json", "dev1.json", "dev1.json"),
    "run_ner": ("train.txt", "dev.txt", "test.txt"),
    "run_swag": ("train.csv", "val.csv", "test.csv"),
}


@every_script
@pytest.mark.parametrize("part", [0, 1, 2], ids=["train", "dev", "test"])
@pytest.mark.parametrize("sweep", [{}, nightly({"num_restarts": 2})], ids=str)
def test_damaged_data(flags_of, tmp_path, case, part, sweep):
    """The files of every job that is asked for, in a sweep too."""
    flags = flags_of(case)
    folder = Path(flags["init_checkpoint"]).parent
    data = shutil.copytree(folder, tmp_path / "data")
    flags = {
        name: value.replace(str(folder), str(data))
        if isinstance(value, str)
        else value
        for name, value in flags.items()
    }
    if case.script == "run_ner":
        flags["test_file"] = str(data / "test.txt")
    path = data / FILES[case.script][part]
    line, words = BAD_LINES[case.script]
    with path.open("a") as file:
        file.write(line)
    flags |= {"output_dir": tmp_path / "out", "do_predict": True} | sweep
    flags["do_eval"] = part == 1
    line = scripts.error_of(scripts.load(case.script), **flags)
    assert words in line and path.name in line, line
    assert not (tmp_path / "out").exists()
