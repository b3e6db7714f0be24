"""ner/data.py: column files and JSONL, IOB1 and IOB2, damaged files."""

import json
from pathlib import Path

from base.errors import UserError

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.ner import data as ner_data
from tasks.ner import scores as ner_scores
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
    assert ner_data.iob2_labels(file)[1::2] == (
        *("B-LOC", "B-MISC", "B-ORG", "B-PER"),
    )
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
    file = read(tmp_path, "a\nb\n\nc\n")
    assert [sentence.tags for sentence in file.sentences] == [None, None]
    columns = Columns(0, 3)
    file = ner_data.read_file(file.path, columns, needs_tags=False)
    assert file.sentences[0].tags is None


@pytest.mark.parametrize("sign", "\t ")
def test_a_document_may_have_a_name(tmp_path, sign):
    """In files with tabs it is behind a space, as in SciBERT's of BC5CDR."""
    text = f"-DOCSTART- (227508)\n\na{sign}N{sign}O\n"
    text += f"-DOCSTART-{sign}(6794356)\nb{sign}N{sign}B-x\n"
    found = read(tmp_path, text).sentences
    assert [s.words for s in found] == [["a"], ["b"]]
    assert [s.document for s in found] == [1, 2]


def test_documents_begin_where_the_word_says_so(tmp_path):
    """In the column of words, and as the whole word."""
    text = "1\t-DOCSTART-\tO\n\n1\ta\tO\n2\t-DOCSTART-x\tO\n"
    text += "\n-DOCSTART-\n\n1\tb\tO\n"
    found = read(tmp_path, text, token=1).sentences
    assert [s.words for s in found] == [["a", "-DOCSTART-x"], ["b"]]
    assert [s.document for s in found] == [1, 2]


# The beginnings of public files.
CONLL_U = """# newdoc
# text = He is from Rom.
1\tHe\tO
2-3\tisfrom\t_
2\tis\tO
3\tfrom\tO
3.1\tgone\t_
4\tRom\tB-LOC

# text = #
1\t#\tO
"""
GERM_EVAL = """#\thttp://de.example.org/a\t[2009-10-17]
1\tBayern\tB-ORG\tB-LOC
2\tgewann\tO\tO

#\thttp://de.example.org/b\t[2009-10-18]
1\t#\tO\tO
2\tRom\tB-LOC\tO
"""
MULTI_CONER = """# id 1a3f domain=en
# _ _ O
Rome _ _ B-LOC

# id 1a40\tdomain=en
#rome _ _ O
3-4 _ _ O
"""
JNLPBA = """###MEDLINE:95369245

IL-2\tB-DNA
gene\tI-DNA

###MEDLINE:95343554

#\tO
#T\tB-cell
"""
KLUE = """## klue-ner-v1_train_00000-nsmc\t<Rom:LC> war
#Rom\tB-LC
 \tO
war\tO

## klue-ner-v1_train_00001-nsmc\t##
##\tO
"""
ONTO_NOTES = """#begin document (bc/cctv_0000); part 000
Rome B-GPE

#end document (bc/cctv_0000)
## 17
# B-GPE
"""


@pytest.mark.parametrize(
    "text, columns, words, tags, lines",
    [
        (
            CONLL_U,
            Columns(1, 2),
            ["He is from Rom", "#"],
            ["O O O B-LOC", "O"],
            [[3, 5, 6, 8], [11]],
        ),
        (
            GERM_EVAL,
            Columns(1, -2),
            ["Bayern gewann", "# Rom"],
            ["B-ORG O", "O B-LOC"],
            [[2, 3], [6, 7]],
        ),
        (
            MULTI_CONER,
            Columns(),
            ["# Rome", "#rome 3-4"],
            ["O B-LOC", "O O"],
            [[2, 3], [6, 7]],
        ),
        (
            JNLPBA,
            Columns(),
            ["IL-2 gene", "# #T"],
            ["B-DNA I-DNA", "O B-cell"],
            [[3, 4], [8, 9]],
        ),
        (
            KLUE,
            Columns(),
            ["#Rom   war", "##"],
            ["B-LC O O", "O"],
            [[2, 3, 4], [7]],
        ),
        (ONTO_NOTES, Columns(), ["Rome", "#"], ["B-GPE"] * 2, [[2], [6]]),
        # Tags that are none say nothing of comments.
        (
            "a _\n\n# _\n#b _\n",
            Columns(),
            ["a", "# #b"],
            ["_", "_ _"],
            [[1], [3, 4]],
        ),
        ("# O\na O\n", Columns(), ["# a"], ["O O"], [[1, 2]]),
        ("#\n#a\n", Columns(), ["# #a"], [None], [[1, 2]]),
        ("# a\n#\n1-2\n", Columns(), ["# 1-2"], [None], [[2, 3]]),
    ],
)
def test_comments_are_no_words(tmp_path, text, columns, words, tags, lines):
    """Nor are the rows of CoNLL-U for two words and for none."""
    path = tmp_path / "x"
    path.write_text(text)
    file = ner_data.read_file(str(path), columns)
    found = file.sentences
    assert [" ".join(s.words) for s in found] == words
    assert [s.tags and " ".join(s.tags) for s in found] == tags
    assert [s.lines for s in found] == lines
    sign = file.separator
    written = ner_scores.prediction_lines(file, [s.words for s in found])
    if tags[0]:
        # All that is no word counts as one for conlleval.
        rows = [line.split(sign) for line in written if line]
        assert [row[-1] for row in rows] == sum([s.words for s in found], [])
        assert [row[-2] for row in rows] == " ".join(tags).split()
        assert len({len(row) for row in rows}) == 1
        return
    for number, line in enumerate(text.splitlines(), 1):
        if number in sum(lines, []):
            line += sign + line.split(sign)[columns.token]
        assert written[number - 1] == line


def test_numbers_of_words_are_no_words(tmp_path):
    for text in (CONLL_U, GERM_EVAL + "3\tist\tO\tO\n"):
        with pytest.raises(UserError, match="column 0 numbers the words, as"):
            read(tmp_path, text)
    assert read(tmp_path, "1 O\n2 O\n\n1 O\n").sentences[0].words == ["1", "2"]


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


# --- Tags --------------------------------------------------------------------


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
        entities.append((at + gap, at + gap + size - 1, kind))
        at += gap + size
    iob1, iob2 = ["O"] * (at + 1), ["O"] * (at + 1)
    before = (-1, -1, "")
    for first, last, kind in entities:
        part = slice(first, last + 1)
        iob1[part] = iob2[part] = [f"I-{kind}"] * (last + 1 - first)
        iob2[first] = f"B-{kind}"
        if before[1:] == (first - 1, kind):
            iob1[first] = f"B-{kind}"
        before = (first, last, kind)
    for tags in (iob1, iob2):
        assert ner_data.normalized_tags(tags) == iob2
    assert ner_data.entities(iob2) == entities


@pytest.mark.parametrize("end, single", ["ES", "LU"])
def test_bioes_and_bilou_mean_the_same(end, single):
    """Also where entities of one type touch; and as classes of such a model."""
    iob2 = ["B-a", "B-a", "I-a", "I-a", "O", "B-b", "B-a", "I-a", "B-a"]
    theirs = [
        *(f"{single}-a", "B-a", "I-a", f"{end}-a", "O"),
        *(f"{single}-b", "B-a", f"{end}-a", f"{single}-a"),
    ]
    assert ner_data.normalized_tags(theirs) == iob2
    labels = [
        f"{place}-{kind}" for kind in "ab" for place in f"BI{end}{single}"
    ]
    assert ner_data.as_classes(iob2, ["O", *labels]) == theirs
    assert ner_data.as_classes(iob2, ["O", "B-a", "I-a", "B-b"]) == iob2
    # By conlleval's rule, what goes on behind an end begins an entity.
    broken = [f"{end}-a", "I-a", f"{end}-a", "I-b", f"{end}-a"]
    assert ner_data.normalized_tags(broken) == (
        ["B-a", "B-a", "I-a", "B-b", "B-a"]
    )


def test_parts_of_speech_are_no_entities():
    tags = ["INTJ", "IN", "BES", "I-", "B-", "LS", "NOUN", "O", "SYM", "E-"]
    assert ner_data.normalized_tags(tags) == tags
    assert ner_data.entities(tags) == []


def test_tags_of_a_model_that_are_neither():
    tags = ["I-A", "I-B", "B-B", "I-A", "O", "I-A-B", "I-A"]
    wanted = ["B-A", "B-B", "B-B", "B-A", "O", "B-A-B", "B-A"]
    assert ner_data.normalized_tags(tags) == wanted


def test_a_class_stands_for_one_that_a_model_lacks():
    found = ner_data.class_ids(("O", "I-a", "B-b", "NOUN"))
    assert found["I-a"] == found["B-a"] == found["S-a"] == 1
    assert found["I-b"] == found["B-b"] == 2
    assert found["O"] == 0 and found["NOUN"] == 3 and "BOUN" not in found


# --- Errors ------------------------------------------------------------------


@pytest.mark.parametrize(
    "name, data, words",
    [
        ("x", b"\n\n \n-DOCSTART- O\n", "no sentence"),
        ("x", b"a O\nb\nc O\n", "line 2: 1 column,"),
        ("x", b"a\tO\nb O\n", "line 2: 1 column,"),
        ("x", b"a\tO\n\n#b\nc\tO\n", "line 3: 1 column, wanted 2"),
        ("x", b"a O\n\n#b\n", "line 3: 1 column, wanted 2"),
        ("x", b"a O\n\n#b NNP\n", "line 3: tag 'NNP'"),
        ("x", b"a\tO\n\tO\n", "line 2: the word"),
        ("x", b"a O\nb B-\n", "line 2: tag 'B-'"),
        ("x", b"a O\nb INTJ\n", "line 2: tag 'INTJ'"),
        ("x", b"a\tO\nb\tB-LOC \n", "line 2: tag 'B-LOC '"),
        ("x", "a\tO\nb\tB-LOC\u00a0\n".encode(), "line 2: tag 'B-LOC"),
        ("x", b"a O\rb O\r", "line 1: a carriage return"),
        ("x", b"a\n\nb\n", "line 1: no tags"),
        ("x", "\u00a0\nword O\n".encode(), "line "),
        ("x", b"a O\nb B-NEW\n", "line 2: tag 'B-NEW'"),
        ("x.jsonl", b"\n", "no sentence"),
        ("x.jsonl", b'{"words": ["a"]}', "line 1: no key 'tokens'"),
        ("x.jsonl", b'{"tokens": "a b"}', "line 1: 'tokens' is 'a b'"),
        ("x.jsonl", b'{"tokens": [1]}', "line 1: 'tokens' is 1, w"),
        ("x.jsonl", b'{"tokens": ["a", "b"], "tags": ["O"]}', "1 tags"),
        ("x.jsonl", b'{"tokens": ["a"], "tags": [3]}', "'tags' is 3, wanted"),
        ("x.jsonl", b'{"tokens": ["a"]}', "line 1: no tags"),
        ("x.jsonl", rb'{"tokens": ["a"], "tags": ["B-\ud800"]}', "line 1: tag"),
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


def test_one_type_in_two_spellings(tmp_path):
    """macOS writes \xe9 as two characters; they were two types."""
    data = "a B-Caf\xe9\nb B-Cafe\u0301\n"
    file = ner_data.with_iob2_tags(read(tmp_path, data))
    with pytest.raises(
        UserError, match=r"'Caf\\xe9' is 'Cafe\\u0301' .* in another"
    ):
        ner_data.iob2_labels(file)


def test_a_file_without_entities_cannot_be_learned(tmp_path):
    file = ner_data.with_iob2_tags(read(tmp_path, "a O\nb O\n"))
    with pytest.raises(UserError, match="every tag is O"):
        ner_data.iob2_labels(file)
