"""The vectors of an encoder for texts."""

from typing import TYPE_CHECKING

from tasks.rows import Unit
from tasks.task import Outputs, Prediction, RowTask, number

if TYPE_CHECKING:
    import modeling


class Vectors(RowTask):
    """Vectors of an encoder for each text."""

    name = "encoder"
    graph_class = ("tasks.encoder.model", "EncoderGraph")
    takes_long_texts = True

    @property
    def required(self) -> str:
        """A vector of the pooler needs its weights."""
        if "pooled_output" in self.settings.vectors:
            return "^bert/"
        return "^bert/(?!pooler/)"

    def prediction(self, unit: Unit, outputs: Outputs) -> Prediction:
        """Return the vectors of --vectors."""
        return {
            name: [number(value) for value in outputs[name].tolist()]
            for name in self.settings.vectors
        }

    def create_model(
        self, config: "modeling.BertConfig", dtype: str
    ) -> "modeling.TaskModel":
        """Return the encoder."""
        import modeling

        return modeling.TaskModel(config, dtype)
