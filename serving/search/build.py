"""Build the index of a corpus: its texts, their vectors, and a graph.

    corpus -> texts.jsonl, offsets.npy -> parts of vectors -> vectors.npy
    vectors.npy -> graph.usearch, where --method=graph asks for it

A build is a job (base/jobs/run.py) in a folder of its own below the index. When
its files are complete they replace those of the index (`_settle`); until then
the old index answers. The texts come first: a mistake in the corpus is found
before the model has computed for hours.

Each text has one vector, whatever its id, its line and the texts beside it. So
an index of another corpus and the parts of a build that was killed have the
vectors of their texts already, and the model computes the others alone.
"""

import array
import contextlib
import glob
import hashlib
import json
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

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
from tasks import nearest, predict, reading, registry
from tasks.embeddings.task import Embeddings, prompt_of
from tasks.rows import Units
from tasks.task import NOT_FINITE, Input, Model, Place, Task, TaskSettings
from tokenization import TokenizerSettings

# Raise it when the same command no longer gives the same bytes.
_VERSION = 2

# Tasks whose models make vectors, and the output that is the vector of a text.
OUTPUTS = {"encoder": "mean_output", "embeddings": "embedding"}

_PART = 4096  # sentences whose vectors are written together

_BATCH_SIZE = 32

_LENGTHS = 8  # the lengths of texts that are computed together differ by less

_LANES = 16  # numbers that a processor computes at once, at most

_NEXT = ".next"  # the folder of a build, in that of the index

# What a corpus puts into the fingerprint; the vector of a text depends on the
# rest.
_OF_CORPUS = ("input_file", "text_column", "id_column")

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
    found, row_length = None, task.checkpoint.row_length
    groups = -(-Units(units, row_length).lengths // _LENGTHS)
    for group in np.unique(groups)[::-1]:
        places = np.flatnonzero(groups == group)
        data = Units([units[place] for place in places], row_length)
        for rows, features in predict.batches(run_model, data, _BATCH_SIZE):
            vectors = run_model(features)[OUTPUTS[task.name]][: len(rows)]
            if found is None:
                found = np.zeros([len(units), vectors.shape[1]], np.float32)
            found[places[rows]] = vectors
            update(len(rows))
    if not np.isfinite(found).all():
        raise UserError(NOT_FINITE)
    similarity = task.checkpoint.trained_for.similarity_fn_name
    return nearest.prepared(found, similarity)


def _whole(features: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return a batch [B, S] with more rows, for which a text has one vector.

    The last numbers of an array, if they are fewer than _LANES, are computed by
    other instructions, whose last bits may differ. So rows of one or two tokens
    are added, until their number and the number of tokens are multiples.
    """
    mask = features["input_mask"]
    more = np.zeros([_LANES - -len(mask) % -_LANES, mask.shape[1]], np.int32)
    more[:, 0] = 1
    more[: -(mask.sum() + len(more)) % _LANES, 1] = 1
    return {
        name: np.concatenate([value, more * (name == "input_mask")])
        for name, value in features.items()
    }


def fingerprint_of(task: Task, files: list[tuple[str, str]]) -> dict[str, Any]:
    """Return all of the model that the vectors of documents depend on.

    Args:
        task: one of OUTPUTS.
        files: (name, SHA-256) of each file of the model.
    """
    return {
        "version of the index": _VERSION,
        **task.description(),
        "init_checkpoint": files,
    }


# --- The job -----------------------------------------------------------------


def job_of(folder: str, fingerprint: dict[str, Any], model: str = "") -> Job:
    """Return the job of the texts and their vectors by a model."""
    folder = file_system.absolute_path(folder)
    paths = [os.path.join(folder, name) for name in (TEXTS, OFFSETS, VECTORS)]
    return Job(paths, folder, "index", "", fingerprint, model)


def build(
    folder: str,
    patterns: str,
    task: Task,
    load: Callable[[], Model],
    fingerprint: dict[str, Any],
    model: str,
) -> None:
    """Build the index of a corpus, or bring an index up to date with it.

    Args:
        folder: the folder of the index.
        patterns: the files of the corpus: globs, separated by commas.
        task: one of OUTPUTS.
        load: returns the task's model; called if it is needed.
        fingerprint: all that the vector of a text depends on.
        model: what messages call the model.

    Raises:
        UserError: a line cannot be used, or the folder has an index of another
            model, or files of something else.
    """
    files = reading.find_inputs(patterns, "auto")
    if files[0].kind == "tfrecord":
        raise UserError(f"{files[0].path} holds records, wanted text")
    if files[0].kind == "table":
        predictions.check_first_inputs(files[0], task, flag="text_column")
    corpus = (
        [file_system.file_identity(file.path) for file in files],
        task.settings.text_columns,
        task.settings.id_column,
    )
    _settle(folder)
    old = job_of(folder, fingerprint, model)
    manifest = jobs_run.read_manifest(old.manifest)
    if manifest:
        _check_same(folder, manifest, fingerprint, model)
    elif path := next(filter(os.path.exists, old.outputs), None):
        raise UserError(
            f"{path} exists, but was not written by this command (there is no "
            f"{old.manifest}, or it is damaged): delete it or name another "
            "--index"
        )
    is_there = "total" in manifest and not _missing(old, manifest)
    fingerprint = fingerprint | dict(zip(_OF_CORPUS, corpus, strict=True))
    if is_there and not jobs_run.differences(
        manifest["fingerprint"], fingerprint
    ):
        return
    job = job_of(os.path.join(folder, _NEXT), fingerprint, model)
    with jobs_run.open_run(job) as run:
        if {0, 1} & {*run.todo}:
            try:
                _write_texts(job, files, task)
            except InputError:
                run.discard()
                raise
        if run.todo:
            index = Index(folder) if is_there else None
            count, width = _write_vectors(job, task, load, index)
            logs.say(
                "Wrote %s: the vectors of %s sentences, %d numbers each",
                folder,
                f"{count:,}",
                width,
            )
        run.finish({})
        _move(job, folder)
    with contextlib.suppress(OSError):  # another build has begun in it
        os.rmdir(job.folder)


def _is_to_settle(build: Job) -> bool:
    """Whether a build is complete, but not yet the index."""
    return "total" in jobs_run.read_manifest(build.manifest)


def _settle(folder: str) -> None:
    """Replace the files of an index by those of a build that is complete.

    The manifest comes last. While it is with the build, all that open the index
    do this first: a run that was killed within has lost nothing.
    """
    job = job_of(os.path.join(folder, _NEXT), {})
    if not _is_to_settle(job):
        return
    with file_system.locked_folder(job.scratch_dir, folder, wait_seconds=60):
        if _is_to_settle(job):  # nobody else has done it meanwhile
            _move(job, folder)
    with contextlib.suppress(OSError):
        os.rmdir(job.folder)


def _move(build: Job, folder: str) -> None:
    """Move the files of a build that is complete and locked to the index.

    The folder that is locked stays: those who wait for it would make another.
    """
    for path in filter(os.path.exists, (*build.outputs, build.manifest)):
        os.replace(path, os.path.join(folder, os.path.basename(path)))
    for name, _ in file_system.files_below(build.folder):
        os.remove(os.path.join(build.folder, name))


def _inputs(
    files: Sequence[reading.InputFile],
    task: Task,
    update: Callable[[int], None] = lambda num_bytes: None,
) -> Iterator[Input]:
    """Yield the texts of a corpus; `update` is called with the bytes read."""
    for file in files:
        for window in reading.read_windows(file, task.parse, whole=False):
            for problem in window.problems:
                raise InputError(f"{problem.place}: {problem.reason}")
            yield from window.inputs
            update(window.num_bytes)


def _write_texts(
    job: Job, files: Sequence[reading.InputFile], task: Task
) -> None:
    """Write a JSON line for each sentence, and where the lines begin."""
    offsets, ids = array.array("q", [0]), array.array("q")
    with (
        jobs_run.publish(job.target(0)) as (texts, _),
        jobs_run.publish(job.target(1)) as (places, _),
        progress.Bar(sum(file.size for file in files), "B", "Reading") as bar,
    ):
        for item in _inputs(files, task, bar.update):
            line = {
                "id": item.id,
                "line": item.place.number,
                "text": item.texts["text"],
            }
            data = json.dumps(line, ensure_ascii=False).encode()
            texts.write(data + b"\n")
            offsets.append(texts.tell())
            ids.append(hash(item.id))
        if not ids:
            raise InputError("--input_file has no text")
        _check_ids(np.frombuffer(ids, np.int64), files, task)
        np.save(places, np.frombuffer(offsets, np.int64))


def _check_ids(
    hashes: np.ndarray, files: Sequence[reading.InputFile], task: Task
) -> None:
    """Raise an InputError for two rows with one id, given all ids' hashes."""
    found, counts = np.unique(hashes, return_counts=True)
    if counts.max() == 1:
        return
    twice, first = {*found[counts > 1].tolist()}, {}
    for item in _inputs(files, task):
        if hash(item.id) in twice:
            other = first.setdefault(item.id, item.place)
            if other != item.place:
                raise InputError(
                    f"{other} and {item.place} have the same id "
                    f"{json.dumps(item.id, ensure_ascii=False)}: give each row "
                    "an id of its own, or name another --id_column"
                )


def _digests(texts: str) -> np.ndarray:
    """Return a digest of each text of a file of JSON lines, [n]."""
    with open(texts, "rb") as file:
        found = b"".join(
            hashlib.blake2b(
                json.loads(line)["text"].encode(), digest_size=16
            ).digest()
            for line in file
        )
    return np.frombuffer(found, "S16")


class _Known(NamedTuple):
    """Vectors that need not be computed: an index, or a part of a build."""

    texts: np.ndarray  # digests [n]
    vectors: np.ndarray  # float32 [n, D], in a file


def _write_vectors(
    job: Job, task: Task, load: Callable[[], Model], old: Index | None
) -> tuple[int, int]:
    """Write the vectors of the texts; those that are not known are computed.

    Args:
        job: the build, whose texts are written.
        task: one of OUTPUTS.
        load: returns the task's model; called if a text is new.
        old: the index that the build will replace.

    Returns:
        The number of vectors and that of the numbers of each.
    """
    wanted, known = _digests(job.outputs[0]), []
    texts, first = np.unique(wanted, return_index=True)
    if old:
        try:
            known += [_Known(_digests(old.path(TEXTS)), old.vectors)]
        except (ValueError, KeyError) as error:
            raise old.damaged(TEXTS) from error
        kept = np.isin(texts, known[0].texts).sum()
        logs.say(
            "The index has %s of the texts; %s are new, %s are gone",
            f"{kept:,}",
            f"{len(texts) - kept:,}",
            f"{np.unique(known[0].texts).size - kept:,}",
        )
    model = {n: v for n, v in job.fingerprint.items() if n not in _OF_CORPUS}
    key = hashlib.sha256(json.dumps(model).encode()).hexdigest()[:16]
    parts = os.path.join(job.folder, f"part-{key}-")
    known += map(_read_part, glob.glob(glob.escape(parts) + "*.npy"))
    names = np.concatenate([wanted[:0], *(one.texts for one in known)])
    todo = np.sort(first[~np.isin(texts, names)])
    known += _encoded(job, task, load, wanted, todo, parts)
    starts = np.cumsum([0, *(len(one.texts) for one in known)])
    names = np.concatenate([one.texts for one in known])
    order = np.argsort(names)
    places = order[np.searchsorted(names, wanted, sorter=order)]
    shape = len(wanted), known[0].vectors.shape[1]
    with jobs_run.publish(job.target(2)) as (file, _):
        header = {"descr": "<f4", "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(file, header)
        for at in range(0, len(wanted), _PART):
            own = places[at : at + _PART]
            source = np.searchsorted(starts, own, side="right") - 1
            block = np.zeros([len(own), shape[1]], np.float32)
            for number in np.unique(source).tolist():
                rows = source == number
                found = own[rows] - starts[number]
                block[rows] = known[number].vectors[found]
            file.write(block.tobytes())
    return shape


def _encoded(
    job: Job,
    task: Task,
    load: Callable[[], Model],
    texts: np.ndarray,
    todo: np.ndarray,
    parts: str,
) -> Iterator[_Known]:
    """Compute vectors, and keep them in parts for the case of a kill.

    Args:
        job: the build, whose texts are written.
        task: one of OUTPUTS.
        load: returns the task's model.
        texts: the digest of each text.
        todo: the texts whose vectors are computed, by number.
        parts: how the paths of parts begin.
    """
    run_model = load() if todo.size else None
    path, offsets, _ = job.outputs
    offsets = np.load(offsets)
    logs.report("Computing the vectors of %s sentences", f"{len(todo):,}")
    with (
        open(path, "rb") as file,
        progress.Bar(len(todo), "sentences", "Encoding") as bar,
    ):
        for at in range(0, len(todo), _PART):
            rows, inputs = todo[at : at + _PART], []
            for row in rows.tolist():
                file.seek(offsets[row])
                text = json.loads(file.readline())["text"]
                inputs.append(Input(row, Place(path, row), {"text": text}))
            vectors = vectors_of(
                task, lambda batch: run_model(_whole(batch)), inputs, bar.update
            )
            kind = [("text", "S16"), ("vector", "<f4", vectors.shape[1])]
            records = np.zeros(len(rows), kind)
            records["text"], records["vector"] = texts[rows], vectors
            name = f"{parts}{texts[rows[0]].hex()}.npy"
            with file_system.atomic_file(name) as part:
                np.save(part, records)
            yield _read_part(name)


def _read_part(path: str) -> _Known:
    records = np.load(path, mmap_mode="r")
    return _Known(np.array(records["text"]), records["vector"])


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
    _settle(folder)
    job, begun = job_of(folder, {}), job_of(os.path.join(folder, _NEXT), {})
    manifest = jobs_run.read_manifest(job.manifest)
    if not manifest and os.path.exists(begun.manifest):
        raise UserError(
            f"--index={folder} is not complete: give --input_file to resume"
        )
    if not manifest:
        raise UserError(
            f"--index={folder} holds no index: give --input_file to build it"
        )
    _check_same(folder, manifest, wanted, model)
    if path := _missing(job, manifest):
        raise UserError(
            f"{path} is missing or damaged: give --input_file to build it"
        )
    found = manifest["fingerprint"]
    similarity = found.get("similarity_fn_name")
    if method == "graph":
        if similarity not in _OF_GRAPH:
            raise UserError(
                f"--method={method} cannot compare vectors as this model does "
                f"(similarity_fn_name is {similarity}): give --method=exact"
            )
        _add_graph(folder, found)
    index = Index(folder, method, similarity)
    # The files are of one index if none has been replaced meanwhile.
    if _is_to_settle(begun) or jobs_run.read_manifest(job.manifest) != manifest:
        return open_index(folder, method, wanted, model)
    return index


def _check_same(
    folder: str, manifest: dict[str, Any], wanted: dict[str, Any], model: str
) -> None:
    """Raise a UserError if an index depends on something else than wanted."""
    found = manifest["fingerprint"].items()
    # A tokenizer has some of its settings only where they are not the usual.
    names = {*wanted, *TokenizerSettings._fields}
    own = {name: value for name, value in found if name in names}
    models = manifest.get("model", ""), model
    if changed := jobs_run.differences(own, wanted, models):
        raise UserError(
            f"--index={folder} was built with another model or other flags: "
            f"{'; '.join(changed)}"
        )


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
    if manifest:
        logs.say("The vectors have changed: the graph is made anew")
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
