"""What the original's other scripts define: SQuAD, instances, features."""

import collections
import dataclasses
import functools
import gzip
import json
import random

from base.errors import UserError

import numpy as np
import pytest
import scripts
import small_models
import squad_files
import tensorflow as tf
from absl import flags
from paths import GOLDEN

import tokenization
from compat import run_squad as squad
from pretraining.data.schema import schema
from records import tfrecord

v1 = tf.compat.v1


@pytest.fixture(scope="module")
def tokenizer():
    return tokenization.FullTokenizer(str(GOLDEN / "vocab" / "uncased.txt"))


@pytest.fixture
def is_version_2():
    """Return a function that gives run_squad's flag as its process has it."""
    yield lambda value: flags.DEFINE_bool(
        "version_2_with_negative", value, "", allow_override=True
    )
    if "version_2_with_negative" in flags.FLAGS:
        delattr(flags.FLAGS, "version_2_with_negative")


# --- SQuAD -------------------------------------------------------------------


def features_of(version, tokenizer, folder, is_training):
    """Return the examples and features of the golden file of a version."""
    path = squad_files.golden_file(version, folder)
    examples = squad.read_squad_examples(path, is_training)
    found = []
    squad.convert_examples_to_features(
        examples,
        tokenizer,
        *dataclasses.astuple(squad_files.GOLDEN_LENGTHS[version]),
        is_training,
        found.append,
    )
    return examples, found


@pytest.mark.parametrize("version", ["v1", "v2"])
@pytest.mark.parametrize("kind", ["train", "predict"])
def test_squad_features_are_the_originals(
    version, kind, tokenizer, tmp_path, is_version_2
):
    is_version_2(version == "v2")
    is_training = kind == "train"
    _, found = features_of(version, tokenizer, tmp_path, is_training)
    wanted = np.load(GOLDEN / f"squad_{version}" / "features.npz")
    names = ["unique_id", "input_ids", "input_mask", "segment_ids"]
    if is_training:
        names += ["start_position", "end_position"]
    for name in names:
        stored = name if name.startswith(("input", "seg")) else f"{name}s"
        key = next(
            k for k in (f"{kind}_{name}", f"{kind}_{stored}") if k in wanted
        )
        values = np.array([getattr(x, name) for x in found])
        np.testing.assert_array_equal(values, wanted[key].squeeze())
    # A word's pieces stand where the maps say.
    features = found[5]
    for place, is_max in features.token_is_max_context.items():
        assert features.tokens[place] not in ("[CLS]", "[SEP]")
        assert isinstance(is_max, bool)
    assert features.token_to_orig_map.keys() == (
        features.token_is_max_context.keys()
    )


def test_squad_answers_are_searched_for_in_their_words(tokenizer, tmp_path):
    """As in the original, the first of several places in a word counts."""
    questions = [squad_files.question("1", "?", ("7", 12))]
    value = squad_files.content(("It  ended 7-7", questions))
    path = squad_files.write(tmp_path, value)
    (example,) = squad.read_squad_examples(path, True)
    assert (example.start_position, example.end_position) == (2, 2)
    assert example.orig_answer_text == "7"
    found = []
    squad.convert_examples_to_features(
        [example], tokenizer, 32, 16, 8, True, found.append
    )
    assert (found[0].start_position, found[0].end_position) == (5, 5)


def without_empty(text):
    """The original answers with the word "empty" where no span fits."""
    return "" if text == "empty" else text


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_squad_predictions_are_the_originals(
    version, tokenizer, tmp_path, is_version_2
):
    is_version_2(version == "v2")
    examples, found = features_of(version, tokenizer, tmp_path, False)
    folder = GOLDEN / f"squad_{version}"
    logits = np.load(folder / "logits.npz")["logits"]
    results = [
        squad.RawResult(features.unique_id, *values.tolist())
        for features, values in zip(found, logits, strict=True)
    ]
    random.Random(1).shuffle(results)
    paths = [str(tmp_path / name) for name in ("p", "n", "o")]
    write = functools.partial(squad.write_predictions, examples, found)
    write(results, 20, 30, True, *paths)
    predictions, nbest = (json.loads(open(path).read()) for path in paths[:2])
    golden = json.loads((folder / "predictions.json").read_text())
    assert predictions == {k: without_empty(v) for k, v in golden.items()}
    wanted = json.loads(
        gzip.decompress((folder / "nbest_predictions.json.gz").read_bytes())
    )
    for key, found in nbest.items():
        texts = [without_empty(c["text"]) for c in wanted[key]]
        assert [c["text"] for c in found] == texts
    if version == "v2":
        odds = json.loads((folder / "null_odds.json").read_text())
        found = json.loads((tmp_path / "o").read_text())
        assert found == pytest.approx(odds, abs=1e-4)
    with pytest.raises(UserError, match="a result for each window"):
        write(results[1:], 20, 30, True, *paths)


@pytest.mark.parametrize(
    ("pieces", "words", "wanted"),
    [
        ("steve jobs", "(Steve Jobs).", "Steve Jobs"),
        ("smith ' s", "Smith's house", "Smith's"),
        ("unknown", "Smith's house", "Smith's house"),
        ("cafe", "Le Caf\u00e9, Paris", "Caf\u00e9"),
        ("1895", "(1895-1943).", "1895"),
        ("[UNK]", "some \u2603\u2603", "some \u2603\u2603"),
        ("x", "x\ud55c", "x\ud55c"),  # 2 characters, then 4
        ("i", "\u0130stanbul", "\u0130"),
        ("a b", "x(a b)y", "a b"),
    ],
)
def test_final_text_is_cut_from_the_words(pieces, words, wanted):
    assert squad.get_final_text(pieces, words, True) == wanted


def test_squad_model_has_the_originals_variables():
    config = small_models.tiny_config()
    with tf.Graph().as_default():
        ids = v1.placeholder(tf.int32, [None, 10])
        start, end = squad.create_model(config, True, ids, ids, ids, False)
        names = [v.name for v in v1.trainable_variables()]
    assert start.shape.as_list() == end.shape.as_list() == [None, 10]
    assert names[-2:] == [
        "cls/squad/output_weights:0",
        "cls/squad/output_bias:0",
    ]


# --- Pre-training data -------------------------------------------------------


def test_a_sequence_is_masked_as_the_flags_say(tokenizer):
    data = scripts.load("create_pretraining_data")
    vocab_words = list(tokenizer.vocab)
    text = tokenizer.tokenize(
        "the quick brown fox jumps over the lazy dog " * 3
    )
    tokens = ["[CLS]", *text[:15], "[SEP]", *text[15:], "[SEP]"]
    rng = random.Random(12345)
    shown = collections.Counter()
    for _ in range(300):
        output, positions, labels = data.create_masked_lm_predictions(
            tokens, 0.15, 20, vocab_words, rng
        )
        assert len(positions) == round(len(tokens) * 0.15) == len(labels)
        assert positions == sorted(positions)
        restored = list(output)
        for place, label in zip(positions, labels, strict=True):
            masked = restored[place] == "[MASK]"
            shown["mask" if masked else restored[place] == label] += 1
            restored[place] = label
        assert restored == tokens
    total = sum(shown.values())
    assert shown["mask"] / total == pytest.approx(0.8, abs=0.05)
    assert shown[True] / total == pytest.approx(0.1, abs=0.05)
    again = [
        data.create_masked_lm_predictions(
            tokens, 0.15, 20, vocab_words, random.Random(3)
        )
        for _ in range(2)
    ]
    assert again[0] == again[1]


def test_instances_and_their_records(tokenizer, tmp_path):
    data = scripts.load("create_pretraining_data")
    for number in range(2):
        lines = [f"the {word} number {number} was here" for word in "abcdefgh"]
        text = "\n".join(lines) + "\n\n" + "\n".join(reversed(lines)) + "\n"
        (tmp_path / f"{number}.txt").write_text(text)
    files = [str(tmp_path / f"{number}.txt") for number in range(2)]
    found = data.create_training_instances(
        files, tokenizer, 32, 3, 0.1, 0.15, 5, random.Random(1)
    )
    assert {x.is_random_next for x in found} == {True, False}
    for x in found:
        assert x.tokens[0] == "[CLS]" and x.tokens[-1] == "[SEP]"
        assert len(x.tokens) == len(x.segment_ids) <= 32
        assert len(x.masked_lm_positions) == len(x.masked_lm_labels)
    outputs = [str(tmp_path / f"{n}.tf_record") for n in range(2)]
    data.write_instance_to_example_files(found, tokenizer, 32, 5, outputs)
    records = [
        list(map(tfrecord.decode_example, tfrecord.read_records(path)))
        for path in outputs
    ]
    assert [len(x) for x in records] == [-(-len(found) // 2), len(found) // 2]
    for place, x in enumerate(found):
        record = records[place % 2][place // 2]
        assert {k: len(v) for k, v in record.items()} == {
            k: feature.length for k, feature in schema(32, 5).items()
        }
        ids = tokenizer.convert_tokens_to_ids(x.tokens)
        assert record["input_ids"][: len(ids)].tolist() == ids
        assert record["masked_lm_weights"].sum() == len(x.masked_lm_labels)
        assert record["next_sentence_labels"] == [x.is_random_next]


def test_instances_of_a_document():
    """Every sentence of A is the document's; B its next, or another's."""
    data = scripts.load("create_pretraining_data")
    texts = [
        [[f"{name}{n}", f"{name}{n}x", f"##{n}"] for n in range(9)]
        for name in "abcd"
    ]
    texts.append([])
    words = [token for text in texts for line in text for token in line]
    rng = random.Random(1)
    found = []
    for _ in range(20):
        found += data.create_instances_from_document(
            texts, 1, 24, 0.1, 0.15, 3, words, rng
        )
    assert not data.create_instances_from_document(
        texts, 4, 24, 0.1, 0.15, 3, words, rng
    )
    shares = []
    for x in found:
        tokens = list(x.tokens)
        for place, label in zip(
            x.masked_lm_positions, x.masked_lm_labels, strict=True
        ):
            tokens[place] = label
        assert len(tokens) == len(x.segment_ids) <= 24
        a, b, rest = " ".join(tokens[1:]).split(" [SEP]")
        assert tokens[0] == "[CLS]" and not rest
        assert x.segment_ids.index(1) == len(a.split()) + 2
        b = b.split()
        own = [token for line in texts[1] for token in line]
        assert a.split()[0] in own
        assert (b[0] in own) != x.is_random_next
        if not x.is_random_next:
            place = own.index(b[0])
            assert own[place : place + len(b)] == b
        shares.append(x.is_random_next)
    assert 0.2 < np.mean(shares) < 0.8


def test_pairs_lose_tokens_at_both_ends():
    """Of 9 and 4 for 8 together, 4 stay of each: as the original's cut."""
    data = scripts.load("create_pretraining_data")
    starts = set()
    for seed in range(40):
        a, b = list("abcdefghi"), list("uvwx")
        data.truncate_seq_pair(a, b, 8, random.Random(seed))
        assert b == list("uvwx") and "".join(a) in "abcdefghi" and len(a) == 4
        starts.add(a[0])
    assert starts >= set("bcde")
    features = {
        "i": data.create_int_feature([1, 2]),
        "f": data.create_float_feature([0.5]),
    }
    example = tf.train.Example(features=tf.train.Features(feature=features))
    record = tfrecord.decode_example(example.SerializeToString())
    assert record["i"].tolist() == [1, 2] and record["f"].tolist() == [0.5]
    assert data.MaskedLmInstance(index=3, label="a").label == "a"


# --- Features ----------------------------------------------------------------


def test_lines_as_features(tokenizer, tmp_path):
    script = scripts.load("extract_features")
    path = tmp_path / "x.txt"
    path.write_text("the dog\nthe cat ||| sat\n\n")
    examples = script.read_examples(str(path))
    assert [(x.unique_id, x.text_a, x.text_b) for x in examples] == [
        (0, "the dog", None),
        (1, "the cat", "sat"),
        (2, "", None),
    ]
    one, two, _ = script.convert_examples_to_features(examples, 8, tokenizer)
    assert one.tokens == ["[CLS]", "the", "dog", "[SEP]"]
    assert two.tokens == ["[CLS]", "the", "cat", "[SEP]", "sat", "[SEP]"]
    assert two.input_type_ids == [0, 0, 0, 0, 1, 1, 0, 0]
    assert two.input_mask == [1] * 6 + [0] * 2
    assert two.input_ids[:6] == tokenizer.convert_tokens_to_ids(two.tokens)


@pytest.mark.parametrize(
    "name", ["run_squad", "run_pretraining", "extract_features"]
)
def test_a_name_that_is_missing_is_an_error_that_names_the_page(name):
    script = scripts.load(name)
    missing = f"{name!r} has no attribute 'model_fn_builder'; docs/migration.md"
    with pytest.raises(AttributeError, match=missing):
        script.model_fn_builder  # noqa: B018
