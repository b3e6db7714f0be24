"""The model card: what is known is in it, what is unknown is left out."""

import json

import modeling
from checkpoints import model_card
from checkpoints.model import Checkpoint

CONFIG = modeling.BertConfig(vocab_size=30522)

RUN = {
    "adjustable": {
        "init_checkpoint": f"hf://google-bert/bert-base-cased@{'0' * 40}"
    },
    "fixed": {},
}

CARD = """---
base_model: google-bert/bert-base-cased
library_name: transformers
tags:
- bert
---

# mine

A BERT, `BertForSequenceClassification` in transformers: 12 layers of 768 units, 12 heads, 30,522 word pieces. Its weights began as those of `google-bert/bert-base-cased`.

## Scores

On the evaluation data of the run:

| score | value |
|---|---|
| accuracy | 0.5 |
| degenerate | 1 |

The run failed: it has learned next to nothing.

## Licence and limits

Not stated yet. The author of the model adds `license` and `language` to the block at the top of this file, and says here what text it was trained on and what it should not be used for.
"""  # noqa: E501


def card(prefix, architecture: str) -> str:
    return model_card.make(
        "mine", Checkpoint(str(prefix), CONFIG), architecture
    )


def test_the_whole_card(tmp_path):
    (tmp_path / "training_config.json").write_text(json.dumps(RUN))
    (tmp_path / "bert_model.ckpt.index").write_bytes(b"")
    scores = "accuracy = 0.5\neval_accuracy = 0.5\ndegenerate = 1\n"
    (tmp_path / "eval_results.txt").write_text(scores)
    prefix = tmp_path / "bert_model.ckpt"
    assert card(prefix, "BertForSequenceClassification") == CARD


def test_what_is_unknown_is_left_out(tmp_path):
    text = card(tmp_path, "BertModel")
    for words in ("base_model", "Scores", "None"):
        assert words not in text
    place = tmp_path / "models--a--b" / "snapshots" / "abc"
    text = card(place, "BertForMaskedLM")
    assert "base_model: a/b\n" in text


def test_a_model_in_a_folder_is_named_and_scores_have_four_digits(tmp_path):
    run = {"adjustable": {"init_checkpoint": "authors"}, "fixed": {}}
    (tmp_path / "training_config.json").write_text(json.dumps(run))
    (tmp_path / "bert_model.ckpt.index").write_bytes(b"")
    scores = "global_step = 1234567\nloss = 0.79166666\n"
    (tmp_path / "eval_results.txt").write_text(scores)
    text = card(tmp_path / "bert_model.ckpt", "BertModel")
    assert "began as those of `authors`." in text and "base_model" not in text
    assert "| global_step | 1234567 |\n| loss | 0.7917 |" in text


def test_a_card_that_exists_is_kept(tmp_path):
    (tmp_path / "README.md").write_text("Mine.")
    found = Checkpoint(str(tmp_path), CONFIG)
    model_card.write(str(tmp_path), found, "BertModel")
    assert (tmp_path / "README.md").read_text() == "Mine."
