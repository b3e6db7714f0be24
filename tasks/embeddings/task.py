"""The vector of a text, by the modules, length and prompt of its model."""

import dataclasses
from typing import Any, NamedTuple

from base import logs
from base.errors import UserError
from base.flags import flag

from checkpoints.model import Checkpoint
from checkpoints.published import WEIGHTS_NAME
from checkpoints.sentence_transformers import PROMPTS_LEFT_OUT
from checkpoints.trained_for import MEAN, TrainedFor
from tasks.rows import Unit
from tasks.task import Outputs, Prediction, RowTask, TaskSettings, number


@dataclasses.dataclass(frozen=True)
class Prompts:
    """What is put before queries and documents."""

    query_prompt: str | None = flag(excludes={"query_prompt_name": ""})
    """Text to put before queries and anchors, such as "query: "; default: the
    model's prompt named query, else none."""

    document_prompt: str | None = flag(excludes={"document_prompt_name": ""})
    """Text to put before documents and positives, such as "passage: ";
    default: the model's prompt named document, else none."""

    query_prompt_name: str | None = flag()
    """Name of the model's prompt to put before queries and anchors, such as
    search_query; default: query."""

    document_prompt_name: str | None = flag()
    """Name of the model's prompt to put before documents and positives, such as
    search_document; default: document."""


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
            vector_size(self.checkpoint),
            self.options.embedding_size,
            self.checkpoint.trained_for.truncate_dim,
        )
        return min(filter(None, sizes))

    def description(self) -> dict[str, Any]:
        """Return also what vectors are made of."""
        modules = self.checkpoint.trained_for.to_dict().get("modules")
        return super().description() | {"modules": modules}

    # --- Model ---------------------------------------------------------------

    @classmethod
    def completed(cls, settings: TaskSettings) -> TaskSettings:
        """Return also what vectors are made of, and how they are compared."""
        options, own = settings.options, settings.checkpoint.trained_for
        size = options.embedding_size
        model = settings.checkpoint.changed(
            modules=own.modules or (MEAN,),
            # The given size takes its place.
            truncate_dim=None if size else own.truncate_dim,
        )
        check_size(size, vector_size(model), "embedding_size")
        return settings._replace(
            checkpoint=model,
            options=options._replace(
                prompt=prompt_of(own, options.prompt_name)
            ),
        )


def vector_size(model: Checkpoint) -> int:
    """Return how many numbers the last module of a model gives.

    Raises:
        UserError: a module does not fit to the one before it, or to its
            weights.
    """
    width = model.config.hidden_size
    for at, module in enumerate(model.trained_for.modules, 1):
        name = f"{at}_{module.kind}"
        if module.in_features not in (None, width):
            raise UserError(
                f"{model.prefix}: the module {name} reads vectors of "
                f"{module.in_features} numbers, and gets vectors of {width}: "
                "wanted the files of one model"
            )
        for variable, shape in module.shapes.items():
            path = f"{name}/{variable}"
            if model.prefix and model.shapes.get(path) != shape:
                raise UserError(
                    f"{model.prefix}: {path} is {model.shapes.get(path)}, "
                    f"wanted {shape}: the module's folder needs its weights as "
                    f"{WEIGHTS_NAME}; where you trust the model, "
                    "SentenceTransformer(DIR).save(NEW_DIR) writes them"
                )
        width = module.out_features or width * max(len(module.poolings), 1)
    return width


def check_size(size: int | None, width: int, flag: str) -> None:
    """Raise a UserError for more numbers than a vector has."""
    if size and size > width:
        raise UserError(
            f"--{flag}: {size} is more than the {width} numbers of the "
            "model's vectors"
        )


def prompt_of(
    trained_for: TrainedFor, name: str | None, flag: str = "--prompt_name"
) -> str:
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
            f"no prompt is named {name!r} ({flag}, or the model's "
            f"default_prompt_name); the model has {', '.join(prompts)}"
        )
    return prompts[name] if name else ""


def with_prompts(model: Checkpoint, given: Prompts) -> Checkpoint:
    """Return a model with the prompts of flags; say which text gets which.

    Raises:
        UserError: the model has no such prompt, or leaves prompts out.
    """
    own = model.trained_for.prompts or {}
    found = dict(own)
    for use in ("query", "document"):
        flag, text = f"--{use}_prompt", getattr(given, f"{use}_prompt")
        if text in own:
            raise UserError(
                f"{flag}={text} is the name of a prompt of the model: give "
                f"{flag}_name={text}, or a text to put before each"
            )
        if name := getattr(given, f"{use}_prompt_name"):
            text = prompt_of(model.trained_for, name, f"{flag}_name={name}")
        if text is not None:
            found[use] = text
    model = model.changed(prompts=found or None)
    if any(found.values()):
        if any(one.excludes_prompt for one in model.trained_for.modules or ()):
            model.changed(lacks=PROMPTS_LEFT_OUT).check_vectors(
                "leave the prompt out"
            )
        uses = ("query", "document", None)
        logs.say(
            "Put before a query: %r, a document: %r, another text: %r; the "
            "model's prompts are %s (--query_prompt, --document_prompt)",
            *(prompt_of(model.trained_for, use) for use in uses),
            ", ".join(found),
        )
    return model
