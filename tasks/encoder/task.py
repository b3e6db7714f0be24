"""The vectors of an encoder for texts."""

from typing import TYPE_CHECKING

from tasks.rows import Unit
from tasks.task import Outputs, Prediction, RowTask, TaskSettings, number

if TYPE_CHECKING:
    import modeling
    from tasks.encoder import model


class Vectors(RowTask):
    """Vectors of an encoder for each text."""

    name = "encoder"
    takes_long_texts = True

    def prediction(self, unit: Unit, outputs: Outputs) -> Prediction:
        """Return the vectors of --vectors."""
        return {
            name: [number(value) for value in outputs[name].tolist()]
            for name in self.settings.vectors
        }

    # --- Model ---------------------------------------------------------------

    @classmethod
    def completed(cls, settings: TaskSettings) -> TaskSettings:
        """Return the settings; warn of a pooler that was not trained."""
        if "pooled_output" in settings.vectors:
            settings.checkpoint.warn_of_untrained_pooler()
        return settings

    def create_model(
        self, config: "modeling.BertConfig", dtype: str
    ) -> "model.TextEncoder":
        """Return the encoder; a vector of the pooler needs its weights."""
        from tasks.encoder import model

        encoder = model.TextEncoder(config, dtype)
        encoder.uses_pooler = "pooled_output" in self.settings.vectors
        encoder.windows = self.checkpoint.windows
        return encoder
