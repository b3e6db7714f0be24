"""A temperature for the logits, so that probabilities fit (Guo et al. 2017).

"On Calibration of Modern Neural Networks": fine-tuned networks are right less
often than their probabilities say. All logits divided by one number, the
temperature, keep their order, so that every answer stays what it is; above 1
the probabilities become less sure.
"""

from base import cluster, logs

import numpy as np
from absl import logging

from checkpoints import weight_files
from tasks.classifier import scores
from tasks.classifier.job import ClassifierJob
from tasks.job import LoadedModel, Scored


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


def calibrate(
    job: ClassifierJob, loaded: LoadedModel, scored: Scored
) -> Scored:
    """Divide the output layer of the weights to keep by the temperature.

    That divides the logits: (x W^T + b) / t = x (W / t)^T + b / t. The weights
    are replaced in the checkpoint, so that whatever reads it, a later command,
    an export or another program, has the calibrated model.

    Args:
        job: of classes; its first development set has the best temperature.
        loaded: the model with the weights to keep.
        scored: their scores.

    Returns:
        The scores that the calibrated weights get.
    """
    title = job.dev[0].title
    logits, label_ids = scored.predictions[0].predictions
    found = fit_temperature(logits, label_ids)
    if found is None:
        logging.warning(
            "Not calibrated: of %d answers in %s all are right, or no more "
            "than by guessing; give a larger development set",
            len(label_ids),
            title,
        )
    else:
        model = loaded.model
        for variable in (model.output_weights, model.output_bias):
            variable.assign(variable / found)
        if cluster.is_chief():
            step = weight_files.global_step(loaded.prefix)
            weights = weight_files.read_weights(loaded.prefix)
            weights |= {
                "output_weights": model.output_weights.numpy(),
                "output_bias": model.output_bias.numpy(),
                "global_step": np.int64(step),
            }
            weight_files.write(loaded.prefix, weights)
        logs.say(
            "Calibrated %s: the output layer is divided by %.4f, the "
            "temperature of the %d answers in %s",
            loaded.prefix,
            found,
            len(label_ids),
            title,
        )
    temperature = found or 1.0
    scored = job.evaluate(loaded)
    scored.results["temperature"] = temperature
    for data, own in zip(job.dev, scored.predictions, strict=True):
        logits, label_ids = own.predictions
        name = f"{job.prefix(data)}uncalibrated_ece"
        scored.results[name] = scores.calibration_error(
            logits * temperature, label_ids
        )
    return scored
