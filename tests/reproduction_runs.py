"""A corpus, tasks, and runs of reproduce_paper.py with stand-ins for scripts.

A stand-in takes the flags of the script, writes what the script would write
and notes its flags in a file, all in 30 ms.
"""

import csv
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import scripts
from paths import ROOT

reproduce_paper = scripts.load("reproduce_paper")

_STAND_IN = '''"""Stand-in for a script of the project."""

import glob
import json
import os
import pathlib
import sys
import time

flags = {"script": pathlib.Path(__file__).name}
for argument in sys.argv[1:]:
    name, _, value = argument.removeprefix("--").partition("=")
    flags[name] = value or "true"
settings = json.loads(pathlib.Path(__file__).with_name("s.json").read_text())
with open(settings["calls"], "a") as file:
    file.write(json.dumps(flags) + "\\n")
line = " ".join(sys.argv)
if settings["hangs"] and settings["hangs"] in line:
    time.sleep(60)
if settings["fails"] and settings["fails"] in line:
    sys.exit("12:00:00 first line\\nERROR: it is broken")
for name in ("init_checkpoint", "resume_from"):
    if name in flags and not list(pathlib.Path(flags[name]).glob("*.ckpt*")):
        sys.exit(f"ERROR: --{name}={flags[name]}: no checkpoint")
for path in flags.get("input_file", "").split(","):
    if path and not glob.glob(path):
        sys.exit(f"ERROR: --input_file={path}: no file")
print("12:00:00 WARNING: beware", file=sys.stderr)
folder = pathlib.Path(flags.get("output_dir") or flags["output_file"])
if flags["script"] == "build_vocab.py":
    folder.write_text("[PAD]\\n")
    sys.exit(0)
if "output_file" in flags:
    folder.parent.mkdir(parents=True, exist_ok=True)
    name, _, count = folder.name.partition("@")
    for n in range(int(count)):
        path = folder.with_name(f"{name}-{n:05}-of-{int(count):05}")
        path.write_text("records")
    sys.exit(0)
folder.mkdir(parents=True, exist_ok=True)
seed = int(flags["random_seed"]) - 12345
score = 0.5 + 0.01 * seed + 0.1 * ("mlm_nsp" in line) + 0.05 * ("/mlm_" in line)
(folder / "bert_model.ckpt.index").write_text("weights")
for step in filter(None, flags.get("keep_steps", "").split(",")):
    (folder / f"step-{step}").mkdir(exist_ok=True)
    (folder / f"step-{step}" / "bert_model.ckpt.index").write_text("weights")
keys = "eval_accuracy f1 matthews_correlation spearman"
lines = [f"{key} = {score}" for key in keys.split()]
lines += ["masked_lm_perplexity = 9.5", "lm_perplexity = 20.5"]
lines += ["f1 = high"] if settings["garbles"] in line else []
lines += ["degenerate = 1"] if settings["degenerate"] in line else []
(folder / "eval_results.txt").write_text("\\n".join(lines))
'''


def make_scripts(folder: Path, **settings: str) -> Path:
    """Write a stand-in for each script; return their folder.

    Args:
        folder: where; its `calls` has the flags of every run.
        **settings: fails, hangs, degenerate, garbles: part of a command line.
    """
    own = folder / "scripts"
    own.mkdir(exist_ok=True)
    for name in ("build_vocab", "create_pretraining_data", "run_pretraining"):
        (own / f"{name}.py").write_text(_STAND_IN)
    for name in ("run_classifier", "run_squad", "run_ner"):
        (own / f"{name}.py").write_text(_STAND_IN)
    values = {"fails": "", "hangs": "", "degenerate": "no such line"}
    values |= {"garbles": "no such line"}
    values |= {"calls": str(folder / "calls"), **settings}
    (own / "s.json").write_text(json.dumps(values))
    return own


def calls(folder: Path) -> list[dict[str, str]]:
    """Return the flags of every run of a stand-in, in order."""
    path = folder / "calls"
    text = path.read_text() if path.exists() else ""
    return [json.loads(line) for line in text.splitlines()]


def make_text(folder: Path, num_documents: int = 30) -> Path:
    """Write a file of short documents."""
    path = folder / "text.txt"
    path.write_text(
        "\n\n".join(
            f"Document {n} begins here.\nIt ends, {n} times {n} later."
            for n in range(num_documents)
        )
    )
    return path


def make_glue(folder: Path) -> Path:
    """Write MRPC and SST-2 with 12 examples each."""
    glue = folder / "glue"
    for task, header, row in (
        (
            "MRPC",
            "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String",
            "1\t1\t2\ta b\tc",
        ),
        ("SST-2", "sentence\tlabel", "a film\t1"),
    ):
        (glue / task).mkdir(parents=True, exist_ok=True)
        for part in ("train", "dev"):
            lines = [header, *[row] * 12]
            (glue / task / f"{part}.tsv").write_text("\n".join(lines) + "\n")
    return glue


def make_ner(folder: Path) -> dict[str, str]:
    """Write named entities; return the flags that name them."""
    flags = {}
    for part in ("train", "dev"):
        path = folder / f"{part}.conll"
        path.write_text("Ada\tB-person\nreads\tO\n\n" * 12)
        flags[f"ner_{part}_file"] = str(path)
    return flags


def arguments(folder: Path, **more) -> dict[str, str]:
    """Return flags of a run on a text and on GLUE; write both once."""
    if not (folder / "text.txt").exists():
        make_text(folder)
        make_glue(folder)
    return {
        "experiment": "table5",
        "scale": "smoke",
        "input_file": str(folder / "text.txt"),
        "glue_dir": str(folder / "glue"),
        "work_dir": str(folder / "work"),
        **more,
    }


def runner(folder: Path, monkeypatch) -> Callable[..., int]:
    """Return a function that runs the script: flags -> exit status.

    Its first argument has the settings of the stand-ins.
    """
    monkeypatch.chdir(folder)

    def run_with(stand_ins=(), **values):
        own = make_scripts(folder, **dict(stand_ins))
        monkeypatch.setattr(reproduce_paper, "HERE", str(own))
        return scripts.run(reproduce_paper, **arguments(folder, **values))

    return run_with


def error_of(folder: Path, **values) -> str:
    """Return the line in which a run ends."""
    return scripts.error_of(reproduce_paper, **arguments(folder, **values))


def read_csv(folder: Path, name: str = "table5") -> dict[tuple[str, str], dict]:
    """Return {(row, column): line} of a table."""
    with open(folder / "work" / f"{name}.csv", encoding="utf-8") as file:
        lines = list(csv.DictReader(file))
    return {(line["row"], line["column"]): line for line in lines}


def wait_for_ltr(process: subprocess.Popen, folder: Path) -> None:
    """Wait until a process of `start` pre-trains left to right."""
    while not any(call.get("objective") == "ltr" for call in calls(folder)):
        assert process.poll() is None
        time.sleep(0.1)


def start(scripts_dir: Path, values: dict[str, str]) -> subprocess.Popen:
    """Start reproduce_paper.py in a process, with scripts of a folder."""
    code = (
        "import sys, reproduce_paper; from base import errors; "
        f"reproduce_paper.HERE = {str(scripts_dir)!r}; "
        "errors.run(reproduce_paper.main)"
    )
    return subprocess.Popen(
        [
            sys.executable,
            "-c",
            code,
            *(f"--{k}={v}" for k, v in values.items()),
        ],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
