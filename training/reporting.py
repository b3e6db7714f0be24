"""Report a run: a progress bar, log lines, TensorBoard summaries, results."""

import math
import os
import time
import types
from collections.abc import Iterable, Mapping, Sequence

from base import cluster, file_system, progress

import tensorflow as tf
from absl import logging

from training import scalars

# The ETA comes from a moving average of the seconds per step, in which a step
# counts half as much after this many later ones.
_HALF_LIFE_STEPS = 20

# Columns of a report line: 100, less the time before it.
_LINE = 91

Means = dict[str, float]


def to_means(sums: Mapping) -> Means:
    """Return {name: sum / count} of {name: (sum, count)}, NaN for count 0."""
    return {
        name: float(total) / float(count) if float(count) else math.nan
        for name, (total, count) in sums.items()
    }


def add_perplexities(means: Means, names: Mapping[str, str]) -> Means:
    """Return the means, and exp(loss) for {loss name: perplexity's name}."""
    # exp overflows at 710. A perplexity of exp(700) is as useless.
    return means | {
        perplexity: math.exp(min(means[loss], 700.0))
        for loss, perplexity in names.items()
    }


class _Window:
    """The sums of some consecutive steps, and how long those took."""

    def __init__(self) -> None:
        self.sums: dict[str, list[float]] = {}
        # These are of the steps that count for the speed.
        self.seconds = self.sequences = self.tokens = 0.0

    def add(self, sums: Mapping, seconds: float | None) -> None:
        """Add {name: (sum, count)} of steps, and their time if it counts."""
        for name, (total, count) in sums.items():
            pair = self.sums.setdefault(name, [0.0, 0.0])
            pair[0] += float(total)
            pair[1] += float(count)
        if seconds:
            tokens, sequences = map(float, sums["tokens"])
            self.seconds += seconds
            self.sequences += sequences
            self.tokens += tokens

    def means(self, perplexities: Mapping[str, str]) -> Means:
        """Return the means of losses and metrics, and perplexities.

        The gradient norm is left out if all steps were skipped, and so are the
        means over labels if no row had one.
        """
        means = add_perplexities(to_means(self.sums), perplexities)
        empty = {name for name, (_, count) in self.sums.items() if not count}
        return {n: means[n] for n in means if n not in {"tokens", *empty}}

    def rates(self) -> dict[str, float]:
        """Return sequences/s and real tokens/s, if any time is measured.

        A packed row has several sequences.
        """
        if not self.seconds:
            return {}
        return {
            "sequences_per_second": self.sequences / self.seconds,
            "tokens_per_second": self.tokens / self.seconds,
        }


class Report:
    """Shows training: a bar on terminals, report lines, scalars.

    Scalars go to TensorBoard's files and to scalars.jsonl in output_dir; only
    the chief writes them. A line has the means since the line before it. The
    scalars, which may be written more often, have the means since the scalars
    before them. The end of the context removes the bar. `first` steps were
    done before this process began; the run ends at step `last`.

    Attributes:
        seconds_per_step: an exponential moving average, NaN at first.
    """

    def __init__(
        self,
        output_dir: str,
        first: int,
        last: int,
        perplexities: Mapping[str, str] = types.MappingProxyType({}),
    ):
        self.output_dir, self.first, self.last = output_dir, first, last
        self.perplexities = perplexities
        self.is_chief = cluster.is_chief()
        if self.is_chief:
            self.writer = tf.summary.create_file_writer(output_dir)
        self.line, self.scalars = _Window(), _Window()
        self.written = time.monotonic()
        self.seconds_per_step = math.nan

    def __enter__(self) -> "Report":
        if self.is_chief:
            for folder in (self.output_dir, eval_folder(self.output_dir)):
                scalars.forget_after(folder, self.first)
        # Without a terminal the report lines show the progress.
        self.bar = progress.Bar(
            self.last, "steps", "Training", first=self.first, has_lines=False
        )
        return self

    def __exit__(self, kind, *exception) -> None:
        self.bar.close()

    def add(
        self, sums: Mapping, steps: int, seconds: float, is_measured: bool
    ) -> None:
        """Add {name: (sum, count)} and time of steps to the next report.

        `tokens` counts the sequences. Steps that are not `is_measured`, since
        one of them compiled, do not count for the speed.
        """
        for window in (self.line, self.scalars):
            window.add(sums, seconds if is_measured else None)
        if is_measured:
            # `share` is what is left of the weight of the older steps: 0.5
            # after 20 steps, 0.25 after 40, in one call or in many.
            old, new = self.seconds_per_step, seconds / steps
            share = 0.5 ** (steps / _HALF_LIFE_STEPS)
            self.seconds_per_step = (
                new if math.isnan(old) else share * old + (1 - share) * new
            )
        loss, count = map(float, sums["loss"])
        text = f"loss {loss / count:.4f}"
        if not math.isnan(self.seconds_per_step):
            rate = float(sums["tokens"][1]) / steps / self.seconds_per_step
            text += f", {rate:,.1f} sequences/s"
        self.bar.note(text)
        self.bar.update(steps)

    def is_late(self) -> bool:
        """Whether the last report line is too long ago."""
        return time.monotonic() - self.written > progress.SECONDS_BETWEEN_LINES

    def write(
        self, done: int, others: Mapping[str, float], has_line: bool = True
    ) -> None:
        """Write scalars, and a line such as this one if `has_line`.

        step 1,200/100,000 (1.2%) | loss 5.3312 | ... | lr 1.2e-05 |
        184.5 sequences/s | ETA 00:24:10, without the speed if none is measured.

        `others` are numbers to write with the means as they are now, such as
        the learning rate.
        """
        if has_line:
            self._log_line(done, others)
            self.line, self.written = _Window(), time.monotonic()
        steps = int(self.scalars.sums["loss"][1])
        values = {
            **self.scalars.means(self.perplexities),
            **self.scalars.rates(),
            **others,
        }
        self.scalars = _Window()
        if not self.is_chief:
            return
        with self.writer.as_default(step=done):
            for name, value in values.items():
                tf.summary.scalar(name, value)
        self.writer.flush()
        scalars.append(self.output_dir, done, {"steps": steps, **values})

    def _log_line(self, done: int, others: Mapping[str, float]) -> None:
        means = self.line.means(self.perplexities)
        parts = [
            f"step {done:,}/{self.last:,} ({done / self.last:.1%})",
            f"loss {means.pop('loss'):.4f}",
        ]

        def means_of(is_score: bool) -> list[str]:
            return [
                f"{name} {value:.4f}"
                for name, value in means.items()
                if ("accuracy" in name) == is_score
            ]

        rates = [
            f"lr {value:.3g}"
            if name == "learning_rate"
            else f"{name} {value:,.10g}"
            for name, value in others.items()
        ]
        # What tells most comes first.
        more, last = [*means_of(True), *rates, *means_of(False)], []
        if speed := self.line.rates():
            seconds_left = (self.last - done) * self.seconds_per_step
            more.append(f"{speed['tokens_per_second']:,.0f} tokens/s")
            last.append(f"{speed['sequences_per_second']:.1f} sequences/s")
            last.append(f"ETA {progress.format_seconds(seconds_left)}")
        log_line(parts, more, last)


def log_line(
    first: Sequence[str], more: Iterable[str], last: Sequence[str] = ()
) -> None:
    """Log first | more | last: of `more` what fits into 100 columns.

    With --verbosity=1 it is all of them.
    """
    parts = [*first]
    for part in more:
        line = " | ".join([*parts, part, *last])
        if len(line) <= _LINE or logging.level_debug():
            parts.append(part)
    logging.info("%s", " | ".join([*parts, *last]))


def write_results(
    output_dir: str, results: Mapping[str, float], step: int
) -> None:
    """Write scores as text and as scalars; only the chief writes.

    The text, eval_results.txt, has lines `name = score`, sorted, as the
    original writes it.
    """
    if not cluster.is_chief():
        return
    lines = [f"{key} = {results[key]}" for key in sorted(results)]
    file_system.write_text(_results_path(output_dir), "\n".join(lines) + "\n")
    folder = eval_folder(output_dir)
    finite = {
        name: float(value)
        for name, value in results.items()
        if name != "global_step" and math.isfinite(value)
    }
    writer = tf.summary.create_file_writer(folder)
    with writer.as_default(step=step):
        for name, value in finite.items():
            tf.summary.scalar(name, value)
    writer.close()
    scalars.append(folder, step, finite)


def log_results(output_dir: str, results: Mapping[str, float]) -> None:
    """Log scores as a table: the last thing that a script has to say.

    The original's names of scores that have another one (eval_accuracy) are in
    the file alone.
    """
    results = {
        name: value
        for name, value in results.items()
        if not (name.startswith("eval_") and results.get(name[5:]) == value)
    }
    title = "Evaluation results"
    if cluster.is_chief():
        title += f" (in full: {_results_path(output_dir)})"
    logging.info("%s", "\n".join([title, *results_table(results)]))


def _results_path(output_dir: str) -> str:
    return os.path.join(output_dir, "eval_results.txt")


def eval_folder(output_dir: str) -> str:
    """Return the folder of the scalars of evaluations."""
    return os.path.join(output_dir, "eval")


def results_table(results: Mapping[str, float]) -> list[str]:
    """Return a line for each score, sorted by name, decimal points aligned.

    >>> results_table({"loss": 1.76631, "global_step": 12})
    ['  global_step  12', '  loss          1.7663']
    """
    numbers = {name: _number(results[name]) for name in sorted(results)}
    width = max(map(len, numbers), default=0)
    wholes = {name: text.partition(".")[0] for name, text in numbers.items()}
    digits = max(map(len, wholes.values()), default=0)
    return [
        f"  {name:<{width}}  {' ' * (digits - len(wholes[name]))}{text}"
        for name, text in numbers.items()
    ]


def _number(value: float) -> str:
    if isinstance(value, int):
        return f"{value:,}"
    if 0 < abs(value) < 1e-3:  # four decimals would lose most digits
        return f"{value:.3g}"
    return f"{value:,.4f}"
