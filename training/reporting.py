"""Report a run: a progress bar, log lines, TensorBoard summaries, results."""

import math
import os
import time
import types
from collections.abc import Callable, Mapping, Sequence

from base import cluster, file_system, progress

import tensorflow as tf
from absl import logging

from modeling import BertConfig

# The ETA comes from a moving average of the seconds per step, in which a step
# counts half as much after this many later ones.
_HALF_LIFE_STEPS = 20

Means = dict[str, float]


def to_means(sums: Mapping) -> Means:
    """Return {name: sum / count}, NaN where the count is 0.

    Args:
        sums: {name: (sum, count)}, numbers or scalar tensors.
    """
    return {
        name: float(total) / float(count) if float(count) else math.nan
        for name, (total, count) in sums.items()
    }


def add_perplexities(means: Means, names: Mapping[str, str]) -> Means:
    """Return the means and exp(loss) of each loss that has a perplexity.

    Args:
        means: of `to_means`.
        names: {loss name: name of its perplexity}.
    """
    # exp overflows at 710. A perplexity of exp(700) is as useless.
    return means | {
        perplexity: math.exp(min(means[loss], 700.0))
        for loss, perplexity in names.items()
    }


# --- Training ----------------------------------------------------------------


class Meter:
    """Measures the speed of training; steps that compile do not count.

    Args:
        batch_size: rows in a step: examples, unless rows are packed.
        flops_per_row: length of a batch -> operations of the matrix products
            for one of its rows, forward and backward.
        peak_flops: the devices' measured matrix-product rate, FLOP/s.
    """

    def __init__(
        self,
        batch_size: int,
        flops_per_row: Callable[[int], float],
        peak_flops: float,
    ):
        self.batch_size = batch_size
        self.flops_per_row = flops_per_row
        self.peak_flops = peak_flops
        self.seconds_per_step = math.nan

    def flops(self, lengths: Sequence[int]) -> float:
        """Return the matrix-product operations of steps of these lengths."""
        return self.batch_size * sum(map(self.flops_per_row, lengths))

    def note(self, steps: int, seconds: float) -> None:
        """Update `seconds_per_step`, an exponential moving average."""
        # `share` is what is left of the weight of the older steps: 0.5 after
        # 20 steps, 0.25 after 40, in one call or in many.
        old, new = self.seconds_per_step, seconds / steps
        share = 0.5 ** (steps / _HALF_LIFE_STEPS)
        if math.isnan(old):
            self.seconds_per_step = new
        else:
            self.seconds_per_step = share * old + (1 - share) * new

    def rates(
        self,
        seconds: float,
        flops: float,
        sequences: float,
        tokens: float,
    ) -> dict[str, float]:
        """Return sequences/s, real tokens/s and the share of the peak rate.

        Empty if no time is measured. A packed row has several sequences.
        """
        if not seconds:
            return {}
        return {
            "sequences_per_second": sequences / seconds,
            "tokens_per_second": tokens / seconds,
            "matmul_peak_share": flops / seconds / self.peak_flops,
        }


class _Window:
    """The sums of some consecutive steps, and how long those took."""

    def __init__(self) -> None:
        self.sums: dict[str, list[float]] = {}
        # Of the steps that count for the speed.
        self.seconds = self.flops = self.sequences = self.tokens = 0.0

    def add(self, sums: Mapping) -> None:
        """Add {name: (sum, count)} of finished steps."""
        for name, (total, count) in sums.items():
            pair = self.sums.setdefault(name, [0.0, 0.0])
            pair[0] += float(total)
            pair[1] += float(count)

    def add_speed(self, sums: Mapping, flops: float, seconds: float) -> None:
        """Add the time of steps that count for the speed."""
        tokens, sequences = map(float, sums["tokens"])
        self.seconds += seconds
        self.flops += flops
        self.sequences += sequences
        self.tokens += tokens

    def means(self, perplexities: Mapping[str, str]) -> Means:
        """Return the means of losses and metrics, and perplexities."""
        means = add_perplexities(to_means(self.sums), perplexities)
        del means["tokens"]
        if math.isnan(means.get("gradient_norm", 0.0)):
            del means["gradient_norm"]  # all steps were skipped
        for name, (_, count) in self.sums.items():
            if not count:  # such as of labels, where no row had one
                means.pop(name, None)
        return means

    def rates(self, meter: Meter) -> dict[str, float]:
        """Return the speed, see Meter.rates."""
        return meter.rates(
            self.seconds, self.flops, self.sequences, self.tokens
        )


class Report:
    """Shows training: a bar on terminals, report lines, TensorBoard scalars.

    A line has the means since the line before it, the scalars those since the
    scalars before them: they may be written more often. A context manager; its
    end removes the bar.

    Args:
        output_dir: directory of the summaries.
        meter: measures the speed.
        is_chief: write summaries.
        first: steps done before this process began.
        last: the step at which the run ends.
        perplexities: of the objective.
    """

    def __init__(
        self,
        output_dir: str,
        meter: Meter,
        is_chief: bool,
        first: int,
        last: int,
        perplexities: Mapping[str, str] = types.MappingProxyType({}),
    ):
        self.meter, self.first, self.last = meter, first, last
        self.perplexities = perplexities
        self.writer = (
            tf.summary.create_file_writer(output_dir)
            if is_chief
            else tf.summary.create_noop_writer()
        )
        self.line, self.scalars = _Window(), _Window()
        self.written = time.monotonic()

    def __enter__(self) -> "Report":
        # Without a terminal the report lines show the progress.
        self.bar = progress.bar(
            self.last, "steps", "Training", first=self.first, has_lines=False
        )
        return self

    def __exit__(self, kind, *exception) -> None:
        self.bar.close()

    def add(
        self,
        sums: Mapping,
        steps: int,
        lengths: Sequence[int],
        seconds: float,
    ) -> None:
        """Add sums and time of finished steps to the next report.

        Args:
            sums: {name: (sum, count)} over the steps; `tokens` counts the
                sequences.
            steps: how many.
            lengths: sequence length of each; empty if the steps do not count
                for the speed, since one of them compiled.
            seconds: how long they took together.
        """
        flops = self.meter.flops(lengths)
        for window in (self.line, self.scalars):
            window.add(sums)
            if lengths:
                window.add_speed(sums, flops, seconds)
        if lengths:
            self.meter.note(len(lengths), seconds)
        loss = to_means({"loss": sums["loss"]})["loss"]
        self._move_bar(loss, steps, float(sums["tokens"][1]))

    def _move_bar(self, loss: float, steps: int, sequences: float) -> None:
        """Move the bar; show the loss of these steps and the mean speed."""
        text = f"loss {loss:.4f}"
        if not math.isnan(self.meter.seconds_per_step):
            rate = sequences / steps / self.meter.seconds_per_step
            text += f", {rate:,.1f} sequences/s"
        self.bar.note(text)
        self.bar.update(steps)

    def is_late(self) -> bool:
        """Whether the last report line is too long ago."""
        return time.monotonic() - self.written > progress.SECONDS_BETWEEN_LINES

    def write(
        self,
        done: int,
        learning_rate: float,
        others: Mapping[str, float] = types.MappingProxyType({}),
    ) -> None:
        """Write one line, and scalars for TensorBoard.

        Args:
            done: the step.
            learning_rate: of the last step.
            others: {name: number} to write with them, as they are now.
        """
        means = self.line.means(self.perplexities)
        rates = self.line.rates(self.meter)
        seconds_left = (self.last - done) * self.meter.seconds_per_step
        logging.info(
            "%s",
            _line(
                done,
                self.last,
                means,
                {"learning_rate": learning_rate, **others},
                rates,
                seconds_left,
            ),
        )
        self.line = _Window()
        self.written = time.monotonic()
        self.write_scalars(done, learning_rate, others)

    def write_scalars(
        self,
        done: int,
        learning_rate: float,
        others: Mapping[str, float] = types.MappingProxyType({}),
    ) -> None:
        """Write scalars for TensorBoard; see `write` for the arguments.

        The share of the matrix-product peak goes to TensorBoard alone, whose
        curves can be smoothed: on a shared machine it differs by a factor of
        two between neighbouring lines. benchmark.py measures it.
        """
        means = self.scalars.means(self.perplexities)
        rates = self.scalars.rates(self.meter)
        with self.writer.as_default(step=done):
            for name, value in {**means, **rates, **others}.items():
                tf.summary.scalar(name, value)
            tf.summary.scalar("learning_rate", learning_rate)
        self.writer.flush()
        self.scalars = _Window()


def _line(
    done: int,
    last: int,
    means: Means,
    others: Mapping[str, float],
    rates: Mapping[str, float],
    seconds_left: float,
) -> str:
    """Return a report line: step, loss, other means, other numbers, speed.

    step 1,200/100,000 (1.2%) | loss 5.3312 | ... | 184.5 sequences/s
    | 23,616 tokens/s | ETA 00:24:10, without the speed if `rates` is empty.
    """
    names = ["loss", *(name for name in means if name != "loss")]
    parts = [f"step {done:,}/{last:,} ({done / last:.1%})"]
    parts += [f"{name} {means[name]:.4f}" for name in names]
    for name, value in others.items():
        is_rate = name == "learning_rate"
        parts.append(f"{name} {value:{'.3g' if is_rate else ',.10g'}}")
    if rates:
        parts.append(f"{rates['sequences_per_second']:.1f} sequences/s")
        parts.append(f"{rates['tokens_per_second']:,.0f} tokens/s")
        parts.append(f"ETA {progress.format_seconds(seconds_left)}")
    return " | ".join(parts)


def training_flops(
    config: BertConfig,
    batch: int,
    seq: int,
    predictions: int = 0,
    sequences: int = 1,
) -> int:
    """Return the matrix-product operations of one training step.

    A product [m, k] x [k, n] counts 2 m k n; the backward pass has two of the
    same size, hence the factor 3. Table lookups, norms, softmax, dropout and
    the optimizer count nothing.

    Args:
        config: of the model.
        batch: rows of the step.
        seq: their length, padding included.
        predictions: positions of each that are projected to the vocabulary:
            of masked tokens, or all of a left-to-right model; 0 for
            fine-tuning on the pooled output.
        sequences: pooled vectors of each; more than 1 for packed rows, 0
            without next sentence prediction.
    """
    hidden, inner = config.hidden_size, config.intermediate_size
    token = 4 * hidden**2 + 2 * hidden * inner  # q, k, v, output; both halves
    token += 2 * seq * hidden  # scores and contexts
    masked = hidden**2 + hidden * config.vocab_size
    pooled = hidden**2 + 2 * hidden
    row = config.num_hidden_layers * seq * token
    row += predictions * masked + sequences * pooled
    return 3 * 2 * batch * row


# --- Evaluation --------------------------------------------------------------


def write_results(
    output_dir: str,
    results: Mapping[str, float],
    step: int,
) -> None:
    """Log scores as a table; write them as text and for TensorBoard.

    The text, eval_results.txt, has lines `name = score`, sorted, as the
    original writes it.

    Args:
        output_dir: directory to write to; only the chief writes.
        results: {name: score}.
        step: the model's training step, for TensorBoard.
    """
    path = os.path.join(output_dir, "eval_results.txt")
    is_chief = cluster.is_chief()
    title = "Evaluation results"
    if is_chief:
        title += f" (in full: {path})"
    logging.info("%s", "\n".join([title, *results_table(results)]))
    if not is_chief:
        return
    lines = [f"{key} = {results[key]}" for key in sorted(results)]
    file_system.write_text(path, "\n".join(lines) + "\n")
    writer = tf.summary.create_file_writer(os.path.join(output_dir, "eval"))
    with writer.as_default(step=step):
        for key, value in results.items():
            if key != "global_step" and math.isfinite(value):
                tf.summary.scalar(key, value)
    writer.close()


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
