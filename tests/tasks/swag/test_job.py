"""swag/job.py: a row for every choice, whole questions, wrong choices."""

import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
from task_settings import settings_of

from records import tfrecord
from tasks import job as tasks_job
from tasks.swag import job

VOCAB = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *"abcdefgh"]


def write_questions(path: Path, questions: list[dict]) -> None:
    path.write_text("".join(json.dumps(q) + "\n" for q in questions))


def create_job(tmp_path: Path, length: int = 12) -> job.SwagJob:
    """Return a job whose train.jsonl has been written before."""
    vocab_file = tmp_path / "vocab.txt"
    vocab_file.write_text("\n".join(VOCAB) + "\n")
    settings = SimpleNamespace(
        records_dir=str(tmp_path),
        output_dir=str(tmp_path / "out"),
        pad_to_max_length=False,
        do_train=True,
        do_eval=False,
        do_predict=False,
        eval_steps=0,
        is_rate_given=True,
    )
    source = settings_of(
        "multiple_choice",
        str(vocab_file),
        config=SimpleNamespace(
            vocab_size=len(VOCAB),
            max_position_embeddings=512,
            hidden_size=768,
        ),
        max_seq_length=length,
    ).checkpoint
    return job.SwagJob(settings, source, str(tmp_path))


def test_a_row_for_every_choice(tmp_path, monkeypatch):
    """Sentence A the context, B start and choice, one after the other."""
    monkeypatch.setattr(tasks_job, "_PART", 4)  # several parts
    lines = [
        {"context": "a b", "start": "c", "choices": ["d", "e f"], "label": 1},
        {"context": "a", "choices": ["h " * 20, "g"], "label": 0},
        {"context": "a b c d e f g h", "choices": ["a b c d", "h"], "label": 1},
    ]
    write_questions(tmp_path / "train.jsonl", lines)
    found = create_job(tmp_path).learned().data
    assert (found.num_examples, found.group) == (3, 2)
    wanted = [
        "[CLS] a b [SEP] c d [SEP]",
        "[CLS] a b [SEP] c e f [SEP]",
        "[CLS] a [SEP]" + " h" * 8 + " [SEP]",
        "[CLS] a [SEP] g [SEP]",
        "[CLS] a b c d e [SEP] a b c d [SEP]",
        "[CLS] a b c d e f g h [SEP] h [SEP]",
    ]
    examples = [
        tfrecord.decode_example(record)
        for record in tfrecord.read_records(str(tmp_path / "train.tf_record"))
    ]
    assert [int(e["label_ids"][0]) for e in examples] == [1, 1, 0, 0, 1, 1]
    for example, text in zip(examples, wanted, strict=True):
        ids = [VOCAB.index(token) for token in text.split()]
        padding = [0] * (12 - len(ids))
        assert example["input_ids"].tolist() == ids + padding
        mask = [1] * len(ids) + padding
        assert example["input_mask"].tolist() == mask
        second = ids.index(3) + 1
        segments = [0] * second + [1] * (len(ids) - second) + padding
        assert example["segment_ids"].tolist() == segments


def test_batches_hold_whole_questions(tmp_path):
    """[B, C, S]: a question's choices together, in order, with its label."""
    rng = np.random.default_rng(0)
    questions = []
    for number in range(40):
        choices = ["a " * rng.integers(1, 20) + VOCAB[4 + c] for c in range(3)]
        label = int(rng.integers(3))
        context = "b " * (number % 7 + 1)
        questions.append(
            {"context": context, "choices": choices, "label": label}
        )
    write_questions(tmp_path / "train.jsonl", questions)
    found = create_job(tmp_path, 32).learned().data
    batches = found.training(5, seed=1, is_fine=True)
    seen = []
    for step in range(8):
        batch, chosen = batches.batch(step), batches.plan.batch(step)
        length = batches.length(step)
        assert batch["input_ids"].shape == (5, 3, length)
        assert batch["label_ids"].shape == (5, 3)
        longest = 0
        for place, number in enumerate(chosen):
            question = questions[number]
            assert (batch["label_ids"][place] == question["label"]).all()
            for choice in range(3):
                ids = batch["input_ids"][place, choice]
                count = batch["input_mask"][place, choice].sum()
                longest = max(longest, count)
                assert VOCAB[ids[count - 2]] == VOCAB[4 + choice]
                assert (ids == 5).sum() == number % 7 + 1 + (choice == 1)
        assert length - 8 < longest <= length
        seen += chosen.tolist()
    assert len(seen) == 40  # within a window some come twice, see Plan
