"""SQuAD's files, windows, answers and scores: goldens and hand-made cases."""

import gzip
import json
from pathlib import Path

from base.errors import UserError

import numpy as np
import pytest
from corpora import VOCAB_FILE
from hypothesis import given
from hypothesis import strategies as st
from paths import GOLDEN

import tokenization
from records import tfrecord
from squad import data as squad_data
from squad import decoding as squad_decoding
from squad import scores as squad_scores
from squad import triviaqa
from squad import windows as squad_windows

LENGTHS = {
    "v1": squad_windows.Lengths(192, 64, 32),
    "v2": squad_windows.Lengths(160, 48, 24),
}


@pytest.fixture(scope="module")
def tokenizer() -> tokenization.FullTokenizer:
    return tokenization.FullTokenizer(VOCAB_FILE)


def golden_file(version: str, folder: Path) -> str:
    path = folder / "input.json"
    data = (GOLDEN / f"squad_{version}" / "input.json.gz").read_bytes()
    path.write_bytes(gzip.decompress(data))
    return str(path)


def squad(*paragraphs: tuple[str, list[dict]]) -> dict:
    """A file's content from (context, questions)."""
    value = [{"context": c, "qas": qas} for c, qas in paragraphs]
    return {"data": [{"title": "t", "paragraphs": value}]}


def question(qas_id: str, text: str = "Who?", *answers, **more) -> dict:
    """A question; answers are (text, start)."""
    found = [{"text": t, "answer_start": at} for t, at in answers]
    return {"id": qas_id, "question": text, "answers": found} | more


def write(folder: Path, value, name: str = "f.json") -> str:
    path = folder / name
    path.write_text(value if isinstance(value, str) else json.dumps(value))
    return str(path)


# --- Goldens ----------------------------------------------------------------


@pytest.mark.parametrize("version", ["v1", "v2"])
@pytest.mark.parametrize("kind", ["train", "predict"])
def test_windows_are_the_originals(version, kind, tokenizer, tmp_path):
    wanted = np.load(GOLDEN / f"squad_{version}" / "features.npz")
    lengths = LENGTHS[version]
    data = squad_data.read_squad(
        [golden_file(version, tmp_path)], kind == "train", version == "v2"
    )
    ids = [example.qas_id for example in data.examples]
    assert ids == wanted[f"{kind}_qas_id"].tolist()
    windows = squad_windows.convert_all(data, tokenizer, lengths, 1)
    path = str(tmp_path / "r")
    squad_windows.write_records(
        path,
        windows,
        data.examples,
        tokenizer.vocab,
        lengths.max_seq_length,
        kind == "train",
    )
    names = {
        "unique_ids": "unique_id",
        "input_ids": "input_ids",
        "input_mask": "input_mask",
        "segment_ids": "segment_ids",
    }
    if kind == "train":
        names |= {f"{n}_positions": f"{n}_position" for n in ("start", "end")}
    found = [tfrecord.decode_example(r) for r in tfrecord.read_records(path)]
    for name, golden in names.items():
        values = np.stack([record[name] for record in found])
        np.testing.assert_array_equal(
            values.squeeze(), wanted[f"{kind}_{golden}"], err_msg=name
        )
    assert set(found[0]) == set(names) | (
        {"is_impossible"} if kind == "train" else set()
    )
    np.testing.assert_array_equal(
        windows.example, wanted[f"{kind}_example_index"]
    )


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_answers_are_the_originals(version, tokenizer, tmp_path):
    folder, is_version_2 = GOLDEN / f"squad_{version}", version == "v2"
    data = squad_data.read_squad(
        [golden_file(version, tmp_path)], False, is_version_2
    )
    windows = squad_windows.convert_all(data, tokenizer, LENGTHS[version], 1)
    logits = np.load(folder / "logits.npz")["logits"]
    decoded = squad_decoding.decode(
        data,
        windows,
        logits[:, 0],
        logits[:, 1],
        tokenizer.inv_vocab,
        squad_decoding.Settings(version_2_with_negative=is_version_2),
        ignores_padding=False,
    )
    nbest = json.loads(
        gzip.decompress((folder / "nbest_predictions.json.gz").read_bytes())
    )
    assert list(decoded.nbest) == list(nbest)
    for key, entries in nbest.items():
        found = decoded.nbest[key]
        # Where nothing can be an answer, the original answers "empty".
        texts = [e["text"] for e in entries]
        texts = [""] if texts == ["empty"] else texts
        assert [candidate.text for candidate in found] == texts
        for candidate, entry in zip(found, entries, strict=True):
            for name in ("probability", "start_logit", "end_logit"):
                value = getattr(candidate, name)
                assert value == pytest.approx(entry[name], abs=1e-6)
    answers = json.loads((folder / "predictions.json").read_text())
    for key, text in decoded.answers().items():
        assert text == ("" if answers[key] == "empty" else answers[key])
    if is_version_2:
        odds = json.loads((folder / "null_odds.json").read_text())
        assert decoded.null_odds == pytest.approx(odds, abs=1e-6)
    text = squad_decoding.nbest_json(decoded.nbest)
    lists = {k: [c._asdict() for c in v] for k, v in decoded.nbest.items()}
    assert text == json.dumps(lists, indent=4)
    assert squad_decoding.from_json(json.loads(text), None).nbest == (
        decoded.nbest
    )


def test_any_number_of_workers(tokenizer, tmp_path, monkeypatch):
    """The same arrays to the last bit, chunks of several paragraphs."""
    monkeypatch.setattr(squad_windows, "_CHUNK", 7)
    data = squad_data.read_squad([golden_file("v1", tmp_path)], True, False)
    lengths = LENGTHS["v1"]
    one = squad_windows.convert_all(data, tokenizer, lengths, 1)
    two = squad_windows.convert_all(data, tokenizer, lengths, 2)
    monkeypatch.setattr(squad_windows, "_CHUNK", 1000)
    whole = squad_windows.convert_all(data, tokenizer, lengths, 1)
    for name in squad_windows.Windows.names():
        for other in (two, whole):
            a, b = getattr(one, name), getattr(other, name)
            np.testing.assert_array_equal(a, b, err_msg=name)
            assert a.dtype == b.dtype


# --- Windows and candidates, against slow readings of the rules ---------------


@given(st.integers(1, 60), st.integers(1, 20), st.integers(1, 25))
def test_spans_and_best_context(length, room, stride):
    spans = list(squad_windows.spans(length, room, stride))
    assert spans[0][0] == 0 and sum(spans[-1]) == length
    for (a, n), (b, _) in zip(spans, spans[1:], strict=False):
        assert n == room and b - a == min(stride, room)
    flags = squad_decoding._seen_best(*map(list, zip(*spans, strict=True)))
    for token in range(length):
        scores = {
            number: min(token - start, start + size - 1 - token) + 0.01 * size
            for number, (start, size) in enumerate(spans)
            if start <= token < start + size
        }
        best = max(scores, key=scores.get, default=None)  # first of equals
        for number in scores:
            start = spans[number][0]
            assert flags[number][token - start] == (number == best)


def test_padding_takes_no_place_among_the_best(tokenizer):
    """The best spans do not depend on how far a batch was padded."""
    text = "Paris is a city."
    data = squad_data.SquadData(
        [squad_data.make_paragraph(text)],
        [squad_data.SquadExample("a", "Where?", 0)],
    )
    lengths = squad_windows.Lengths(64, 16, 8)
    windows = squad_windows.convert_all(data, tokenizer, lengths, 1)
    logits = np.full([1, 64], 5.0, np.float32)  # padding looks best
    logits[0, :10] = np.arange(10)[::-1] / 10
    settings = squad_decoding.Settings(n_best_size=3)

    def texts(width: int, ignores: bool) -> list[str]:
        part = logits[:, :width]
        decoded = squad_decoding.decode(
            data, windows, part, part, tokenizer.inv_vocab, settings, ignores
        )
        return [candidate.text for candidate in decoded.nbest["a"]]

    length = int(windows.length()[0])
    assert texts(64, True) == texts(length, True)
    assert texts(64, False) == [""]  # as the original, which says "empty"


@pytest.mark.parametrize(
    "pieces, text, wanted",
    [
        ("steve smith", "Steve Smith's", "Steve Smith"),
        ("1895", "(1895-1943).", "1895"),
        ("beyonce", "Beyoncé's", "Beyoncé"),
        ("[UNK]", "some ☃☃", "some ☃☃"),  # nowhere to be found
        ("i", "İstanbul", "İ"),
        ("a b", "x(a b)y", "a b"),
    ],
)
def test_final_text(pieces, text, wanted):
    """Of words, or all of them, with a warning, where letters do not match."""
    basic = tokenization.BasicTokenizer()

    def normal(word: str) -> str:
        return " ".join(basic.tokenize(word))

    told: list[str] = []
    words = text.split()
    found = squad_decoding.final_text(pieces, words, normal, told.append)
    assert found == wanted
    assert bool(told) == (pieces == "[UNK]")


def test_answers_narrowed_to_their_pieces(tokenizer, tmp_path):
    """Of "(1895-1943)." only "1895" is the answer."""
    text = "He (1895-1943) was here."
    path = write(tmp_path, squad((text, [question("a", "When?", ("1895", 4))])))
    data = squad_data.read_squad([path], True, False)
    lengths = squad_windows.Lengths(32, 8, 8)
    windows = squad_windows.convert_all(data, tokenizer, lengths, 1)
    row = squad_windows.rows(windows, 0, 1, tokenizer.vocab, 32)
    first, last = windows.start_positions[0], windows.end_positions[0]
    ids = row["input_ids"][0, first : last + 1].tolist()
    assert tokenizer.convert_ids_to_tokens(ids) == ["1895"]


def test_other_spaces_part_words(tmp_path):
    """A no-break space does; the original knows it for no space."""
    path = write(
        tmp_path,
        squad(("It cost 5\u00a0pounds\u2003then.", [question("a")])),
    )
    data = squad_data.read_squad([path], False, False)
    words = data.paragraphs[0].words()
    assert words == ["It", "cost", "5", "pounds", "then."]


# --- Files ------------------------------------------------------------------


def reading_error(tmp_path, value, training=True, version_2=False, **more):
    path = write(tmp_path, value)
    with pytest.raises(UserError) as error:
        squad_data.read_squad([path], training, version_2, **more)
    assert "\n" not in str(error.value)
    return str(error.value)


def test_files_that_are_wrong(tmp_path):
    line = reading_error(tmp_path, '{"data": [}')
    assert "not JSON at line 1, column 11" in line
    assert "no key 'data'" in reading_error(tmp_path, {"date": []})
    line = reading_error(tmp_path, {"data": [{"paragraphs": [{"qas": []}]}]})
    assert "data[0].paragraphs[0] has no key 'context'" in line
    line = reading_error(tmp_path, squad(("a b", [{"id": "x"}])))
    assert "data[0].paragraphs[0].qas[0] has no key 'question'" in line
    line = reading_error(tmp_path, {"data": {}})
    assert "data is dict, wanted list" in line
    twice = [question("x", "Who?", ("a", 0))] * 2
    line = reading_error(tmp_path, squad(("a b", twice)))
    assert "qas[1]: id 'x' is that of" in line and "qas[0]" in line
    line = reading_error(tmp_path, squad(("a b", [question("x")])))
    assert "(x) has no answer to train on" in line
    impossible = [question("x", is_impossible=True)]
    line = reading_error(tmp_path, squad(("a b", impossible)))
    assert "1 of 1 questions have no answer" in line
    assert "wants --version_2_with_negative" in line
    plain = [question("x", "Who?", ("a", 0))]
    line = reading_error(tmp_path, squad(("a b", plain)), version_2=True)
    assert "leave --version_2_with_negative out" in line
    assert "no question in it" in reading_error(tmp_path, {"data": []})
    line = reading_error(tmp_path, [])
    assert "f.json is list, wanted an object with the key 'data'" in line
    line = reading_error(tmp_path, {"data": None})
    assert "f.json: data is NoneType, wanted list" in line
    gone = squad(("a b", [question("x", "Who?", ("b", -70))]))
    line = reading_error(tmp_path, gone)
    assert "no question in it that can be trained on, of 1; the" in line
    assert "(x): answer_start -70 is not where 'b' is" in line
    for odd in (None, [1], True, 1.5):
        line = reading_error(tmp_path, squad(("a b", [question(odd)])))
        assert f"qas[0].id is {odd!r}, wanted a text" in line
    odd = squad(("a b", [question("x", "Who?", ("a", False))]))
    assert "answer_start is bool, wanted int" in reading_error(tmp_path, odd)
    (tmp_path / "b.json").write_bytes(gzip.compress(b"{}"))
    with pytest.raises(UserError, match="is compressed .gzip.: unpack it"):
        squad_data.read_squad([str(tmp_path / "b.json")], True, False)
    (tmp_path / "b.json").write_bytes(b'{"data": "\xff"}')
    with pytest.raises(UserError, match="not UTF-8 at byte 10"):
        squad_data.read_squad([str(tmp_path / "b.json")], True, False)
    with pytest.raises(UserError, match="nowhere.json: cannot be read"):
        squad_data.read_squad(["/nowhere.json"], True, False)
    odd = squad(("a b", [question("x", "Who?", ("a", "0"))]))
    assert "answers[0].answer_start is str" in reading_error(tmp_path, odd)
    odd = squad(("a b", [question("x", is_impossible="false")]))
    assert "is_impossible is str, wanted bool" in reading_error(tmp_path, odd)
    odd = squad(("a b", [question("x") | {"answers": 5}]))
    assert "answers is int, wanted list" in reading_error(tmp_path, odd)
    assert "no JSON for us" in reading_error(tmp_path, "[" * 100_000)
    line = reading_error(tmp_path, {"Data": []})
    assert "wants --triviaqa_evidence_dir" in line


def test_answers_that_are_elsewhere(tmp_path, caplog):
    value = squad(
        (
            "one two three",
            [
                question("right", "?", ("two", 4)),
                question("near", "?", ("two", 5)),  # the word still holds it
                question("gone", "?", ("two", 8)),
            ],
        )
    )
    path = write(tmp_path, value)
    data = squad_data.read_squad([path], True, False)
    assert [example.qas_id for example in data.examples] == ["right", "near"]
    assert "2 answers are not where answer_start says" in caplog.text
    assert "1 questions are left out" in caplog.text
    squad_data.read_squad([path], False, False)
    assert caplog.text.count("2 answers are not where") == 2
    assert "(near): answer_start 5 is not where 'two' is" in caplog.text
    value["data"][0]["paragraphs"][0]["qas"].append(question("none"))
    squad_data.read_squad([write(tmp_path, value)], False, False)
    assert "1 of 4 questions have no answers to compare with" in caplog.text
    line = reading_error(tmp_path, value, strict=True)
    assert "(near): answer_start 5" in line and "--strict" in line


def test_lengths_that_hold_no_text():
    with pytest.raises(UserError, match="must be greater than 67"):
        squad_windows.Lengths(67, 128, 64).check()
    squad_windows.Lengths(68, 128, 64).check()


def test_long_questions_are_cut_and_counted(tokenizer):
    data = squad_data.SquadData(
        [squad_data.make_paragraph("a b c")],
        [squad_data.SquadExample("a", "one two three four", 0)],
    )
    lengths = squad_windows.Lengths(16, 4, 2)
    windows = squad_windows.convert_all(data, tokenizer, lengths, 1)
    assert windows.num_cut[0] == 1
    assert windows.query_length().tolist() == [2]


# --- TriviaQA -----------------------------------------------------------------


def trivia(folder: Path, text: str, value: str, aliases: list[str]) -> tuple:
    (folder / "wikipedia").mkdir(exist_ok=True)
    (folder / "wikipedia" / "Doc.txt").write_text(text)
    question = {
        "Question": "Who?",
        "QuestionId": "q1",
        "Answer": {"Value": value, "Aliases": aliases},
        "EntityPages": [{"Filename": "Doc.txt"}, {"Filename": "Gone.txt"}],
    }
    return [write(folder, {"Data": [question]})], str(folder)


def test_triviaqa_first_alias_is_the_answer(tmp_path, tokenizer, caplog):
    text = "Nobody knew.\n\nThe MARIO  Puzo book by mario puzo " + "x " * 500
    files, folder = trivia(tmp_path, text, "Puzo", ["Mario Puzo", "Maria"])
    data = triviaqa.read_triviaqa(files, folder, 400)
    (example,) = data.examples
    assert example.qas_id == "q1--wikipedia/Doc.txt"
    assert example.orig_answer_text == "MARIO  Puzo"
    paragraph = data.paragraphs[example.paragraph]
    assert len(paragraph.starts) == 400
    words = paragraph.words(example.start_position, example.end_position)
    assert words == ["MARIO", "Puzo"]
    assert "1 documents are not in" in caplog.text
    windows = squad_windows.convert_all(
        data, tokenizer, squad_windows.Lengths(64, 32, 16), 1
    )
    assert (windows.start_positions > 0).sum() >= 1


def test_triviaqa_without_an_answer(tmp_path):
    files, folder = trivia(tmp_path, "x " * 10 + "Puzo", "Puzo", [])
    with pytest.raises(UserError, match="no document with an answer"):
        triviaqa.read_triviaqa(files, folder, 10)
    with pytest.raises(UserError, match="no document with an answer"):
        triviaqa.read_triviaqa(files, str(tmp_path / "no"), 400)
    path = write(tmp_path, {"Data": [{"Question": "Who?"}]})
    with pytest.raises(UserError, match=r"'QuestionId': not in TriviaQA's"):
        triviaqa.read_triviaqa([path], folder)
    files, folder = trivia(tmp_path, "Puzo", "Puzo", [5])
    with pytest.raises(UserError, match="Aliases holds 5, wanted texts"):
        triviaqa.read_triviaqa(files, folder)
    files, folder = trivia(tmp_path, "Puzo", "Puzo", [])
    good = json.loads(Path(files[0]).read_text())["Data"][0]
    for changes, words in (
        ({"Answer": {"Value": "a", "Aliases": "ab"}}, "Aliases is str, wanted"),
        (
            {"EntityPages": {"Filename": "x"}},
            "EntityPages is dict, wanted list",
        ),
        ({"EntityPages": ["x"]}, r"EntityPages\[0\] is str, wanted an object"),
        ({"SearchResults": [{"Filename": 3}]}, "Filename is int, wanted str"),
        ({"EntityPages": [{"Filename": "a\0b"}]}, "no document with an answer"),
    ):
        path = write(tmp_path, {"Data": [good | changes]})
        with pytest.raises(UserError, match=words):
            triviaqa.read_triviaqa([path], folder)


def test_triviaqa_documents_that_come_later(tmp_path):
    """Records of half of the evidence are not those of all of it."""
    _, folder = trivia(tmp_path, "Puzo", "Puzo", [])
    before = triviaqa.evidence_in(folder)
    assert triviaqa.evidence_in(folder) == before
    (tmp_path / "wikipedia" / "Gone.txt").write_text("Puzo")
    between = triviaqa.evidence_in(folder)
    assert between != before
    (tmp_path / "wikipedia" / "Doc.txt").write_text("Puzo, changed")
    changed = triviaqa.evidence_in(folder)
    assert changed["wikipedia"] != between["wikipedia"]
    (tmp_path / "web" / "7").mkdir(parents=True)
    (tmp_path / "web" / "7" / "7_1.txt").write_text("Puzo")
    assert triviaqa.evidence_in(folder)["web"] != changed["web"]
    # An entry may name no file.
    entry = {"Title": "no file"}
    question = {
        "Question": "Who?",
        "QuestionId": "q1",
        "Answer": {"Value": "Puzo", "Aliases": None},
        "EntityPages": [entry, {"Filename": "Doc.txt"}],
    }
    path = write(tmp_path, {"Data": [question]})
    assert len(triviaqa.read_triviaqa([path], folder).examples) == 1


def test_an_alias_is_a_whole_word(tmp_path):
    files, folder = trivia(tmp_path, "Anna and Ann.", "Ann", [])
    data = triviaqa.read_triviaqa(files, folder)
    assert data.examples[0].start_position == 2


# --- Scores -----------------------------------------------------------------


def scored(answers: dict[str, list[str]]) -> squad_data.SquadData:
    examples = [
        squad_data.SquadExample(
            key, "?", 0, tuple(texts), is_impossible=not texts
        )
        for key, texts in answers.items()
    ]
    return squad_data.SquadData([squad_data.make_paragraph("x")], examples)


def test_normalized():
    assert squad_scores.normalize("The  U.S.A.'s an-Other") == "usas another"
    assert squad_scores.normalize("A theater") == "theater"
    assert squad_scores.normalize("the") == ""


def test_version_1_by_hand():
    data = scored({"a": ["the cat sat", "dog"], "b": ["x"], "c": ["y z"]})
    given = {"a": "cat sat down", "b": "X!"}  # c has no prediction
    found = squad_scores.score(data, given, False)
    # a: 2 shared of 3 given and 2 wanted; b is exact; c counts 0.
    first = 2 * (2 / 3) * 1.0 / (2 / 3 + 1.0)
    assert found == {"exact_match": 100 / 3, "f1": 100.0 * (first + 1) / 3}


def test_articles_alone_differ_between_versions():
    data, given = scored({"a": ["the"]}), {"a": "an"}
    assert squad_scores.score(data, given, False) == {
        "exact_match": 100.0,
        "f1": 0.0,
    }
    found = squad_scores.score(data, given, True)
    assert found["exact"] == found["f1"] == 100.0


def test_version_2_by_hand():
    data = scored({"a": ["cat"], "b": [], "c": ["big dog"], "d": []})
    given = {"a": "cat", "b": "", "c": "dog", "d": "mouse"}
    odds = {"a": -5.0, "c": -1.0, "d": -3.0, "b": 2.0}
    found = squad_scores.score(data, given, True, odds)
    half = 2 * 1.0 * 0.5 / 1.5
    assert found == {
        "exact": 50.0,
        "f1": 100.0 * (1 + 1 + half) / 4,
        "total": 4,
        "HasAns_exact": 50.0,
        "HasAns_f1": 100.0 * (1 + half) / 2,
        "HasAns_total": 2,
        "NoAns_exact": 50.0,
        "NoAns_f1": 50.0,
        "NoAns_total": 2,
        # Nothing answered: 2 right. a: 3. d: 2. c: 2 and a half. b: as before.
        "best_exact": 75.0,
        "best_exact_thresh": -5.0,
        "best_f1": 75.0,
        "best_f1_thresh": -5.0,
    }


def test_threshold_is_tuned_on_the_best_answers():
    """Whatever threshold the predictions were written with."""
    data = scored({"a": ["cat"], "b": [], "c": ["dog"]})
    best = {"a": "cat", "b": "mouse", "c": "dog"}
    odds = {"a": 1.5, "b": 9.0, "c": 3.0}
    tuned = squad_scores.tune(data, best, odds)
    assert tuned.threshold == 4.0  # between the odds of two questions
    assert tuned.f1 == tuned.exact == pytest.approx(100.0)


def test_threshold_where_answering_nothing_is_best():
    """And where questions of the same odds are right and wrong."""
    data = scored({"a": [], "b": [], "c": ["z"]})
    best = {"a": "x", "b": "y", "c": "q"}
    tuned = squad_scores.tune(data, best, {"a": -5.0, "b": -4.0, "c": -3.0})
    assert tuned.threshold == -6.0
    assert tuned.f1 == pytest.approx(200 / 3)
    data = scored({"a": ["x"], "b": [], "c": ["z"]})
    best = {"a": "x", "b": "y", "c": "z"}
    tuned = squad_scores.tune(data, best, {"a": -5.0, "b": -5.0, "c": 9.0})
    assert tuned.threshold == 10.0 and tuned.f1 == pytest.approx(200 / 3)


def test_nothing_to_score(caplog):
    data = squad_data.SquadData([], [squad_data.SquadExample("a", "?", 0)])
    with pytest.raises(UserError, match="has no answers"):
        squad_scores.score(data, {"a": "x"}, False)
    with pytest.raises(UserError, match="no question of the file"):
        squad_scores.score(scored({"a": ["x"]}), {"b": "x"}, False)
    squad_scores.score(scored({"a": ["x"], "b": ["y"]}), {"a": "x"}, True)
    assert "1 of 2 questions have no prediction" in caplog.text


def test_nbest_lists_of_several_runs():
    def run(**shares: float) -> squad_decoding.Decoded:
        found = [
            squad_decoding.Candidate(text, share, share, 0.0)
            for text, share in shares.items()
        ]
        return squad_decoding.Decoded({"a": found}, {"a": shares["x"]})

    both = squad_decoding.combine([run(x=0.6, y=0.4), run(x=0.2, z=0.8)], 20)
    texts = [(c.text, round(c.probability, 6)) for c in both.nbest["a"]]
    assert texts == [("x", 0.4), ("z", 0.4), ("y", 0.2)]
    assert both.nbest["a"][0].start_logit == 0.6
    assert both.null_odds["a"] == pytest.approx(0.4)
    # A run that found nothing has no say, and lists are cut.
    null = squad_decoding.Candidate("", 1.0, 0.0, 0.0)
    silent = squad_decoding.Decoded(
        {"a": [null]}, {"a": squad_decoding.NOTHING_BUT_NULL}
    )
    some = squad_decoding.combine([run(x=0.6, y=0.4), silent], 1)
    assert [c.text for c in some.nbest["a"]] == ["x"]
    assert some.null_odds["a"] == pytest.approx(0.6)
    none = squad_decoding.combine([silent, silent], 20)
    assert none.answers() == {"a": ""}


def test_answers_that_say_nothing(tmp_path, caplog):
    """No text is no answer; a control character parts no words."""
    value = squad(
        (
            "one two",
            [question("a", "?", ("", 0)), question("b", "?", ("two", 4))],
        ),
        ("x a\x0cb", [question("c", "?", ("a\x0cb", 2))]),
    )
    data = squad_data.read_squad([write(tmp_path, value)], True, False)
    assert [example.qas_id for example in data.examples] == ["b", "c"]
    assert "1 questions are left out" in caplog.text


def test_an_impossible_question_with_answers_counts_as_officially(tmp_path):
    qas = [question("a", "?", ("one", 0), is_impossible=True)]
    path = write(tmp_path, squad(("one", qas)))
    data = squad_data.read_squad([path], False, True)
    found = squad_scores.score(data, {"a": "one"}, True)
    assert found["HasAns_total"] == 1 and "NoAns_total" not in found
    trained = squad_data.read_squad([path], True, True)
    assert trained.examples[0].start_position == -1
