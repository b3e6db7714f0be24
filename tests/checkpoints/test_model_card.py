"""The model card: what is known is in it, what is unknown is left out."""

import json

import pytest

import modeling
from checkpoints import model_card
from checkpoints.model import Checkpoint
from checkpoints.trained_for import TrainedFor

CONFIG = modeling.BertConfig(vocab_size=30522)

RUN = {
    "adjustable": {
        "init_checkpoint": f"hf://google-bert/bert-base-cased@{'0' * 40}",
        "learning_rate": 5e-05,
        "bias_correction": False,
        "jit_compile": True,
    },
    "fixed": {
        "data": {"max_seq_length": 64, "data": "c227", "do_lower_case": False},
        "model": {"hidden_size": 16},
        "random_seed": 7,
        "reinit_top_layers": None,
    },
}

CARD = """---
base_model: google-bert/bert-base-cased
library_name: transformers
pipeline_tag: text-classification
tags:
- bert
---

# mine

BERT for the classification of sentences or pairs of sentences: 12 layers of 768 units, 12 heads, 30,522 word pieces. It was fine-tuned with sequences of 64 tokens. Its weights began as those of `google-bert/bert-base-cased`.

## Labels

    0  no
    2  yes
    10  b|d

## Scores

On the evaluation data of the run:

| score | value |
|---|---|
| accuracy | 0.5 |
| degenerate | 1 |

The run failed: its answers depend little on the input.

## Training

By `run_classifier.py` with these flags; those that name data and directories are left out:

    python run_classifier.py --do_train \\
        --nobias_correction \\
        --nodo_lower_case \\
        --init_checkpoint=hf://google-bert/bert-base-cased@0000000000000000000000000000000000000000 \\
        --learning_rate=5e-05 \\
        --max_seq_length=64 \\
        --random_seed=7

## Use

```python
from transformers import AutoTokenizer, BertForSequenceClassification

tokenizer = AutoTokenizer.from_pretrained("mine")
model = BertForSequenceClassification.from_pretrained("mine")
```

## Licence and limits

Not stated yet. The author of the model adds `license` and `language` to the block at the top of this file, and says here what text it was trained on and what it should not be used for.
"""  # noqa: E501


def card(prefix, architecture: str) -> str:
    return model_card.make(
        "mine", Checkpoint(str(prefix), CONFIG), architecture
    )


@pytest.fixture
def run(tmp_path) -> str:
    """The prefix of a fine-tuned model with scores and settings."""
    (tmp_path / "training_config.json").write_text(json.dumps(RUN))
    scores = "accuracy = 0.5\ndegenerate = 1\n"
    (tmp_path / "eval_results.txt").write_text(scores)
    return str(tmp_path / "bert_model.ckpt")


def test_the_whole_card(run):
    trained_for = TrainedFor(
        id2label={"0": "no", "10": "b|d", "2": "yes"}, max_seq_length=64
    )
    name = "BertForSequenceClassification"
    found = Checkpoint(run, CONFIG, trained_for)
    assert model_card.make("mine", found, name) == CARD


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        (
            "/home/me/uncased_L-2_H-128_A-2/bert_model.ckpt",
            "uncased_L-2_H-128_A-2",
        ),
        ("../models/mine/", "mine"),
        ("model.ckpt-9", "model.ckpt-9"),
    ],
)
def test_folders_of_the_machine_are_not_shown(tmp_path, path, shown):
    run = {"adjustable": {"init_checkpoint": path}, "fixed": {}}
    (tmp_path / "training_config.json").write_text(json.dumps(run))
    text = card(tmp_path / "x", "BertModel")
    assert f"--init_checkpoint={shown}\n" in text


def test_what_is_unknown_is_left_out(tmp_path):
    text = card(tmp_path, "BertModel")
    for words in ("base_model", "Labels", "Scores", "Training", "None"):
        assert words not in text
    assert "pipeline_tag: feature-extraction" in text
    place = tmp_path / "models--a--b" / "snapshots" / "abc"
    text = card(place, "BertForMaskedLM")
    assert "base_model: a/b\n" in text


def test_a_card_that_exists_is_kept(tmp_path):
    (tmp_path / "README.md").write_text("Mine.")
    found = Checkpoint(str(tmp_path), CONFIG)
    model_card.write(str(tmp_path), found, "BertModel")
    assert (tmp_path / "README.md").read_text() == "Mine."
