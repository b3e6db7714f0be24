"""What a person sees of a script's messages, and what its log has."""

import re
import subprocess
import sys

from paths import ROOT

PROGRAM = """
import logging
import sys
from absl import flags
from absl import logging as absl_logging
from base import errors, logs, script
font = logging.getLogger("matplotlib.font_manager")

def main(_):
    font.info("generated new fontManager")
    font.warning("no font")
    logging.getLogger("another").info("a step of a library")
    absl_logging.info("before the folder is known")
    logs.write_to(flags.FLAGS.folder)
    absl_logging.debug("for --verbosity=1")
    absl_logging.info("in the log")
    logs.report("step %d", 1)
    raise errors.UserError("at the end")

flags.DEFINE_string("folder", "", "Where the log is written.")
script.run(main)
"""


def run(*arguments, program=PROGRAM) -> list[str]:
    """Return what a program writes to standard error, in lines."""
    result = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        cwd=ROOT,
        stderr=subprocess.PIPE,
        text=True,
    )
    return result.stderr.splitlines()


def test_a_person_sees_a_part_of_the_log(tmp_path):
    where = f"Files: {tmp_path}, where run.log has all that happens"
    folder, shown = f"--folder={tmp_path}", ["step 1", "ERROR: at the end"]
    assert run(folder) == ["WARNING: no font", where, *shown]
    path = tmp_path / "run.log"
    first = path.read_text().splitlines()
    assert first[0] == f"--- python -c --folder={tmp_path}"
    time = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d "
    assert [re.sub(time, "", line) for line in first[1:]] == [
        "WARNING: no font",
        "a step of a library",
        "before the folder is known",
        where,
        "in the log",
        "step 1",
        "ERROR: at the end",
    ]
    # The log goes on when a run is resumed, whatever is shown.
    assert run(folder, "-v=-2") == shown[1:]
    added = path.read_text().splitlines()[len(first) :]
    assert added[0] == f"{first[0]} -v=-2"
    assert run(folder, "--verbosity=-1") == ["WARNING: no font", *shown[1:]]
    assert "a step of a library" in run(folder, "--verbosity=0")
    long = "\n".join(run(folder, "--verbosity=1"))
    prefix = r"^[DI]\d{4} [\d:.]+ +\d+ \S+:\d+\] "
    assert re.search(f"{prefix}for --verbosity=1$", long, re.MULTILINE)
    assert path.read_text().count("--- python") == 5
    assert path.read_text().count("in the log") == 5


def test_a_file_of_another_program_is_left_alone(tmp_path):
    (tmp_path / "run.log").write_text("mine\n")
    message = f"WARNING: No log is written to {tmp_path}/run.log: "
    assert any(s.startswith(message) for s in run(f"--folder={tmp_path}"))
    assert (tmp_path / "run.log").read_text() == "mine\n"
    assert not any("run.log" in s for s in run("--folder=gs://bucket/run"))
