"""Tables, Figure 5, and report.md: results, machine, data, times."""

import json
import math
import os
import shlex
import sys
from collections.abc import Iterator, Sequence

from base import file_system, logs, pictures

from absl import logging

from tools import machine
from tools.reproduction import tables
from tools.reproduction.paper import PAPER
from tools.reproduction.steps import Plan
from tools.reproduction.tables import Table
from tools.reproduction.work_dir import WorkDir, checksum


def write(plan: Plan, work: WorkDir, experiments: Sequence[Table]) -> int:
    """Write CSV and Markdown of each table, Figure 5, report.md, commands.sh.

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
        sections += [f"## {title}\n", text]
        if table.name == "figure5" and draw_figure(table, f"{base}.png"):
            sections.append(f"![{title}]({table.name}.png)\n")
    markers = map(work.marker, plan.steps.values())
    seconds = sum(marker.get("seconds", 0.0) for marker in markers)
    facts = {
        "machine": machine.describe(),
        "scale": plan.scale,
        "data": {
            path: [os.path.getsize(path), checksum(path)]
            for pattern in plan.reads()
            for path in work.files(pattern)
        },
        "hours": round(seconds / 3600, 3),
    }
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
        f"```json\n{json.dumps(facts, indent=1)}\n```\n",
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


def draw_figure(table: Table, path: str) -> bool:
    """Draw the scores of Figure 5 over steps; return whether there are any.

    Means of two or more runs have error bars. Degenerate runs are left out.
    """
    columns = [
        column
        for column in table.columns
        if any(table.cell(row, column).values for row in table.labels)
    ]

    def draw_to(path: str) -> None:
        figure = pictures.new_figure(max(5.0, 4.0 * len(columns)), 3.8)
        (every,) = figure.subplots(1, len(columns), squeeze=False)
        for axes, column in zip(every, columns, strict=True):
            for rows in table.rows[::2], table.rows[1::2]:  # curves in turns
                cells = [table.cell(row.label, column) for row in rows]
                axes.errorbar(
                    [row.step for row in rows],
                    [math.nan if c.mean is None else c.mean for c in cells],
                    [c.deviation or math.nan for c in cells],
                    fmt="o-",
                    label=rows[0].label.split(",")[0],
                    capsize=3,
                )
            axes.set(title=column, ylabel="points", xlabel="pre-training steps")
            axes.grid(alpha=0.3)
            axes.legend(fontsize=pictures.SMALL)
        pictures.save(figure, path)

    return bool(columns) and pictures.draw(path, draw_to)
