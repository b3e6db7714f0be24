"""A temperature for the logits, so that probabilities fit (Guo et al. 2017).

"On Calibration of Modern Neural Networks": fine-tuned networks are right less
often than their probabilities say. All logits divided by one number, the
temperature, keep their order, so that every answer stays what it is; above 1
the probabilities become less sure.
"""

from base import pictures

import numpy as np

from tasks.classifier import scores


def fit_temperature(logits: np.ndarray, label_ids: np.ndarray) -> float | None:
    """Return the temperature of logits [n, K] with the least cross entropy.

    It is exactly 1 if the logits have been divided by it already. None if no
    temperature is best: if all answers are right, 0 would be, and if they are
    no better than guesses, infinity.
    """
    from scipy import optimize  # takes a while to import

    wide = logits.astype(np.float64)
    own = wide[np.arange(len(wide)), label_ids]  # [n]

    # The derivative of the cross entropy by b = 1 / temperature is the mean of
    # E[logit] - logit of the label, which rises with b.
    def slope(b: float) -> float:
        probs = np.exp(scores.log_softmax(b * wide))
        return float(((probs * wide).sum(-1) - own).mean())

    if slope(0.0) >= 0 or not (wide.max(-1) > own).any():
        return None
    low = high = 1.0
    while slope(low) > 0:
        low /= 2
    while slope(high) < 0:
        high *= 2
    temperature = 1 / optimize.brentq(slope, low, high, xtol=1e-12)
    # In float32 a second fit is off 1 by about 1e-7.
    return 1.0 if abs(temperature - 1) < 1e-5 else float(temperature)


def draw_reliability(
    logits: np.ndarray, label_ids: np.ndarray, temperature: float, path: str
) -> None:
    """Draw accuracy over confidence, in bins, to a PNG file.

    If the logits [n, K] have been divided by a temperature other than 1, the
    accuracy before calibration is drawn too.

    Raises:
        ImportError: matplotlib is not installed.
    """
    figure = pictures.new_figure(4.2, 4.2)
    axes = figure.subplots()
    axes.plot(
        [0, 1], [0, 1], color=pictures.LIGHT, lw=1, label="perfectly calibrated"
    )
    drawn = [("", 1.0, pictures.BLUE, "o-")]
    if temperature != 1:
        drawn = [
            ("uncalibrated, ", temperature, pictures.ORANGE, "s:"),
            ("calibrated, ", 1.0, pictures.BLUE, "o-"),
        ]
    for name, factor, color, style in drawn:
        counts, right, confidence = scores.confidence_bins(
            logits * factor, label_ids
        )
        has_any = counts > 0
        error = scores.calibration_error(logits * factor, label_ids)
        axes.plot(
            confidence[has_any] / counts[has_any],
            right[has_any] / counts[has_any],
            style,
            color=color,
            label=f"{name}ECE {error:.3f}",
        )
    axes.set(
        xlabel="confidence, mean of a bin",
        ylabel="accuracy, share of the bin",
        xlim=(0, 1),
        ylim=(0, 1.02),
    )
    axes.set_title(
        f"{len(label_ids):,} examples; ECE: expected calibration error",
        fontsize=10,
    )
    axes.legend(fontsize=pictures.SMALL)
    pictures.save(figure, path)
