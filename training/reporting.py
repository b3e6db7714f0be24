"""Report numbers: means, log lines, tables and files of results."""

import math
import os
import types
from collections.abc import Callable, Iterable, Mapping, Sequence

from base import cluster, file_system, logs

import tensorflow as tf
from absl import logging

from training import scalars

# Columns of a report line: 100, less the time before it.
_LINE = 91

# A calibration error from which on something should be done.
_LARGE_ERROR = 0.1

Means = dict[str, float]


def to_means(
    sums: Mapping, perplexities: Mapping[str, str] = types.MappingProxyType({})
) -> Means:
    """Return {name: sum / count} of {name: (sum, count)}, NaN for count 0.

    Also exp(loss) for {loss name: perplexity's name}.
    """
    means = {
        name: float(total) / float(count) if float(count) else math.nan
        for name, (total, count) in sums.items()
    }
    # exp overflows at 710. A perplexity of exp(700) is as useless.
    return means | {
        perplexity: math.exp(min(means[loss], 700.0))
        for loss, perplexity in perplexities.items()
    }


def log_line(
    log: Callable[..., None],
    first: Sequence[str],
    more: Iterable[str],
    last: Sequence[str] = (),
) -> None:
    """Log first | more | last: of `more` what fits into 100 columns.

    With --verbosity=1 it is all of them. `log` is logs.say or logs.report.
    """
    parts = [*first]
    for part in more:
        line = " | ".join([*parts, part, *last])
        if len(line) <= _LINE or logging.level_debug():
            parts.append(part)
    log("%s", " | ".join([*parts, *last]))


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
    path, before = results_path(output_dir), set()
    if file_system.exists(path):
        with file_system.reading(path) as file:
            before = {*file.read().decode(errors="replace").splitlines()}
    file_system.write_text(path, "\n".join(lines) + "\n")
    if f"global_step = {step}" in before and before - {*lines}:
        logs.say(
            "%s had other scores of the same step, which are replaced: to keep "
            "both, give a new --output_dir, and this one as --init_checkpoint",
            path,
        )
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


def log_results(
    path: str,
    results: Mapping[str, float],
    title: str,
    counts: Mapping[str, int] = types.MappingProxyType({}),
    notes: Mapping[str, str] = types.MappingProxyType({}),
) -> None:
    """Say scores as a table, when all is done.

    The log has another one of the scores of parts, such as location_f1 beside
    f1. The original's names of scores that have another one (eval_accuracy) are
    in the file alone.

    Args:
        path: the file that the chief has written them to.
        results: {name: score}.
        title: what they are, and of which data.
        counts: {name of an accuracy: of how many examples it is the share}.
        notes: {name: what follows the score}.
    """
    results = without_second_names(results)
    if cluster.is_chief():
        title += f" (in full: {path})"
    parts = {
        name: value
        for name, value in results.items()
        if any(name.endswith(f"_{x}") for x in results if x != "loss")
    }
    wholes = {n: value for n, value in results.items() if n not in parts}
    if parts:
        logging.info("%s", "\n".join(["Of parts:", *results_table(parts)]))
    notes = {
        name: f"  (± {_uncertainty(wholes[name], count):.2g} with {count:,} "
        "examples)"
        for name, count in counts.items()
        if count and name in wholes
    } | {**notes}
    lines = [title, *results_table(wholes, notes)]
    errors = [x for name, x in wholes.items() if name.split("_")[-1] == "ece"]
    if "degenerate" in results:
        lines.append(
            "degenerate 1: a run that has learned next to nothing, see "
            "docs/glossary.md"
        )
    if errors:
        lines.append(
            "ece, the calibration error: 0.02 says that the probabilities are "
            "2% off on average"
        )
    if errors and errors[0] > _LARGE_ERROR and "temperature" not in wholes:
        lines[-1] += ". This one is large: docs/calibration.md"
    logs.say("%s", "\n".join(lines))


def without_second_names(results: Mapping[str, float]) -> dict[str, float]:
    """Return the scores without the original's names of those that have two."""
    return {
        name: value
        for name, value in results.items()
        if not (name.startswith("eval_") and results.get(name[5:]) == value)
    }


def _uncertainty(share: float, count: int) -> float:
    """Return half the width of Wilson's 95% interval of a share of n.

    >>> round(_uncertainty(0.667, 48), 3)
    0.129
    """
    z = 1.96
    variance = share * (1 - share) / count + z**2 / (4 * count**2)
    return z * math.sqrt(variance) / (1 + z**2 / count)


def results_path(output_dir: str) -> str:
    """Return the file of the scores of evaluations."""
    return os.path.join(output_dir, "eval_results.txt")


def eval_folder(output_dir: str) -> str:
    """Return the folder of the scalars of evaluations."""
    return os.path.join(output_dir, "eval")


def results_table(
    results: Mapping[str, float],
    notes: Mapping[str, str] = types.MappingProxyType({}),
) -> list[str]:
    """Return a line for each score, sorted by name, decimal points aligned.

    `notes` are what follows some of them.

    >>> results_table({"loss": 1.76631, "global_step": 12})
    ['  global_step  12', '  loss          1.7663']
    """
    numbers = {name: _number(results[name]) for name in sorted(results)}
    width = max(map(len, numbers), default=0)
    wholes = {name: text.partition(".")[0] for name, text in numbers.items()}
    digits = max(map(len, wholes.values()), default=0)
    return [
        f"  {name:<{width}}  {' ' * (digits - len(wholes[name]))}{text}"
        f"{notes.get(name, '')}"
        for name, text in numbers.items()
    ]


def _number(value: float) -> str:
    if isinstance(value, int):
        return f"{value:,}"
    if 0 < abs(value) < 1e-3:  # four decimals would lose most digits
        return f"{value:.3g}"
    return f"{value:,.4f}"
