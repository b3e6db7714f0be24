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
from tools.reproduction import claims, paper_numbers, plots, tables
from tools.reproduction.experiments import NEXT_SENTENCE, Experiment
from tools.reproduction.steps import KINDS, Plan
from tools.reproduction.tables import Results
from tools.reproduction.work_dir import WorkDir, checksum

_LISTED_FILES = 100

TITLES = {
    "table1": "Table 1: GLUE",
    "table2": "Table 2: SQuAD 1.1",
    "table3": "Table 3: SQuAD 2.0",
    "table4": "Table 4: SWAG",
    "table5": "Table 5: pre-training tasks",
    "table6": "Table 6: model size",
    "table7": "Table 7: named entities",
    "table8": "Table 8: masking",
    "figure5": "Figure 5: pre-training steps",
    "sentence_order": "Documents and shuffled sentences",
    "two_directions": "Two models of one direction, and one of both",
}


class Report(NamedTuple):
    """Writes the results of a plan into its work directory."""

    plan: Plan
    work: WorkDir
    experiments: Sequence[Experiment]
    scale_name: str  # of --scale
    seeds: Sequence[int]  # of the pre-training runs of each model, from 1
    text: str  # what became of the text, in words
    text_files: Mapping[str, Sequence[str]]  # by use, as in "held-out text"

    def _results(self, failures: Mapping[str, str]) -> list[Results]:
        """Return the numbers of every table as far as they are there."""
        steps = self.plan.steps
        return [
            tables.collect(
                table, lambda name: self.work.scores(steps[name]), failures
            )
            for table in self.experiments
        ]

    def write(self, is_last: bool = True) -> None:
        """Write CSV, Markdown and picture of each table, and report.md.

        In the middle of a run there are no pictures and no hashes.
        """
        failures = self.work.failures(self.plan)
        parts = [
            "# The paper's experiments, repeated\n",
            "Written by reproduce_paper.py; the paper is "
            "[arXiv 1810.04805](https://arxiv.org/abs/1810.04805). Scores are "
            "of development sets, in percent.\n",
        ]
        for results in self._results(failures):
            name = results.experiment.name
            base = os.path.join(self.work.path, name)
            file_system.write_text(f"{base}.csv", tables.as_csv(results))
            file_system.write_text(f"{base}.md", tables.as_markdown(results))
            parts.append(section(results))
            try:
                if is_last and plots.draw(results, f"{base}.png"):
                    parts.append(f"![{TITLES[name]}]({name}.png)\n")
            except ImportError:
                logging.warning("%s", pictures.not_drawn(f"{base}.png"))
        parts += [
            self._failures(failures),
            self._setting(),
            self._data(is_last),
            self._times(),
            self._commands(),
        ]
        path = os.path.join(self.work.path, "report.md")
        file_system.write_text(path, "\n".join(parts))
        if is_last:
            logging.info("Wrote %s", path)

    def conclude(self) -> int:
        """Print the tables, log the failures; return the exit status."""
        failures = self.work.failures(self.plan)
        for results in self._results(failures):
            print(f"\n{TITLES[results.experiment.name]}\n")
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
        lines = ["## Failures\n"]
        lines += [f"- {steps[n].title}: {line}" for n, line in failures.items()]
        if not failures:
            lines.append("No step has failed.")
        found = [
            f"- {step.title}"
            for step in steps.values()
            if self.work.scores(step).get("degenerate")
        ]
        lines.append(
            "\nDegenerate runs, which give one answer to everything or know "
            f"token frequencies alone: {len(found)}."
        )
        if found:
            lines += ["Their scores are left out of the means:\n", *found]
        return "\n".join([*lines, ""])

    def _setting(self) -> str:
        """Return the section about machine and scale."""
        scale = self.plan.scale
        phases = [
            f"{p.share:.0%} at length {p.max_seq_length}, batch "
            f"{p.train_batch_size}"
            for p in scale.pretraining.phases
        ]
        rows = [[name, value] for name, value in machine.describe().items()]
        rows += [
            ["scale", self.scale_name],
            ["model", scale.model.size.name],
            ["pre-training steps", f"{scale.pretraining.num_train_steps:,}"],
            ["phases", ", ".join(phases)],
            ["matrix products in", scale.dtype],
        ]
        values = {
            **dict(_flat(dataclasses.asdict(scale))),
            "num_seeds": len(self.seeds),
            "first_seed": self.seeds[0],
        }
        values = [[key, json.dumps(v)] for key, v in values.items()]
        return (
            f"## Machine and scale\n\n{tables.markdown(['', ''], rows)}\n"
            "All values of the scale, with those of --set and the seeds:\n\n"
            f"{tables.markdown(['key', 'value'], values)}"
        )

    def _data(self, is_last: bool) -> str:
        """Return the section about text and tasks: files, sizes, hashes."""
        own = {task: self.work.data.files(task) for task in self.plan.tasks()}
        rows = [
            [
                kind,
                os.path.basename(path),
                f"{os.path.getsize(path):,}",
                checksum(path) if is_last else "",
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
        first_of_kind = {s.kind: s for s in reversed(steps)}
        shown = [first_of_kind[kind] for kind in KINDS if kind in first_of_kind]
        lines = [
            "## Commands\n",
            "```sh",
            shlex.join(own),
            "```\n",
            f"It ran the {len(steps)} commands of [commands.sh](commands.sh). "
            "The first of each kind:\n",
            "```sh",
            *map(self.work.command, shown),
            "```",
            "",
        ]
        return "\n".join(lines)


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
        f"## {TITLES[experiment.name]}\n",
        f"The paper's {paper_numbers.SOURCES[experiment.name]}.\n",
    ]
    if experiment.name == "figure5":
        about = paper_numbers.FIGURE_5_ABOUT[paper_numbers.BERT][500_000]
        lines.append(
            "The paper has a curve without numbers. Its ends are those of "
            "Table 5; its masked LM at 500,000 steps is about "
            f"{about:.1f}, from the sentence of section C.1 that the second "
            'half of the steps adds "almost 1.0%".\n'
        )
    if NEXT_SENTENCE in experiment.columns:
        lines.append(
            f"`{NEXT_SENTENCE}`: accuracy on held-out text; the paper's final "
            f"model has {paper_numbers.NEXT_SENTENCE_ACCURACY} (section 3.1).\n"
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
