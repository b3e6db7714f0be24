"""prepare_corpus.py --runner=beam: the local runner's bytes."""

import json
import logging

import corpus_runs
import pytest

from corpus import generation

IN_PROCESS = {"runner": "beam", "beam_options": "--runner=FnApiRunner"}


@pytest.fixture(scope="module")
def inputs(tmp_path_factory) -> str:
    """Dumps with duplicates, JSON lines, damaged files."""
    folder = tmp_path_factory.mktemp("inputs")
    (folder / "en.xml.bz2").write_bytes(corpus_runs.ENGLISH.read_bytes())
    texts = [
        f"The text number {n} is here. It has two sentences of its own {n}. "
        "All rights are reserved by the authors of this."
        for n in (*range(30), 3, 4, 4)
    ]
    lines = [json.dumps({"text": text}) for text in texts]
    lines[5:5] = ["not JSON at all", '{"title": "no text"}']
    (folder / "some.jsonl").write_text("\n".join(lines))
    (folder / "more.xml").write_text(corpus_runs.dump_of(20)[:-300])
    (folder / "again.xml").write_text(corpus_runs.dump_of(9))
    (folder / "empty.txt").write_text("")
    return f"{folder}/*"


FLAGS = {
    "language": "en",
    "num_shards": 3,
    "heldout_fraction": 0.2,
    "min_document_chars": 30,
}


def test_the_bytes_are_those_of_the_local_runner(
    inputs, tmp_path, monkeypatch, caplog
):
    """Also with many buckets in each file."""
    corpus_runs.run(inputs, tmp_path / "local", **FLAGS)
    tmp_path /= "beam"
    monkeypatch.setattr(generation, "_BUCKET_BYTES", 500)
    with caplog.at_level(logging.INFO):
        corpus_runs.run(
            inputs, tmp_path, **FLAGS, **IN_PROCESS, num_workers=None
        )
    found = corpus_runs.bytes_of(tmp_path)
    assert found == corpus_runs.bytes_of(tmp_path.parent / "local")
    report = json.loads(found["corpus.json"])
    assert report["dropped"]["duplicates"] == 12
    assert sum(report["problems"].values()) == 4
    assert {path.name for path in tmp_path.iterdir()} == {
        *(name for name in found if "/" not in name),
        "heldout",
        ".corpus.manifest.json",
    }
    # The first problems are warnings here too.
    for line in report["first_problems"]:
        assert line in caplog.text
    counted = sum(report[split]["documents"] for split in ("train", "heldout"))
    assert f"Wrote {counted} documents" in caplog.text
