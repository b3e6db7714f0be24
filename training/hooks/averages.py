"""The moving averages of the weights, which --ema_decay scores and keeps."""

from collections.abc import Callable

from training.train_step import Step


def use(step: Step, done: int) -> None:
    """Set the weights to their averages after `done` steps, if kept."""
    if not step.settings.ema_decay:
        return
    variables = step.model.trainable_variables
    averages = step.optimizer.averages(variables, done)
    for variable, average in zip(variables, averages, strict=True):
        variable.assign(average)


def evaluating(
    step: Step, evaluate: Callable[[int], bool | None]
) -> Callable[[int], bool | None]:
    """Return the evaluation with the averages in place of the weights."""
    if not step.settings.ema_decay:
        return evaluate

    def evaluate_averages(done: int) -> bool | None:
        variables = step.model.trainable_variables
        own = [variable.numpy() for variable in variables]
        use(step, done)
        try:
            return evaluate(done)
        finally:
            for variable, value in zip(variables, own, strict=True):
                variable.assign(value)

    return evaluate_averages
