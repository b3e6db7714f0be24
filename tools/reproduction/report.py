"""Tables, pictures, and report.md: results, claims, machine, data, times."""

import json
import os
import shlex
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from base import file_system, logs

from absl import logging

from tools import machine
from tools.reproduction import claims, plots, tables
from tools.reproduction.paper import PAPER
from tools.reproduction.steps import Plan
from tools.reproduction.tables import Table
from tools.reproduction.work_dir import WorkDir, checksum


def write(plan: Plan, work: WorkDir, experiments: Sequence[Table]) -> int:
    """Write CSV, Markdown and picture of each table, report.md, commands.sh.

    The tables are printed, too. Returns the exit status: 1 if steps have
    failed.
    """
    failures = work.failures(plan)
    scores = {name: work.scores(step) for name, step in plan.steps.items()}
    sections = []
    for table in experiments:
        table = tables.with_scores(table, scores, failures)
        base = os.path.join(work.path, table.name)
        title, text = PAPER[table.name].title, tables.as_markdown(table)
        file_system.write_text(f"{base}.csv", tables.as_csv(table))
        file_system.write_text(f"{base}.md", text)
        print(f"\n{title}\n\n{text}", flush=True)
        sections += _section(table, text)
        if plots.draw(table, f"{base}.png"):
            sections.append(f"![{title}]({table.name}.png)\n")
    lines = [
        "# The paper's experiments, repeated\n",
        "Written by tools.reproduce_paper; the paper is "
        "[arXiv 1810.04805](https://arxiv.org/abs/1810.04805). Scores are "
        "of development sets, in percent. Its final model knows the next "
        "sentence in 97% to 98% of cases (section 3.1).\n",
        "Each model was pre-trained once, so deviations are those of "
        "fine-tuning alone.\n" * (plan.scale["num_seeds"] == 1),
        *sections,
        "## Failures\n",
        *(f"- {name}: {line}" for name, line in failures.items()),
        *["No step has failed."] * (not failures),
        "\nDegenerate runs are no better than one answer to all, or know "
        "token frequencies alone. They are left out of the means.\n",
        f"The {len(plan.steps)} commands: [commands.sh](commands.sh).",
        "\n## Machine, scale, data and times\n",
        "All values of the scale, with those of --set and the seeds; size "
        "and beginning of the SHA-256 of files; hours of steps that ran "
        "here.\n",
        f"```json\n{json.dumps(_facts(plan, work), indent=1)}\n```\n",
    ]
    path = os.path.join(work.path, "report.md")
    file_system.write_text(path, "\n".join(lines))
    every = "\n".join(list_commands(plan, work))
    file_system.write_text(os.path.join(work.path, "commands.sh"), every)
    logs.say("Wrote %s", path)
    for name, line in failures.items():
        logging.error("%s: %s", name, line)
    return int(bool(failures))


def list_commands(plan: Plan, work: WorkDir) -> Iterator[str]:
    """Yield every command, after a comment with those that it needs."""
    own = [a for a in sys.argv[1:] if not a.lstrip("-").startswith("dry_run")]
    command = ["python", "-m", "tools.reproduce_paper", *own, "--report_only"]
    yield "# A command can run as soon as those that it comes after have ended."
    yield "# Before all others (it writes configurations), and after them:"
    yield shlex.join(command) + "\n"
    for step in plan.steps.values():
        numbers = [str(plan.steps[before].number) for before in step.after]
        yield (
            f"# Step {step.number} of {len(plan.steps)}: {step.name}; "
            f"after {', '.join(numbers) or 'no other'}"
            f"{'; finished' * work.is_finished(step)}"
        )
        yield work.command(step) + "\n"


def _section(table: Table, text: str) -> Iterator[str]:
    """Yield a table's section: numbers, claims, what is left out."""
    yield f"## {PAPER[table.name].title}\n"
    yield text
    if found := [f"- {sentence}" for sentence in claims.sentences(table)]:
        yield from ["The paper's claims in these numbers:\n", *found, ""]
    if table.left_out:
        yield "Left out:\n"
        yield from (f"- {task}: {w}." for task, w in table.left_out.items())
        yield ""


def _facts(plan: Plan, work: WorkDir) -> dict[str, Any]:
    """Return what the results are of: machine, scale, data, times."""
    markers = map(work.marker, plan.steps.values())
    seconds = sum(marker.get("seconds", 0.0) for marker in markers)
    return {
        "machine": machine.describe(),
        "scale": plan.scale,
        "data": {
            path: [os.path.getsize(path), checksum(path)]
            for pattern in plan.reads()
            for path in work.files(pattern)
        },
        "hours": round(seconds / 3600, 3),
    }
