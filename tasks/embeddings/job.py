"""Fine-tuning for sentence vectors: data, scores, mistakes, vectors."""

import json
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from base import file_system, progress
from base.errors import UserError

import numpy as np
from absl import logging

from checkpoints.model import Checkpoint
from checkpoints.trained_for import TrainedFor
from records import in_memory, tfrecord
from tasks import (
    distillation,
    loading,
    long_texts,
    mistakes,
    nearest,
    registry,
    rows,
    signs,
)
from tasks import predict as tasks_predict
from tasks.embeddings import data as embeddings_data
from tasks.embeddings import learning, scores
from tasks.embeddings.data import Collection, Columns, Example
from tasks.embeddings.task import (
    Embeddings,
    check_size,
    prompt_for,
    prompt_of,
)
from tasks.job import (
    DataSet,
    FineTuningJob,
    LoadedModel,
    Scored,
    titled,
)
from tasks.rows import log_example
from tasks.settings import RunSettings
from tasks.task import number
from training import memory

EMBEDDINGS = "embeddings.jsonl"

_PART = 8192  # rows converted together

_SHOWN = 3  # examples in the log


class Options(NamedTuple):
    """The flags of run_embeddings.py, by their names; None: not given."""

    train_file: str | None
    dev_file: str | None
    retrieval_dir: str | None
    qrels: str
    test_file: str | None
    columns: Columns
    pooling: str | None
    normalize: bool | None
    query_prompt: str | None
    document_prompt: str | None
    temperature: float
    symmetric: bool
    matryoshka_dims: tuple[int, ...]
    cache_chunk: int
    teacher_checkpoint: str | None
    embedding_size: int | None
    eval_batch_size: int


class EmbeddingsJob(FineTuningJob):
    """An encoder that is trained to make a vector for each text."""

    task_name = Embeddings.name
    is_of_any_task = True
    result_files = (*FineTuningJob.result_files, EMBEDDINGS)

    def __init__(
        self,
        settings: RunSettings,
        source: Checkpoint,
        is_training: bool,
        options: Options,
    ):
        super().__init__(settings, source)
        self.flags, own = options, source.trained_for
        self.pooling = options.pooling or own.pooling or "mean"
        self.normalize = options.normalize
        if options.normalize is None:
            self.normalize = bool(own.normalize)
        self.prompts = dict(own.prompts or {})
        for name in ("query", "document"):
            text = getattr(options, f"{name}_prompt")
            if text is not None:
                self.prompts[name] = text
        width = self.config.hidden_size
        check_size(options.embedding_size, width, "embedding_size")
        self.truncate_dim = None
        if not options.embedding_size:
            self.truncate_dim = own.truncate_dim
        width = min(width, self.truncate_dim or width)
        for size in options.matryoshka_dims:
            check_size(size, width, "matryoshka_dims")
        self.width = options.embedding_size or width
        self.similarity = own.similarity_fn_name
        self.teacher = None
        if options.teacher_checkpoint and is_training:
            self.teacher = loading.find(options.teacher_checkpoint)
            if self.teacher.task != Embeddings.name:
                raise UserError(
                    f"--teacher_checkpoint={options.teacher_checkpoint} makes "
                    f"no sentence vectors: its task is {self.teacher.task}"
                )
        if is_training:
            self._choose_similarity()
        dev = []
        if options.dev_file:
            dev.append(DataSet("eval", "dev", options.dev_file))
        if options.retrieval_dir:
            dev.append(
                DataSet("eval_retrieval", "retrieval", options.retrieval_dir)
            )
        self.result_files += tuple(
            titled(mistakes.NAME, data.title) for data in dev[1:]
        )
        sequence = tfrecord.Feature("int64", source.row_length)
        self.open_data(
            {
                "input_ids": sequence,
                "input_mask": sequence,
                "segment_ids": sequence,
                learning.TEXT_IDS: tfrecord.Feature("int64", 1),
                learning.SCORE: tfrecord.Feature("float32", 1),
            },
            DataSet("train", "train", options.train_file),
            dev,
            [DataSet("predict", "test", options.test_file)],
            is_training,
            options.eval_batch_size,
        )
        if is_training:
            self._choose_learning()

    def _choose_similarity(self) -> None:
        """Set the similarity by which the trained model compares vectors."""
        own, teacher = self.similarity, self.teacher
        self.similarity = teacher and teacher.similarity_fn_name
        if self.similarity != own:
            logging.warning(
                "The model compares vectors by similarity_fn_name %s. It is "
                "trained for %s, %s, and written with that",
                own or "cosine",
                self.similarity or "cosine",
                "as its teacher" if teacher else "which the losses use",
            )

    def _choose_learning(self) -> None:
        """Set what is learned, which follows from the training file."""
        flags, examples = self.flags, self.examples(self.train)
        kind = learning.RANKING
        if self.teacher:
            kind = learning.DISTILLATION
        elif examples[0].score is not None:
            kind = learning.SCORES
        elif min(len(example.texts) for example in examples) < 2:
            raise UserError(
                f"{flags.train_file} holds single texts, which only "
                "--teacher_checkpoint can train on: wanted pairs"
            )
        self.learning = learning.Learning(
            kind,
            flags.temperature,
            flags.symmetric,
            flags.matryoshka_dims,
            flags.cache_chunk,
        )
        self.objective = learning.objective(self.learning)
        # All examples have as many rows as the longest.
        self.group = max(len(example.texts) for example in examples)
        logging.info("Learning by %s: %s", kind, self.learning)

    def deciding_metric(self) -> str:
        """Return the key of the first score of the first development set."""
        if not self.dev:
            raise UserError("--eval_steps needs --dev_file or --retrieval_dir")
        is_scored = _is_scored(self.examples(self.dev[0]))
        prefix = self.prefix(self.dev[0])
        return prefix + ("spearman" if is_scored else "ndcg_at_10")

    # --- Model ---------------------------------------------------------------

    def options(self) -> dict[str, Any]:
        """Return pooling, normalization, size and prompt of the vectors."""
        return {
            "pooling": self.pooling,
            "normalize": self.normalize,
            "embedding_size": self.flags.embedding_size,
            "truncate_dim": self.truncate_dim,
            "similarity_fn_name": self.similarity,
            "prompt": self._prompt(None),
        }

    def trained_for(self) -> TrainedFor:
        """Return how vectors are made, for the model's configuration."""
        own = self.source.trained_for
        return (
            super()
            .trained_for()
            ._replace(
                bilstm_layers=None,
                bilstm_units=None,
                pooling=self.pooling,
                normalize=self.normalize,
                prompts=self.prompts or None,
                default_prompt_name=own.default_prompt_name,
                similarity_fn_name=self.similarity,
                truncate_dim=own.truncate_dim,
            )
        )

    def row(self) -> memory.Rows:
        """Return what an example costs: a sequence for each of its texts."""
        row = super().row()
        if self.flags.cache_chunk:
            size = self.settings.training.train_batch_size
            encoded = min(self.group, self.flags.cache_chunk / size)
            row = row._replace(encoded=encoded)
        return row

    def _prompt(self, name: str | None) -> str:
        """Return a prompt: the default one, query, or document."""
        own = self.source.trained_for._replace(prompts=self.prompts)
        return prompt_for(own, name) if name else prompt_of(own, None)

    # --- Data ----------------------------------------------------------------

    def read(self, data: DataSet) -> list[Example] | Collection:
        """Return the examples of a file, or the collection of a folder."""
        if data.name == "eval_retrieval":
            return embeddings_data.read_collection(
                data.source, self.flags.qrels
            )
        columns = self.flags.columns
        if data.name == "predict":  # which needs no labels and no scores
            columns = columns._replace(label=None, score="")
        elif data == self.train and self.teacher:
            columns = columns._replace(score="")
        return embeddings_data.read_examples(data.source, columns)

    def fingerprint(self, data: DataSet) -> dict[str, Any]:
        """Return everything that the records of a file depend on."""
        files = embeddings_data.files_of(data.source, self.flags.qrels)
        prompts = [*map(self._prompt, (None, "query", "document"))]
        # Earlier versions numbered the texts with their prompts.
        numbered = {"text_ids": "of bare texts"} if any(prompts) else {}
        return {
            **numbered,
            "data": [file_system.sha256(path) for path in files],
            "columns": self.flags.columns._asdict(),
            "prompts": prompts,
            "is_taught": data == self.train and self.teacher is not None,
            **self.text_fingerprint(),
        }

    def data_fingerprint(self) -> dict[str, Any]:
        """Return also what is learned, and the teacher."""
        own = self.learning._asdict()
        del own["chunk"]
        found = super().data_fingerprint() | own
        found |= {"pooling": self.pooling, "normalize": self.normalize}
        if self.teacher:
            found["teacher_checkpoint"] = self._teacher_fingerprint()
        return found

    def execution(self) -> dict[str, Any]:
        """Return the rows that are computed together."""
        return {"cache_chunk": self.flags.cache_chunk or None}

    def texts(self, data: DataSet) -> list[tuple[str, str | None]]:
        """Return (prompt, text) of each record of a data set.

        A text None fills up examples of fewer texts. A collection's queries
        come before its documents.
        """
        examples = self.examples(data)
        if isinstance(examples, Collection):
            names = ["query"] * len(examples.queries)
            names += ["document"] * len(examples.documents)
            found = [*examples.queries.values(), *examples.documents.values()]
        else:
            group = max(len(example.texts) for example in examples)
            found = [
                text
                for example in examples
                for text in (*example.texts, *[None] * group)[:group]
            ]
            is_ranking = data.name != "predict" and not _is_scored(examples)
            roles = ["query", *["document"] * (group - 1)]
            names = [role if is_ranking else None for role in roles]
            names *= len(examples)
        prompts = {name: self._prompt(name) for name in {*names}}
        return [
            (prompts[name], text)
            for text, name in zip(found, names, strict=True)
        ]

    def convert(
        self, data: DataSet, examples: Sequence[Example] | Collection
    ) -> Iterator[dict[str, np.ndarray]]:
        """Yield the features of every text; log the first ones."""
        texts, length = self.texts(data), self.source.row_length
        how = self.source.long_texts.how
        values = np.zeros([len(texts)], np.float32)
        if _is_scored(examples):
            values = np.repeat([example.score for example in examples], 2)
        numbers: dict[str | None, int] = {None: 0}
        lengths, left_out = [], []
        for at in range(0, len(texts), _PART):
            part = texts[at : at + _PART]
            found = [
                rows.row_of_texts(
                    _prompted(prompt, text), None, length, self.tokenizer, how
                )
                for prompt, text in part
            ]
            features = rows.pad([row for row, _ in found], length)
            lengths.append(features["input_mask"].sum(axis=1))
            left_out.append(np.array([lost for _, lost in found]))
            for row in range(min(_SHOWN, len(part)) if not at else 0):
                log_example(row, ("tokens", self.tokens_of(features, row)))
            yield features | {
                # Of the bare texts: one with the prompt of a query is the
                # same as one with that of a document.
                learning.TEXT_IDS: np.array(
                    [numbers.setdefault(text, len(numbers)) for _, text in part]
                ),
                learning.SCORE: values[at : at + _PART],
            }
        logging.info(
            "%s: %d texts, %d of them different, %s",
            data.title,
            len(texts),
            len(numbers) - 1,
            long_texts.what_is_read(self.source, lengths, left_out),
        )

    def train_data(self, loaded: LoadedModel) -> in_memory.ShortRecords:
        """Return the training examples; with a teacher, its vectors too."""
        data = super().train_data(loaded)
        if self.teacher:
            data.features[learning.TEACHER] = self._teacher_vectors()
        return data

    # --- Teacher -------------------------------------------------------------

    def _teacher_fingerprint(self) -> list[Any]:
        # How it makes vectors is in several files beside the weights.
        settings = self.teacher._replace(path="", vocab_file="")
        return [*loading.fingerprint(self.teacher), settings]

    def _teacher_vectors(self) -> np.ndarray:
        """Return the teacher's vectors of the training texts, [n, D].

        Raises:
            UserError: they have another size than this model's.
        """
        path = self.flags.teacher_checkpoint
        found = distillation.kept_outputs(
            self.cache,
            "teacher",
            path,
            {
                "teacher": self._teacher_fingerprint(),
                "texts": self.fingerprint(self.train),
            },
            self._run_teacher,
        )
        if found.shape[1] != self.width:
            raise UserError(
                f"--teacher_checkpoint={path} has vectors of "
                f"{found.shape[1]} numbers, this model of {self.width}"
            )
        return found

    def _run_teacher(self) -> np.ndarray:
        task = registry.create_task(self.teacher)
        units = [
            [task.row(_prompted(prompt, text))[0]]
            for prompt, text in self.texts(self.train)
        ]
        with progress.Bar(len(units), "texts", "Running the teacher") as bar:
            outputs = tasks_predict.run_units(
                task,
                loading.load(self.teacher),
                units,
                self.eval_batch_size,
                bar.update,
            )
        return np.stack([one["embedding"] for one in outputs])

    # --- Scores and predictions ----------------------------------------------

    def score(self, data: DataSet, outputs: dict[str, np.ndarray]) -> Scored:
        """Return correlations, or the scores of a retrieval."""
        examples = self.examples(data)
        vectors = nearest.prepared(outputs["embedding"], self.similarity)
        if _is_scored(examples):
            wanted = np.array([example.score for example in examples])
            found = nearest.scores(vectors[::2], vectors[1::2], self.similarity)
            sign = signs.same_number(found, wanted)
            return Scored(
                scores.correlations(found, wanted, self.similarity),
                [sign] if sign else [],
                found,
            )
        collection = examples
        if not isinstance(examples, Collection):
            collection = embeddings_data.collection_of(examples)
            vectors = _of_collection(examples, collection, vectors)
        ranked = ranked_documents(collection, vectors, self.similarity)
        relevant = [collection.relevant[name] for name in collection.queries]
        return Scored(
            scores.retrieval(ranked, relevant), (), (collection, ranked)
        )

    def write_mistakes_of(self, data: DataSet, scored: Scored) -> None:
        """Write errors.tsv: pairs furthest off, or queries that found least."""
        examples = self.examples(data)
        if _is_scored(examples):
            header = ("row", "truth", "prediction", "error", "text_a", "text_b")
            wanted = np.array([example.score for example in examples])
            errors = scored.predictions - wanted
            if self.similarity:  # of another scale than the scores
                errors = _standard(scored.predictions) - _standard(wanted)
            found = mistakes.worst(
                header,
                range(len(examples)),
                wanted.tolist(),
                scored.predictions.tolist(),
                errors.tolist(),
                [example.texts for example in examples],
            )
        else:
            header = ("query", "rank", "text", "relevant", "found_first")
            collection, ranked = scored.predictions
            rows = _failures(collection, ranked)
            found = mistakes.Mistakes(header, rows, len(ranked))
        title = "" if data == self.dev[0] else data.title
        self.write_errors(found, titled(mistakes.NAME, title))

    def write_predictions(
        self, data: DataSet, outputs: dict[str, np.ndarray]
    ) -> None:
        """Write embeddings.jsonl, a line for each text."""
        texts = [
            text for example in self.examples(data) for text in example.texts
        ]
        is_text = self.records(data).features[learning.TEXT_IDS] > 0
        lines = [
            json.dumps(
                {"text": text, "embedding": [number(x) for x in row.tolist()]},
                ensure_ascii=False,
            )
            for text, row in zip(
                texts, outputs["embedding"][is_text], strict=True
            )
        ]
        self.write_lines(EMBEDDINGS, lines)


def _prompted(prompt: str, text: str | None) -> str:
    """Return a text after its prompt; "" for None."""
    return "" if text is None else prompt + text


def _standard(values: np.ndarray) -> np.ndarray:
    """Return values in standard deviations from their mean."""
    return (values - values.mean()) / max(values.std(), 1e-12)


def _is_scored(examples: Sequence[Example] | Collection) -> bool:
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


def _of_collection(
    examples: Sequence[Example], collection: Collection, vectors: np.ndarray
) -> np.ndarray:
    """Return the vectors of the queries, then of the documents, [n, D]."""
    group = len(vectors) // len(examples)
    of_query: dict[str, np.ndarray] = {}
    of_document: dict[str, np.ndarray] = {}
    for row, example in enumerate(examples):
        at = row * group
        of_query.setdefault(example.texts[0], vectors[at])
        for place, text in enumerate(example.texts[1:], at + 1):
            of_document.setdefault(text, vectors[place])
    return np.stack(
        [of_query[text] for text in collection.queries.values()]
        + [of_document[text] for text in collection.documents.values()]
    )


def _failures(
    collection: Collection, ranked: Sequence[Sequence[str]]
) -> list[tuple[mistakes.Cell, ...]]:
    """Return the queries whose first document is not relevant, worst first.

    The rank is that of the first relevant document, None beyond the depth.
    """
    listed = []
    for (query, text), found in zip(
        collection.queries.items(), ranked, strict=True
    ):
        wanted = collection.relevant[query]
        ranks = [n for n, name in enumerate(found, 1) if name in wanted]
        rank = ranks[0] if ranks else None
        if rank != 1:
            first = collection.documents[found[0]] if found else ""
            best = max(wanted, key=wanted.get)
            right = collection.documents[best]
            listed.append((query, rank, text, right, first))
    return sorted(listed, key=lambda row: -(row[1] or scores.DEPTH + 1))
