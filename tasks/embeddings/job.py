"""Fine-tuning for sentence vectors: data, scores, vectors."""

import dataclasses
import itertools
import json
from collections.abc import Iterator, Sequence
from typing import Any

from base import file_system, logs
from base.errors import UserError

import numpy as np
from absl import logging

from checkpoints.model import Checkpoint
from checkpoints.trained_for import MEAN, NORMALIZE, Module
from tasks import long_texts, nearest, rows, signs
from tasks.classifier.scores import number_scores
from tasks.embeddings import data as embeddings_data
from tasks.embeddings import learning, scores
from tasks.embeddings.data import Collection, Example
from tasks.embeddings.flags import Options
from tasks.embeddings.task import (
    Embeddings,
    check_size,
    prompt_of,
    with_prompts,
)
from tasks.embeddings.task import Options as VectorOptions
from tasks.job import DataSet, FineTuningJob, Learned, Scored
from tasks.settings import RunSettings
from tasks.task import TaskSettings, number

EMBEDDINGS = "embeddings.jsonl"

# Raise it when the same files no longer give the same records.
_VERSION = 3

_SHOWN = 3  # examples in the log


class EmbeddingsJob(FineTuningJob):
    """An encoder that is trained to make a vector for each text."""

    task_name = Embeddings.name
    is_of_any_task = True
    result_files = (*FineTuningJob.result_files, EMBEDDINGS)
    kept = (
        "max_seq_length",
        "long_texts",
        "modules",
        "prompts",
        "default_prompt_name",
        "similarity_fn_name",
        "truncate_dim",
    )

    def __init__(
        self, settings: RunSettings, source: Checkpoint, options: Options
    ):
        own, normalize = source.trained_for, options.normalize
        if not options.pooling:
            source.check_vectors("give --pooling, for new ones of its encoder")
        modules = [*(own.modules or [MEAN])]
        if options.pooling:
            modules[0] = Module("Pooling", (options.pooling,))
        if normalize is not None:
            if modules[-1] == NORMALIZE:
                modules.pop()
            modules += [NORMALIZE] * normalize
        source = source.changed(modules=tuple(modules))
        source = with_prompts(source, options.prompts)
        size = VectorOptions(embedding_size=options.embedding_size)
        made = Embeddings.completed(TaskSettings(source, self.task_name, size))
        super().__init__(settings, made.checkpoint)
        self.flags, self.vector_options = options, made.options
        self.is_taught = settings.do_train and bool(options.teacher_answers)
        for dim in options.learning.matryoshka_dims:
            check_size(dim, self.task.width, "matryoshka_dims")
        dev = [
            DataSet("eval", "dev", options.dev_file),
            DataSet("eval_retrieval", "retrieval", options.retrieval_dir),
        ]
        others = {learning.TEXT_IDS: "int64", learning.SCORE: "float32"}
        self.open_data(
            rows.schema(source.row_length, **others),
            DataSet("train", "train", options.train_file),
            [data for data in dev if data.source],
            [DataSet("predict", "test", options.test_file)],
        )
        own, read = options.columns, [self.train] * settings.do_train
        if settings.do_eval or settings.eval_steps:
            read += self.dev
        if own.max_score != 1 and read:
            if not any(has_scores(self.examples(data)) for data in read):
                raise UserError(
                    f"--max_score={own.max_score:g}: no file has scores, in a "
                    f"column {own.score_column!r} (--score_column)"
                )
        if not settings.do_train:
            return
        # What is learned follows from the training file.
        examples, kind = self.examples(self.train), learning.RANKING
        if self.is_taught:
            kind = learning.DISTILLATION
        elif has_scores(examples):
            kind = learning.SCORES
        own = options.learning
        is_given = own.temperature != type(own).temperature
        if is_given and kind != learning.RANKING:
            logging.warning(
                "--temperature is ignored: it is for pairs without scores and "
                "without --teacher_answers"
            )
        self.learning = dataclasses.replace(own, kind=kind)
        self.objective = learning.objective(self.learning)
        # All examples have as many rows as the longest.
        self.group = max(len(example.texts) for example in examples)
        logging.info("Learning by %s: %s", kind, self.learning)

    @property
    def similarity(self) -> str | None:
        """How vectors are compared; None: by the cosine."""
        return self.source.trained_for.similarity_fn_name

    def deciding_metric(self) -> str:
        """Return the key of the first score of the first development set."""
        if not self.dev:
            raise UserError("--eval_steps needs --dev_file or --retrieval_dir")
        is_scored = has_scores(self.examples(self.dev[0]))
        prefix = self.prefix(self.dev[0])
        return prefix + ("spearman" if is_scored else "ndcg_at_10")

    # --- Model ---------------------------------------------------------------

    def options(self) -> VectorOptions:
        """Return size and prompt of the vectors."""
        return self.vector_options

    # --- Data ----------------------------------------------------------------

    def read(self, data: DataSet) -> list[Example] | Collection:
        """Return the examples of a file, or the collection of a folder."""
        if data.name == "eval_retrieval":
            return embeddings_data.read_collection(
                data.source, self.flags.qrels
            )
        columns, is_test = self.flags.columns, data.name == "predict"
        if is_test:
            columns = dataclasses.replace(columns, label_column=None)
        # Neither vectors nor a teacher need scores.
        are_pairs = not (is_test or (data == self.train and self.is_taught))
        found = embeddings_data.read_examples(data.source, columns, are_pairs)
        if not are_pairs:
            return found
        if min(len(example.texts) for example in found) < 2:
            raise UserError(
                f"{data.source} holds single texts, which only "
                "--teacher_answers can train on: wanted pairs"
            )
        if data == self.train or has_scores(found):
            return found
        return embeddings_data.collection_of(found)

    def fingerprint(self, data: DataSet) -> dict[str, Any]:
        """Return everything that the records of a file depend on."""
        files = embeddings_data.files_of(data.source, self.flags.qrels)
        own, uses = self.source.trained_for, (None, "query", "document")
        return {
            "version of records": _VERSION,
            "data": [file_system.sha256(path) for path in files],
            "columns": dataclasses.asdict(self.flags.columns),
            "prompts": [prompt_of(own, use) for use in uses],
            "is_taught": data == self.train and self.is_taught,
            **self.text_fingerprint(),
        }

    def data_fingerprint(self) -> dict[str, Any]:
        """Return also what is learned."""
        return super().data_fingerprint() | {
            **dataclasses.asdict(self.learning),
            "modules": self.source.trained_for.to_dict()["modules"],
        }

    def texts(self, data: DataSet) -> list[tuple[str, str | None]]:
        """Return (prompt, text) of each record of a data set.

        A text None fills up examples of fewer texts. A collection's queries
        come before its documents.
        """
        examples = self.examples(data)
        if isinstance(examples, Collection):
            found = [("query", text) for text in examples.queries.values()]
            found += [
                ("document", text) for text in examples.documents.values()
            ]
        else:
            group = max(len(example.texts) for example in examples)
            is_plain = data.name == "predict" or has_scores(examples)
            roles = [None] * group
            if group > 1 and not is_plain:
                roles = ["query", *["document"] * (group - 1)]
            found = [
                pair
                for example in examples
                for pair in itertools.zip_longest(roles, example.texts)
            ]
        own, uses = self.source.trained_for, (None, "query", "document")
        prompts = {use: prompt_of(own, use) for use in uses}
        return [(prompts[use], text) for use, text in found]

    def convert(
        self, data: DataSet, examples: Sequence[Example] | Collection
    ) -> Iterator[rows.Record]:
        """Yield the record of every text; log the first ones."""
        texts = self.texts(data)
        values = np.zeros([len(texts)], np.float32)
        if has_scores(examples):
            values = np.repeat([example.score for example in examples], 2)
        numbers: dict[str | None, int] = {None: 0}
        sizes = []
        for at, (prompt, text) in enumerate(texts):
            row = self.task.row("" if text is None else prompt + text)
            sizes.append((len(row.input_ids), row.left_out))
            if at < _SHOWN:
                tokens = self.tokens_of(row.input_ids)
                rows.log_example(at, ("tokens", tokens))
            # Of the bare texts: one with the prompt of a query is the same as
            # one with that of a document. Case and white space do not matter.
            key = text and " ".join(text.casefold().split())
            text_id = numbers.setdefault(key, len(numbers))
            yield row, {learning.TEXT_IDS: text_id, learning.SCORE: values[at]}
        logs.say(
            "%s: %s texts, %s of them different; %s",
            data.title,
            f"{len(texts):,}",
            f"{len(numbers) - 1:,}",
            long_texts.what_is_read(self.source, sizes),
        )

    def learned(self) -> Learned:
        """Return also the positives that anchors have in other rows."""
        learned = super().learned()
        if self.learning.kind != learning.RANKING:
            return learned
        ids = learned.data.features[learning.TEXT_IDS]
        known = learning.known_positives(ids.reshape(-1, self.group))
        return learned._replace(
            objective=learning.objective(self.learning, known)
        )

    # --- Scores and predictions ----------------------------------------------

    def score(self, data: DataSet, outputs: dict[str, np.ndarray]) -> Scored:
        """Return correlations, or the scores of a retrieval."""
        examples = self.examples(data)
        vectors = nearest.prepared(outputs["embedding"], self.similarity)
        if has_scores(examples):
            wanted = np.array([example.score for example in examples])
            found = nearest.scores(vectors[::2], vectors[1::2], self.similarity)
            results = number_scores(found, wanted, ("spearman", "pearson"))
            # Only cosines have the scale of the scores.
            if self.similarity not in (None, "cosine"):
                del results["loss"]
            return Scored(results, signs.same_number(found, wanted), found)
        ranked = ranked_documents(examples, vectors, self.similarity)
        relevant = [examples.relevant[name] for name in examples.queries]
        results = scores.retrieval(ranked, relevant)
        count, answered = len(examples.documents), sum(map(bool, relevant))
        sign = signs.no_better(
            answered if count > 10 else 0,
            "recall_at_10",
            results["recall_at_10"],
            10 / count * answered / len(relevant),
            "the documents in any order",
        )
        return Scored(results, sign, (examples, ranked))

    def write_predictions(
        self, data: DataSet, outputs: dict[str, np.ndarray]
    ) -> str:
        """Write embeddings.jsonl, a line for each text."""
        texts = [
            text for example in self.examples(data) for text in example.texts
        ]
        is_text = self.records(data).features[learning.TEXT_IDS] > 0
        vectors = outputs["embedding"][is_text].tolist()
        lines = []
        for text, vector in zip(texts, vectors, strict=True):
            line = {"text": text, "embedding": list(map(number, vector))}
            lines.append(json.dumps(line, ensure_ascii=False))
        self.write_lines(EMBEDDINGS, lines)
        return EMBEDDINGS


def has_scores(examples: Sequence[Example] | Collection) -> bool:
    """Whether the pairs of a data set have scores."""
    return (
        not isinstance(examples, Collection) and examples[0].score is not None
    )


def ranked_documents(
    collection: Collection, vectors: np.ndarray, similarity: str | None
) -> list[list[str]]:
    """Return the ids of the documents nearest to each query.

    A document that has the query's id is the same text, as in BEIR's Quora and
    ArguAna, and is left out, unless it is among the relevant ones.

    Args:
        collection: n queries and documents together.
        vectors: [n, D] of the queries, then of the documents, prepared.
        similarity: how they are compared; None: by the cosine.
    """
    count = len(collection.queries)
    names = [*collection.documents]
    # One more than is ranked: a text is not to find itself.
    found = nearest.nearest(
        vectors[count:], vectors[:count], scores.DEPTH + 1, similarity
    )
    ranked = []
    for query, (row, _) in zip(collection.queries, found, strict=True):
        own = {query} - {*collection.relevant[query]}
        kept = [names[at] for at in row.tolist() if names[at] not in own]
        ranked.append(kept[: scores.DEPTH])
    return ranked
