"""Report a run: speed, log lines, TensorBoard summaries, result files."""

import math
import os
import time
from collections.abc import Callable, Mapping, Sequence

from base import cluster, file_system

import tensorflow as tf
from absl import logging

from modeling import BertConfig

MAX_SECONDS_PER_LINE = 30.0  # a sign of life even when steps are slow

_STEPS_REMEMBERED = 20  # of the speed an ETA is made from

Means = dict[str, float]


def to_means(sums: Mapping) -> Means:
    """Divide sums by counts, once, on the host."""
    return {
        name: float(total) / float(count) if float(count) else math.nan
        for name, (total, count) in sums.items()
    }


class Meter:
    """Speed of training; steps that compile do not count.

    Args:
        batch_size: examples in a step.
        flops_per_example: length of a batch -> operations of the matrix
            products for one of its examples, forward and backward.
        peak_flops: the devices' measured matrix-product rate, FLOP/s.
    """

    def __init__(
        self,
        batch_size: int,
        flops_per_example: Callable[[int], float],
        peak_flops: float,
    ):
        self.batch_size = batch_size
        self.flops_per_example = flops_per_example
        self.peak_flops = peak_flops
        self.seconds_per_step = math.nan

    def flops(self, lengths: Sequence[int]) -> float:
        """Return the operations of steps of these lengths."""
        return self.batch_size * sum(map(self.flops_per_example, lengths))

    def note(self, steps: int, seconds: float) -> None:
        """Keep the seconds of a step, a mean that forgets."""
        old, new = self.seconds_per_step, seconds / steps
        share = 0.5 ** (steps / _STEPS_REMEMBERED)
        if math.isnan(old):
            self.seconds_per_step = new
        else:
            self.seconds_per_step = share * old + (1 - share) * new

    def rates(
        self,
        steps: int,
        seconds: float,
        flops: float,
        tokens_per_example: float,
    ) -> dict[str, float]:
        """Return sequences/s, real tokens/s and the share of the peak."""
        if not steps:
            return {}
        sequences = steps * self.batch_size / seconds
        return {
            "sequences_per_second": sequences,
            "tokens_per_second": sequences * tokens_per_example,
            "matmul_peak_share": flops / seconds / self.peak_flops,
        }


class Report:
    """Collects sums between report lines; writes lines and summaries."""

    def __init__(self, output_dir: str, meter: Meter, is_chief: bool):
        self.meter = meter
        self.writer = (
            tf.summary.create_file_writer(output_dir)
            if is_chief
            else tf.summary.create_noop_writer()
        )
        self._reset()

    def _reset(self) -> None:
        self.sums: dict[str, list[float]] = {}
        self.steps = 0
        self.seconds = self.flops = 0.0
        self.written = time.monotonic()

    def add(
        self, sums: Mapping, lengths: Sequence[int], seconds: float
    ) -> None:
        """Add what steps of these lengths summed up; none: not to be timed."""
        for name, (total, count) in sums.items():
            pair = self.sums.setdefault(name, [0.0, 0.0])
            pair[0] += float(total)
            pair[1] += float(count)
        if lengths:
            self.steps += len(lengths)
            self.seconds += seconds
            self.flops += self.meter.flops(lengths)
            self.meter.note(len(lengths), seconds)

    def is_late(self) -> bool:
        """Whether it is time for a sign of life."""
        return time.monotonic() - self.written > MAX_SECONDS_PER_LINE

    def write(self, done: int, left: int, learning_rate: float) -> None:
        """Write one line, and the same numbers for TensorBoard.

        Args:
            done: the step.
            left: steps until the end.
            learning_rate: of the last step.
        """
        means = to_means(self.sums)
        tokens = means.pop("tokens")
        rates = self.meter.rates(self.steps, self.seconds, self.flops, tokens)
        logging.info(
            "%s", _line(done, means, learning_rate, rates, left, self.meter)
        )
        with self.writer.as_default(step=done):
            for name, value in {**means, **rates}.items():
                tf.summary.scalar(name, value)
            tf.summary.scalar("learning_rate", learning_rate)
        self.writer.flush()
        self._reset()


def _line(
    done: int,
    means: Means,
    learning_rate: float,
    rates: Mapping[str, float],
    left: int,
    meter: Meter,
) -> str:
    """Format one report line; the loss first, speed last."""
    first = ("loss",)
    names = [*first, *(n for n in means if n not in first)]
    parts = [f"step {done}"]
    parts += [f"{name} {means[name]:.4f}" for name in names]
    parts.append(f"learning_rate {learning_rate:.3g}")
    if rates:
        parts.append(f"{rates['sequences_per_second']:.1f} sequences/s")
        parts.append(f"{rates['tokens_per_second']:,.0f} tokens/s")
        parts.append(f"{rates['matmul_peak_share']:.0%} of matmul peak")
        parts.append(f"ETA {format_seconds(left * meter.seconds_per_step)}")
    return " | ".join(parts)


def format_seconds(seconds: float) -> str:
    """Format a duration as 1d 02:03:04 or 02:03:04."""
    if not math.isfinite(seconds):
        return "unknown"
    minutes, second = divmod(round(seconds), 60)
    hours, minute = divmod(minutes, 60)
    days, hour = divmod(hours, 24)
    return (f"{days}d " if days else "") + f"{hour:02}:{minute:02}:{second:02}"


def write_results(
    output_dir: str,
    results: Mapping[str, float],
    step: int,
    name: str = "eval_results.txt",
    folder: str = "eval",
) -> None:
    """Log scores; write them as `key = value` lines and for TensorBoard."""
    logging.info("***** Eval results *****")
    lines = [f"{key} = {results[key]}" for key in sorted(results)]
    for line in lines:
        logging.info("  %s", line)
    if not cluster.is_chief():
        return
    path = os.path.join(output_dir, name)
    file_system.write_text(path, "\n".join(lines) + "\n")
    writer = tf.summary.create_file_writer(os.path.join(output_dir, folder))
    with writer.as_default(step=step):
        for key, value in results.items():
            if key != "global_step" and math.isfinite(value):
                tf.summary.scalar(key, value)
    writer.close()


def training_flops(
    config: BertConfig, batch: int, seq: int, predictions: int = 0
) -> int:
    """Return the matrix-product operations of one training step.

    With predictions = 0 that of fine-tuning on the pooled output.

    A product [m, k] x [k, n] counts 2 m k n; the backward pass has two of the
    same size, hence the factor 3. Table lookups, norms, softmax, dropout and
    the optimizer count nothing.
    """
    hidden, inner = config.hidden_size, config.intermediate_size
    token = 4 * hidden**2 + 2 * hidden * inner  # q, k, v, output; both halves
    token += 2 * seq * hidden  # scores and contexts
    masked = hidden**2 + hidden * config.vocab_size
    pooled = hidden**2 + 2 * hidden
    row = config.num_hidden_layers * seq * token + predictions * masked + pooled
    return 3 * 2 * batch * row
