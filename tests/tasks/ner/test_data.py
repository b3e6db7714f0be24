"""ner/data.py: column files and JSONL, IOB1 and IOB2, damaged files."""

import json
import os
from pathlib import Path

from base.errors import UserError

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.ner import data as ner_data
from tasks.ner.data import Columns, Sentence

CONLL = """-DOCSTART- -X- -X- O

EU NNP I-NP I-ORG
rejects VBZ I-VP O
German JJ I-NP I-MISC
call NN I-NP O

Peter NNP I-NP I-PER
Blackburn NNP I-NP I-PER

-DOCSTART- -X- -X- O

Hamburg NNP I-NP I-LOC
Berlin NNP I-NP B-LOC
Bonn NNP I-NP I-LOC
"""


def read(folder: Path, text: str, name: str = "x.txt", **columns):
    path = folder / name
    path.write_bytes(text.encode())
    return ner_data.read_file(str(path), Columns(**columns))


def test_conll_2003_as_it_is_distributed(tmp_path):
    """IOB1, four columns, documents."""
    file = ner_data.with_iob2_tags(read(tmp_path, CONLL))
    assert file.sentences == [
        Sentence(
            ["EU", "rejects", "German", "call"],
            ["B-ORG", "O", "B-MISC", "O"],
            [3, 4, 5, 6],
            1,
        ),
        Sentence(["Peter", "Blackburn"], ["B-PER", "I-PER"], [8, 9], 1),
        Sentence(
            ["Hamburg", "Berlin", "Bonn"],
            ["B-LOC", "B-LOC", "I-LOC"],
            [13, 14, 15],
            2,
        ),
    ]
    assert ner_data.entity_types(file) == ["LOC", "MISC", "ORG", "PER"]
    assert file.num_words == 9


def test_columns_are_chosen_by_number(tmp_path):
    file = read(tmp_path, CONLL, token=1, label=-2)
    assert file.sentences[1].words == ["NNP", "NNP"]
    assert file.sentences[1].tags == ["I-NP", "I-NP"]


def test_blank_lines_of_every_kind_end_a_sentence(tmp_path):
    r"""WNUT 2017 parts sentences by "\t", a file may end without a line end."""
    text = "\ufeffa b\tO\r\n\t\r\nc\u00a0d\u2028e\tB-x\n \n\n\nf\tO"
    file = read(tmp_path, text)
    words = [sentence.words for sentence in file.sentences]
    assert words == [["a b"], ["c\u00a0d\u2028e"], ["f"]]
    assert [sentence.lines for sentence in file.sentences] == [[1], [3], [7]]
    file = read(tmp_path, " a   O \nb\u00a0c O\n")
    assert file.sentences[0].words == ["a", "b\u00a0c"]


def test_a_file_to_tag_needs_no_tags(tmp_path):
    """A file to be tagged needs no tags; one to train on does."""
    file = read(tmp_path, "a\nb\n\nc\n")
    assert [sentence.tags for sentence in file.sentences] == [None, None]
    with pytest.raises(UserError, match="line 1: no tags; a column file"):
        ner_data.with_iob2_tags(file)
    columns = Columns(0, 3)
    file = ner_data.read_file(file.path, columns, needs_tags=False)
    assert file.sentences[0].tags is None


def test_json_lines(tmp_path):
    rows = [
        {"tokens": ["a", "b c"], "tags": ["O", "I-x"], "document": "one"},
        {"tokens": []},
        {"tokens": ["d"], "tags": ["O"], "document": "two"},
        {"tokens": ["\u2028"], "document": "two"},
    ]
    text = "\n\n".join(map(json.dumps, rows))
    file = read(tmp_path, text, "x.jsonl")
    assert file.sentences == [
        Sentence(["a", "b c"], ["O", "I-x"], [1, 1], 0),
        Sentence(["d"], ["O"], [5], 1),
        Sentence(["\u2028"], None, [7], 1),
    ]
    with pytest.raises(UserError, match="line 7: no tags"):
        ner_data.with_iob2_tags(file)
    text = json.dumps({"tokens": ["\ud800"], "tags": ["B-\ud800"]})
    with pytest.raises(UserError, match="line 1: tag .* has a lone surrogate"):
        read(tmp_path, text, "x.jsonl")


# --- Tags --------------------------------------------------------------------


@pytest.mark.parametrize(
    "given_tags, wanted",
    [
        ("I-A I-A O I-A", "B-A I-A O B-A"),  # IOB1
        ("I-A B-A I-A", "B-A B-A I-A"),  # IOB1: two that touch
        ("B-A I-A B-A O", "B-A I-A B-A O"),  # IOB2
        ("I-A I-B B-B I-A", "B-A B-B B-B B-A"),  # another type
        ("B-A-B I-A-B I-A", "B-A-B I-A-B B-A"),
    ],
)
def test_normalized_tags(given_tags, wanted):
    assert ner_data.normalized_tags(given_tags.split()) == wanted.split()


def spans(tags: list[str]) -> list[tuple[str, int, int]]:
    """Return the entities in IOB2 tags: (type, first word, end)."""
    found = []
    for at, tag in enumerate(tags):
        if tag[0] == "B":
            end = at + 1
            while end < len(tags) and tags[end] == "I" + tag[1:]:
                end += 1
            found.append((tag[2:], at, end))
    return found


@given(st.data())
def test_iob1_and_iob2_mean_the_same(data):
    """Entities written in either way are read back."""
    entities, at = [], 0
    for gap, size, kind in data.draw(
        st.lists(
            st.tuples(
                st.integers(0, 2), st.integers(1, 3), st.sampled_from("ab")
            )
        )
    ):
        entities.append((kind, at + gap, at + gap + size))
        at += gap + size
    iob1, iob2 = ["O"] * (at + 1), ["O"] * (at + 1)
    for before, (kind, start, end) in zip(
        [("", 0, 0), *entities], entities, strict=False
    ):
        iob1[start:end] = iob2[start:end] = [f"I-{kind}"] * (end - start)
        iob2[start] = f"B-{kind}"
        if before[0] == kind and before[2] == start:
            iob1[start] = f"B-{kind}"
    for tags in (iob1, iob2):
        assert ner_data.normalized_tags(tags) == iob2
    assert spans(iob2) == entities


def test_labels():
    labels = ner_data.iob2_labels(["b", "a", "b"])
    assert labels == ("O", "B-a", "I-a", "B-b", "I-b")
    assert ner_data.class_ids(("O", "I-a", "B-b")) == {
        **{"O": 0, "I-a": 1, "B-a": 1, "B-b": 2, "I-b": 2}
    }


# --- Errors ------------------------------------------------------------------


@pytest.mark.parametrize(
    "name, data, words",
    [
        ("x", b"", "x holds no sentence"),
        ("x", b"\n\n \n-DOCSTART- O\n", "x holds no sentence"),
        ("x", b"a O\nb\nc O\n", "x, line 2: 1 columns, wanted 2 as in line 1"),
        ("x", b"a\tO\nb O\n", "line 2: 1 columns, wanted 2 as in line 1 (they"),
        ("x", b"a O\n\nb x y O", "x, line 3: 4 columns, wanted 2"),
        ("x", b"a\tO\n\tO\n", "x, line 2: the word (column 0) is empty"),
        ("x", b"a O\nb \xff O\n", "x, line 2: not UTF-8"),
        ("x", b"a O\nb B\n", "x, line 2: tag 'B'; wanted O, B-type or I-type"),
        ("x", b"a O\nb E-LOC\n", "x, line 2: tag 'E-LOC'; wanted O"),
        ("x", b"a O\nb B-\n", "x, line 2: tag 'B-'; wanted O"),
        (
            "x",
            b"a O\nb E-LOC\n",
            "E-LOC'; wanted O, B-type or I-type (IOB1 or IOB2; write I- here",
        ),
        ("x", b"a O\nb S-LOC\n", "IOB2; write B- here"),
        ("x", b"a\tO\nb\tB-LOC \n", "x, line 2: tag 'B-LOC '; wanted O"),
        ("x", "a\tO\nb\tB-LOC\u00a0\n".encode(), "x, line 2: tag 'B-LOC"),
        ("x", b"a O\rb O\r", "x, line 1: a carriage return within the line"),
        ("x", b"a\n\nb\n", "x, line 1: no tags"),
        ("x", b"a O\nb B-NEW\n", "line 2: tag 'B-NEW': the training file has"),
        ("x.jsonl", b"\n", "x.jsonl holds no sentence"),
        ("x.jsonl", b'{"tokens": ["a"]', "x.jsonl, line 1: not JSON"),
        ("x.jsonl", b'\n["a"]', "x.jsonl, line 2: wanted a JSON object"),
        ("x.jsonl", b'{"words": ["a"]}', "no key 'tokens'; it has 'words'"),
        ("x.jsonl", b'{"tokens": "a b"}', "line 1: tokens is not a list"),
        ("x.jsonl", b'{"tokens": [1]}', "line 1: tokens has 1; wanted"),
        ("x.jsonl", b'{"tokens": [""]}', "line 1: tokens has ''; wanted"),
        (
            "x.jsonl",
            b'{"tokens": ["a", "b"], "tags": ["O"]}',
            "line 1: 2 tokens but 1 tags",
        ),
        ("x.jsonl", b'{"tokens": ["a"], "tags": [3]}', "tags has 3; wanted"),
    ],
)
def test_damaged_files_name_the_line(tmp_path, name, data, words):
    path = tmp_path / name
    path.write_bytes(data)
    with pytest.raises(UserError) as error:
        ner_data.with_iob2_tags(
            ner_data.read_file(str(path), Columns()), ["LOC"]
        )
    assert words in str(error.value)
    assert str(path) in str(error.value)


def test_documents_begin_where_the_word_says_so(tmp_path):
    """In the column of words, and as the whole word."""
    path = tmp_path / "x"
    path.write_text("1\t-DOCSTART-\tO\n\n1\ta\tO\n2\t-DOCSTART-x\tO\n")
    with path.open("a") as file:
        file.write("\n-DOCSTART-\n\n1\tb\tO\n")
    found = ner_data.read_file(str(path), Columns(token=1)).sentences
    assert [s.words for s in found] == [["a", "-DOCSTART-x"], ["b"]]
    assert [s.document for s in found] == [1, 2]


def test_a_pipe_is_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UserError, match="is a pipe or a device, which cannot"):
        ner_data.read_file(str(tmp_path / "pipe"), Columns())


@pytest.mark.parametrize(
    "columns, words",
    [
        ({"token": 4}, "line 3: 4 columns, --token_column=4 is none"),
        ({"label": -5}, "line 3: 4 columns, --label_column=-5 is none"),
    ],
)
def test_missing_columns_name_the_flag(tmp_path, columns, words):
    with pytest.raises(UserError, match=words):
        read(tmp_path, CONLL, **columns)


def test_a_file_without_entities_cannot_be_learned(tmp_path):
    file = ner_data.with_iob2_tags(read(tmp_path, "a O\nb O\n"))
    with pytest.raises(UserError, match="every tag is O"):
        ner_data.entity_types(file)


def test_a_missing_file_is_one_line(tmp_path):
    with pytest.raises(UserError, match="cannot be read"):
        ner_data.read_file(str(tmp_path / "x"), Columns())


def test_a_line_of_a_no_break_space_alone_is_named(tmp_path):
    (tmp_path / "x.txt").write_text("\u00a0\nword O\n")
    with pytest.raises(UserError, match="x.txt, line "):
        ner_data.read_file(str(tmp_path / "x.txt"), Columns(0, -1))
