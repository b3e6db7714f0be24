"""Masks that are drawn while unmasked records are read."""

import json
from pathlib import Path

import corpora
import numpy as np
import packed_batches
import pretraining_runs
import pytest
import scripts
import tensorflow as tf
import tiny
from marks import nightly
from scipy import stats

import modeling
from pretraining import records
from pretraining.data import masking, packing
from pretraining.data.schema import InstanceConfig
from pretraining.on_the_fly import Masks
from tokenization import Vocabulary

create_pretraining_data = scripts.load("create_pretraining_data")
run_pretraining = scripts.load("run_pretraining")

LENGTH, VOCABULARY = packed_batches.LENGTH, packed_batches.vocabulary_of()


def features_of(lengths: np.ndarray) -> dict[str, np.ndarray]:
    """Unmasked records of these lengths, each token the number of its place."""
    rng = np.random.default_rng(0)
    drawn = packed_batches.instances_of(lengths, rng)
    sequences = masking.assemble(
        packed_batches.ids_of(rng), drawn, LENGTH, VOCABULARY
    )
    found = masking.unmasked_features(sequences)
    # As records are read.
    return {name: value.astype(np.int32) for name, value in found.items()}


def is_likely(counts: np.ndarray, shares: np.ndarray | None = None) -> bool:
    """Whether counts fit the shares, equal by default, by chi-squared."""
    wanted = None if shares is None else shares * counts.sum()
    return stats.chisquare(counts, wanted).pvalue > 1e-4


@pytest.mark.slow
@pytest.mark.parametrize("whole_words", [True, nightly(False)])
def test_a_million_draws_are_distributed_as_the_generators(whole_words):
    """Places, replacements and random tokens; of one record, in many epochs."""
    config = packed_batches.config_of(
        pack_sequences=False, do_whole_word_mask=whole_words
    )
    vocabulary = packed_batches.vocabulary_of((7, 8, 9, 20, 21))
    one = features_of(np.array([LENGTH]))
    many = {k: np.repeat(v, 200_000, axis=0) for k, v in one.items()}
    ours = Masks(vocabulary, config).draw(many, np.arange(200_000), 3)
    length = np.full(200_000, LENGTH)
    a_length = length - many["segment_ids"].sum(axis=1) - 2
    theirs = masking.mask_sequences(
        masking.Sequences(
            many["input_ids"].copy(),
            a_length,
            length,
            many["next_sentence_labels"],
        ),
        config,
        vocabulary,
        masking.StreamDraws(np.random.default_rng(4)),
    )
    tables = []
    for found in (ours, theirs):
        used = found["masked_lm_weights"] > 0
        places = found["masked_lm_positions"][used]
        labels = found["masked_lm_ids"][used]
        assert (labels == one["input_ids"][0][places]).all()
        shown = np.take_along_axis(
            found["input_ids"], found["masked_lm_positions"], axis=1
        )[used]
        kinds = np.where(shown == vocabulary.mask_id, 0, 1 + (shown == labels))
        is_random = kinds == 1
        tables.append(
            [
                np.bincount(places, minlength=LENGTH),
                np.bincount(kinds, minlength=3),
                np.bincount(shown[is_random], minlength=50),
                np.bincount(used.sum(axis=1), minlength=7),
            ]
        )
        if not whole_words:
            assert used.sum() == 1_000_000
            # All but [CLS] and the two [SEP].
            taken = tables[-1][0][tables[-1][0] > 0]
            assert len(taken) == LENGTH - 3 and is_likely(taken)
        # A random token is the label itself once in 45 times.
        same = 0.1 / 45
        shares = np.array([0.8, 0.1 - same, 0.1 + same])
        assert is_likely(tables[-1][1], shares)
    for mine, other in zip(*tables, strict=True):
        both = np.stack([mine, other])[:, (mine + other) > 0]
        if both.shape[1] > 1:
            assert stats.chi2_contingency(both).pvalue > 1e-4


def test_masks_depend_on_seed_and_number_alone():
    features = features_of(np.arange(10, 30))
    masks = Masks(VOCABULARY, packed_batches.config_of(pack_sequences=False))
    numbers = np.arange(20) + 2**40
    whole = masks.draw(features, numbers, 7)
    part = masks.draw({k: v[5:9] for k, v in features.items()}, numbers[5:9], 7)
    for name, values in part.items():
        np.testing.assert_array_equal(values, whole[name][5:9])
    for changed in ((numbers + 20, 7), (numbers, 8), (numbers, None)):
        other = masks.draw(features, *changed)["masked_lm_positions"]
        same = (other == whole["masked_lm_positions"]).all(axis=1)
        assert same.mean() < 0.5


@pytest.mark.parametrize("whole_words", [False, True])
def test_packed_rows_have_the_masks_of_their_sequences(whole_words):
    lengths = np.random.default_rng(1).integers(5, LENGTH + 1, 300)
    config = packed_batches.config_of(do_whole_word_mask=whole_words)
    rng = np.random.default_rng(2)
    drawn, sizes = packing.pack(
        packed_batches.instances_of(lengths, rng), config, rng
    )
    sequences = masking.assemble(
        packed_batches.ids_of(rng), drawn, LENGTH, VOCABULARY
    )
    plain = masking.unmasked_features(sequences)
    config = packed_batches.config_of(
        unmasked=True, do_whole_word_mask=whole_words
    )
    rows = packing.pack_features(plain, sizes, config)
    masks = Masks(
        VOCABULARY, packed_batches.config_of(do_whole_word_mask=whole_words)
    )
    found = masks.draw(rows, np.arange(len(sizes)), 1)
    place = np.nonzero(found["masked_lm_weights"])
    at = place[0], found["masked_lm_positions"][place]
    restored = found["input_ids"].copy()
    restored[at] = found["masked_lm_ids"][place]
    np.testing.assert_array_equal(restored, rows["input_ids"])
    for name in ("sequence_ids", "position_ids", "next_sentence_labels"):
        np.testing.assert_array_equal(found[name], rows[name])
    # Each sequence has what it would have alone: its row has the places.
    counts = np.zeros([len(sizes), packed_batches.PACKS], int)
    np.add.at(counts, (at[0], rows["sequence_ids"][at] - 1), 1)
    budget = masking.prediction_budget(masking.sequence_lengths(drawn), config)
    counts = counts[rows["next_sentence_weights"] > 0]
    assert (counts <= budget).all() if whole_words else (counts == budget).all()


# --- Scripts -----------------------------------------------------------------


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """Unmasked records, packed and not, and masked ones; a configuration."""
    folder = tmp_path_factory.mktemp("unmasked")
    texts = ["\n".join(text) for text in corpora.manual(30)]
    (folder / "text.txt").write_text("\n\n".join(texts) + "\n")
    flags = {
        "input_file": folder / "text.txt",
        "vocab_file": corpora.VOCAB_FILE,
        "max_seq_length": 32,
        "num_workers": 1,
    }
    for name, more in (
        ("unmasked", {"unmasked": True}),
        ("packed", {"unmasked": True, "pack_sequences": True}),
        ("masked", {"dupe_factor": 1}),
    ):
        if "pack_sequences" in more:
            more["max_sequences_per_pack"] = 4
        output = folder / f"{name}.tfrecord"
        scripts.run(create_pretraining_data, output_file=output, **flags | more)
    size = len(Path(corpora.VOCAB_FILE).read_text().splitlines())
    config = pretraining_runs.CONFIG | {"vocab_size": size}
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def flags_for(folder: Path, name: str, out: Path, **changes) -> dict:
    flags = pretraining_runs.flags_for(folder, out, **changes)
    flags |= {"input_file": folder / f"{name}.tfrecord", "max_seq_length": 32}
    return flags | {"vocab_file": corpora.VOCAB_FILE, **changes}


def test_unmasked_records_are_smaller(folder):
    """Than one pass over the text with masks."""
    size = (folder / "unmasked.tfrecord").stat().st_size
    assert size < 0.8 * (folder / "masked.tfrecord").stat().st_size


@pytest.mark.nightly
@pytest.mark.parametrize("name", ["unmasked", "packed"])
def test_killed_and_resumed_the_same_bits(folder, tmp_path, name, caplog):
    done, steps = 2, 4
    flags = flags_for(folder, name, tmp_path / "whole", num_train_steps=steps)
    assert scripts.run(run_pretraining, **flags) == 0
    flags["output_dir"] = tmp_path / "parts"
    flags["stop_after_steps"] = done
    assert scripts.run(run_pretraining, **flags) == 0
    del flags["stop_after_steps"]
    assert scripts.run(run_pretraining, **flags) == 0
    for prefix in (f"model.ckpt-{steps}", "bert_model.ckpt"):
        parts, whole = (tmp_path / run / prefix for run in ("parts", "whole"))
        tiny.check_same_bits(parts, whole)
    line = scripts.error_of(run_pretraining, **flags | {"mask_token_prob": 0.7})
    assert "belongs to a run with masking" in line
    # A command that only scores has the masks and the records of its flags.
    flags |= {"do_train": False, "do_eval": True}
    assert scripts.run(run_pretraining, **flags) == 0
    assert "evaluation files are training files too" in caplog.text
    assert "The run drew its masks with" not in caplog.text
    assert scripts.run(run_pretraining, **flags | {"masked_lm_prob": 0.1}) == 0
    assert "{'masked_lm_prob': 0.15}, not {'masked_lm_prob': 0" in caplog.text


def test_the_predictions_of_packed_rows_may_not_change(folder):
    """A row has as many places for 5 predictions as for 3."""
    config = modeling.BertConfig.from_json_file(str(folder / "config.json"))
    found = []
    for most in (5, 3):
        files = [str(folder / "packed.tfrecord")]
        data = records.find_data(
            files,
            config,
            InstanceConfig(32, most),
            Vocabulary(corpora.VOCAB_FILE),
        ).describe()
        found.append(data["masking"]["max_predictions_per_seq"])
        places = data["packing"]["predictions_per_row"]
    assert found == [5, 3] and places == 5


@pytest.mark.parametrize("name", ["unmasked", nightly("packed")])
def test_workers_and_epochs(folder, name):
    """Two workers have the halves of one; every evaluation is the same.

    Epochs of training have the same text, and masks of their own.
    """
    config = modeling.BertConfig.from_json_file(str(folder / "config.json"))
    files = [str(folder / f"{name}.tfrecord")]
    data = records.find_data(
        files, config, InstanceConfig(32, 5), Vocabulary(corpora.VOCAB_FILE)
    )
    one = tf.distribute.InputContext(1, 0, 1)
    (whole,) = data.training(8, 1, 16, one).take(1)
    for worker in (0, 1):
        context = tf.distribute.InputContext(2, worker, 2)
        (half,) = data.training(8, 1, 16, context).take(1)
        for key, value in half.items():
            part = whole[key][4 * worker : 4 * worker + 4]
            np.testing.assert_array_equal(value, part)
    batches = data.evaluation(8, 10**6, one)
    seen = sum(float(tf.reduce_sum(b["example_weights"])) for b in batches)
    assert seen == data.num_records
    first, again = (list(data.evaluation(8, 3, one)) for _ in range(2))
    for batch, other in zip(first, again, strict=True):
        for key, value in batch.items():
            np.testing.assert_array_equal(value, other[key])
    shown = []  # of each epoch: text -> what is shown of it
    for epoch in data.training(data.num_records, 1, 16, one).take(2):
        batch = {key: value.numpy() for key, value in epoch.items()}
        used = batch["masked_lm_weights"] > 0
        rows, _ = np.nonzero(used)
        places = batch["masked_lm_positions"][used]
        texts = batch["input_ids"].copy()
        texts[rows, places] = batch["masked_lm_ids"][used]
        rows = zip(texts, batch["input_ids"], strict=True)
        shown.append({text.tobytes(): row.tobytes() for text, row in rows})
    both = shown[0].keys() & shown[1].keys()
    assert len(both) > data.num_records / 2
    same = sum(shown[0][text] == shown[1][text] for text in both)
    assert same < len(both) / 10


def test_mistakes(folder, tmp_path):
    flags = flags_for(folder, "unmasked", tmp_path / "out")
    for changes, words in (
        ({"vocab_file": None}, "--vocab_file"),
        ({"random_token_prob": 0.5}, "add up to 1.3"),
        ({"input_file": f"{folder}/*masked.tfrecord"}, "without masks (--unm"),
        (
            {"input_file": folder / "masked.tfrecord", "masked_lm_prob": 0.2}
            | {"max_predictions_per_seq": 20},
            "--masked_lm_prob is for records without masks",
        ),
    ):
        assert words in scripts.error_of(run_pretraining, **flags | changes)
    line = scripts.error_of(
        create_pretraining_data,
        input_file=folder / "text.txt",
        output_file=tmp_path / "x",
        vocab_file=corpora.VOCAB_FILE,
        unmasked=True,
        masked_lm_prob=0.2,
    )
    assert "--unmasked or --masked_lm_prob, not both" in line
