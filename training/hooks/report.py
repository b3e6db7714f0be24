"""Report lines, scalars and the text beside the progress bar."""

import time
from collections.abc import Mapping

from base import cluster, logs, progress

import tensorflow as tf

from training import scalars
from training.hooks.hook import Call, Hook, is_due
from training.hooks.save import Pace
from training.reporting import Means, eval_folder, log_line, to_means
from training.settings import scalar_steps
from training.train_step import Step


class _Window:
    """The sums of some consecutive steps, and how long those took."""

    def __init__(self) -> None:
        self.sums: dict[str, list[float]] = {}
        # These are of the steps that count for the speed.
        self.seconds = self.sequences = self.tokens = 0.0

    def add(self, call: Call) -> None:
        """Add the sums of a call, and its time unless it compiled."""
        for name, (total, count) in call.sums.items():
            pair = self.sums.setdefault(name, [0.0, 0.0])
            pair[0] += float(total)
            pair[1] += float(count)
        if not call.compiles:
            tokens, sequences = map(float, call.sums["tokens"])
            self.seconds += call.seconds
            self.sequences += sequences
            self.tokens += tokens

    def means(self, perplexities: Mapping[str, str]) -> Means:
        """Return the means of losses and metrics, and perplexities.

        The gradient norm is left out if all steps were skipped, and so are the
        means over labels if no row had one.
        """
        means = to_means(self.sums, perplexities)
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


class Report(Hook):
    """Shows training: report lines, scalars, and a text beside the bar.

    Scalars go to TensorBoard's files and to scalars.jsonl in output_dir; only
    the chief writes them. A line has the means since the line before it. The
    scalars, which may be written more often, have the means since the scalars
    before them.

    Args:
        pace: of the run; measures the speed.
        step: its learning rate, and its loss scale if it has one, are reported
            along with the means.
        bar: shows the progress on terminals.
    """

    def __init__(self, pace: Pace, step: Step, bar: progress.Bar):
        self.settings, self.pace = pace.settings, pace
        self.last = pace.settings.last_step
        self.step, self.bar = step, bar
        self.perplexities = step.objective.perplexities
        self.line, self.scalars = _Window(), _Window()
        log_steps = self.settings.log_steps
        self.every = log_steps, scalar_steps(log_steps, self.last)
        self.written = time.monotonic()
        self.writer = None  # of the chief

    def begin(self, first: int) -> None:
        """Remove what was written of later steps, which are done again."""
        self.first, folder = first, self.settings.output_dir
        if cluster.is_chief():
            self.writer = tf.summary.create_file_writer(folder)
            for path in (folder, eval_folder(folder)):
                scalars.forget_after(path, first)

    def after(self, call: Call) -> None:
        """Write scalars, and a line such as this one, where they are due.

        step 1,200/100,000 (1.2%) | loss 5.3312 | ... | lr 1.2e-05 |
        184.5 sequences/s | ETA 00:24:10, without the speed if none is measured.
        """
        settings, done = self.settings, call.done
        for window in (self.line, self.scalars):
            window.add(call)
        loss, count = map(float, call.sums["loss"])
        # On a narrow terminal the bar loses its end.
        parts = [f"loss {loss / count:.4f}"]
        if self.pace.seconds_per_place:
            left = progress.format_seconds(self.pace.seconds_left(done))
            parts.insert(0, f"ETA {left}")
        if rates := self.line.rates():
            parts.append(f"{rates['sequences_per_second']:,.1f} sequences/s")
        self.bar.note(", ".join(parts))
        is_first = done - call.steps == self.first
        if call.compiles and is_first:
            logs.report(
                "The first step took %.1f s, with tracing and compiling",
                call.seconds,
            )
        has_line = (
            is_first
            or is_due(done, settings.log_steps, settings.last_step)
            or time.monotonic() - self.written > progress.SECONDS_BETWEEN_LINES
        )
        # Also where a checkpoint is saved: a run that resumes from there has
        # the scalars of all its steps, and so the curves of a run that was not
        # interrupted.
        if has_line or self.pace.saves or done % self.every[1] == 0:
            # The last update was number done - 1, with this rate.
            rate = float(self.step.schedule(tf.constant(done)))
            scale = self.step.loss_scale.means() if self.step.loss_scale else {}
            if has_line:
                self._log_line(done, rate, scale)
                self.line, self.written = _Window(), time.monotonic()
            window, self.scalars = self.scalars, _Window()
            means = window.means(self.perplexities) | window.rates()
            values = {**means, "learning_rate": rate, **scale}
            if self.writer:
                with self.writer.as_default(step=done):
                    for name, value in values.items():
                        tf.summary.scalar(name, value)
                self.writer.flush()
                values = {"steps": int(window.sums["loss"][1]), **values}
                scalars.append(settings.output_dir, done, values)

    def _log_line(
        self, done: int, rate: float, scale: Mapping[str, float]
    ) -> None:
        means = self.line.means(self.perplexities)
        loss = f"{means.pop('loss'):.4f}"
        parts = [
            f"step {done:,}/{self.last:,} ({done / self.last:.1%})",
            f"loss {loss}",
        ]
        more = [
            f"lr {rate:.3g}",
            *(f"{name} {value:,.10g}" for name, value in scale.items()),
            # The only loss has another name, too.
            *(
                f"{name} {value:.4f}"
                for name, value in means.items()
                if f"{value:.4f}" != loss
            ),
        ]
        # What tells most comes first.
        more.sort(key=lambda text: "accuracy" not in text)
        last = []
        if speed := self.line.rates():
            seconds_left = self.pace.seconds_left(done)
            more.append(f"{speed['tokens_per_second']:,.0f} tokens/s")
            last.append(f"{speed['sequences_per_second']:.1f} sequences/s")
            last.append(f"ETA {progress.format_seconds(seconds_left)}")
        log_line(logs.report, parts, more, last)
