"""reproduce_paper.py with the real scripts: their flags, and a tiny run."""

import csv
import subprocess
import sys

import pytest
import reproduction_runs
import scripts
from paths import ROOT

from tools.reproduction import experiments, scales
from tools.reproduction.tasks import Data
from tools.reproduction.work_dir import WorkDir

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("name", ["smoke", "small", "paper"])
def test_scripts_accept_every_command(name, tmp_path):
    """With the values of each scale; paths alone are stand-ins."""
    glue = reproduction_runs.make_glue(tmp_path)
    squad = tmp_path / "squad.json"
    squad.write_text("{}")
    data = Data(
        str(glue),
        str(squad),
        str(squad),
        **reproduction_runs.make_ner(tmp_path),
    )
    extra = ("MRPC", "SST-2", "SQuAD", "NER", "NER-features")
    plan, _ = experiments.build(
        experiments.NAMES, scales.read(name), extra, data, [1], False
    )
    used = set()
    for step in plan.steps.values():
        own = scripts.load(step.script.removesuffix(".py")).FLAGS
        own.unparse_flags()
        own(WorkDir("", {}, "", data).words(step))
        used.add(step.script)
    assert len(used) == 6


def test_a_tiny_run_ends_with_scores(tmp_path):
    """Table 6 with one size and one task, as a user starts it."""
    glue = reproduction_runs.make_glue(tmp_path)
    size = "{num_hidden_layers=1, hidden_size=16, num_attention_heads=2}"
    settings = [
        f"table6.sizes=[{size}]",
        "table6.tasks=['MRPC']",
        "table6.restarts=1",
        "pretraining.num_train_steps=4",
        "pretraining.phases=[{max_seq_length=32, train_batch_size=4, share=1}]",
        "corpus.vocab_size=300",
        "finetuning.max_seq_length=32",
        "finetuning.num_train_epochs=1",
        "finetuning.train_batch_size=4",
    ]
    work = tmp_path / "work"
    command = [
        sys.executable,
        "reproduce_paper.py",
        "--experiment=table6",
        "--scale=smoke",
        f"--input_file={reproduction_runs.make_text(tmp_path)}",
        f"--glue_dir={glue}",
        f"--work_dir={work}",
        *(f"--set={setting}" for setting in settings),
    ]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    with open(work / "table6.csv", encoding="utf-8") as file:
        cells = {line["column"]: line for line in csv.DictReader(file)}
    assert 1 < float(cells["perplexity"]["mean"]) < 1000
    assert 0 <= float(cells["MRPC"]["mean"]) <= 100
    assert cells["MRPC"]["runs"] == "1" and cells["MNLI-m"]["runs"] == "0"
    assert "L1_H16_A2" in result.stdout
