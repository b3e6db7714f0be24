"""search.py: corpora, queries, killed builds, and folders of something else."""

import contextlib
import functools
import gzip
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import types
from pathlib import Path

import fine_tuned_models
import numpy as np
import paths
import pytest
import scripts

from serving.search import build
from tasks import loading, predict, registry
from tasks.task import Input, Place

search = scripts.load("search")

LINES = [
    "a good film",
    "",
    "the book was bad",
    "a good film",
    "caf\u00e9\u2028film",
]
TEXTS = [text for text in LINES if text]
FILES = ("texts.jsonl", "offsets.npy", "vectors.npy")


@pytest.fixture
def corpus(tmp_path) -> Path:
    path = tmp_path / "corpus.txt"
    path.write_text("\n".join(LINES), "utf-8")
    return path


@pytest.fixture
def ask(encoder_dir, tmp_path, capsys):
    """A function of flags -> the objects that are printed."""

    def get(**flags) -> list[dict]:
        own = {"init_checkpoint": encoder_dir, "index": tmp_path / "index"}
        assert scripts.run(search, **own | flags) == 0
        return list(map(json.loads, capsys.readouterr().out.split("\n")[:-1]))

    return get


def bytes_of(folder: Path) -> list[bytes]:
    return [(folder / name).read_bytes() for name in FILES]


def test_answers_are_those_of_batch_prediction(
    ask, corpus, encoder_dir, caplog
):
    """The means over the tokens, one text at a time."""
    settings = loading.find(str(encoder_dir), "encoder")
    task, run = registry.create_task(settings), loading.load(settings)
    vectors = []
    for text in ["a bad film", *TEXTS]:
        item = Input(0, Place("", 1), {"text": text})
        (found,) = predict.predict(task, run, [item], 1)
        vectors.append(np.array(found["mean_output"]))
    query, *others = [v / np.linalg.norm(v) for v in vectors]
    cosines = np.array([query @ other for other in others])
    (found,) = ask(input_file=corpus, query="a bad film", top_k=9)
    assert "--top_k is ignored" not in caplog.text
    assert found["query"] == "a bad film"
    results = found["results"]
    assert [one["rank"] for one in results] == [1, 2, 3, 4]
    scores = [one["score"] for one in results]
    np.testing.assert_allclose(scores, np.sort(cosines)[::-1], atol=2e-6)
    lines = [one["line"] for one in results]
    assert lines.index(1) + 1 == lines.index(4)  # the same text twice
    for one in results:
        assert one["text"] == LINES[one["line"] - 1]
        assert one["id"] == f"{corpus}:{one['line']}"


def test_corpora_and_queries_of_every_kind(
    ask, corpus, tmp_path, monkeypatch, caplog
):
    (wanted,) = ask(input_file=corpus, query="caf\u00e9", top_k=3)
    assert "the vectors of 4 sentences, 16 numbers each" in caplog.text
    assert "Ask it with" not in caplog.text
    texts = [one["text"] for one in wanted["results"]]
    parts = [tmp_path / "1.jsonl.gz", tmp_path / "2.jsonl"]
    for number, path in enumerate(parts):
        rows = [
            {"s": text, "no": f"{number}{place}{text}"}
            for place, text in enumerate(TEXTS[number::2])
        ]
        data = "\n".join(map(json.dumps, rows)).encode()
        path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    other = tmp_path / "other"
    flags = {"text_column": "s", "id_column": "no", "top_k": 3}
    files = ",".join(map(str, parts))
    assert ask(input_file=files, index=other, **flags) == []
    assert "Ask it with --query" in caplog.text
    queries = tmp_path / "queries"
    queries.write_text('{"id": 7, "text": "caf\u00e9"}\n\n', "utf-8")
    (found,) = ask(index=other, query_file=queries, top_k=3)
    assert found["id"] == 7
    assert sorted(one["text"] for one in found["results"]) == sorted(texts)
    assert {one["id"][2:] for one in found["results"]} == {*texts}
    stream = io.TextIOWrapper(io.BytesIO("caf\u00e9\nbad".encode()))
    monkeypatch.setattr("sys.stdin", stream)
    first, second = ask(top_k=3)
    assert first == wanted and second["query"] == "bad"


def test_queries_typed_on_a_terminal(ask, corpus, monkeypatch, capsys):
    ask(input_file=corpus)
    stream = io.TextIOWrapper(io.BytesIO(b"a\tgood\xff film\n\n"))
    monkeypatch.setattr(stream, "isatty", lambda: True, raising=False)
    monkeypatch.setattr("sys.stdin", stream)
    (found,) = ask(top_k=1)
    assert found["query"] == "a good\ufffd film"


def test_people_see_a_table(ask, corpus, monkeypatch, capsys, encoder_dir):
    """On a terminal; a pipe gets JSON, as the other tests do."""
    (wanted,) = ask(input_file=corpus, query="a bad film", top_k=2)
    index = corpus.parent / "index"
    flags = {"init_checkpoint": encoder_dir, "index": index, "top_k": 2}
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    assert scripts.run(search, **flags, query="a bad film") == 0
    lines = [
        f"  {one['rank']}  {one['score']:.4f}  {one['text']}"
        for one in wanted["results"]
    ]
    shown = "\n".join(["a bad film", *lines, "\n"])
    assert capsys.readouterr().out == shown


def test_a_killed_build_goes_on(
    ask, corpus, tmp_path, monkeypatch, encoder_dir
):
    """With the parts that are there; the files have the same bytes."""
    monkeypatch.setattr(build, "_PART", 2)
    corpus.write_text("\n".join(f"film {'bad ' * n}" for n in range(9)))
    ask(input_file=corpus)
    wanted = bytes_of(tmp_path / "index")
    make, calls = build.vectors_of, []

    def counted(*args):
        calls.append(args)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return make(*args)

    monkeypatch.setattr(build, "vectors_of", counted)
    with pytest.raises(KeyboardInterrupt):
        ask(input_file=corpus, index=tmp_path / "other")
    assert not (tmp_path / "other" / FILES[2]).exists()
    flags = {"init_checkpoint": encoder_dir, "index": tmp_path / "other"}
    assert "is not complete: give" in scripts.error_of(search, **flags)
    ask(input_file=corpus, index=tmp_path / "other")
    assert len(calls) == 6  # 2, the one that ended, and 3 more
    assert bytes_of(tmp_path / "other") == wanted
    # A file that was cut off is made again.
    (tmp_path / "other" / FILES[0]).write_text("{}")
    assert "damaged" in scripts.error_of(search, **flags)
    ask(input_file=corpus, index=tmp_path / "other")
    assert bytes_of(tmp_path / "other") == wanted


def numbered(*numbers: int) -> str:
    """Return JSON lines with texts of many lengths, one for each number."""
    words = ("a", "good", "film", "the", "book", "was", "bad")
    rows = [
        {
            "id": at,
            "text": " ".join(words[n % 7 :] * (n % 5) + words[: n % 6 + 1]),
        }
        for at, n in enumerate(numbers)
    ]
    return "\n".join(map(json.dumps, rows))


CHANGES = {
    "grown": (*range(60), *range(100, 140)),
    "shrunk": range(20, 60),
    "changed": (*range(30), *range(200, 203), *range(33, 60)),
    "reordered": range(59, -1, -1),
    "duplicate texts": (*range(60), *range(10)),
    "all of them": (5, 77, *range(30, 0, -1), 5, 5, 90),
}


@pytest.mark.parametrize("numbers", CHANGES.values(), ids=CHANGES)
def test_an_index_of_another_corpus_is_as_one_built_anew(
    ask, corpus, tmp_path, monkeypatch, caplog, numbers
):
    """The same bytes, of a model that has read new texts alone."""
    monkeypatch.setattr(build, "_PART", 16)
    corpus.write_text(numbered(*range(60)))
    ask(input_file=corpus)
    before = {row["text"] for row in map(json.loads, corpus.open())}
    corpus.write_text(numbered(*numbers))
    texts = {row["text"] for row in map(json.loads, corpus.open())}
    make, read = build.vectors_of, []

    def seen(task, run_model, inputs, *args):
        read.extend(one.texts["text"] for one in inputs)
        return make(task, run_model, inputs, *args)

    monkeypatch.setattr(build, "vectors_of", seen)
    ask(input_file=corpus)
    assert sorted(read) == sorted(texts - before)
    said = f"{len(texts - before)} are new, {len(before - texts)} are gone"
    assert said in caplog.text
    (found,) = ask(query="good film", top_k=200)
    wanted, _ = ask(input_file=corpus, index=tmp_path / "anew"), read.clear()
    assert bytes_of(tmp_path / "index") == bytes_of(tmp_path / "anew")
    assert sorted(os.listdir(tmp_path / "index")) == [
        ".index.manifest.json",
        *sorted(FILES),
    ]
    (wanted,) = ask(query="good film", top_k=200, index=tmp_path / "anew")
    assert found == wanted and len(found["results"]) == len(numbers)
    # The same corpus again is not even read.
    monkeypatch.setattr(build, "_write_vectors", None)
    ask(input_file=corpus)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [".next/part-", ".next/vectors.npy", "offsets.npy", ".index.manifest.json"],
)
def test_an_update_that_is_killed_leaves_an_index(
    ask, corpus, tmp_path, encoder_dir, name
):
    """By SIGKILL, just before the file gets its name in the index's folder."""
    corpus.write_text(numbered(*range(60)))
    ask(input_file=corpus)
    (old,) = ask(query="good film", top_k=200)
    corpus.write_text(numbered(*range(30, 90)))
    folder = tmp_path / "index"
    program = """
import os, signal, sys
begin = sys.argv.pop(1)
def kill(event, args):
    if event == "os.rename" and str(args[1]).startswith(begin):
        os.kill(os.getpid(), signal.SIGKILL)
sys.addaudithook(kill)
import search
from base import script
script.run(search.main)
"""
    flags = [
        f"--init_checkpoint={encoder_dir}",
        f"--index={folder}",
        f"--input_file={corpus}",
    ]
    command = [sys.executable, "-c", program, f"{folder}/{name}", *flags]
    done = subprocess.run(command, cwd=paths.ROOT, capture_output=True)
    assert done.returncode == -signal.SIGKILL, done.stderr.decode()
    (found,) = ask(query="good film", top_k=200)
    ask(input_file=corpus)
    (new,) = ask(query="good film", top_k=200)
    is_complete = not name.startswith(".next")
    assert found == (new if is_complete else old) and old != new
    ask(input_file=corpus, index=tmp_path / "anew")
    assert bytes_of(folder) == bytes_of(tmp_path / "anew")


def test_a_build_is_the_index_before_another_can_begin(
    ask, corpus, tmp_path, monkeypatch
):
    """Another command may begin as soon as the lock ends."""
    open_run = build.jobs_run.open_run

    @contextlib.contextmanager
    def opened(job):
        with open_run(job) as run:
            yield run
        assert (tmp_path / "index" / ".index.manifest.json").exists()

    monkeypatch.setattr(build.jobs_run, "open_run", opened)
    ask(input_file=corpus)


def test_parts_of_a_killed_build_serve_another_corpus(
    ask, corpus, tmp_path, monkeypatch
):
    monkeypatch.setattr(build, "_PART", 16)
    make, calls = build.vectors_of, []

    def counted(task, run_model, inputs, *args):
        calls.append(len(inputs))
        if len(calls) == 3:
            raise KeyboardInterrupt
        return make(task, run_model, inputs, *args)

    monkeypatch.setattr(build, "vectors_of", counted)
    corpus.write_text(numbered(*range(60)))
    with pytest.raises(KeyboardInterrupt):
        ask(input_file=corpus)
    corpus.write_text(numbered(*range(70, -1, -1)))
    ask(input_file=corpus)
    assert sum(calls[3:]) < 60
    ask(input_file=corpus, index=tmp_path / "anew")
    assert bytes_of(tmp_path / "index") == bytes_of(tmp_path / "anew")


@pytest.mark.parametrize(
    "rows, places",
    [
        (
            '{"id": "x", "text": "a"}\n{"text": "b"}\n{"id": "x", "text": "c"}',
            "13",
        ),
        ('{"id": 7, "text": "a"}\n{"id": 7, "text": "a"}', "12"),
    ],
)
def test_rows_with_one_id_are_named(
    encoder_dir, corpus, tmp_path, rows, places
):
    corpus.write_text(rows)
    flags = {"init_checkpoint": encoder_dir, "index": tmp_path / "index"}
    first, second = (f"{corpus}:{place}" for place in places)
    message = scripts.error_of(search, **flags, input_file=corpus)
    assert f"{first} and {second} have the same id" in message


def test_a_folder_with_files_of_somebody_else(ask, corpus, tmp_path):
    """They are not replaced; others stay."""
    folder = tmp_path / "index"
    folder.mkdir()
    (folder / "notes.md").write_text("mine")
    (folder / FILES[0]).write_text("mine")
    with pytest.raises(build.UserError, match="was not written by this comm"):
        ask(input_file=corpus)
    (folder / FILES[0]).unlink()
    ask(input_file=corpus)
    assert (folder / "notes.md").read_text() == "mine"


@pytest.fixture
def embeddings_model(encoder_dir, tmp_path):
    """A function of entries of bert_config.json -> a model of embeddings."""

    return functools.partial(
        fine_tuned_models.changed,
        encoder_dir,
        tmp_path / "model",
        task="embeddings",
    )


def test_vectors_are_cut_and_have_length_1_again(
    ask, corpus, embeddings_model, tmp_path
):
    folder = embeddings_model()
    (found,) = ask(
        input_file=corpus,
        query="film",
        init_checkpoint=folder,
        embedding_size=3,
    )
    vectors = np.load(tmp_path / "index" / "vectors.npy")
    whole = tmp_path / "whole"
    ask(input_file=corpus, query="film", init_checkpoint=folder, index=whole)
    wanted = np.load(whole / "vectors.npy")[:, :3]
    wanted /= np.linalg.norm(wanted, axis=1, keepdims=True)
    np.testing.assert_allclose(vectors, wanted, atol=1e-6)
    assert len(found["results"]) == len(TEXTS)
    # An index answers queries of its size alone.
    flags = {"init_checkpoint": folder, "index": whole, "embedding_size": 3}
    message = scripts.error_of(search, **flags, query="film")
    assert "--embedding_size" in message


def test_vectors_are_compared_by_the_similarity_of_the_model(
    ask, corpus, embeddings_model, tmp_path
):
    """The dot product of vectors that are cut, those of batch prediction."""
    entries = {"similarity_fn_name": "dot", "truncate_dim": 5}
    folder = embeddings_model(**entries)
    (found,) = ask(
        input_file=corpus, query="a bad film", init_checkpoint=folder
    )
    settings = loading.find(str(folder))
    task, run = registry.create_task(settings), loading.load(settings)
    query, *others = [
        np.array(one["embedding"])
        for one in predict.predict(
            task,
            run,
            [
                Input(0, Place("", 1), {"text": t})
                for t in ("a bad film", *TEXTS)
            ],
            2,
        )
    ]
    products = np.sort([query @ other for other in others])[::-1]
    assert len(query) == 5
    scores = [one["score"] for one in found["results"]]
    np.testing.assert_allclose(scores, products, rtol=1e-5)
    assert max(products) > 1.1
    # An index of cosines does not answer for such a model.
    config = json.loads((folder / "bert_config.json").read_text())
    del config["similarity_fn_name"]
    (folder / "bert_config.json").write_text(json.dumps(config))
    flags = {"init_checkpoint": folder, "index": tmp_path / "index"}
    message = scripts.error_of(search, **flags, query="film")
    assert "--similarity_fn_name was dot, is None" in message


@pytest.mark.parametrize(
    "prompts, flags",
    [
        ({"query": "bad ", "document": "good good "}, {}),
        (
            {"query": "bad ", "passage": "good good "},
            {"document_prompt_name": "passage"},
        ),
        (
            {"x": "good good ", "document": "film "},
            {"query_prompt": "bad ", "document_prompt_name": "x"},
        ),
        (
            {"search_query": "bad ", "search_document": "good good "},
            {
                "query_prompt_name": "search_query",
                "document_prompt_name": "search_document",
            },
        ),
    ],
)
def test_prompts_stand_before_queries_and_documents(
    ask, corpus, embeddings_model, tmp_path, caplog, prompts, flags
):
    """As if they were in the texts, for a model that has none."""
    folder = embeddings_model(prompts=prompts)
    other = tmp_path / "other.txt"
    other.write_text("\n".join(f"good good {text}" for text in TEXTS))
    own = {"init_checkpoint": folder, "index": tmp_path / "prompted", **flags}
    (found,) = ask(input_file=corpus, query="film", **own)
    said = "Put before a query: 'bad ', a document: 'good good ', another"
    assert said in caplog.text
    (wanted,) = ask(input_file=other, query="bad film")
    np.testing.assert_allclose(
        *(
            np.load(tmp_path / name / "vectors.npy")
            for name in ("prompted", "index")
        ),
        atol=1e-6,
    )
    for one, two in zip(found["results"], wanted["results"], strict=True):
        assert two["text"] == f"good good {one['text']}"
        assert one["score"] == pytest.approx(two["score"], abs=2e-6)


@pytest.mark.parametrize(
    "flags, words",
    [
        (
            {"query_prompt_name": "sts"},
            "named 'sts' (--query_prompt_name=sts, or the model's default_prom"
            "pt_name); the model has query, document, search_query",
        ),
        ({"document_prompt_name": "no"}, "(--document_prompt_name=no, or the"),
        (
            {"query_prompt": "search_query"},
            "--query_prompt=search_query is the name of a prompt of the model: "
            "give --query_prompt_name=search_query, or a text",
        ),
        (
            {"query_prompt": "q: ", "query_prompt_name": "search_query"},
            "give --query_prompt or --query_prompt_name, not both",
        ),
    ],
)
@pytest.mark.parametrize("script", ["search", "run_embeddings"])
def test_prompts_that_the_model_lacks(
    corpus, embeddings_model, tmp_path, script, flags, words
):
    model = embeddings_model(prompts={"search_query": "bad "})
    flags = flags | {"init_checkpoint": model}
    if script == "search":
        flags |= {"input_file": corpus, "index": tmp_path / "index"}
    else:
        flags |= {"output_dir": tmp_path / "index", "do_predict": True}
        flags["test_file"] = corpus
    assert words in scripts.error_of(scripts.load(script), **flags)
    assert not (tmp_path / "index").exists()


def test_the_default_prompt_stands_before_other_texts(
    ask, corpus, embeddings_model, tmp_path
):
    """Not before queries and documents, whose prompts are empty."""
    more = {"prompts": {"sts": "bad "}, "default_prompt_name": "sts"}
    own = {"init_checkpoint": embeddings_model(**more)}
    own["index"] = tmp_path / "other"
    assert ask(input_file=corpus, query="film", **own) == ask(
        input_file=corpus, query="film"
    )


def test_indexes_of_something_else(ask, corpus, tmp_path, encoder_dir):
    ask(input_file=corpus)
    flags = {"init_checkpoint": encoder_dir, "index": tmp_path / "index"}
    other = tmp_path / "model"
    shutil.copytree(encoder_dir, other)
    config = (other / "bert_config.json").read_text()
    (other / "bert_config.json").write_text(config.replace("gelu", "relu"))
    for more in ({}, {"input_file": corpus}):
        given = flags | {"init_checkpoint": other} | more
        message = scripts.error_of(search, **given)
        assert f"its model is {encoder_dir}, not {other}" in message
    message = scripts.error_of(search, **flags, max_seq_length=9)
    assert "--max_seq_length was 64, is 9" in message
    message = scripts.error_of(
        search, **flags, input_file=corpus, dtype="bfloat16"
    )
    assert "--dtype was float32, is bfloat16" in message
    for name in FILES:
        path = tmp_path / "index" / name
        data = path.read_bytes()
        path.write_bytes(b"x" + data[1:])
        message = scripts.error_of(search, **flags, query="a", top_k=9)
        assert f"{path} is damaged" in message
        path.write_bytes(data)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"init_checkpoint": None}, "is required: the model of the index"),
        ({"index": None}, "--index is required"),
        ({"index": "gs://bucket/index"}, "a disk of this machine"),
        ({"id_column": "no", "input_file": None}, "--id_column needs --inp"),
        ({"input_file": None}, "holds no index"),
        ({"input_file": "/no/file"}, "/no/file"),
        ({"query_file": "/no/file"}, "/no/file"),
        ({"query": " "}, "--query:1: text is empty"),
        ({"max_seq_length": 65}, "max_position_embeddings=64"),
        ({"lines": "a\nb\tc\n"}, "corpus.txt:2: 2 columns, wanted 1"),
        ({"lines": '{"text": "a"}\n{"txt": "b"}'}, "corpus.txt:2: no key"),
        ({"lines": "\n \n"}, "has no text"),
    ],
)
def test_mistakes_end_in_one_line(
    encoder_dir, corpus, tmp_path, flags, message
):
    """A corpus that is mended can be given again."""
    flags = dict(flags)
    folder = tmp_path / "index"
    own = {"init_checkpoint": encoder_dir, "index": folder}
    own["input_file"] = corpus
    lines = flags.pop("lines", None)
    if lines:
        corpus.write_text(lines)
    assert message in scripts.error_of(search, **own | flags)
    if lines:
        table = corpus.with_suffix(".csv")
        table.write_text("a;b\nx;y\n")
        line = scripts.error_of(search, **own | flags | {"input_file": table})
        assert "corpus.csv, line 1: no column 'text'; it has 'a', 'b'" in line
        assert "--text_column=NAME" in line
        corpus.write_text("a good film")
        assert scripts.run(search, **own) == 0


def test_without_usearch_it_says_how_to_install_it(
    encoder_dir, corpus, monkeypatch
):
    monkeypatch.setitem(__import__("sys").modules, "usearch.index", None)
    flags = {"init_checkpoint": encoder_dir, "index": "x", "method": "graph"}
    message = scripts.error_of(search, **flags, input_file=corpus)
    assert "pip install -r requirements-search.txt" in message


def test_outputs_that_are_not_finite(ask, corpus, monkeypatch):
    class Broken(types.SimpleNamespace):
        def __call__(self, features):
            rows = len(features["input_ids"])
            return {"mean_output": np.full([rows, 4], np.nan)}

    monkeypatch.setattr(loading, "load", lambda settings: Broken())
    with pytest.raises(build.UserError, match="not finite"):
        ask(input_file=corpus)
