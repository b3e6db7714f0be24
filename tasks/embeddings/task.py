"""The vector of a text, by the pooling, length and prompt of its model."""

from base.errors import UserError

from checkpoints.trained_for import TrainedFor
from tasks.rows import Row, Unit
from tasks.task import Outputs, Prediction, RowTask, TaskSettings, number

# Names of the prompts of documents, of which a model may have one.
_DOCUMENT = ("document", "passage", "corpus")


class Embeddings(RowTask):
    """A vector for each text."""

    name = "embeddings"
    model = "embeddings.model.SentenceEncoder"
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
    predicted = ("embedding",)

    def row(self, text_a: str, text_b: str | None = None) -> tuple[Row, int]:
        """Return the row of a text with its prompt, and how much was cut."""
        return super().row(self.settings.prompt + text_a, text_b)

    def prediction(self, unit: Unit, outputs: Outputs) -> Prediction:
        """Return the vector; for students also how vectors are compared."""
        found = {"embedding": list(map(number, outputs["embedding"].tolist()))}
        if self.settings.teacher:
            name = self.checkpoint.trained_for.similarity_fn_name
            found["similarity_fn_name"] = name
        return found

    @property
    def width(self) -> int:
        """The numbers of a vector, D."""
        sizes = (
            self.checkpoint.config.hidden_size,
            self.settings.embedding_size,
            self.checkpoint.trained_for.truncate_dim,
        )
        return min(filter(None, sizes))

    # --- Model ---------------------------------------------------------------

    @classmethod
    def completed(cls, settings: TaskSettings) -> TaskSettings:
        """Return also what vectors are made of, and how they are compared."""
        model, size = settings.checkpoint, settings.embedding_size
        check_size(size, model.config.hidden_size, "embedding_size")
        own = model.trained_for
        return settings._replace(
            checkpoint=model.trained(
                pooling=own.pooling or "mean",
                normalize=bool(own.normalize),
                # The given size takes its place.
                truncate_dim=None if size else own.truncate_dim,
            ),
            prompt=prompt_of(own, settings.prompt_name),
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


def prompt_for(trained_for: TrainedFor, use: str | None) -> str:
    """Return the prompt of a query or a document; without one the default.

    `use` None is another text, which has the default prompt.
    """
    names = _DOCUMENT if use == "document" else (use,)
    name = next((n for n in names if n in (trained_for.prompts or {})), None)
    return prompt_of(trained_for, name)
