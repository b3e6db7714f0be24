"""prepare_corpus.py: bytes, damage, mistakes, summary."""

import bz2
import gzip
import json
import logging
import os
import random

from base import progress

import corpus_runs
import pytest
from corpora import manual, write
from corpus_runs import ENGLISH, article, bytes_of, error_of, run
from paths import GOLDEN

from corpus import generation

BLANK = {"document_separator": "blank_line", "language": "en"}


def report_of(folder) -> dict:
    return json.loads((folder / "corpus.json").read_text("utf-8"))


def documents_in(folder, pattern: str = "train-*") -> set[str]:
    """Return the documents of the files that match."""
    texts = [path.read_text("utf-8") for path in folder.glob(pattern)]
    return {document for t in texts for document in t.split("\n\n")[:-1]}


def test_documents_of_a_real_dump(tmp_path):
    """Golden. After a change of the rules for wikitext, look at the new text
    and copy it: train-00000-of-00001.txt of this command."""
    assert run(ENGLISH, tmp_path / "out", num_shards=1) == 0
    found = (tmp_path / "out" / "train-00000-of-00001.txt").read_text("utf-8")
    golden = GOLDEN / "corpus" / "enwiki-10-pages.txt"
    assert found == golden.read_text("utf-8")
    report = report_of(tmp_path / "out")
    assert report["read"]["pages"] == 10
    assert report["read"]["articles"] == 6
    assert report["dropped"] == {
        "other_namespaces": 1,
        "redirects": 1,
        "disambiguations": 2,
    }
    assert report["problems"] == {}
    train = report["train"]
    assert train["documents"] == found.count("\n\n") == 6
    assert train["sentences"] == found.count("\n") - 6
    assert train["words"] == len(found.split())
    assert train["bytes"] == len(found.encode())
    assert report["heldout"]["files"] == {}
    assert set(report["versions"]) == {"mwparserfromhell", "mwxml", "sentencex"}
    assert report["inputs"][str(ENGLISH)]["items"] == 10


@pytest.mark.slow
def test_bytes_do_not_depend_on_workers_order_and_splitting(tmp_path):
    """Of texts in one file, or in many of other kinds and another order."""
    pages = ["\n".join(page) for page in manual(40)]
    flags = {**BLANK, "heldout_fraction": 0.2}
    write(tmp_path / "one", [page.split("\n") for page in pages])
    run(tmp_path / "one", tmp_path / "a", **flags)
    random.Random(1).shuffle(pages)
    write(tmp_path / "2", [page.split("\n") for page in pages[:15]])
    lines = [json.dumps({"text": page}) + "\n" for page in pages[10:]]
    (tmp_path / "1").write_bytes(gzip.compress("".join(lines).encode()))
    run(f"{tmp_path}/[12]", tmp_path / "b", num_workers=2, **flags)
    assert report_of(tmp_path / "b")["dropped"] == {"duplicates": 5}
    first, second = bytes_of(tmp_path / "a"), bytes_of(tmp_path / "b")
    for found in (first, second):
        del found["corpus.json"]
    assert first == second and all(first.values())


def test_an_interrupted_run_ends_with_the_same_bytes(tmp_path, monkeypatch):
    """Also a run whose files were lost behind its back."""
    monkeypatch.setattr(generation, "_LEAST_CHUNK_BYTES", 1000)
    write(tmp_path / "x", [[article(n)] for n in range(200)])
    flags = {"heldout_fraction": 0.1, **BLANK}
    run(tmp_path / "x", tmp_path / "whole", **flags)
    whole, calls = bytes_of(tmp_path / "whole"), []

    def stop(bar, count):
        calls.append(count)
        if len(calls) == 7:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(progress.Bar, "update", stop)
        with pytest.raises(KeyboardInterrupt):
            run(tmp_path / "x", tmp_path / "out", **flags)
    run(tmp_path / "x", tmp_path / "out", **flags)
    assert bytes_of(tmp_path / "out") == whole
    (tmp_path / "out" / "corpus.json").unlink()
    run(tmp_path / "x", tmp_path / "out", **flags)
    (tmp_path / "out" / "train-00001-of-00002.txt").unlink()
    run(tmp_path / "x", tmp_path / "out", **flags)
    assert bytes_of(tmp_path / "out") == whole


@pytest.fixture
def damaged(tmp_path) -> str:
    """Files with damage of every kind beside a good one."""
    folder = tmp_path / "in"
    folder.mkdir()
    xml = corpus_runs.dump_of(1200).encode()
    packed = bz2.compress(xml, 1)
    (folder / "a-truncated").write_bytes(packed[: len(packed) * 2 // 3])
    broken = corpus_runs.dump_of(30).replace("number 7 flows", "&oops; flows")
    (folder / "b-broken").write_text(broken)
    (folder / "c-empty").write_bytes(b"")
    (folder / "d-binary").write_bytes(b"\x7fELF\0\0")
    (folder / "e-lines").write_text('{"text": "A good line."}\n{"id": 1}\n')
    (folder / "f-text").write_bytes(b"Not \xff UTF-8.")
    return f"{folder}/*"


def test_damage_is_named_and_the_rest_is_used(tmp_path, damaged, caplog):
    message = error_of(damaged, tmp_path / "out", language="en", strict=True)
    assert message.startswith(f"{damaged[:-1]}a-truncated: ends in the middle")
    assert message.endswith("(--strict)")
    # Without --strict the same run goes on.
    assert run(damaged, tmp_path / "out", language="en") == 0
    report = report_of(tmp_path / "out")
    assert report["problems"] == {
        "unreadable_file": 2,
        "damaged_file": 1,
        "broken_item": 2,
        "not_utf8": 1,
    }
    folder = damaged[:-2]
    lines = report["first_problems"]
    assert [line.removeprefix(folder)[:17] for line in lines] == [
        "/a-truncated: end",
        "/b-broken, page 7",
        "/c-empty: is empt",
        "/d-binary: is a b",
        "/e-lines, line 2:",
        "/f-text, document",
    ]
    assert all(line in caplog.text for line in lines)
    assert "6 parts of the input could not be used" in caplog.text
    pages = report["inputs"][f"{folder}/a-truncated"]["items"]
    assert 300 < pages < 1200
    # A run that is strict now ends as before.
    again = error_of(damaged, tmp_path / "out", language="en", strict=True)
    assert again == message
    # The good pages of both dumps are the same 29, and there is one line.
    assert report["train"]["documents"] == pages + 1


def test_input_without_a_document_is_an_error(tmp_path, caplog):
    """What is wrong with many lines is one warning."""
    (tmp_path / "x").write_text('{"body": "A line."}\n' * 30)
    message = error_of(tmp_path / "x", tmp_path / "out", language="en")
    assert message.startswith(f"no document in {tmp_path}/x (30 broken item)")
    assert message.endswith("it has 'body'; name one by --text_column")
    assert caplog.text.count("x, line 1: no key 'text'") == 1
    assert "x, line 2: " not in caplog.text
    # Nothing is left, so that the same command works with other input.
    assert os.listdir(tmp_path / "out") == []
    (tmp_path / "x").write_text('{"text": "A line."}\n')
    run(tmp_path / "x", tmp_path / "out", language="en")


@pytest.mark.parametrize(
    "more, words",
    [
        ({"input_file": ""}, "--input_file is required"),
        ({"input_file": "/none/*.xml"}, "no file matches '/none/*.xml'"),
        ({"input_file": "/dev/null"}, "is a pipe or a device"),
        ({"output_dir": str(ENGLISH)}, "wanted a directory"),
        ({"language": "xx-none"}, "--language=xx-none: no rules for"),
        ({"input_file": __file__}, "give it by --language, such as"),
    ],
)
def test_bad_flags(tmp_path, more, words):
    flags = corpus_runs.flags_for(ENGLISH, tmp_path / "out", **more)
    message = error_of(
        flags.pop("input_file"), flags.pop("output_dir"), **flags
    )
    assert words in message
    assert not (tmp_path / "out").exists()


def test_files_that_are_there_already_are_kept(tmp_path, monkeypatch):
    mine = tmp_path / "train-00001-of-00002.txt"
    for path in (tmp_path / "corpus.json", mine):
        path.write_text("mine")
        message = error_of(ENGLISH, tmp_path)
        assert "exists, but was not written by this command" in message
        assert path.read_text() == "mine"
    message = error_of(mine, tmp_path, language="en")
    assert "exists, but was not written by this command" in message
    run(ENGLISH, tmp_path / "out")
    monkeypatch.setattr(generation.importlib.metadata, "version", lambda _: "9")
    message = error_of(ENGLISH, tmp_path / "out", heldout_fraction=0.5)
    assert "--heldout_fraction was 0.0, is 0.5" in message
    assert "version of sentencex was 1." in message and ", is 9" in message


def test_summary_is_logged(tmp_path, caplog):
    with caplog.at_level(logging.INFO):
        run(ENGLISH, tmp_path / "out", num_shards=9, heldout_fraction=0.001)
        write(tmp_path / "x", [[article(n)] for n in range(9)])
        run(tmp_path / "x", tmp_path / "text", language="en")
    for words in (
        "read: 10 pages (articles: 6); 0.0 MB decompressed",
        "dropped: 4 (1 other namespaces; 1 redirects; 2 disambiguations)",
        "train: 6 documents, ",
        "characters in 9 files, 4 of them empty",
        "no document was held out: --heldout_fraction=0.001 of 6",
        "there is only one document",
    ):
        assert words in caplog.text
    assert "--num_shards" not in caplog.text
