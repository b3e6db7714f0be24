"""corpus/reading.py: items of each kind of file, chunks, and damage."""

import gzip
import json

import corpus_runs
import pytest
from corpus_runs import article, dump, items_of, page, problems_of, texts_of

from corpus import reading

TWO = "First sentence here. Second one.\n\nAnother text. It ends.\n"


def write(path, content):
    data = content.encode() if isinstance(content, str) else content
    path.write_bytes(data)
    return path


def json_lines(*values) -> str:
    return "".join(json.dumps(value) + "\n" for value in values)


def test_a_dump_without_its_end(tmp_path):
    xml = corpus_runs.dump_of(3).encode()
    path = write(tmp_path / "x", xml[: xml.rindex(b"</mediawiki>")])
    assert problems_of(path) == [
        "F: ends without </mediawiki>; the 3 pages before it are used"
    ]
    path = write(tmp_path / "y", xml[: xml.rindex(b"It is 3 miles")])
    assert problems_of(path) == [
        "F: ends without </mediawiki> within page 3 'River 3'; the 2 pages "
        "before it are used"
    ]


def test_a_broken_page_is_named_and_the_others_are_used(tmp_path):
    pages = [page(f"River {n}", article(n)) for n in range(1, 1201)]
    pages[99] = page("Big", "Words. " * 1_500_000)
    pages[999] = pages[999].replace("</text>", "<oops>")
    pages[1099] = pages[1099].replace("</page>", "")
    path = write(tmp_path / "x", dump(pages))
    big, broken, endless = problems_of(path)
    assert big == "F, page 100 'Big': is larger than 8 MB (--max_document_mb)"
    assert broken.startswith("F, page 1000 'River 1000': ParseError: mismatch")
    assert endless == (
        "F, page 1100 'River 1100': does not end (no </page>) before the next "
        "page"
    )
    assert len(texts_of(path)) == 1197


def test_texts_of_json_lines(tmp_path):
    content = json_lines(
        {"id": 1, "text": "One. Two.\nThree."},
        {"text": "A\u2028B\x00C."},
        {"text": ""},
        {"text": None},
    )
    path = write(tmp_path / "x", "\n" + content + "\n")
    assert texts_of(path) == ["One.\nTwo.\nThree.\n", "A BC.\n"]
    assert [i.number for i in items_of(path)] == [2, 3, 4, 5]
    assert problems_of(path) == []


def test_bad_json_lines_are_named_and_the_others_are_used(tmp_path):
    good = json_lines({"body": "A good line."})
    path = write(
        tmp_path / "x",
        good.encode()
        + b'{"body": "open\n'
        + b'["body"]\n'
        + b'{"text": "a", "id": 3}\n'
        + b'{"body": 7}\n'
        + b'{"body": "\xff"}\n'
        + b'{"body": ' + b"[" * 100_000 + b"\n"
        + b'{"body": "' + b"x" * 1_100_000 + b'"}\n'
        + good.encode(),
    )  # fmt: skip
    more = {"text_column": "body", "max_document_mb": 1}
    assert texts_of(path, **more) == ["A good line.\n"] * 2
    found, mend = problems_of(path, **more), "; name one by --text_column"
    assert found[0].startswith("F, line 2: is not JSON: ")
    assert found[1:5] == [
        "F, line 3: found list, wanted an object with the key 'body'" + mend,
        "F, line 4: no key 'body'; it has 'text', 'id'" + mend,
        "F, line 5: 'body' is 7, wanted a string" + mend,
        "F, line 6: is not UTF-8: byte 0xff in its line 1",
    ]
    assert found[5].startswith("F, line 7: is not JSON: ")
    assert found[6] == "F, line 8: is larger than 1 MB (--max_document_mb)"
    assert len(found) == 7


def test_documents_of_wikiextractor(tmp_path):
    head = '<doc id="{0}" url="https://a.b/?curid={0}" title="{1}">\n'
    first = head.format(1, "A &amp; B") + "A &amp; B\n\nA &lt; B. So.\n\n</doc>"
    second = head.format(2, "Boat") + "\nBoats float.\n</doc>\n"
    texts = ["A < B.\nSo.\n", "Boats float.\n"]
    path = write(tmp_path / "wiki_00", f"{first}\n{second}")
    assert texts_of(path) == texts
    assert [i.number for i in items_of(path)] == [1, 2]
    assert problems_of(path) == []
    path = write(tmp_path / "glued", f"{first}{second}".replace('"1"', "1"))
    assert texts_of(path) == texts
    prose = 'A tag <doc id="1"> opens it, and </doc> ends it.\n'
    assert texts_of(write(tmp_path / "prose", prose)) == [prose]
    path = write(tmp_path / "cut", f"{first}\n{second}\n{first[:-9]}")
    assert texts_of(path) == texts
    assert problems_of(path) == ["F, document 3: does not end (no </doc>)"]


def test_a_title_at_the_beginning_of_json_is_no_sentence(tmp_path):
    lines = '{"title": "A", "text": "A\\n\\nSo."}\n{"title": 5, "text": "B."}'
    assert texts_of(write(tmp_path / "wiki_00", lines)) == ["So.\n", "B.\n"]


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_document_is_a_file_or_between_blank_lines(tmp_path, end):
    path = write(tmp_path / "x", TWO.replace("\n", end))
    first = "First sentence here.\nSecond one.\n"
    second = "Another text.\nIt ends.\n"
    assert texts_of(path) == [first + second]
    more = {"document_separator": "blank_line"}
    assert texts_of(path, **more) == [first, second]
    assert [i.number for i in items_of(path, **more)] == [1, 2]


@pytest.mark.parametrize("size", [100, 2**20 - 1, 2**20, 2**20 + 1, 3 * 2**20])
def test_documents_across_blocks(tmp_path, size):
    """The end of a document at and around the end of a block."""
    parts = ["x" * (size - 2), "y" * 50, " ", "z" * 2_000_000, "w"]
    path = write(tmp_path / "x", "\n \t\n\n".join(parts))
    found = items_of(path, document_separator="blank_line")
    assert [i.data.strip().decode() for i in found] == [
        p for p in parts if p.strip()
    ]


def test_texts_that_cannot_be_used_are_named(tmp_path):
    path = write(tmp_path / "x", b"Good text.\n\nB\nad \xff.\n\nGood again.\n")
    more = {"document_separator": "blank_line"}
    assert texts_of(path, **more) == ["Good text.\n", "Good again.\n"]
    assert problems_of(path, **more) == [
        "F, document 2: is not UTF-8: byte 0xff in its line 2"
    ]
    assert texts_of(path) == []
    path = write(tmp_path / "y", "Words. " * 200_000 + "\n\nShort.\n\n")
    more["max_document_mb"] = 1
    assert texts_of(path, **more) == ["Short.\n"]
    (problem,) = problems_of(path, max_document_mb=1)
    assert problem == (
        "F, document 1: is larger than 1 MB (--max_document_mb); if blank "
        "lines separate its documents, give --document_separator=blank_line"
    )


def test_whole_lines_of_a_truncated_text_are_used(tmp_path):
    lines = [f"{article(n)} {n * n * 7919}." for n in range(9000)]
    packed = gzip.compress("\n".join(lines).encode())
    path = write(tmp_path / "x", packed[: len(packed) // 2])
    (text,) = texts_of(path)
    kept = text.split("\n")[:-1]
    assert kept == " ".join(lines).replace(". ", ".\n").split("\n")[: len(kept)]
    assert len(kept) > 3000
    assert len(problems_of(path)) == 1


@pytest.fixture
def three_files(tmp_path) -> list[str]:
    write(tmp_path / "a", corpus_runs.dump_of(30))
    write(tmp_path / "b", b"")
    write(tmp_path / "c", "\n\n".join(article(n) for n in range(40)))
    return [str(tmp_path / name) for name in "abc"]


SMALL = corpus_runs.settings(document_separator="blank_line")


def test_chunks_hold_all_items_in_order(three_files):
    chunks = list(reading.read_chunks(three_files, SMALL, 1500))
    assert len(chunks) > 5
    found = [item for chunk, _ in chunks for item in chunk.items]
    assert found == [
        item
        for path in three_files
        for item, _ in reading.read_items(path, SMALL)
    ]
    assert len(found) == 71  # one of them a problem
    sizes = [sum(len(i.data) for i in chunk.items) for chunk, _ in chunks]
    assert all(1500 <= size < 2000 for size in sizes[:-1])
    total = sum(chunk.num_bytes for chunk, _ in chunks)
    assert total == sum(len(open(path, "rb").read()) for path in three_files)


def test_reading_continues_behind_any_chunk(three_files):
    chunks = list(reading.read_chunks(three_files, SMALL, 1500))
    for number, (_, end) in enumerate(chunks, 1):
        rest = reading.read_chunks(three_files, SMALL, 1500, end)
        assert [(c.items, end) for c, end in rest] == [
            (c.items, end) for c, end in chunks[number:]
        ]
