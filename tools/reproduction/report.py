"""Tables, pictures, and report.md: results, claims, machine, data, times."""

import json
import os
import shlex
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

from base import file_system, pictures

from absl import logging

from tools import machine
from tools.reproduction import claims, paper, plots, tables
from tools.reproduction.experiments import NEXT_SENTENCE, Experiment
from tools.reproduction.paper import PAPER
from tools.reproduction.steps import Plan
from tools.reproduction.tables import Results
from tools.reproduction.work_dir import WorkDir, checksum

_LISTED_FILES = 100  # of each task, and of the text


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
        scores = {n: self.work.scores(s) for n, s in self.plan.steps.items()}
        sections = []
        for table in self.experiments:
            results = tables.collect(table, scores, failures)
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
        own = ["python", "-m", "tools.reproduce_paper", *sys.argv[1:]]
        steps = self.plan.steps.values()
        degenerate = [n for n, own in scores.items() if own.get("degenerate")]
        facts = json.dumps(self._facts(), indent=1, default=vars)
        report = [
            "# The paper's experiments, repeated\n",
            "Written by tools.reproduce_paper; the paper is "
            "[arXiv 1810.04805](https://arxiv.org/abs/1810.04805). Scores are "
            "of development sets, in percent.\n",
            "Each model was pre-trained once, so deviations are those of "
            "fine-tuning alone.\n" * (self.plan.scale.num_seeds == 1),
            *sections,
            "## Failures\n",
            *(f"- {name}: {line}" for name, line in failures.items()),
            *["No step has failed."] * (not failures),
            "\nDegenerate runs, which give one answer to everything or know "
            f"token frequencies alone: {len(degenerate)}. Their scores are "
            "left out of the means.\n",
            *(f"- {name}" for name in degenerate),
            "\n## Commands\n",
            f"```sh\n{shlex.join(own)}\n```\n",
            f"It ran the {len(steps)} commands of [commands.sh](commands.sh).",
            "\n## Machine, scale, data and times\n",
            "All values of the scale, with those of --set and the seeds; size "
            "and beginning of the SHA-256 of files; hours of finished steps. "
            "Those that ran elsewhere have no time.\n",
            f"```json\n{facts}\n```\n",
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

    def _facts(self) -> dict[str, Any]:
        """Return what the results are of: machine, scale, data, times."""
        data = {
            name: {
                os.path.basename(path): [os.path.getsize(path), checksum(path)]
                for path in self.work.inputs[name][:_LISTED_FILES]
            }
            for name in self.plan.read_by_steps()
        }
        hours: dict[str, list[float]] = {}
        for step in self.plan.steps.values():
            if seconds := self.work.marker(step).get("seconds"):
                hours.setdefault(step.kind, []).append(seconds / 3600)
        times = {
            kind: {"steps": len(own), "hours": round(sum(own), 3)}
            for kind, own in hours.items()
        }
        return {
            "machine": machine.describe(),
            "scale": self.scale_name,
            "values": self.plan.scale,
            "data": data,
            "times": times,
        }


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
