"""prepare_corpus.py: bytes, interruptions, damage, mistakes, log lines."""

import bz2
import gzip
import json
import logging
import os
import random
import subprocess
import sys

from base import file_system

import corpus_runs
import pytest
from corpora import manual, write
from corpus_runs import (
    CHINESE,
    ENGLISH,
    article,
    bytes_of,
    documents_in,
    error_of,
    run,
)
from paths import GOLDEN, ROOT

from corpus import generation
from pretraining.data import documents as pretraining_documents

BLANK = {"document_separator": "blank_line", "language": "en"}


def report_of(folder) -> dict:
    return json.loads((folder / "corpus.json").read_text("utf-8"))


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The output of a run over both dumps, with held-out documents."""
    folder = tmp_path_factory.mktemp("whole") / "out"
    run(f"{ENGLISH},{CHINESE}", folder, heldout_fraction=0.5)
    return folder


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


def test_files_of_a_run(whole):
    names = list(bytes_of(whole))
    assert names == [
        "corpus.json",
        "heldout/heldout-00000-of-00001.txt",
        "train-00000-of-00002.txt",
        "train-00001-of-00002.txt",
    ]
    report = report_of(whole)
    assert report["train"]["documents"] + report["heldout"]["documents"] == 7
    assert report["heldout"]["documents"] > 0
    assert set(report["versions"]) == {"mwparserfromhell", "mwxml", "sentencex"}
    inputs = report["inputs"]
    assert inputs[str(ENGLISH)]["items"] == 10
    assert inputs[str(CHINESE)]["language"] == "en"  # as the dump says
    assert not [name for name in os.listdir(whole) if "scratch" in name]


def test_the_next_script_finds_the_documents(whole):
    """The pattern of train files does not match held-out ones."""
    files = file_system.find_files(f"{whole}/train-*")
    found = []
    for path in files:
        whole_file = pretraining_documents.Range(path)
        parts = pretraining_documents.read_parts(whole_file, 10**6, 10**6)
        found += [part.text.decode() for part in parts]
    assert sorted(found) == documents_in(whole)


@pytest.mark.slow
def test_bytes_do_not_depend_on_workers_order_and_splitting(tmp_path):
    """Of texts in one file, or in many of other kinds and another order."""
    pages = ["\n".join(page) for page in manual(40)]
    flags = {**BLANK, "heldout_fraction": 0.2, "drop_repeated_lines": 3}
    write(tmp_path / "one", [page.split("\n") for page in pages])
    run(tmp_path / "one", tmp_path / "a", **flags)
    random.Random(1).shuffle(pages)
    texts = [page.split("\n") for page in pages[:15]]
    write(tmp_path / "2", texts)
    (tmp_path / "1").write_bytes(
        gzip.compress(
            "".join(
                json.dumps({"text": page}) + "\n" for page in pages[15:]
            ).encode()
        )
    )
    run(f"{tmp_path}/[12]", tmp_path / "b", num_workers=2, **flags)
    first, second = bytes_of(tmp_path / "a"), bytes_of(tmp_path / "b")
    for found in (first, second):
        del found["corpus.json"]
    assert first == second
    assert all(first.values())


def test_held_out_documents_stay_held_out(tmp_path):
    """More input, other shards and another order do not move a document."""
    texts = [[article(n)] for n in range(200)]
    write(tmp_path / "b", texts[:120])
    flags = {**BLANK, "heldout_fraction": 0.1}
    run(tmp_path / "b", tmp_path / "few", **flags)
    write(tmp_path / "a", texts[120:])
    run(f"{tmp_path}/[ab]", tmp_path / "all", num_shards=5, **flags)
    held = {
        name: set(documents_in(tmp_path / name, "heldout/*"))
        for name in ("few", "all")
    }
    train = set(documents_in(tmp_path / "all"))
    assert 5 < len(held["few"]) < 25
    assert held["few"] < held["all"]
    assert not train & held["all"]
    assert len(train | held["all"]) == 200


def test_duplicates_of_any_kind_are_written_once(tmp_path):
    xml = corpus_runs.dump_of(30)
    (tmp_path / "a").write_text(xml)
    (tmp_path / "b").write_text(
        "".join(json.dumps({"text": article(n)}) + "\n" for n in range(40))
    )
    run(f"{tmp_path}/[ab]", tmp_path / "out", language="en")
    report = report_of(tmp_path / "out")
    assert report["dropped"] == {"duplicates": 30}
    assert report["train"]["documents"] == 40


def test_repeated_lines_are_dropped(tmp_path):
    texts = [
        [article(n), "Subscribe to our newsletter."] + ["Read more."] * (n < 3)
        for n in range(20)
    ]
    texts.append(["Subscribe to our newsletter."])
    write(tmp_path / "x", texts)
    run(tmp_path / "x", tmp_path / "out", drop_repeated_lines=3, **BLANK)
    report = report_of(tmp_path / "out")
    assert report["repeated_lines"] == 21
    assert report["dropped"] == {"too_short_without_repeated_lines": 1}
    text = "".join(documents_in(tmp_path / "out"))
    assert "Subscribe" not in text and text.count("Read more.") == 3
    assert report["train"]["documents"] == 20


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
    warned = [
        r.getMessage() for r in caplog.records if r.levelname == "WARNING"
    ]
    assert warned[:6] == lines
    assert warned[6].startswith("6 parts of the input could not be used")
    pages = report["inputs"][f"{folder}/a-truncated"]["items"]
    assert 300 < pages < 1200
    # The good pages of both dumps are the same 29, and there is one line.
    assert report["train"]["documents"] == pages + 1


def test_strict_ends_with_the_first_damage(tmp_path, damaged):
    message = error_of(damaged, tmp_path / "out", language="en", strict=True)
    assert message.startswith(f"{damaged[:-1]}a-truncated: ends in the middle")
    assert message.endswith("(--strict)")
    assert documents_in(tmp_path / "out", "*.txt") == []
    # Without --strict the run goes on; with it, it ends also afterwards.
    run(damaged, tmp_path / "out", language="en")


def test_strict_ends_with_damage_that_an_earlier_run_found(
    tmp_path, monkeypatch
):
    (tmp_path / "x").write_text('{"text": "A line."}\n{"id": 1}\n')
    flags = corpus_runs.flags_for(
        tmp_path / "x", tmp_path / "out", language="en"
    )
    corpus_runs.stopped_run(flags, monkeypatch, 1)
    message = error_of(**_renamed(flags), strict=True)
    assert "x, line 2: has no 'text', but id" in message


def _renamed(flags: dict) -> dict:
    flags = dict(flags)
    return {
        "inputs": flags.pop("input_file"),
        "output": flags.pop("output_dir"),
        **flags,
    }


def test_input_without_a_document_is_an_error(tmp_path):
    (tmp_path / "x").write_text('{"body": "A line."}\n')
    message = error_of(tmp_path / "x", tmp_path / "out", language="en")
    assert message == (
        f"no document in {tmp_path}/x (1 pages, lines or rows that are "
        f"broken); the first problem: {tmp_path}/x, line 1: has no 'text', "
        "but body; name one by --text_column"
    )
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
        ({"output_dir": str(ENGLISH)}, "is not a directory"),
        ({"heldout_fraction": 1}, "must be less than 1"),
        ({"text_column": ""}, "--text_column is empty"),
        ({"language": "xx-none"}, "--language=xx-none: no rules for"),
        ({"input_file": __file__}, "give it by --language, such as"),
    ],
)
def test_bad_flags(tmp_path, more, words):
    flags = {"input_file": str(ENGLISH), "output_dir": str(tmp_path / "out")}
    assert words in error_of(**_renamed({**flags, **more}))
    assert not (tmp_path / "out").exists()


def test_files_that_are_there_already_are_kept(tmp_path):
    (tmp_path / "train-00001-of-00002.txt").write_text("mine")
    message = error_of(ENGLISH, tmp_path)
    assert "exists, but was not written by this command" in message
    assert (tmp_path / "train-00001-of-00002.txt").read_text() == "mine"
    message = error_of(
        tmp_path / "train-00001-of-00002.txt", tmp_path, language="en"
    )
    assert "is an input and would be an output too" in message


def test_an_input_that_is_unreadable_later(tmp_path, monkeypatch):
    """A file that disappears while others are read ends the run."""
    (tmp_path / "x").write_text("A text.")
    make_files = generation.engine.make_files

    def remove_and_make(*arguments):
        (tmp_path / "x").unlink()
        return make_files(*arguments)

    monkeypatch.setattr(generation.engine, "make_files", remove_and_make)
    message = error_of(tmp_path / "x", tmp_path / "out", language="en")
    assert "x: cannot be read: No such file" in message


def test_summary_is_logged(tmp_path, caplog):
    with caplog.at_level(logging.INFO):
        run(ENGLISH, tmp_path / "out", num_shards=9, heldout_fraction=0.001)
    text = caplog.text
    assert "read: 10 pages (articles: 6); 0.0 MB decompressed" in text
    assert (
        "dropped: 4 (1 pages of other namespaces; 1 redirects; "
        "2 disambiguation pages)"
    ) in text
    assert "train: 6 documents, " in text
    assert "MB/s for each of 1 workers" in text
    assert "training files have no document: give fewer --num_shards" in text
    assert "no document was held out: --heldout_fraction=0.001 of 6" in text


def test_a_forgotten_separator_is_noticed(tmp_path, caplog):
    write(tmp_path / "x", [[article(n)] for n in range(9)])
    run(tmp_path / "x", tmp_path / "out", language="en")
    assert "give --document_separator=blank_line" in caplog.text


def test_the_script_needs_no_tensorflow():
    code = (
        "import sys, prepare_corpus, corpus.generation\n"
        "sys.exit('tensorflow' in sys.modules or 'pyarrow' in sys.modules)"
    )
    result = subprocess.run([sys.executable, "-c", code], cwd=ROOT)
    assert result.returncode == 0
