"""Tables, pictures, and report.md: results, claims, machine, data, times."""

import json
import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from base import file_system, pictures

from absl import logging

from tools import machine
from tools.reproduction import (
    claims,
    paper_numbers,
    plots,
    run,
    scales,
    tables,
    work_dir,
)
from tools.reproduction import tasks as reproduction_tasks
from tools.reproduction.experiments import Experiment
from tools.reproduction.plan import KINDS, Places, Plan
from tools.reproduction.scales import Scale
from tools.reproduction.tables import Results
from tools.reproduction.work_dir import Failure

_LISTED_FILES = 100

TITLES = {
    "table5": "Table 5: pre-training tasks",
    "table6": "Table 6: model size",
    "table8": "Table 8: masking",
    "figure5": "Figure 5: pre-training steps",
}


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
    lines.append(tables.as_markdown(results))
    found = list(claims.sentences(results))
    if found:
        lines += ["The paper's claims in these numbers:\n"]
        lines += [f"- {sentence}" for sentence in found] + [""]
    if experiment.left_out:
        lines.append("Left out:\n")
        lines += [
            f"- {task}: {reason}."
            for task, reason in experiment.left_out.items()
        ]
        lines.append("")
    return "\n".join(lines)


class Report(NamedTuple):
    """Writes the results of a plan into its work directory.

    Attributes:
        plan: all steps.
        places: where they are.
        experiments: tables, whose cells name steps.
        scale_name: of --scale.
        scale: its values.
        seeds: of the pre-training runs of each model, counted from 1.
        data: of the tasks.
        text: what became of the text, in words.
        text_files: what they are for -> paths, as in "held-out text".
    """

    plan: Plan
    places: Places
    experiments: Sequence[Experiment]
    scale_name: str
    scale: Scale
    seeds: Sequence[int]
    data: reproduction_tasks.Data
    text: str
    text_files: Mapping[str, Sequence[str]]

    def results(self, failures: Sequence[Failure]) -> list[Results]:
        """Return the numbers of every table as far as they are there."""
        failed = [failure.step for failure in failures]
        return [
            tables.collect(experiment, self._scores, failed)
            for experiment in self.experiments
        ]

    def _scores(self, name: str) -> dict[str, float] | None:
        step = self.plan.steps[name]
        return work_dir.known_scores(self.places.work_dir, step)

    def write(self, is_last: bool = True) -> list[Failure]:
        """Write CSV, Markdown and picture of each table, and report.md.

        Args:
            is_last: False in the middle of a run: no pictures, no hashes.

        Returns:
            The steps that failed.
        """
        folder = self.places.work_dir
        failures = work_dir.failures(folder, self.plan)
        parts = [
            "# The paper's experiments, repeated\n",
            "Written by reproduce_paper.py; the paper is "
            "[arXiv 1810.04805](https://arxiv.org/abs/1810.04805). Scores are "
            "of development sets, in percent.\n",
        ]
        for results in self.results(failures):
            name = results.experiment.name
            base = os.path.join(folder, name)
            file_system.write_text(f"{base}.csv", tables.as_csv(results))
            file_system.write_text(f"{base}.md", tables.as_markdown(results))
            parts.append(section(results))
            if is_last and _draw(results, f"{base}.png"):
                parts.append(f"![{TITLES[name]}]({name}.png)\n")
        parts += [
            self._failures(failures),
            self._setting(),
            self._data_section(is_last),
            self._times(),
            self._commands(),
        ]
        path = os.path.join(folder, "report.md")
        file_system.write_text(path, "\n".join(parts))
        return failures

    def conclude(self, failures: Sequence[Failure]) -> int:
        """Print the tables, log the failures; return the exit status."""
        for results in self.results(failures):
            print(f"\n{TITLES[results.experiment.name]}\n")
            print(tables.as_markdown(results), flush=True)
        path = os.path.join(self.places.work_dir, "report.md")
        logging.info("Wrote %s", path)
        for failure in failures:
            step = self.plan.steps[failure.step]
            logging.error("%s: %s", step.title, failure.line)
            if failure.has_run:
                command = self.places.command(step)
                logging.error("To repeat it:\n%s", command)
        if not failures:
            return 0
        logging.error(
            "%d of %d steps have no result; the same command tries them again",
            len(failures),
            len(self.plan.steps),
        )
        return 1

    # --- Sections ---

    def _failures(self, failures: Sequence[Failure]) -> str:
        """Return the section about runs that failed or learned nothing."""
        steps = self.plan.steps
        lines = ["## Failures\n"]
        lines += [f"- {steps[f.step].title}: {f.line}" for f in failures]
        if not failures:
            lines.append("No step has failed.")
        found = [
            step.title
            for step in steps.values()
            if (work_dir.known_scores(self.places.work_dir, step) or {}).get(
                "degenerate"
            )
        ]
        lines.append(
            "\nDegenerate runs, which give one answer to everything: "
            f"{len(found)}."
        )
        if found:
            lines.append("Their scores are part of the means:\n")
            lines += [f"- {title}" for title in found]
        return "\n".join([*lines, ""])

    def _setting(self) -> str:
        """Return the section about machine and scale."""
        rows = [[name, value] for name, value in machine.describe().items()]
        scale = self.scale
        rows += [
            ["scale", self.scale_name],
            ["model", scale.model.size.name],
            ["pre-training steps", f"{scale.pretraining.num_train_steps:,}"],
            [
                "phases",
                ", ".join(
                    f"{p.share:.0%} at length {p.max_seq_length}, batch "
                    f"{p.train_batch_size}"
                    for p in scale.pretraining.phases
                ),
            ],
            ["matrix products in", scale.dtype],
        ]
        values = scales.flat(scales.as_values(scale)) | {
            "num_seeds": len(self.seeds),
            "first_seed": self.seeds[0],
        }
        values = [[key, json.dumps(v)] for key, v in values.items()]
        return (
            f"## Machine and scale\n\n{tables.markdown(['', ''], rows)}\n"
            "All values of the scale, with those of --set and the seeds:\n\n"
            f"{tables.markdown(['key', 'value'], values)}"
        )

    def _data_section(self, is_last: bool) -> str:
        """Return the section about text and tasks: files, sizes, hashes."""
        files = [
            (kind, path)
            for kind, paths in self.text_files.items()
            for path in paths
        ]
        for task in self.plan.tasks():
            files += [(task, path) for path in self.data.files(task)]
        rows = [
            [
                kind,
                os.path.basename(path),
                f"{os.path.getsize(path):,}",
                work_dir.checksum(path)[:16] if is_last else "",
            ]
            for kind, path in files[:_LISTED_FILES]
        ]
        table = tables.markdown(["", "file", "bytes", "SHA-256"], rows)
        more = len(files) - len(rows)
        table += f"\nand {more:,} more files\n" if more else ""
        return f"## Data\n\n{self.text}.\n\n{table}"

    def _times(self) -> str:
        """Return the section about the time of each kind of step."""
        rows, total, count = [], 0.0, 0
        for kind in KINDS:
            own = [s for s in self.plan.steps.values() if s.kind == kind]
            seconds = [
                marker["seconds"]
                for step in own
                if "seconds"
                in (marker := work_dir.read_marker(self.places.work_dir, step))
            ]
            if seconds:
                total += sum(seconds)
                count += len(seconds)
                rows.append(
                    [
                        kind,
                        f"{len(seconds)} of {len(own)}",
                        run.words_for(sum(seconds) / len(seconds)),
                        run.words_for(sum(seconds)),
                    ]
                )
        rows.append(["all", "", "", run.words_for(total)])
        header = ["steps", "with a time", "time of one", "time of all"]
        table = tables.markdown(header, rows)
        return (
            f"## Time\n\n{count} of {len(self.plan.steps)} steps have times; "
            "those that ran elsewhere have none.\n\n"
            f"{table}"
        )

    def _commands(self) -> str:
        """Return the section with the command; write commands.sh."""
        steps = self.plan.steps.values()
        path = os.path.join(self.places.work_dir, "commands.sh")
        every = [f"# {s.title}\n{self.places.command(s)}\n" for s in steps]
        file_system.write_text(path, "\n".join(every))
        own = shlex.join(
            ["python", os.path.basename(sys.argv[0]), *sys.argv[1:]]
        )
        lines = ["## Commands\n", "```sh", own, "```\n"]
        lines.append(
            f"It ran the {len(steps)} commands of [commands.sh](commands.sh). "
            "The first of each kind:\n"
        )
        lines.append("```sh")
        for kind in KINDS:
            first = next((s for s in steps if s.kind == kind), None)
            lines += [self.places.command(first)] if first else []
        return "\n".join([*lines, "```", ""])


def _draw(results: Results, path: str) -> bool:
    """Draw the picture of a table; return whether there is one."""
    try:
        return plots.draw(results, path)
    except ImportError:
        logging.warning("%s", pictures.not_drawn(path))
        return False
