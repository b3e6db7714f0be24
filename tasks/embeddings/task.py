"""The vector of a text, by the pooling, length and prompt of its model."""

import dataclasses
from typing import NamedTuple

from base import logs
from base.errors import UserError
from base.flags import flag

from absl import logging

from checkpoints.model import Checkpoint
from checkpoints.trained_for import TrainedFor
from tasks.rows import Unit
from tasks.task import Outputs, Prediction, RowTask, TaskSettings, number


@dataclasses.dataclass(frozen=True)
class Prompts:
    """What is put before queries and documents."""

    query_prompt: str | None = flag()
    """Text to put before queries and anchors, such as "query: ", or the name of
    one of the model's prompts; default: its prompt named query, else none."""

    document_prompt: str | None = flag()
    """Text to put before documents and positives, such as "passage: ", or the
    name of one of the model's prompts; default: its prompt named document, else
    none."""


class Options(NamedTuple):
    """How much of a vector is kept, and what is put before its text.

    Attributes:
        embedding_size: how many numbers to keep, from the first, before the
            vector is normalized; None: all.
        prompt_name: name of one of the model's prompts; None: the default.
        prompt: the text of that prompt.
    """

    embedding_size: int | None = None
    prompt_name: str | None = None
    prompt: str = ""


class Embeddings(RowTask):
    """A vector for each text."""

    name = "embeddings"
    model = "embeddings.model.SentenceEncoder"
    options_type = Options
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

    @property
    def prompt(self) -> str:
        """The prompt of the options."""
        return self.options.prompt

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
            self.options.embedding_size,
            self.checkpoint.trained_for.truncate_dim,
        )
        return min(filter(None, sizes))

    # --- Model ---------------------------------------------------------------

    @classmethod
    def completed(cls, settings: TaskSettings) -> TaskSettings:
        """Return also what vectors are made of, and how they are compared."""
        model, options = settings.checkpoint, settings.options
        size, own = options.embedding_size, model.trained_for
        check_size(size, model.config.hidden_size, "embedding_size")
        return settings._replace(
            checkpoint=model.changed(
                pooling=own.pooling or "mean",
                normalize=bool(own.normalize),
                # The given size takes its place.
                truncate_dim=None if size else own.truncate_dim,
            ),
            options=options._replace(
                prompt=prompt_of(own, options.prompt_name)
            ),
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

    As in sentence-transformers 6.2 those named query and document, which stand
    before queries and documents, are empty where the model has none.

    Raises:
        UserError: the model has no such prompt.
    """
    prompts = {"query": "", "document": "", **(trained_for.prompts or {})}
    name = name or trained_for.default_prompt_name
    if name and name not in prompts:
        raise UserError(
            f"no prompt is named {name!r} (--prompt_name, or the model's "
            f"default_prompt_name); the model has {', '.join(prompts)}"
        )
    return prompts[name] if name else ""


def with_prompts(model: Checkpoint, given: Prompts) -> Checkpoint:
    """Return a model with the prompts of flags; say which text gets which."""
    own = model.trained_for.prompts or {}
    texts = {"query": given.query_prompt, "document": given.document_prompt}
    found = own | {n: own.get(t, t) for n, t in texts.items() if t is not None}
    model = model.changed(prompts=found or None)
    if any(found.values()):
        uses = ("query", "document", None)
        logs.say(
            "Put before a query: %r, a document: %r, another text: %r; the "
            "model's prompts are %s (--query_prompt, --document_prompt)",
            *(prompt_of(model.trained_for, use) for use in uses),
            ", ".join(found),
        )
    return model


def compared_by(
    model: Checkpoint, similarity: str | None, why: str
) -> Checkpoint:
    """Return a model that is trained to have vectors of a similarity."""
    own = model.trained_for.similarity_fn_name
    if similarity != own:
        logging.warning(
            "The model compares vectors by similarity_fn_name %s. It is "
            "trained for %s, %s, and written with that",
            own or "cosine",
            similarity or "cosine",
            why,
        )
    return model.changed(similarity_fn_name=similarity)
