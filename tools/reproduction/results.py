"""Collect the scores of a plan; write tables, pictures and the report."""

import os
from collections.abc import Sequence

from base import file_system, pictures

from absl import logging

from tools.reproduction import plots, tables, work_dir
from tools.reproduction.experiments import Experiment
from tools.reproduction.plan import Plan
from tools.reproduction.report import TITLES, Report
from tools.reproduction.run import Failure
from tools.reproduction.tables import Results


class Writer:
    """Writes the results of a plan into its work directory.

    Args:
        path: of the work directory.
        plan: all steps.
        experiments: tables, whose cells name steps.
        report: writes report.md.
    """

    def __init__(
        self,
        path: str,
        plan: Plan,
        experiments: Sequence[Experiment],
        report: Report,
    ):
        self.path, self.plan = path, plan
        self.experiments, self.report = experiments, report

    def collect(self, failures: Sequence[Failure]) -> list[Results]:
        """Return the numbers of every table as far as they are there."""
        failed = [failure.step for failure in failures]
        return [
            tables.collect(experiment, self._scores, failed)
            for experiment in self.experiments
        ]

    def _scores(self, name: str) -> dict[str, float] | None:
        return work_dir.known_scores(self.path, self.plan.steps[name])

    def write(self, failures: Sequence[Failure], is_last: bool = True) -> None:
        """Write CSV, Markdown and picture of each table, and report.md.

        Args:
            failures: steps that failed.
            is_last: False in the middle of a run: no pictures, no hashes.
        """
        every = self.collect(failures)
        drawn = []
        for results in every:
            name = results.experiment.name
            base = os.path.join(self.path, name)
            file_system.write_text(f"{base}.csv", tables.as_csv(results))
            file_system.write_text(f"{base}.md", tables.as_markdown(results))
            if is_last and _draw(results, f"{base}.png"):
                drawn.append(name)
        self.report.write(every, failures, drawn, is_last)

    def conclude(self, failures: Sequence[Failure]) -> int:
        """Print the tables, log the failures; return the exit status."""
        for results in self.collect(failures):
            print(f"\n{TITLES[results.experiment.name]}\n")
            print(tables.as_markdown(results), flush=True)
        logging.info("Wrote %s", os.path.join(self.path, "report.md"))
        for failure in failures:
            step = self.plan.steps[failure.step]
            logging.error("%s: %s", step.title, failure.line)
            if failure.has_run:
                command = self.report.places.command(step)
                logging.error("To repeat it:\n%s", command)
        if not failures:
            return 0
        logging.error(
            "%d of %d steps have no result; the same command tries them again",
            len(failures),
            len(self.plan.steps),
        )
        return 1


def _draw(results: Results, path: str) -> bool:
    """Draw the picture of a table; return whether there is one."""
    try:
        return plots.draw(results, path)
    except ImportError:
        logging.warning("%s", pictures.not_drawn(path))
        return False
