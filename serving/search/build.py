"""Build the index of a corpus: its texts, their vectors, and a graph.

    corpus -> texts.jsonl, offsets.npy -> parts of vectors -> vectors.npy
    vectors.npy -> graph.usearch, where --method=graph asks for it

It is a job (base/jobs/run.py), so a file appears when it is complete, and a run
that was killed resumes after the last part. The texts come first: a mistake
in the corpus is found before the model has computed for hours.
"""

import array
import json
import os
from collections.abc import Callable, Sequence
from typing import Any

from base import file_system, logs, progress
from base.errors import InputError, UserError
from base.jobs import run as jobs_run
from base.jobs.run import Job

import numpy as np

from serving import run as predictions
from serving.search.index import (
    GRAPH,
    OFFSETS,
    TEXTS,
    VECTORS,
    Index,
    load_usearch,
)
from tasks import loading, nearest, predict, reading, registry
from tasks.embeddings.task import Embeddings, prompt_of
from tasks.rows import Units
from tasks.task import NOT_FINITE, Input, Model, Place, Task, TaskSettings

# Raise it when the same command no longer gives the same bytes.
_VERSION = 1

# Tasks whose models make vectors, and the output that is the vector of a text.
OUTPUTS = {"encoder": "mean_output", "embeddings": "embedding"}

_PART = 4096  # sentences whose vectors are written together

_BATCH_SIZE = 32

# The similarities that a graph knows, usearch's names for them, and the type of
# the numbers it keeps: 8 bits hold those of unit vectors alone.
_OF_GRAPH = {
    None: ("cos", "i8"),
    "dot": ("ip", "bf16"),
    "euclidean": ("l2sq", "bf16"),
}


def task_for(settings: TaskSettings, use: str) -> Task:
    """Return the task of the vectors of queries or documents.

    A model may want another prompt before each. `use` is "query" or "document".
    """
    if settings.task == Embeddings.name:
        prompt = prompt_of(settings.checkpoint.trained_for, use)
        own = settings.options._replace(prompt=prompt)
        settings = settings._replace(options=own)
    return registry.create_task(settings)


def vectors_of(
    task: Task,
    run_model: Model,
    inputs: Sequence[Input],
    update: Callable[[int], None] = lambda count: None,
) -> np.ndarray:
    """Return the vectors of texts, float32 [n, D], as they are compared.

    Args:
        task: one of OUTPUTS.
        run_model: the task's model.
        inputs: the texts.
        update: called with the number of texts of each batch.

    Raises:
        UserError: the model's outputs are not finite.
    """
    units = task.encode(inputs).units
    found, data = None, Units(units, task.checkpoint.row_length)
    for rows, features in predict.batches(run_model, data, _BATCH_SIZE):
        vectors = run_model(features)[OUTPUTS[task.name]][: len(rows)]
        if found is None:
            found = np.zeros([len(units), vectors.shape[1]], np.float32)
        found[rows] = vectors
        update(len(rows))
    if not np.isfinite(found).all():
        raise UserError(NOT_FINITE)
    similarity = task.checkpoint.trained_for.similarity_fn_name
    return nearest.prepared(found, similarity)


def fingerprint_of(task: Task) -> dict[str, Any]:
    """Return all of the model that the vectors of documents depend on."""
    return {
        "version of the index": _VERSION,
        **task.description(),
        "init_checkpoint": loading.fingerprint(task.settings),
    }


# --- The job -----------------------------------------------------------------


def job_of(folder: str, fingerprint: dict[str, Any], model: str = "") -> Job:
    """Return the job of the texts and their vectors by a model."""
    folder = file_system.absolute_path(folder)
    paths = [os.path.join(folder, name) for name in (TEXTS, OFFSETS, VECTORS)]
    return Job(paths, folder, "index", "index", fingerprint, model)


def build(
    folder: str,
    patterns: str,
    task: Task,
    load: Callable[[], Model],
    fingerprint: dict[str, Any],
    model: str,
) -> None:
    """Build the index of a corpus, or what is missing of it.

    Args:
        folder: the folder of the index.
        patterns: the files of the corpus: globs, separated by commas.
        task: one of OUTPUTS.
        load: returns the task's model; called if it is needed.
        fingerprint: all that the bytes depend on, beside the corpus.
        model: what messages call the model.

    Raises:
        UserError: a line cannot be used, or the folder has another index.
    """
    files = reading.find_inputs(patterns, "auto")
    if files[0].kind == "tfrecord":
        raise UserError(f"{files[0].path} holds records, wanted text")
    if files[0].kind == "table":
        predictions.check_first_inputs(files[0], task, flag="text_column")
    states = [file_system.file_identity(file.path) for file in files]
    job = job_of(folder, fingerprint | {"input_file": states}, model)
    with jobs_run.open_run(job) as run:
        if {0, 1} & {*run.todo}:
            try:
                _write_texts(job, files, task)
            except InputError:
                run.discard()
                raise
        if run.todo:
            count, width = _write_vectors(job, task, load)
            logs.say(
                "Wrote %s: the vectors of %s sentences, %d numbers each",
                folder,
                f"{count:,}",
                width,
            )
        run.finish({})


def _write_texts(
    job: Job, files: Sequence[reading.InputFile], task: Task
) -> None:
    """Write a JSON line for each sentence, and where the lines begin."""
    offsets = array.array("q", [0])
    with (
        jobs_run.publish(job.target(0)) as (texts, _),
        jobs_run.publish(job.target(1)) as (places, _),
        progress.Bar(sum(file.size for file in files), "B", "Reading") as bar,
    ):
        for file in files:
            for window in reading.read_windows(file, task.parse, whole=False):
                for problem in window.problems:
                    raise InputError(f"{problem.place}: {problem.reason}")
                for item in window.inputs:
                    line = {
                        "id": item.id,
                        "line": item.place.number,
                        "text": item.texts["text"],
                    }
                    data = json.dumps(line, ensure_ascii=False).encode()
                    texts.write(data + b"\n")
                    offsets.append(texts.tell())
                bar.update(window.num_bytes)
        if len(offsets) == 1:
            raise InputError("--input_file has no text")
        np.save(places, np.frombuffer(offsets, np.int64))


def _write_vectors(
    job: Job, task: Task, load: Callable[[], Model]
) -> tuple[int, int]:
    """Write the parts of the vectors that are missing, and all as one file.

    Returns the number of vectors and that of the numbers of each.
    """
    texts, offsets, _ = job.outputs
    offsets = np.load(offsets)
    starts = range(0, len(offsets) - 1, _PART)
    paths = [os.path.join(job.shared_dir, f"part-{at:012}") for at in starts]
    done = sum(map(os.path.exists, paths))
    run_model = load() if done < len(paths) else None
    logs.report(
        "Computing the vectors of %s sentences", f"{len(offsets) - 1:,}"
    )
    with (
        open(texts, "rb") as file,
        progress.Bar(
            len(offsets) - 1, "sentences", "Encoding", first=done * _PART
        ) as bar,
    ):
        for start, path in zip(starts, paths, strict=True):
            if os.path.exists(path):
                continue
            ends = offsets[start : start + _PART + 1].tolist()
            file.seek(ends[0])
            lines = map(json.loads, file.read(ends[-1] - ends[0]).splitlines())
            inputs = [
                Input(line["id"], Place(texts, at), {"text": line["text"]})
                for at, line in enumerate(lines)
            ]
            vectors = vectors_of(task, run_model, inputs, bar.update)
            with file_system.atomic_file(path) as part:
                np.save(part, vectors)
    width = np.load(paths[0], mmap_mode="r").shape[1]
    with jobs_run.publish(job.target(2)) as (file, _):
        shape = len(offsets) - 1, width
        header = {"descr": "<f4", "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(file, header)
        for path in paths:
            file.write(np.load(path).tobytes())
    return shape


# --- Questions ---------------------------------------------------------------


def open_index(
    folder: str, method: str, wanted: dict[str, Any], model: str = ""
) -> Index:
    """Return an index; a graph that is asked for is made if it is missing.

    Args:
        folder: the folder of the index.
        method: one of index.METHODS.
        wanted: `fingerprint_of` the queries' model.
        model: what messages call that model.

    Raises:
        UserError: there is no index, it is not complete, or of another model.
    """
    job = job_of(folder, {})
    manifest = jobs_run.read_manifest(job.manifest)
    found = manifest.get("fingerprint", {})
    if not found:
        raise UserError(
            f"--index={folder} holds no index: give --input_file to build it"
        )
    own = {name: value for name, value in found.items() if name in wanted}
    models = manifest.get("model", ""), model
    if changed := jobs_run.differences(own, wanted, models):
        raise UserError(
            f"--index={folder} was built with another model or other flags: "
            f"{'; '.join(changed)}"
        )
    if "total" not in manifest:
        raise UserError(
            f"--index={folder} is not complete: give --input_file to resume"
        )
    if path := _missing(job, manifest):
        raise UserError(
            f"{path} is missing or damaged: give --input_file to build it"
        )
    similarity = found.get("similarity_fn_name")
    if method == "graph":
        if similarity not in _OF_GRAPH:
            raise UserError(
                f"--method={method} cannot compare vectors as this model does "
                f"(similarity_fn_name is {similarity}): give --method=exact"
            )
        _add_graph(folder, found)
    return Index(folder, method, similarity)


def _missing(job: Job, manifest: dict[str, Any]) -> str | None:
    """Return an output that is not there as its manifest says.

    Its folder may have been moved since, or lie on another machine.
    """
    entries = manifest.get("files", {}).items()
    sizes = {os.path.basename(path): entry["bytes"] for path, entry in entries}
    for path in job.outputs:
        size, *_ = file_system.file_state(path) or [None]
        if size is None or size != sizes.get(os.path.basename(path)):
            return path
    return None


def _add_graph(folder: str, fingerprint: dict[str, Any]) -> None:
    """Make the graph of the vectors, unless it is there.

    That of other vectors is made again.

    Args:
        folder: a complete index.
        fingerprint: all that its bytes depend on.

    Raises:
        UserError: vectors of the index are not finite.
    """
    folder = file_system.absolute_path(folder)
    path = os.path.join(folder, GRAPH)
    job = Job([path], folder, "graph", "", fingerprint)
    manifest = jobs_run.read_manifest(job.manifest)
    is_same = manifest.get("fingerprint") == job.fingerprint
    if is_same and not _missing(job, manifest):
        return
    metric, dtype = _OF_GRAPH[fingerprint.get("similarity_fn_name")]
    with jobs_run.open_run(job) as run:
        index = Index(folder)
        vectors = index.vectors
        graph = load_usearch().Index(
            ndim=vectors.shape[1], metric=metric, dtype=dtype
        )
        with progress.Bar(len(vectors), "vectors", "Making graph") as bar:
            for at in range(0, len(vectors), _PART):
                block = np.asarray(vectors[at : at + _PART])
                if not np.isfinite(block).all():
                    raise index.damaged(VECTORS)
                # Threads do not see the vectors that others are adding. In a
                # small graph that leaves vectors to which no way leads, so its
                # first vectors are added one after the other.
                graph.add(
                    np.arange(at, at + len(block)),
                    block,
                    threads=0 if at else 1,
                )
                bar.update(len(block))
        with jobs_run.publish(job.target(0)) as (file, _):
            graph.save(file.name)
            file.seek(0, os.SEEK_END)
        run.finish({})
