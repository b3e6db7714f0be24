"""Word pieces of a row are the model's input; what is cut is known."""

from base.errors import UserError

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tools.page import rows

WORDS = st.lists(st.sampled_from("good bad film nofilm the. <x>".split()))


@given(WORDS.map(" ".join), WORDS.map(" ".join))
def test_a_row_is_that_of_the_scripts(model_of, text_a, text_b):
    """Also where texts are cut: the row of tasks/rows.py."""
    model = model_of("pairs")
    if not text_a:
        return
    pieces = rows.pieces_of(model, text_a, text_b)
    wanted, left_out = model.task.row(text_a, text_b)
    row = rows.row_of(pieces)
    assert row.input_ids.tolist() == wanted.input_ids.tolist()
    assert row.segment_ids.tolist() == wanted.segment_ids.tolist()
    assert any(piece.is_cut for piece in pieces) == (left_out > 0)


def test_pieces_by_hand(model_of):
    pieces = rows.pieces_of(model_of("pairs"), "good x", "bad")
    assert [piece.token for piece in pieces] == [
        *("[CLS]", "good", "[UNK]", "[SEP]", "bad", "[SEP]")
    ]
    assert [piece.segment for piece in pieces] == [0, 0, 0, 0, 1, 1]


def test_what_a_row_of_24_has_no_place_for(model_of):
    """21 places for two texts of 20 and 4 pieces: 17 and 4."""
    pieces = rows.pieces_of(model_of("pairs"), "good " * 20, "bad " * 4)
    cut = [place for place, piece in enumerate(pieces) if piece.is_cut]
    assert cut == [18, 19, 20]
    assert len(rows.row_of(pieces).input_ids) == 24


def test_a_mask_is_one_token_of_a_masked_lm(model_of):
    found = [
        [piece.token for piece in rows.pieces_of(model_of(kind), "a [MASK]")]
        for kind in ("masked_lm", "classifier")
    ]
    assert found[0] == ["[CLS]", "a", "[MASK]", "[SEP]"]
    assert found[1] == ["[CLS]", "a", *["[UNK]"] * 3, "[SEP]"]


@pytest.mark.parametrize("text", ["", " \n"])
def test_no_text(model_of, text):
    with pytest.raises(UserError, match="empty"):
        rows.pieces_of(model_of("classifier"), text)
