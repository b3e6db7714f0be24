"""Scores of sentences are those of a loop by hand: one row for each token."""

import re
from pathlib import Path

import by_hand
import exports
import mask_models
import numpy as np
import prediction_runs
import pytest
import scripts
import tensorflow as tf
import tiny
from marks import nightly

from tasks.masked_lm import model as sentence_model

fill_mask = scripts.load("fill_mask")

# Words of pieces.
SENTENCES = [
    [["the"], ["cat", "##s", "##s"], ["sat"], ["on"], ["a"], ["mat"], ["."]],
    [["cat", "##s"]],
    [["["], ["mask"], ["mat", "##s"], ["]"], ["on"], ["on", "##s"], ["."]],
    [["a"], ["mat"], ["sat"]],
    [["."]],
]
TEXTS = [
    " ".join("".join(word).replace("##", "") for word in words)
    for words in SENTENCES
]


@pytest.fixture(scope="module")
def model_dir(tmp_path_factory) -> Path:
    return mask_models.write_model(tmp_path_factory.mktemp("model"))


@pytest.fixture
def lines(tmp_path) -> Path:
    rows = [{"id": n, "text": text} for n, text in enumerate(TEXTS)]
    return prediction_runs.write_lines(tmp_path / "in.jsonl", rows)


def by_loop(model_dir: Path, whole_words: bool) -> list[dict]:
    """Return the predictions of SENTENCES with those of their tokens."""
    model, found = by_hand.Model(model_dir), []
    for words in SENTENCES:
        tokens = ["[CLS]", *sum(words, []), "[SEP]"]
        sizes = [1] * (len(tokens) - 2)
        if whole_words:
            sizes = [len(word) for word in words]
        scores, start = [], 1
        for size in sizes:
            places = range(start, start + size)
            masked = list(tokens)
            for place in places:
                masked[place] = "[MASK]"
            log_probs = model.log_probs(masked)
            scores += [
                log_probs[place, model.vocab.index(tokens[place])]
                for place in places
            ]
            start += size
        total = float(np.sum(scores))
        found.append(
            {
                "id": len(found),
                "score": total,
                "num_tokens": len(scores),
                "perplexity": float(np.exp(-total / len(scores))),
                "tokens": tokens[1:-1],
                "token_scores": [float(score) for score in scores],
            }
        )
    return found


def of_all(wanted: list[dict]) -> float:
    """Return the perplexity of all sentences."""
    return np.exp(-np.mean(sum((one["token_scores"] for one in wanted), [])))


def check_same(found: list[dict], wanted: list[dict]) -> None:
    """Check numbers to 1e-5 of them, which float32 sums of ten terms have."""
    for one, other in zip(found, wanted, strict=True):
        assert list(one) == list(other)
        for name, value in other.items():
            if name in ("tokens", "id", "num_tokens"):
                assert one[name] == value
            else:
                np.testing.assert_allclose(one[name], value, 1e-5, 1e-5)


@pytest.mark.parametrize(
    "whole_words, batch_size, step_tokens",
    [(True, 2, 40), nightly(False, 32, 4096), nightly(False, 1, 1)],
)
def test_scores_by_hand(
    model_dir,
    lines,
    tmp_path,
    monkeypatch,
    caplog,
    whole_words,
    batch_size,
    step_tokens,
):
    """In batches of any size, and steps of any number of rows."""
    monkeypatch.setattr(sentence_model, "_STEP_TOKENS", step_tokens)
    wanted = by_loop(model_dir, whole_words)
    with caplog.at_level("INFO"):
        found = prediction_runs.predict(
            *(model_dir, lines, tmp_path / "out"),
            task="sentence_score",
            score_whole_words=whole_words,
            token_scores=True,
            batch_size=batch_size,
        )
    check_same(found, wanted)
    # Printed with four decimals; the last one depends on the processor.
    printed = re.search(r"perplexity (\S+), of 24 tokens", caplog.text)
    assert float(printed[1]) == pytest.approx(of_all(wanted), rel=1e-5)
    assert "tokens/s" in caplog.text


@pytest.mark.nightly
def test_a_saved_model_gives_the_same(model_dir, lines, tmp_path):
    """For strings, and on Beam."""
    pytest.importorskip("apache_beam")
    flags = {"task": "sentence_score", "score_whole_words": True}
    saved = exports.export(model_dir, tmp_path / "1", **flags)
    wanted = by_loop(model_dir, True)
    signature = tf.saved_model.load(str(saved)).signatures["serving_default"]
    outputs = signature(text=tf.constant(TEXTS))
    for name in ("score", "num_tokens", "perplexity"):
        np.testing.assert_allclose(
            outputs[name], [one[name] for one in wanted], 1e-5
        )
    found = prediction_runs.predict(
        *(saved, lines, tmp_path / "out"),
        token_scores=True,
        runner="beam",
        beam_options="--runner=BundleBasedDirectRunner",
    )
    check_same(found, wanted)
    line = scripts.error_of(
        prediction_runs.batch_predict,
        model=saved,
        input_file=lines,
        output_dir=tmp_path / "other",
        score_whole_words=False,
    )
    assert "--score_whole_words is for checkpoints" in line


def test_what_is_printed(model_dir, tmp_path, capsys):
    (tmp_path / "in.txt").write_text("\n".join(TEXTS))
    scripts.run(
        fill_mask,
        init_checkpoint=model_dir,
        input_file=tmp_path / "in.txt",
        score=True,
        token_scores=True,
        score_whole_words=True,
    )
    wanted = by_loop(model_dir, True)
    *lines, total = capsys.readouterr().out.splitlines()
    assert lines[::3] == TEXTS
    for line, one in zip(lines[1::3], wanted, strict=True):
        assert line == (
            f"    perplexity {one['perplexity']:.2f}, "
            f"score {one['score']:.2f} of {one['num_tokens']} tokens"
        )
    for line, one in zip(lines[2::3], wanted, strict=True):
        pairs = zip(one["tokens"], one["token_scores"], strict=True)
        assert line.strip() == ", ".join(f"{t} {x:.2f}" for t, x in pairs)
    assert total.startswith(f"5 sentences: perplexity {of_all(wanted):.2f}, ")


def test_inputs_that_have_no_score(model_dir, tmp_path):
    """Each is named; the others have a score."""
    texts = ["the cat", "the [MASK] sat", "the " * 11, "\u200b"]
    lines = prediction_runs.write_lines(
        tmp_path / "in.jsonl", [{"text": text} for text in texts]
    )
    out = tmp_path / "out"
    flags = {"task": "sentence_score"}
    found = prediction_runs.predict(model_dir, lines, out, **flags)
    is_scored = [line["score"] is not None for line in found]
    assert is_scored == [True, False, False, False]
    reasons = [one["reason"] for one in prediction_runs.problems(out)]
    words = ("[MASK] in the text", "13 tokens, more than", "text is empty")
    for reason, word in zip(reasons, words, strict=True):
        assert word in reason
    tiny.write_examples(
        tmp_path / "records",
        [{name: [1] for name in ("input_ids", "input_mask", "segment_ids")}],
    )
    line = scripts.error_of(
        prediction_runs.batch_predict,
        model=model_dir,
        input_file=tmp_path / "records",
        output_dir=tmp_path / "other",
        **flags,
    )
    assert "a record may have masks" in line
