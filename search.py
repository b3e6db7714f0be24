r"""Find the sentences of a file that are nearest in meaning to a query.

    python search.py --input_file=corpus.txt --index=corpus_index \
        --init_checkpoint=hf://sentence-transformers/all-MiniLM-L6-v2

computes a vector for each line of the file and keeps them in a folder, which
then answers any number of queries:

    python search.py --index=corpus_index --top_k=2 \
        --init_checkpoint=hf://sentence-transformers/all-MiniLM-L6-v2 \
        --query='I was afraid of the dark.'

prints the number, the score and the text of each sentence that it finds. Into a
file or a pipe it writes a JSON line for each query:

    {"query": "I was afraid of the dark.", "results": [
        {"rank": 1, "score": 0.650822, "id": "corpus.txt:1286", "line": 1286,
         "text": "I was chilled with fear."}, ...]}

Without --query and --query_file the queries are the lines of standard input; on
a terminal the script asks for them, and in a pipe it answers a line as soon as
it arrives. A build that was killed is resumed by
the same command. With another corpus it encodes the texts that are new.
"""

import dataclasses
import functools
import io
import json
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any

from base import file_system, logs, script, startup
from base.errors import UserError
from base.flags import define, flag, read

from absl import flags

from serving import flags as prediction_flags
from serving.flags import ModelOptions
from serving.search import build
from serving.search.index import METHODS, load_usearch
from tasks import openvino_files, reading, registry
from tasks.embeddings.task import Embeddings, Prompts, with_prompts
from tasks.openvino_files import OpenVinoModel
from tasks.reading import Window
from tasks.task import Input, Model, Task, TaskSettings
from training import flags as training_flags
from training.flags import ModelFlags
from training.settings import TrainingSettings

FLAGS = flags.FLAGS

# Where queries come from.
_PIPE, _TYPED = "standard input", "terminal"


@dataclasses.dataclass(frozen=True)
class Flags:
    """The corpus, its index and the queries."""

    # Corpus and index
    input_file: str | None = flag()
    """The corpus, to build the index: text, a sentence per line, JSON lines, or
    tables (.csv, .tsv); but for tables plain or gzip; globs, separated by
    commas."""

    index: str = flag(required=True)
    """Folder of the index, on this machine's disk."""

    text_column: str = flag("text", alias="text_columns")
    """Field of the text in JSON lines, or column of tables."""

    id_column: str | None = flag(needs={"input_file": ""})
    """Field of the id in JSON lines; default: id; without one, the id is
    file:line."""

    # Model
    max_seq_length: int | None = flag(low=3)
    """Largest number of tokens of a text; longer texts are cut. Default: the
    length that the model was fine-tuned with, else its positions."""

    # Queries and answers
    query: tuple[str, ...] = flag((), repeated=True)
    """A query"""

    query_file: str | None = flag()
    """Queries: text, a query per line, or JSON lines."""

    top_k: int = flag(10, 1, 10000)
    """Number of sentences for each query."""

    method: str = flag("exact", choices=METHODS)
    """How to search. exact: compare the query with all vectors, for up to a
    million sentences. graph: walk through a graph, for more; needs usearch, and
    may miss some answers. A model that compares vectors by the Manhattan
    distance needs exact."""


define(Flags)


# Model
define(ModelFlags)
define(ModelOptions, "embedding_size")
define(Prompts)
define(TrainingSettings, "dtype")


def main(_: list[str]) -> None:
    """Build the index if a corpus is given, and answer the queries."""
    check_flags()
    settings, files, load = find_model()
    corpus = settings._replace(
        text_columns=(FLAGS.text_column,), id_column=FLAGS.id_column
    )
    documents = build.task_for(corpus, "document")
    model, name = build.fingerprint_of(documents, files), FLAGS.init_checkpoint
    if FLAGS.input_file:
        own = model | {"dtype": settings.dtype}
        build.build(FLAGS.index, FLAGS.input_file, documents, load, own, name)
        if not FLAGS.query and not FLAGS.query_file:
            logs.say("Ask it with --query='...'")
    task = build.task_for(settings, "query")
    index = build.open_index(FLAGS.index, FLAGS.method, model, name)
    for window in read_queries(task):
        for problem in window.problems:
            raise UserError(f"{problem.place}: {problem.reason}")
        if queries := window.inputs:
            vectors = build.vectors_of(task, load(), queries)
            found = index.search(vectors, FLAGS.top_k)
            for query, results in zip(queries, found, strict=True):
                show(query, results)


def find_model() -> tuple[TaskSettings, list, Callable[[], Model]]:
    """Return the settings of --init_checkpoint, its files, and how to load it.

    The files are (name, SHA-256); the function returns the model, always the
    same. An ONNX file needs no TensorFlow, which takes seconds to import.
    """
    path, names = FLAGS.init_checkpoint, ("max_seq_length", "embedding_size")
    if path.endswith(openvino_files.SUFFIX):
        names += registry.FILES
        given = {name: FLAGS[name].value for name in (*names, "dtype")}
        settings = openvino_files.find(path, **given)
        if settings.task not in build.OUTPUTS:
            raise UserError(
                f"--init_checkpoint={path} does {settings.task}, which gives "
                "no vectors: export it with --task=encoder"
            )
        engine = OpenVinoModel
        files = [(os.path.basename(path), file_system.sha256(path))]
    else:
        with startup.importing():
            from tasks import loading
            from training import dtypes

        given = {name: FLAGS[name].value for name in names}
        given["dtype"] = dtypes.resolve_here(FLAGS.dtype)
        checkpoint = training_flags.open_init_checkpoint(FLAGS)
        own = loading.choose_task(checkpoint, needs_rows=False)
        task = own if own in build.OUTPUTS else "encoder"
        settings = loading.describe(checkpoint, task, given)
        engine, files = loading.load, loading.fingerprint(settings)
    prediction_flags.warn_of_ignored(FLAGS, settings.task, used=["top_k"])
    if settings.task == Embeddings.name:
        prompts = read(Prompts, FLAGS)
        checkpoint = with_prompts(settings.checkpoint, prompts)
        settings = settings._replace(checkpoint=checkpoint)
    return settings, files, functools.cache(lambda: engine(settings))


def read_queries(task: Task) -> Iterator[Window]:
    """Yield windows of queries: the flags', else those of standard input."""
    if FLAGS.query:
        lines = "\n".join(json.dumps({"text": text}) for text in FLAGS.query)
        stream = io.BytesIO(lines.encode())
        yield from reading.read_stream(stream, "--query", "jsonl", task.parse)
    if FLAGS.query_file:
        file = reading.inspect(FLAGS.query_file, flag="query_file")
        yield from reading.read_windows(file, task.parse)
    if FLAGS.query or FLAGS.query_file or FLAGS.input_file:
        return
    stream = sys.stdin.buffer
    if not sys.stdin.isatty():
        yield from reading.read_stream(
            stream, _PIPE, "auto", task.parse, is_asking=True
        )
        return
    while line := ask():
        stream = io.BytesIO(line.encode())
        yield from reading.read_stream(stream, _TYPED, "text", task.parse)


def ask() -> str:
    """Return a line that is typed; "" at the end."""
    print("Query: ", end="", file=sys.stderr, flush=True)
    # Bytes that are not UTF-8 are no error: the next query may be better.
    line = sys.stdin.buffer.readline().decode("utf-8", "replace")
    return line.replace("\t", " ")


def show(query: Input, results: list[dict[str, Any]]) -> None:
    """Print the answers to a query: on a terminal a table, else JSON."""
    text = query.texts["text"]
    if sys.stdout.isatty():
        if query.place.path != _TYPED:
            print(text)
        for one in results:
            words = " ".join(one["text"].split())
            print(f"{one['rank']:3}  {one['score']:.4f}  {words}")
        print(flush=True)
        return
    found = {"query": text, "results": results}
    if query.id != str(query.place):
        found = {"id": query.id, **found}
    print(json.dumps(found, ensure_ascii=False), flush=True)


def check_flags() -> None:
    """Raise an error for flags that cannot work, before anything is read."""
    if not FLAGS.init_checkpoint:
        raise UserError(
            "--init_checkpoint is required: the model of the index, which "
            "makes the vectors of queries too"
        )
    if file_system.is_remote(FLAGS.index):
        raise UserError(
            f"--index={FLAGS.index}: wanted a folder on a disk of this machine"
        )
    if FLAGS.method == "graph":
        load_usearch()


if __name__ == "__main__":
    script.run(main)
