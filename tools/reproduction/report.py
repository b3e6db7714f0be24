"""Tables, pictures, and report.md: results, claims, machine, data, times."""

import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from base import file_system, pictures
from base.progress import format_seconds

from absl import logging

from tools import machine
from tools.reproduction import claims, paper, plots, tables
from tools.reproduction.experiments import NEXT_SENTENCE, Experiment
from tools.reproduction.paper import PAPER
from tools.reproduction.steps import Plan
from tools.reproduction.tables import Results
from tools.reproduction.work_dir import WorkDir, checksum

_LISTED_FILES = 100


class Report(NamedTuple):
    """Writes the results of a plan into its work directory."""

    plan: Plan
    work: WorkDir
    experiments: Sequence[Experiment]
    scale_name: str  # of --scale

    def write(self, prints: bool = False) -> int:
        """Write CSV, Markdown and picture of each table, and report.md.

        If `prints`, the tables are printed too and the failures logged. Returns
        the exit status: 1 if steps have failed.
        """
        failures = self.work.failures(self.plan)
        sections = []
        for table in self.experiments:
            results = tables.collect(
                table,
                lambda name: self.work.scores(self.plan.steps[name]),
                failures,
            )
            base = os.path.join(self.work.path, table.name)
            text, title = tables.as_markdown(results), PAPER[table.name].title
            file_system.write_text(f"{base}.csv", tables.as_csv(results))
            file_system.write_text(f"{base}.md", text)
            sections.append(section(results))
            try:
                if plots.draw(results, f"{base}.png"):
                    sections.append(f"![{title}]({table.name}.png)\n")
            except ImportError:
                logging.warning("%s", pictures.not_drawn(f"{base}.png"))
            if prints:
                print(f"\n{title}\n\n{text}", flush=True)
        own = [os.path.basename(sys.argv[0]), *sys.argv[1:]]
        steps = self.plan.steps.values()
        report = [
            "# The paper's experiments, repeated\n",
            "Written by reproduce_paper.py; the paper is "
            "[arXiv 1810.04805](https://arxiv.org/abs/1810.04805). Scores are "
            "of development sets, in percent.\n",
            "Each model was pre-trained once, so deviations are those of "
            "fine-tuning alone.\n" * (self.plan.scale.num_seeds == 1),
            *sections,
            self._failures(failures),
            self._setting(),
            self._data(),
            self._times(),
            f"## Commands\n\n```sh\n{shlex.join(['python', *own])}\n```\n",
            f"It ran the {len(steps)} commands of [commands.sh](commands.sh).",
        ]
        every = [f"# {s.name}\n{self.work.command(s)}\n" for s in steps]
        for name, lines in ("commands.sh", every), ("report.md", report):
            path = os.path.join(self.work.path, name)
            file_system.write_text(path, "\n".join(lines))
        logging.info("Wrote %s", path)
        if not prints or not failures:
            return 0
        for name, line in failures.items():
            step = self.plan.steps[name]
            logging.error("%s: %s", name, line)
            if "failed" in self.work.marker(step):
                logging.error("To repeat it:\n%s", self.work.command(step))
        logging.error(
            "%d of %d steps have no result; the same command tries them again",
            len(failures),
            len(steps),
        )
        return 1

    def _failures(self, failures: Mapping[str, str]) -> str:
        """Return the section about runs that failed or learned nothing."""
        lines = [f"- {name}: {line}" for name, line in failures.items()]
        degenerate = [
            f"- {name}"
            for name, step in self.plan.steps.items()
            if self.work.scores(step).get("degenerate")
        ]
        return "\n".join(
            [
                "## Failures\n",
                *(lines or ["No step has failed."]),
                "\nDegenerate runs, which give one answer to everything or "
                f"know token frequencies alone: {len(degenerate)}. Their "
                "scores are left out of the means.\n",
                *degenerate,
                "",
            ]
        )

    def _setting(self) -> str:
        """Return the section about machine and scale."""
        rows = [("scale", self.scale_name)]
        for key, value in vars(self.plan.scale).items():
            own = getattr(value, "__dict__", value)  # of a table
            if isinstance(own, dict):
                rows += [(f"{key}.{k}", f"{v}") for k, v in own.items()]
            else:
                rows.append((key, f"{value}"))
        return (
            "## Machine and scale\n\n"
            f"{tables.markdown(['', ''], list(machine.describe().items()))}\n"
            "All values of the scale, with those of --set and the seeds:\n\n"
            f"{tables.markdown(['key', 'value'], rows)}"
        )

    def _data(self) -> str:
        """Return the section about text and tasks: files, sizes, hashes."""
        rows = [
            (
                name,
                os.path.basename(path),
                f"{os.path.getsize(path):,}",
                checksum(path),
            )
            for name in self.plan.read_by_steps()
            for path in self.work.inputs[name]
        ]
        header = ["", "file", "bytes", "SHA-256"]
        table = tables.markdown(header, rows[:_LISTED_FILES])
        if more := rows[_LISTED_FILES:]:
            table += f"\nand {len(more):,} more files\n"
        return f"## Data\n\n{table}"

    def _times(self) -> str:
        """Return the section about the time of each kind of step."""
        steps = self.plan.steps.values()
        rows, every = [], []
        for kind in dict.fromkeys(step.kind for step in steps):
            markers = [self.work.marker(s) for s in steps if s.kind == kind]
            times = [m["seconds"] for m in markers if "seconds" in m]
            every += times
            if times:
                count = f"{len(times)} of {len(markers)}"
                each = format_seconds(sum(times) / len(times))
                rows.append([kind, count, each, format_seconds(sum(times))])
        rows.append(["all", "", "", format_seconds(sum(every))])
        header = ["steps", "with a time", "time of one", "time of all"]
        return (
            f"## Time\n\n{len(every)} of {len(steps)} steps have times; "
            "those that ran elsewhere have none.\n\n"
            f"{tables.markdown(header, rows)}"
        )


def section(results: Results) -> str:
    """Return a table's section: numbers, claims, what is left out."""
    experiment = results.experiment
    lines = [
        f"## {PAPER[experiment.name].title}\n",
        f"The paper's {PAPER[experiment.name].source}.\n",
    ]
    if NEXT_SENTENCE in experiment.columns:
        lines.append(
            f"`{NEXT_SENTENCE}`: accuracy on held-out text; the paper's final "
            f"model has {paper.NEXT_SENTENCE_ACCURACY} (section 3.1).\n"
        )
    lines.append(tables.as_markdown(results))
    if found := [f"- {text}" for text in claims.sentences(results)]:
        lines += ["The paper's claims in these numbers:\n", *found, ""]
    if experiment.left_out:
        lines.append("Left out:\n")
        lines += [
            f"- {task}: {why}." for task, why in experiment.left_out.items()
        ]
        lines.append("")
    return "\n".join(lines)
