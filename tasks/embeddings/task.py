"""The vector of a text, by the pooling, length and prompt of its model."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from base.errors import UserError

from checkpoints.trained_for import TrainedFor
from tasks.rows import Row, Unit
from tasks.task import Outputs, Prediction, RowTask, number

if TYPE_CHECKING:
    import modeling
    from checkpoints.checkpoint import Checkpoint
    from tasks.embeddings import model

# Names of the prompts of documents, of which a model may have one.
_DOCUMENT = ("document", "passage", "corpus")


class Embeddings(RowTask):
    """A vector for each text."""

    name = "embeddings"
    described = (
        *RowTask.described,
        "pooling",
        "normalize",
        "embedding_size",
        "truncate_dim",
        "similarity_fn_name",
        "prompt",
    )
    trained_as = (name,)
    takes_long_texts = True

    def row(self, text_a: str, text_b: str | None = None) -> tuple[Row, int]:
        """Return the row of a text with its prompt, and how much was cut."""
        return super().row(self.settings.prompt + text_a, text_b)

    def prediction(self, unit: Unit, outputs: Outputs) -> Prediction:
        """Return the vector."""
        return {"embedding": [number(x) for x in outputs["embedding"].tolist()]}

    # --- Model ---------------------------------------------------------------

    @classmethod
    def options_of(
        cls, checkpoint: "Checkpoint", given: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Return also what vectors are made of, and how they are compared."""
        trained_for, size = checkpoint.trained_for, given.get("embedding_size")
        check_size(size, checkpoint.config.hidden_size, "embedding_size")
        return dict(given) | {
            "pooling": trained_for.pooling or "mean",
            "normalize": bool(trained_for.normalize),
            "truncate_dim": None if size else trained_for.truncate_dim,
            "similarity_fn_name": trained_for.similarity_fn_name,
            "prompt": prompt_of(trained_for, given.get("prompt_name")),
        }

    def create_model(
        self, config: "modeling.BertConfig", dtype: str
    ) -> "model.SentenceEncoder":
        """Return the encoder with its pooling."""
        from tasks.embeddings import model

        settings = self.settings
        return model.SentenceEncoder(
            config,
            dtype,
            settings.pooling,
            settings.normalize,
            settings.embedding_size,
            settings.windows,
            settings.truncate_dim,
        )


def check_size(size: int | None, hidden_size: int, flag: str) -> None:
    """Raise a UserError for more numbers than a vector has."""
    if size and size > hidden_size:
        raise UserError(
            f"--{flag}: {size} is more than the {hidden_size} numbers of the "
            "model's vectors"
        )


def prompt_of(trained_for: TrainedFor, name: str | None) -> str:
    """Return the prompt of a name; None: the model's default one, if any.

    Raises:
        UserError: the model has no such prompt.
    """
    prompts = trained_for.prompts or {}
    name = name or trained_for.default_prompt_name
    if name and name not in prompts:
        raise UserError(
            f"--prompt_name={name}: the model has "
            f"{', '.join(prompts) or 'no prompts'}"
        )
    return prompts[name] if name else ""


def prompt_for(trained_for: TrainedFor, use: str) -> str:
    """Return the prompt of a query or a document; without one the default."""
    names = _DOCUMENT if use == "document" else (use,)
    name = next((n for n in names if n in (trained_for.prompts or {})), None)
    return prompt_of(trained_for, name)
