"""What a fine-tuning run that failed says: what was seen, what usually helps.

Fine-tuning on small data fails now and then: the model ends with the same
answer for every input (paper section 4.1: "sometimes unstable on small
datasets"). tasks/signs.py sees it.
"""

from collections.abc import Sequence

from tasks.settings import RunSettings

_HELPS = "Its answers depend little on the input, or not at all. What usually"


def warning(
    signs: Sequence[str], settings: RunSettings, lowest_rate: float
) -> str:
    """Return the warning of a failed run: what was seen, and what helps.

    `signs` are of tasks/signs.py. What the command has used to train is not
    advised; how a model was trained that it only scores is unknown. Below
    `lowest_rate` a higher learning rate is advised.
    """
    seen = "; ".join(signs)
    if not settings.do_train:
        return (
            f"The run that fine-tuned this model failed: {seen}. {_HELPS} "
            "helps is to train again with another --random_seed, with "
            "--bias_correction if it was off, another --learning_rate or a "
            "longer --warmup_proportion, or several times (--num_restarts), "
            "with another --output_dir"
        )
    training, share = settings.training, settings.warmup_proportion
    rate = training.learning_rate
    change = "a higher" if rate < lowest_rate else "a lower"
    if settings.bilstm and settings.bilstm.bilstm_layers:
        # New layers learn more from a higher rate, the encoder from a lower
        # one.
        change = "another"
    advice = [
        f"another --random_seed (it was {training.random_seed})",
        f"{change} --learning_rate (it was {rate:g})",
        f"more --num_train_epochs (they were {settings.num_train_epochs:g})",
    ]
    if not training.bias_correction:
        advice.insert(1, "--bias_correction")
    if share < 0.5:
        advice.append(f"a longer --warmup_proportion (it was {share:g})")
    if not settings.is_restart:
        advice.append(
            "--num_restarts=5 with another --output_dir, which keeps the best "
            "of five seeds"
        )
    if not rate:
        advice = ["a --learning_rate above 0, which trains nothing"]
    return f"This run failed: {seen}. {_HELPS} helps: {', '.join(advice)}"
