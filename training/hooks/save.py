"""When a run returns to Python, saves and ends, and what it saves."""

import math
import time
from collections.abc import Callable

from base.errors import UserError

from absl import logging

from checkpoints.run_folder import RunFolder
from checkpoints.training_state import TrainingState
from training.agreement import Machines
from training.hooks.hook import Call, Hook, is_due
from training.reporting import to_means
from training.settings import TrainingSettings
from training.stop_request import StopRequest
from training.train_step import Step

# Steps run in calls of many: each return to Python leaves the devices idle for
# a moment. A call takes at most about this long, since signals are handled and
# reports are written between calls only.
_MAX_SECONDS_PER_CALL = 5.0

# The speed is a moving average, in which a step counts half as much after this
# many later ones.
_HALF_LIFE_STEPS = 20

_AHEAD = 100  # steps whose lengths are looked at, to know how long all take


class FiniteCheck(Hook):
    """Stops a run whose loss or gradient is infinite or not a number.

    With a loss scale a gradient may be, until the scale is too small. It comes
    before all else, so that such weights are never saved.
    """

    def __init__(self, step: Step):
        self.step = step

    def after(self, call: Call) -> None:
        """Raise a UserError that names the step and the last checkpoint."""
        means, scale = to_means(call.sums), self.step.loss_scale
        problem = None
        if not math.isfinite(means["loss"]):
            problem = f"loss became {means['loss']}"
        elif scale and not scale.is_usable(scale.read()):
            problem = (
                "gradients overflowed, and a loss scale of "
                f"{float(scale.read().value):g} is too small,"
            )
        elif not scale and not math.isfinite(means["gradient_norm"]):
            problem = f"gradient_norm became {means['gradient_norm']}"
        if problem:
            last = RunFolder.read(self.step.settings.output_dir).latest
            raise UserError(
                f"{problem} at step {call.done}, which is not saved; the last "
                f"good checkpoint is "
                f"{last or 'none: the run had not saved yet'}; try a lower "
                "--learning_rate, more warm-up or --dtype=float32"
            )


class Pace(Hook):
    """Decides when a call ends and whether a checkpoint is due after it.

    That depends on clocks and signals, and all machines have to make the same
    calls, to save and to end after the same step. So they agree on it here,
    after each call, and whoever comes later asks the same question once.

    Attributes:
        seconds_per_place: of the padded sequences of a step, a moving average
            of the slowest machine; 0 before a call is measured. Batches differ
            in length: a step takes so many seconds times its length.
        saves: whether a checkpoint is saved after this call.
        stays: whether it is one that the next does not replace.
        saved_at: time of the last checkpoint.
    """

    def __init__(
        self,
        settings: TrainingSettings,
        machines: Machines,
        stop: StopRequest,
        length: Callable[[int], int],
    ):
        self.settings, self.machines, self.stop = settings, machines, stop
        self.length = length
        self.every = (settings.save_checkpoints_steps,)
        self.seconds_per_place = 0.0
        self.saves = self.stays = False
        self.saved_at = time.monotonic()

    def next_stop(self, done: int) -> int:
        """Return the next step to save at, or one about five seconds away.

        The state before the rate of schedule=wsd falls is saved too.
        """
        settings, count = self.settings, 1
        fall = settings.cooldown_start
        if self.seconds_per_place:
            each = self.seconds_per_place * self.length(done)
            count = max(1, int(_MAX_SECONDS_PER_CALL / each))
        return min(
            settings.last_step,
            done + min(count, settings.iterations_per_loop),
            super().next_stop(done),
            fall if fall and fall > done else math.inf,
        )

    def after(self, call: Call) -> None:
        """Measure the speed; decide whether a checkpoint is due."""
        settings, seconds = self.settings, self.seconds_per_place
        if not call.compiles:
            # `share` is what is left of the weight of the older steps: 0.5
            # after 20 steps, 0.25 after 40, in one call or in many.
            share = seconds and 0.5 ** (call.steps / _HALF_LIFE_STEPS)
            steps = range(call.done - call.steps, call.done)
            places = sum(map(self.length, steps))
            seconds = share * seconds + (1 - share) * call.seconds / places
        minutes = (time.monotonic() - self.saved_at) / 60
        # The first signal counts, the slowest machine, and the chief's clock.
        rows = self.machines.gather(
            [self.stop.signal, round(seconds * 1e9), round(minutes * 1e6)]
        )
        self.stop.obey(rows[:, 0])
        self.seconds_per_place = int(rows[:, 1].max()) / 1e9
        self.stays = (
            self.stop.is_requested
            or is_due(call.done, *self.every, settings.last_step)
            or call.done == settings.cooldown_start
        )
        limit = settings.save_checkpoints_minutes * 1e6
        self.saves = self.stays or 0 < limit <= rows[0, 2]
        self.machines.done = call.done

    def seconds_left(self, done: int) -> float:
        """Return how long the steps after `done` take, as measured so far.

        The later steps are as long as the next ones on average.
        """
        last = self.settings.last_step
        ahead = range(done, min(last, done + _AHEAD))
        mean = sum(map(self.length, ahead)) / max(1, len(ahead))
        places = mean * (last - done)
        return places * self.seconds_per_place


class Keep(Hook):
    """Keeps what `keep` writes after some steps."""

    def __init__(self, steps: tuple[int, ...], keep: Callable[[int], None]):
        self.steps, self.keep = steps, keep

    def next_stop(self, done: int) -> float:
        """Return the next of the steps."""
        return min((n for n in self.steps if n > done), default=math.inf)

    def after(self, call: Call) -> None:
        """Keep, if this is one of the steps."""
        if call.done in self.steps:
            self.keep(call.done)


class Save(Hook):
    """Saves checkpoints when the pace says so, and at the end.

    `first` steps are saved already.
    """

    def __init__(self, state: TrainingState, pace: Pace, first: int):
        self.state, self.pace, self.saved = state, pace, first

    def after(self, call: Call) -> None:
        """Save, if it is due."""
        if self.pace.saves:
            self._save(call.done, self.pace.stays)
            self.pace.saved_at = time.monotonic()

    def close(self, done: int) -> None:
        """Save what was done since the last checkpoint.

        That is something where a signal came after it, or where training ended
        early. It is not to be done again, and shows that there is a run.
        """
        if self.saved != done:
            self._save(done, True)

    def _save(self, done: int, stays: bool) -> None:
        machines = self.pace.machines
        machines.is_saving = True  # also where another machine fails meanwhile
        try:
            logging.info("Saved %s", self.state.save(done, stays))
        finally:
            machines.is_saving = False
        self.saved = done


class Evaluate(Hook):
    """Evaluates every few steps; the evaluation says whether training ends.

    It acts after all others: what is saved can be evaluated when the run is
    resumed. With --ema_decay it finds the averages in the model.
    """

    def __init__(
        self,
        evaluate: Callable[[int], bool | None],
        step: Step,
        stop: StopRequest,
    ):
        self.evaluate, self.step, self.stop = evaluate, step, stop
        self.last = step.settings.last_step
        self.every = (step.settings.eval_steps,)

    def begin(self, first: int) -> bool:
        """Evaluate what is saved: a run may have been killed before that."""
        if first == 0 or not is_due(first, *self.every, self.last):
            return False
        with self.step.averaged(first):
            return bool(self.evaluate(first))

    def after(self, call: Call) -> bool:
        """Evaluate, if it is due; unless the process is to end soon."""
        goes_on = call.done == self.last or not self.stop.is_requested
        return goes_on and self.begin(call.done)
