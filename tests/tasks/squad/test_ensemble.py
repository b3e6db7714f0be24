"""Several runs together."""

from base.errors import UserError

import pytest
import squad_files

from tasks.squad import answers as squad_answers
from tasks.squad import data as squad_data
from tasks.squad import decoding as squad_decoding
from tasks.squad import ensemble as squad_ensemble


def test_nbest_lists_of_several_runs():
    def run(**shares: float) -> squad_decoding.Decoded:
        found = [
            squad_decoding.Candidate(text, share, share, 0.0)
            for text, share in shares.items()
        ]
        return squad_decoding.Decoded({"a": found}, {"a": shares["x"]})

    both = squad_ensemble.combine([run(x=0.6, y=0.4), run(x=0.2, z=0.8)], 20)
    texts = [(c.text, round(c.probability, 6)) for c in both.nbest["a"]]
    assert texts == [("x", 0.4), ("z", 0.4), ("y", 0.2)]
    assert both.nbest["a"][0].start_logit == 0.6
    assert both.null_odds["a"] == pytest.approx(0.4)
    # A run that found nothing has no say, and lists are cut.
    null = squad_decoding.Candidate("", 1.0, 0.0, 0.0)
    silent = squad_decoding.Decoded(
        {"a": [null]}, {"a": squad_decoding.NOTHING_BUT_NULL}
    )
    some = squad_ensemble.combine([run(x=0.6, y=0.4), silent], 1)
    assert [c.text for c in some.nbest["a"]] == ["x"]
    assert some.null_odds["a"] == pytest.approx(0.6)
    none = squad_ensemble.combine([silent, silent], 20)
    assert none.chosen()["a"].text == ""


def test_lists_are_read_as_they_were_written(tokenizer, tmp_path):
    """Those of the questions asked for; others are an error."""
    decoded = squad_files.golden_decoded("v2", tokenizer, tmp_path)
    data = squad_data.read_squad([str(tmp_path / "input.json")], False, True)
    nbest = squad_answers.nbest_json(decoded.nbest)
    squad_files.write(tmp_path, nbest, squad_answers.NBEST)
    squad_files.write(tmp_path, decoded.null_odds, squad_answers.NULL_ODDS)
    few = data._replace(examples=data.examples[:20])
    found = squad_ensemble.read_lists(str(tmp_path), few)
    for example in few.examples:
        wanted = [
            candidate._replace(span=None)  # the file has no spans
            for candidate in decoded.nbest[example.qas_id]
        ]
        assert found.nbest[example.qas_id] == wanted
        odds = decoded.null_odds[example.qas_id]
        assert found.null_odds[example.qas_id] == odds
    assert len(found.nbest) == 20
    asked = data._replace(examples=data.examples[:1], is_version_2=False)
    key = data.examples[0].qas_id
    for value, words in (
        ({key: [{"text": "a"}]}, "is not one"),
        ({key: "text"}, f"question {key} has str, wanted list"),
        ({"other": []}, f"lacks question {key}"),
    ):
        squad_files.write(tmp_path, value, squad_answers.NBEST)
        with pytest.raises(UserError, match=words):
            squad_ensemble.read_lists(str(tmp_path), asked)


def test_a_folder_with_two_names_is_one(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "a")
    folders = [str(tmp_path / "a"), str(tmp_path / "b")]
    unused = str(tmp_path / "c")
    squad_ensemble.check_folders(folders, unused)
    for other in ("a/", "b/../a", "link"):
        other = f"{tmp_path}/{other}"
        with pytest.raises(UserError, match="is one of --ensemble_dirs"):
            squad_ensemble.check_folders(folders, other)
        with pytest.raises(UserError, match=r"names '.*' twice"):
            squad_ensemble.check_folders([*folders, other], unused)
