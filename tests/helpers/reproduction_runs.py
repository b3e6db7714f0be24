"""A corpus, tasks, runs of tools.reproduce_paper with stand-ins for scripts.

A stand-in takes the flags of the script, writes what the script would write
and notes its flags in a file, all in 30 ms.
"""

import csv
import json
import os
import time
from pathlib import Path
from unittest import mock

import scripts

from tools.reproduction import run

reproduce_paper = scripts.load("tools.reproduce_paper")

_STAND_IN = '''"""Stand-in for a script of the project."""

import glob
import json
import pathlib
import sys
import time

flags = {"script": pathlib.Path(__file__).name}
for argument in sys.argv[1:]:
    name, _, value = argument.removeprefix("--").partition("=")
    flags[name] = value or "true"
settings = json.loads(pathlib.Path("SETTINGS").read_text())
with open(settings["calls"], "a") as file:
    file.write(json.dumps(flags) + "\\n")
line = " ".join(sys.argv)
has = {key: words in line for key, words in settings.items()}
if has.get("hangs"):
    time.sleep(60)
if has.get("fails"):
    sys.exit("12:00:00 first line\\nERROR: it is broken\\nand a farewell")
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
if flags["script"] == "prepare_corpus.py":
    for name in ("train", "heldout/heldout"):
        path = folder / f"{name}-00000-of-00001.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("Text.\\n")
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
lines = [f"{key} = {score}" for key in ("eval_accuracy", "f1")]
lines += ["masked_lm_perplexity = 9.5", "lm_perplexity = 20.5"]
lines += ["degenerate = 1"] * has.get("degenerate", False)
(folder / "eval_results.txt").write_text("\\n".join(lines))
'''


class Runs:
    """Runs of tools.reproduce_paper in a folder with text, GLUE and NER."""

    def __init__(self, folder: Path):
        self.folder, self.work = folder, folder / "work"
        self.scripts = folder / "scripts"
        self.scripts.mkdir()
        source = _STAND_IN.replace("SETTINGS", str(self.scripts / "s.json"))
        for name in (
            "prepare_corpus",
            "build_vocab",
            "create_pretraining_data",
            *("run_pretraining", "run_classifier", "run_squad", "run_ner"),
        ):
            (self.scripts / f"{name}.py").write_text(source)
        self.set_stand_ins()
        make_text(folder)
        make_glue(folder)
        self.ner = make_ner(folder)

    def set_stand_ins(self, **settings: str) -> None:
        """Set fails, hangs or degenerate: part of a command line."""
        settings["calls"] = str(self.folder / "calls")
        (self.scripts / "s.json").write_text(json.dumps(settings))

    def flags(self, **more) -> dict[str, str]:
        """Return the flags of a run of Table 5 on MRPC and SST-2."""
        return {
            "experiment": "table5",
            "scale": "smoke",
            "input_file": str(self.folder / "text.txt"),
            "glue_dir": str(self.folder / "glue"),
            "work_dir": str(self.work),
            **more,
        }

    def __call__(self, **values) -> int:
        """Run with these flags besides; return the exit status."""
        before = os.getcwd()
        os.chdir(self.scripts)
        try:
            with mock.patch.object(run, "_SECONDS_BETWEEN_LOOKS", 0.01):
                return scripts.run(reproduce_paper, **self.flags(**values))
        finally:
            os.chdir(before)

    def error(self, **values) -> str:
        """Return the line in which a run ends."""
        return scripts.error_of(reproduce_paper, **self.flags(**values))

    def calls(self) -> list[dict[str, str]]:
        """Return the flags of every run of a stand-in, in order."""
        path = self.folder / "calls"
        text = path.read_text() if path.exists() else ""
        return [json.loads(line) for line in text.splitlines()]

    def wait_for(self, words: str) -> None:
        """Wait until a stand-in was called with these words in a flag."""
        end = time.monotonic() + 300
        while not any(words in str(call) for call in self.calls()):
            assert time.monotonic() < end
            time.sleep(0.05)

    def cells(self, name: str = "table5") -> dict[tuple[str, str], list]:
        """Return {(row, column): state or score of each run} of a CSV."""
        found: dict[tuple[str, str], list] = {}
        with open(self.work / f"{name}.csv", encoding="utf-8") as file:
            for line in csv.DictReader(file):
                own = found.setdefault((line["row"], line["column"]), [])
                own.append(line["state"] or float(line["score"]))
        return found

    def report(self) -> str:
        """Return the text of report.md."""
        return (self.work / "report.md").read_text()


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
    mrpc = "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String", "1\t1\t2\ta b\tc"
    for task, (header, row) in {
        "MRPC": mrpc,
        "SST-2": ("sentence\tlabel", "a film\t1"),
    }.items():
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
