"""Answers of an index of random vectors, against a sort of all scores."""

import contextlib
from pathlib import Path

from base.jobs import run as jobs_run

import numpy as np
import pytest

from serving.search import build, index
from tasks import nearest


def unit(vectors: np.ndarray) -> np.ndarray:
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    return (vectors / norms).astype(np.float32)


def random_vectors(count: int, seed: int = 0) -> np.ndarray:
    """Return unit vectors that are not spread evenly, as those of texts."""
    rng = np.random.default_rng(seed)
    wide = rng.uniform(0.1, 2, 24)
    return unit(rng.normal(0.5, 1, [count, 24]) * wide)


def write_index(
    folder: Path,
    vectors: np.ndarray,
    name: str = "",
    similarity: str | None = None,
    **others: object,
) -> None:
    """Write an index of vectors, whose texts are their numbers."""
    content = {"vectors": name, "similarity_fn_name": similarity, **others}
    job = build.job_of(str(folder), content)
    with jobs_run.open_run(job) as run:
        lines = [b'{"text": "%d"}\n' % row for row in range(len(vectors))]
        with jobs_run.publish(job.target(0)) as (file, _):
            file.writelines(lines)
        ends = np.cumsum([0, *map(len, lines)])
        for number, values in ((1, ends), (2, vectors)):
            with jobs_run.publish(job.target(number)) as (file, _):
                np.save(file, values)
        run.finish({})


def rows_of(results: list[dict]) -> list[int]:
    return [int(one["text"]) for one in results]


def by_hand(
    vectors: np.ndarray, query: np.ndarray, similarity: str | None = None
) -> np.ndarray:
    """Return all scores with six digits; cosines of vectors of length 1."""
    vectors, query = vectors.astype(float), query.astype(float)
    if similarity in ("euclidean", "manhattan"):
        order = 2 if similarity == "euclidean" else 1
        return -np.linalg.norm(vectors - query, order, axis=1).round(6)
    return (vectors @ query).round(6)


@pytest.fixture
def small_blocks(monkeypatch) -> None:
    """Blocks of 40 vectors; of 15 queries 7 at a time, and one by one."""
    monkeypatch.setattr(nearest, "_BLOCK", 24 * 40)
    monkeypatch.setattr(nearest, "_QUERIES", 7)
    monkeypatch.setattr(nearest, "_FEW", 5)
    monkeypatch.setattr(build, "_PART", 33)


@pytest.mark.parametrize("count", [1, 10, 45, 2000])
@pytest.mark.parametrize(
    "method, similarity, scale",
    [
        ("exact", None, 1),
        ("exact", "dot", 20),
        ("exact", "euclidean", 20),
        ("exact", "euclidean", 1e-4),  # many are equal in six digits
        ("exact", "manhattan", 20),
    ],
)
def test_answers_are_those_of_a_sort(
    method, similarity, scale, count, tmp_path, small_blocks
):
    """Equal scores in the order of lines; all lines if more are asked for."""
    vectors = random_vectors(1001) * np.float32(scale)
    if similarity:
        vectors *= np.linspace(0.1, 2, 1001, dtype=np.float32)[:, None]
    vectors[500:520] = vectors[100]  # copies, in several blocks
    others = random_vectors(10, 1) * np.float32(scale)
    queries = np.concatenate([vectors[100:105], others])
    write_index(tmp_path, vectors, similarity=similarity)
    found = build.open_index(str(tmp_path), method, {}).search(queries, count)
    for query, results in zip(queries, found, strict=True):
        scores = by_hand(vectors, query, similarity)
        order = np.argsort(-scores, kind="stable")[:count]
        assert rows_of(results) == order.tolist()
        assert [one["score"] for one in results] == scores[order].tolist()


@pytest.mark.parametrize(
    "similarity, order, scores",
    [
        (None, [0, 1, 3, 2], [1, 0.948683, 0.907959, 0.894427]),
        ("dot", [0, 3, 2, 1], [10, 6.5, 6, 3]),
        ("euclidean", [1, 2, 3, 0], [-1, -1.414214, -1.5, -2.236068]),
        ("manhattan", [1, 3, 2, 0], [-1, -1.5, -2, -3]),
    ],
)
def test_similarities_by_hand(similarity, order, scores):
    """Of (2, 1), whose order is another by each."""
    vectors = np.array([[4, 2], [1, 1], [3, 0], [2, 2.5]], np.float32)
    query = np.array([[2, 1]], np.float32)
    vectors, query = (nearest.prepared(x, similarity) for x in (vectors, query))
    ((rows, found),) = nearest.nearest(vectors, query, 4, similarity)
    assert rows.tolist() == order
    np.testing.assert_allclose(found, scores, atol=1e-6)


def test_the_cosine_of_nothing_is_0():
    vectors = nearest.prepared(np.array([[0, 0], [3, 4]], np.float32))
    ((rows, found),) = nearest.nearest(vectors, vectors[:1], 2)
    assert rows.tolist() == [0, 1] and found.tolist() == [0, 0]


@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("method", ["exact", "graph"])
def test_vectors_that_are_not_finite_are_refused(method, number, tmp_path):
    if method == "graph":
        pytest.importorskip("usearch", reason=index.REQUIREMENTS)
    vectors = random_vectors(50)
    vectors[3, 5] = number
    write_index(tmp_path, vectors)
    for count in (1, 2, 5):
        with pytest.raises(build.UserError, match="vectors.npy is damaged"):
            opened = build.open_index(str(tmp_path), method, {})
            list(opened.search(vectors[:1], count))
    for similarity in (None, "dot", "euclidean", "manhattan"):
        for one, other in ((vectors, vectors[:1]), (vectors[:1], vectors)):
            with pytest.raises(build.UserError, match="not finite"):
                list(nearest.nearest(one, other, 1, similarity))


def test_few_candidates_are_compared_exactly():
    vectors, queries = random_vectors(20_000), random_vectors(20, 1)
    for rows in nearest.candidates(vectors, queries, 10):
        assert 10 <= len(rows) < 100


@pytest.mark.parametrize("similarity", [None, "dot", "euclidean"])
def test_the_graph_finds_nearly_all(tmp_path, similarity):
    """Of vectors that one thread adds, so that every graph is the same."""
    pytest.importorskip("usearch", reason=index.REQUIREMENTS)
    vectors, queries = random_vectors(build._PART), random_vectors(50, 1)
    if similarity:
        lengths = np.linspace(5, 20, len(vectors), dtype=np.float32)
        vectors *= lengths[:, None]
        queries *= 10
    write_index(tmp_path, vectors, similarity=similarity)
    exact, graph = (
        build.open_index(str(tmp_path), name, {}).search(queries, 10)
        for name in ("exact", "graph")
    )
    pairs = list(zip(exact, graph, strict=True))
    shared = [len({*rows_of(a)} & {*rows_of(b)}) / 10 for a, b in pairs]
    assert np.mean(shared) > 0.97
    graph = build.open_index(str(tmp_path), "graph", {})
    count = len(vectors)
    one, many = (list(graph.search(queries[:n], count)) for n in (1, 3))
    assert one[0] == many[0] and len(one[0]) > 0.98 * count
    assert len({*rows_of(one[0])}) == len(one[0])
    path = tmp_path / "graph.usearch"
    path.write_bytes(b"x" * path.stat().st_size)
    with pytest.raises(build.UserError, match="graph.usearch is damaged"):
        build.open_index(str(tmp_path), "graph", {})


def test_a_similarity_that_the_graph_lacks(tmp_path):
    write_index(tmp_path, random_vectors(9), similarity="manhattan")
    words = "--method=graph cannot .* manhattan"
    with pytest.raises(build.UserError, match=words):
        build.open_index(str(tmp_path), "graph", {})


def test_an_index_of_a_tokenizer_with_more_tokens_is_refused(tmp_path):
    """The queries' tokenizer has none, and says nothing of them."""
    write_index(tmp_path, random_vectors(9), normalized_tokens=["tvm"])
    with pytest.raises(build.UserError, match="--normalized_tokens was"):
        build.open_index(str(tmp_path), "exact", {"do_lower_case": True})


def test_what_is_locked_is_there_until_the_files_have_moved(
    tmp_path, monkeypatch
):
    """Else another command would make and lock it while others go."""
    write_index(tmp_path / ".next", random_vectors(9))
    (tmp_path / ".next" / "part-1.npy").write_bytes(b"")
    lock = build.file_system.locked_folder

    @contextlib.contextmanager
    def locked(folder: str, *args, **kwargs):
        with lock(folder, *args, **kwargs):
            yield
            assert Path(folder).exists()

    monkeypatch.setattr(build.file_system, "locked_folder", locked)
    build.open_index(str(tmp_path), "exact", {})
    assert not (tmp_path / ".next").exists()


@pytest.mark.parametrize("method", ["exact", "graph"])
def test_a_folder_that_was_moved_answers(method, tmp_path):
    if method == "graph":
        pytest.importorskip("usearch", reason=index.REQUIREMENTS)
    vectors = random_vectors(50)
    write_index(tmp_path / "here", vectors)
    build.open_index(str(tmp_path / "here"), method, {})
    (tmp_path / "here").rename(tmp_path / "there")
    found = build.open_index(str(tmp_path / "there"), method, {})
    assert rows_of(next(found.search(vectors[7:8], 1))) == [7]
    path = tmp_path / "there" / "vectors.npy"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(build.UserError, match="vectors.npy is missing or dam"):
        build.open_index(str(tmp_path / "there"), method, {})


def test_a_graph_of_other_vectors_is_made_again(tmp_path):
    pytest.importorskip("usearch", reason=index.REQUIREMENTS)
    for name in ("one", "other"):
        vectors = random_vectors(50, len(name))
        for path in tmp_path.iterdir():
            if "graph" not in path.name:
                path.unlink()
        write_index(tmp_path, vectors, name)
        found = build.open_index(str(tmp_path), "graph", {})
        assert rows_of(next(found.search(vectors[7:8], 1))) == [7]
