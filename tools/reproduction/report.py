"""Tables, pictures, and report.md: results, claims, machine, data, times."""

import dataclasses
import json
import os
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from base import file_system, pictures
from base.progress import format_seconds

from absl import logging

from tools import machine
from tools.reproduction import claims, paper, plots, tables
from tools.reproduction.experiments import NEXT_SENTENCE, Experiment
from tools.reproduction.paper import PAPER
from tools.reproduction.steps import KINDS, Plan
from tools.reproduction.tables import Results
from tools.reproduction.work_dir import WorkDir, checksum

_LISTED_FILES = 100


class Report(NamedTuple):
    """Writes the results of a plan into its work directory."""

    plan: Plan
    work: WorkDir
    experiments: Sequence[Experiment]
    scale_name: str  # of --scale
    num_seeds: int  # pre-training runs of each model
    text: str  # what became of the text, in words
    text_files: Mapping[str, Sequence[str]]  # by use, as in "held-out text"

    def _results(self, failures: Mapping[str, str]) -> list[Results]:
        """Return the numbers of every table as far as they are there."""
        steps = self.plan.steps
        return [
            tables.collect(
                table,
                lambda name: self.work.final_scores(steps[name]),
                failures,
            )
            for table in self.experiments
        ]

    def write(self) -> None:
        """Write CSV, Markdown and picture of each table, and report.md."""
        failures = self.work.failures(self.plan)
        parts = [
            "# The paper's experiments, repeated\n",
            "Written by reproduce_paper.py; the paper is "
            "[arXiv 1810.04805](https://arxiv.org/abs/1810.04805). Scores are "
            "of development sets, in percent.\n",
        ]
        if self.num_seeds == 1:
            parts.append(
                "Each model was pre-trained once, so deviations are those of "
                "fine-tuning alone.\n"
            )
        for results in self._results(failures):
            name = results.experiment.name
            base = os.path.join(self.work.path, name)
            file_system.write_text(f"{base}.csv", tables.as_csv(results))
            file_system.write_text(f"{base}.md", tables.as_markdown(results))
            parts.append(section(results))
            try:
                if plots.draw(results, f"{base}.png"):
                    parts.append(f"![{PAPER[name].title}]({name}.png)\n")
            except ImportError:
                logging.warning("%s", pictures.not_drawn(f"{base}.png"))
        parts += [
            self._failures(failures),
            self._setting(),
            self._data(),
            self._times(),
            self._commands(),
        ]
        path = os.path.join(self.work.path, "report.md")
        file_system.write_text(path, "\n".join(parts))
        logging.info("Wrote %s", path)

    def conclude(self) -> int:
        """Print the tables, log the failures; return the exit status."""
        failures = self.work.failures(self.plan)
        for results in self._results(failures):
            print(f"\n{PAPER[results.experiment.name].title}\n")
            print(tables.as_markdown(results), flush=True)
        for name, line in failures.items():
            step = self.plan.steps[name]
            logging.error("%s: %s", step.title, line)
            if "failed" in self.work.marker(step):
                logging.error("To repeat it:\n%s", self.work.command(step))
        if not failures:
            return 0
        logging.error(
            "%d of %d steps have no result; the same command tries them again",
            len(failures),
            len(self.plan.steps),
        )
        return 1

    def _failures(self, failures: Mapping[str, str]) -> str:
        """Return the section about runs that failed or learned nothing."""
        steps = self.plan.steps
        lines = [f"- {steps[n].title}: {line}" for n, line in failures.items()]
        found = [
            f"- {step.title}"
            for step in steps.values()
            if self.work.final_scores(step).get("degenerate")
        ]
        return "\n".join(
            [
                "## Failures\n",
                *(lines or ["No step has failed."]),
                "\nDegenerate runs, which give one answer to everything or "
                f"know token frequencies alone: {len(found)}. Their scores are "
                "left out of the means.\n",
                *found,
                "",
            ]
        )

    def _setting(self) -> str:
        """Return the section about machine and scale."""
        values = {
            "scale": self.scale_name,
            **dict(_flat(dataclasses.asdict(self.plan.scale))),
            "num_seeds": self.num_seeds,
        }
        rows = [[key, json.dumps(value)] for key, value in values.items()]
        return (
            "## Machine and scale\n\n"
            f"{tables.markdown(['', ''], list(machine.describe().items()))}\n"
            "All values of the scale, with those of --set and the seeds:\n\n"
            f"{tables.markdown(['key', 'value'], rows)}"
        )

    def _data(self) -> str:
        """Return the section about text and tasks: files, sizes, hashes."""
        own = {task: self.work.data_files(task) for task in self.plan.tasks()}
        rows = [
            [
                kind,
                os.path.basename(path),
                f"{os.path.getsize(path):,}",
                checksum(os.path.abspath(path)),
            ]
            for kind, paths in {**self.text_files, **own}.items()
            for path in paths
        ]
        header = ["", "file", "bytes", "SHA-256"]
        table = tables.markdown(header, rows[:_LISTED_FILES])
        if more := rows[_LISTED_FILES:]:
            table += f"\nand {len(more):,} more files\n"
        return f"## Data\n\n{self.text}.\n\n{table}"

    def _times(self) -> str:
        """Return the section about the time of each kind of step."""
        steps = self.plan.steps.values()
        rows, every = [], []
        for kind in KINDS:
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

    def _commands(self) -> str:
        """Return the section with the command; write commands.sh."""
        steps = self.plan.steps.values()
        path = os.path.join(self.work.path, "commands.sh")
        every = [f"# {s.title}\n{self.work.command(s)}\n" for s in steps]
        file_system.write_text(path, "\n".join(every))
        own = ["python", os.path.basename(sys.argv[0]), *sys.argv[1:]]
        return (
            f"## Commands\n\n```sh\n{shlex.join(own)}\n```\n\n"
            f"It ran the {len(steps)} commands of [commands.sh](commands.sh).\n"
        )


def _flat(
    values: Mapping[str, Any], prefix: str = ""
) -> Iterator[tuple[str, Any]]:
    """Yield ("table.key", value) of nested dicts."""
    for key, value in values.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value


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
