"""The vectors of an encoder for texts."""

from typing import NamedTuple

from tasks.rows import Unit
from tasks.task import Outputs, Prediction, RowTask, TaskSettings, number


class Options(NamedTuple):
    """The names of the outputs to write."""

    vectors: tuple[str, ...] = ("mean_output",)


class Vectors(RowTask):
    """Vectors of an encoder for each text."""

    name = "encoder"
    model = "encoder.model.TextEncoder"
    options_type = Options
    takes_long_texts = True

    @property
    def predicted(self) -> tuple[str, ...]:
        """The vectors of --vectors."""
        return self.options.vectors

    def prediction(self, unit: Unit, outputs: Outputs) -> Prediction:
        """Return the vectors of --vectors."""
        return {
            name: [number(value) for value in outputs[name].tolist()]
            for name in self.options.vectors
        }

    # --- Model ---------------------------------------------------------------

    @classmethod
    def completed(cls, settings: TaskSettings) -> TaskSettings:
        """Return the settings; warn of a pooler that was not trained."""
        if "pooled_output" in settings.options.vectors:
            settings.checkpoint.warn_of_untrained_pooler()
        return settings
