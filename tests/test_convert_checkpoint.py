"""convert_checkpoint.py: the same tensors in both formats, and errors."""

import json
import os
import shutil
import subprocess
import sys
import unicodedata
from pathlib import Path

import litert_files
import numpy as np
import pytest
import safetensors.numpy
import scripts
import small_models
import tensorflow as tf
import tokenizers
from marks import nightly
from paths import GOLDEN

import modeling
from checkpoints import huggingface, lookup, weight_files
from checkpoints.casing import TokenizerFiles
from checkpoints.checkpoint import open_checkpoint, write_tokenizer_json
from checkpoints.model import Checkpoint
from checkpoints.tokenizer_folder import Folder
from checkpoints.trained_for import LongTexts, TrainedFor
from modeling import BIDIRECTIONAL, LEFT_TO_RIGHT, BertConfig
from pretraining import model as pretraining_model
from tasks import loading
from tasks.classifier import model as classifier_model
from tasks.ner import model as ner_model
from tasks.squad import model as squad_model
from tasks.swag import model as swag_model
from tokenization import SPECIAL_TOKENS, TokenizerSettings, Vocabulary

convert_checkpoint = scripts.load("convert_checkpoint")

DIRECTORY = GOLDEN / "huggingface"

TORCH = "torch.nn.modules.activation."


@pytest.fixture
def directory(tmp_path) -> Path:
    """A copy of the golden directory that a test may change."""
    return Path(shutil.copytree(DIRECTORY, tmp_path / "model"))


def weights_of(path: Path) -> dict[str, np.ndarray]:
    return safetensors.numpy.load_file(path / "model.safetensors")


def change(directory: Path, **settings) -> None:
    path = directory / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | settings))


def convert(source: Path, output: Path, output_format: str, **flags) -> None:
    scripts.run(
        convert_checkpoint,
        input=str(source),
        output=str(output),
        output_format=output_format,
        **flags,
    )


def write_classifier(
    directory: Path, count: int, **settings
) -> tuple[Path, dict[str, int]]:
    """Write a classifier as transformers does; return also its id2label."""
    config = modeling.BertConfig.from_size("tiny", 30)
    tf.keras.utils.set_random_seed(1)
    model = classifier_model.BertForSequenceClassification(config, count)
    directory.mkdir()
    names = {str(number): number for number in range(count)}
    theirs = config.to_dict() | {
        "architectures": ["BertForSequenceClassification"],
        "id2label": names,
        "hidden_act": "gelu_new",
    }
    theirs |= settings
    (directory / "config.json").write_text(json.dumps(theirs))
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a"]
    (directory / "vocab.txt").write_text("\n".join(tokens))
    tensors = {v.path: v.numpy() for v in model.variables}
    huggingface.write_weights(str(directory), tensors)
    return directory, names


def error_of(source: Path, output: Path, **flags) -> str:
    values = {"input": source, "output": output} | flags
    values.setdefault("output_format", "original")
    values = {k: v and str(v) for k, v in values.items()}
    return scripts.error_of(convert_checkpoint, **values)


# --- Conversions -------------------------------------------------------------


def test_there_and_back_is_bit_for_bit(tmp_path):
    """Hugging Face -> original -> Hugging Face -> original."""
    convert(DIRECTORY, tmp_path / "a", "original")
    convert(tmp_path / "a", tmp_path / "b", "huggingface")
    convert(tmp_path / "b" / ".", tmp_path / "c", "original")
    first, second = weights_of(DIRECTORY), weights_of(tmp_path / "b")
    for name, value in second.items():
        np.testing.assert_array_equal(value, first[name])
    missing = set(first) - set(second)
    assert missing <= {
        "cls.predictions.decoder.weight",
        "cls.predictions.decoder.bias",
    }
    config = json.loads((tmp_path / "b" / "config.json").read_text())
    assert config["architectures"] == ["BertForPreTraining"]
    assert config["hidden_act"] == "gelu"
    for suffix in (".index", ".data-00000-of-00001"):
        name = "bert_model.ckpt" + suffix
        ours = (tmp_path / "a" / name).read_bytes()
        assert ours == (tmp_path / "c" / name).read_bytes()


def test_original_to_original_drops_slots_alone(tmp_path):
    """A training checkpoint shrinks; what stays equals the input."""
    source = GOLDEN / "model" / "bert_model.ckpt"
    before = tf.train.load_checkpoint(str(source))
    names = [
        name
        for name in before.get_variable_to_shape_map()
        if not name.endswith(("adam_m", "adam_v", "global_step"))
    ]
    training = {name: before.get_tensor(name) for name in names}
    for name in names:
        for slot in ("adam_m", "adam_v"):
            training[f"{name}/{slot}"] = np.zeros_like(training[name])
    training["global_step"] = np.int64(9)
    weight_files.write(str(tmp_path / "model.ckpt-9"), training)
    shutil.copy(GOLDEN / "model" / "bert_config.json", tmp_path)
    convert(tmp_path / "model.ckpt-9", tmp_path / "out", "original")
    after = tf.train.load_checkpoint(str(tmp_path / "out" / "bert_model.ckpt"))
    assert set(after.get_variable_to_shape_map()) == set(names)
    for name in names:
        np.testing.assert_array_equal(
            after.get_tensor(name), before.get_tensor(name)
        )
    sizes = [
        (folder / (name + ".data-00000-of-00001")).stat().st_size
        for folder, name in (
            (tmp_path, "model.ckpt-9"),
            (tmp_path / "out", "bert_model.ckpt"),
        )
    ]
    assert 2.9 < sizes[0] / sizes[1] < 3.1


def architecture_of(names, config, **trained_for) -> str:
    checkpoint = Checkpoint("model", config, TrainedFor(**trained_for))
    vars(checkpoint)["shapes"] = dict.fromkeys(names)
    return convert_checkpoint.architecture_of(checkpoint)


@pytest.mark.parametrize(
    "names, architecture",
    [
        (["bert/pooler/dense/bias"], "BertModel"),
        (["bert/x", "cls/predictions/output_bias"], "BertForMaskedLM"),
        (
            ["bert/x", "cls/predictions/x", "cls/seq_relationship/x"],
            "BertForPreTraining",
        ),
        (["bert/x", "output_weights"], "BertForSequenceClassification"),
        (["bert/x", "cls/squad/output_bias"], "BertForQuestionAnswering"),
    ],
)
def test_architecture(names, architecture):
    config = modeling.BertConfig(vocab_size=9)
    assert architecture_of(names, config) == architecture
    config.attention_direction = modeling.LEFT_TO_RIGHT
    if architecture in ("BertForMaskedLM", "BertForPreTraining"):
        architecture = "BertLMHeadModel"
    assert architecture_of(names, config) == architecture


def test_an_untrained_next_sentence_head_is_not_announced():
    """After run_pretraining.py --objective=mlm."""
    names = ["bert/x", "cls/predictions/x", "cls/seq_relationship/x"]
    config = modeling.BertConfig(vocab_size=9)
    found = architecture_of(names, config, objective="mlm")
    assert found == "BertForMaskedLM"


# Classes of theirs, our models with the same heads, the task of their kind.
_CLASSES = {
    "BertForPreTraining": (pretraining_model.BertForPreTraining, None),
    "BertForMaskedLM": (pretraining_model.BertForPreTraining, None),
    "BertLMHeadModel": (pretraining_model.BertForPreTraining, None),
    "BertForSequenceClassification": (
        lambda config: classifier_model.BertForSequenceClassification(
            config, 3
        ),
        None,
    ),
    "BertForQuestionAnswering": (squad_model.BertForQuestionAnswering, None),
    "BertForMultipleChoice": (
        swag_model.BertForMultipleChoice,
        "multiple_choice",
    ),
    "BertForTokenClassification": (
        lambda config: ner_model.BertForTokenClassification(config, 5),
        "token_classification",
    ),
}

_WITH_POOLER = (
    "BertForPreTraining",
    "BertForSequenceClassification",
    "BertForMultipleChoice",
)

# In a process of its own: torch and TensorFlow in one may crash.
_THEIRS = """
import sys
import numpy as np, torch, transformers
folder, ids, name, output, back = sys.argv[1:]
model, said = getattr(transformers, name).from_pretrained(
    folder, output_loading_info=True)
assert not said["missing_keys"], said
model.config.use_cache = False
with torch.no_grad():
    logits = model.eval()(torch.tensor(np.load(ids)))
np.savez(output, *[logits[i].numpy() for i in range(len(logits))])
model.save_pretrained(back)
"""
# Of an interpreter that has torch and transformers.
_THEIR_PYTHON = os.environ.get("TRANSFORMERS_PYTHON", sys.executable)


def _has_transformers() -> bool:
    code = "import importlib.util as u, sys; sys.exit(not all(map(u.find_spec, "
    code += "('torch', 'transformers'))))"
    return not subprocess.run([_THEIR_PYTHON, "-c", code]).returncode


def write_original(folder: Path, tensors, config) -> Path:
    """Write a model in the format of the original; return the folder."""
    folder.mkdir()
    weight_files.write(str(folder / "bert_model.ckpt"), tensors)
    (folder / "bert_config.json").write_text(config.to_json_string())
    return folder


@pytest.mark.skipif(
    not _has_transformers(),
    reason="needs transformers and torch (TRANSFORMERS_PYTHON=PYTHON)",
)
@pytest.mark.parametrize(
    "name, direction",
    [
        *((name, BIDIRECTIONAL) for name in _CLASSES if "LMHead" not in name),
        ("BertLMHeadModel", LEFT_TO_RIGHT),
        ("BertForQuestionAnswering", LEFT_TO_RIGHT),
        ("BertForTokenClassification", LEFT_TO_RIGHT),
    ],
)
def test_transformers_reads_what_we_write(tmp_path, name, direction):
    """The same numbers there; what it saves comes back bit for bit."""
    create, task = _CLASSES[name]
    config = small_models.golden_config()
    config.attention_direction = direction
    if task:
        config.task = task
    tf.keras.utils.set_random_seed(3)
    model = create(config)
    weight_files.restore_weights(
        model.variables, lookup.find_checkpoint(str(GOLDEN / "model"))
    )
    for variable in model.variables:
        if variable.path.endswith("output_bias"):  # zeros would hide a swap
            variable.assign_add(tf.range(variable.shape[0], dtype=tf.float32))
    ids = np.random.default_rng(0).integers(1, config.vocab_size, [6, 9])
    features = {
        "input_ids": tf.constant(ids, tf.int32),
        "masked_lm_positions": tf.tile(tf.range(9)[None], [6, 1]),
    }
    if task == "multiple_choice":  # two questions of three choices
        ids = ids.reshape([2, 3, 9])
        features = {"input_ids": tf.constant(ids, tf.int32)}
    wanted = model(features)
    if tf.is_tensor(wanted) and name != "BertForQuestionAnswering":
        wanted = [wanted]
    tensors = weight_files.as_tensors(model.variables)
    source = write_original(tmp_path / "ours", tensors, config)
    convert(source, tmp_path / "hf", "huggingface")

    np.save(tmp_path / "ids.npy", ids)
    places = [tmp_path / n for n in ("hf", "ids.npy", "o.npz", "back")]
    places.insert(2, name)
    subprocess.run(
        [_THEIR_PYTHON, "-c", _THEIRS, *map(str, places)], check=True
    )
    found = list(np.load(tmp_path / "o.npz").values())
    has_one = name in ("BertForMaskedLM", "BertLMHeadModel")
    assert len(found) == (1 if has_one else len(wanted))
    for logits, expected in zip(found, wanted, strict=False):
        np.testing.assert_allclose(logits, expected, atol=1e-4)

    convert(tmp_path / "back", tmp_path / "again", "original")
    reader = weight_files.Reader(str(tmp_path / "again/bert_model.ckpt"))
    names = reader.get_variable_to_shape_map()
    assert len(names) > 30 and names.keys() <= tensors.keys()
    assert ("bert/pooler/dense/kernel" in names) == (name in _WITH_POOLER)
    for key in names:
        np.testing.assert_array_equal(reader.get_tensor(key), tensors[key])


# --- What goes wrong ---------------------------------------------------------


@pytest.mark.parametrize(
    "settings, words",
    [
        ({"model_type": "roberta"}, ["model_type is 'roberta'", "'bert'"]),
        ({"layer_norm_eps": 1e-5}, ["layer_norm_eps is 1e-05"]),
        ({"position_embedding_type": "relative_key"}, ["relative_key"]),
        ({"add_cross_attention": True}, ["add_cross_attention is True"]),
        (
            {"is_decoder": True, "architectures": ["BertForPreTraining"]},
            ["BertForPreTraining with is_decoder reads [CLS]"],
        ),
        ({"hidden_act": "swish"}, ["hidden_act 'swish' is unknown"]),
        ({"architectures": 5}, ["architectures is 5"]),
        (
            {"problem_type": "ranking"},
            ["problem_type is 'ranking', here it has to be 'regr"],
        ),
        (
            {
                "problem_type": "regression",
                "id2label": dict.fromkeys("012", "x"),
            },
            ["problem_type is regression with 3 outputs"],
        ),
        ({"hidden_size": 32}, ["contradict", "[61, 32]", "[61, 16]"]),
        ({"num_hidden_layers": 1}, ["16 variables", "layer_1"]),
        ({"num_hidden_layers": 3}, ["lacks 16 variables", "layer_2"]),
    ],
    ids=str,
)
def test_configurations_that_are_not_the_models(
    directory, tmp_path, settings, words
):
    change(directory, **settings)
    line = error_of(directory, tmp_path / "out")
    assert all(word in line for word in words), line
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "problem, count, task",
    [
        ("multi_label_classification", 3, "multi_label_classification"),
        ("single_label_classification", 3, "classifier"),
        ("regression", 1, "classifier"),
        (None, 3, "classifier"),
    ],
)
def test_a_problem_type_is_what_it_is(tmp_path, problem, count, task):
    source, names = write_classifier(
        tmp_path / "theirs", count, problem_type=problem
    )
    convert(source, tmp_path / "ours", "original")
    for place in (source, tmp_path / "ours"):
        found = open_checkpoint(str(place))
        assert loading.choose_task(found) == task
        assert found.trained_for.labels == tuple("012"[:count])
    convert(tmp_path / "ours", tmp_path / "back", "huggingface")
    config = json.loads((tmp_path / "back" / "config.json").read_text())
    is_default = problem == "single_label_classification"
    assert config.get("problem_type") == (None if is_default else problem)
    assert config["id2label"] == {n: str(name) for n, name in names.items()}


@pytest.mark.parametrize(
    "settings",
    [
        *({"hidden_act": name} for name in ("gelu", "gelu_fast", "relu")),
        {"hidden_dropout_prob": 0.3, "attention_probs_dropout_prob": 0.2},
        {"initializer_range": 0.5},
        {"id2label": {"0": "a", "1": "b", "2": "c"}},
        {"problem_type": "multi_label_classification"},
        {"architectures": ["BertForTokenClassification"]},
        {
            "architectures": ["BertForTokenClassification"],
            "id2label": None,
            "num_labels": 3,
        },
    ],
    ids=str,
)
def test_what_was_applied_is_written(tmp_path, settings):
    """Settings of config.json, and the length of the tokenizer."""
    source, _ = write_classifier(tmp_path / "theirs", 3, **settings)
    (source / "tokenizer_config.json").write_text(
        json.dumps({"do_lower_case": True, "model_max_length": 9})
    )
    convert(source, tmp_path / "ours", "original")
    convert(tmp_path / "ours", tmp_path / "back", "huggingface")
    found = [
        open_checkpoint(str(tmp_path / name))
        for name in ("theirs", "ours", "back")
    ]
    wanted = found[0]
    assert wanted.max_seq_length == 9
    for name, one in zip(("ours", "back"), found[1:], strict=True):
        path = tmp_path / name / "tokenizer_config.json"
        assert json.loads(path.read_text())["model_max_length"] == 9
        for name in BertConfig.__dataclass_fields__:
            assert getattr(one.config, name) == getattr(wanted.config, name)
        assert one.trained_for == wanted.trained_for
        assert loading.choose_task(one) == loading.choose_task(wanted)


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings, others, function",
    [
        nightly({"problem_type": "regression"}, {}, None),
        nightly({}, {}, tf.sigmoid),
        nightly(
            {"sentence_transformers": {"activation_fn": TORCH + "Tanh"}},
            {},
            tf.tanh,
        ),
        nightly(
            {"sbert_ce_default_activation_function": "torch.nn.Identity"},
            {},
            None,
        ),
        (
            {"problem_type": "regression"},
            {"model_type": "CrossEncoder", "activation_fn": TORCH + "Sigmoid"},
            tf.sigmoid,
        ),
    ],
)
def test_the_function_on_a_number(tmp_path, settings, others, function):
    """It is applied, and written, as transformers and CrossEncoder read it."""
    source, _ = write_classifier(tmp_path / "theirs", 1, **settings)
    if others:
        module = {"path": "", "type": "sentence_transformers.x.Transformer"}
        (source / "modules.json").write_text(json.dumps([module]))
        path = source / "config_sentence_transformers.json"
        path.write_text(json.dumps(others))
    names = ("input_ids", "input_mask", "segment_ids")
    batch = {name: np.ones([1, 4], np.int32) for name in names}
    plain = write_classifier(tmp_path / "plain", 1, problem_type="regression")
    wanted = loading.load(loading.find(str(plain[0])))(batch)["value"]
    if function:
        wanted = function(wanted).numpy()
    convert(source, tmp_path / "ours", "original")
    convert(tmp_path / "ours", tmp_path / "back", "huggingface")
    pairs = []
    for place in (source, tmp_path / "ours", tmp_path / "back"):
        settings_of = loading.find(str(place))
        pairs.append(settings_of.checkpoint.trained_for.sentence_pairs)
        run = loading.load(settings_of)
        np.testing.assert_allclose(run(batch)["value"], wanted, rtol=1e-5)
    # A number of one text stays one, though the file names a function.
    is_cross_encoder = bool(others or {*settings} - {"problem_type"})
    assert pairs == [is_cross_encoder] * 3
    config = json.loads((tmp_path / "back" / "config.json").read_text())
    is_sigmoid = function == tf.sigmoid
    problem = None if is_sigmoid else "regression"
    assert config.get("problem_type") == problem
    name = config["sentence_transformers"]["activation_fn"]
    assert name.rpartition(".")[-1].lower() == (
        function.__name__ if function else "identity"
    )
    assert "output_activation" not in config


def test_a_function_on_a_number_that_is_unknown(tmp_path):
    source, _ = write_classifier(
        tmp_path / "a", 1, sbert_ce_default_activation_function="torch.nn.Mish"
    )
    line = error_of(source, tmp_path / "b")
    assert "'torch.nn.Mish', a function that this project lacks" in line


def test_is_decoder_travels_as_attention_direction(directory, tmp_path):
    change(directory, is_decoder=True, architectures=["BertLMHeadModel"])
    convert(directory, tmp_path / "a", "original")
    config = json.loads((tmp_path / "a" / "bert_config.json").read_text())
    assert config["attention_direction"] == LEFT_TO_RIGHT
    assert "is_decoder" not in config
    convert(tmp_path / "a", tmp_path / "b", "huggingface")
    config = json.loads((tmp_path / "b" / "config.json").read_text())
    assert config["is_decoder"] and "attention_direction" not in config
    assert config["architectures"] == ["BertLMHeadModel"]
    path = tmp_path / "a" / "bert_config.json"
    path.write_text(path.read_text().replace(LEFT_TO_RIGHT, "right_to_left"))
    line = error_of(tmp_path / "a", tmp_path / "c", output_format="huggingface")
    assert "is a right_to_left model, which no class in transformers is" in line
    assert not (tmp_path / "c").exists()


@pytest.mark.parametrize("is_there", [True, False])
def test_an_activation_without_a_name_there_is_refused(tmp_path, is_there):
    """Before anything is written; our format keeps it."""
    config = small_models.golden_config()
    config.hidden_act = "linear"
    tensors = weight_files.read_weights(str(GOLDEN / "model/bert_model.ckpt"))
    source = write_original(tmp_path / "ours", tensors, config)
    (source / "vocab.txt").write_text("[PAD]\n[UNK]\n")
    out = tmp_path / "out"
    if is_there:
        out.mkdir()
    line = error_of(source, out, output_format="huggingface")
    assert "hidden_act 'linear' has no name in the Hugging Face for" in line
    assert "--output_format=original keeps such a model" in line
    assert not list(out.glob("*")) and out.exists() == is_there
    convert(source, out, "original")


@pytest.mark.parametrize(
    "settings",
    [
        {"do_lower_case": False},
        {"do_lower_case": True, "strip_accents": False},
        {"do_lower_case": False, "strip_accents": True},
        {"do_lower_case": True, "tokenize_chinese_chars": False},
        {"do_lower_case": True, "max_input_chars_per_word": 7},
    ],
)
def test_settings_of_the_tokenizer_travel(directory, tmp_path, settings):
    """Those that are not in the files are transformers'."""
    path = directory / "tokenizer_config.json"
    more = {
        "truncation_side": "left",
        "cls_token": "<s>",
        "additional_special_tokens": ["[PAD]", "x"],
    }
    path.write_text(json.dumps(settings | more))
    lines = ["[PAD]", "[UNK]", "<s>", "x"]
    vocab = {line: number for number, line in enumerate(lines)}
    whole = {
        "normalizer": {"type": "BertNormalizer"},
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "model": {"type": "WordPiece", "vocab": vocab},
    }
    (directory / "tokenizer.json").write_text(json.dumps(whole))
    convert(directory, tmp_path / "out", "original")
    convert(tmp_path / "out", tmp_path / "back", "huggingface")
    names = ("[PAD]", "[UNK]", "<s>", "[SEP]", "[MASK]")
    hub = {
        "max_input_chars_per_word": 100,
        "token_names": names,
        "special_tokens": (*names, "x"),
        "is_of_hub": True,
    }
    for place in (directory, tmp_path / "out", tmp_path / "back"):
        found = open_checkpoint(str(place))
        assert found.tokenizer_settings == TokenizerSettings.of(
            **hub | settings
        )
        assert found.trained_for.long_texts == LongTexts("tail")
        if place != directory:
            text = Path(found.vocab_file).read_text()
            assert text == "".join(f"{line}\n" for line in lines)


def test_settings_of_the_originals_tokenizer_travel(tmp_path, caplog):
    """But for [MASK], which transformers has to find in a text."""
    config = small_models.golden_config()
    tensors = weight_files.read_weights(str(GOLDEN / "model/bert_model.ckpt"))
    encoder = {n: v for n, v in tensors.items() if n.startswith("bert/")}
    for name, values in (("masked", tensors), ("encoder", encoder)):
        source = write_original(tmp_path / name, values, config)
        (source / "vocab.txt").write_text("[PAD]\n[UNK]\n")
        found = open_checkpoint(str(source)).tokenizer_settings
        assert found == TokenizerSettings.of(True)
        out = tmp_path / f"{name} there"
        convert(source, out, "huggingface")
        special = SPECIAL_TOKENS if name == "masked" else ()
        wanted = found._replace(special_tokens=special)
        assert open_checkpoint(str(out)).tokenizer_settings == wanted
        written = json.loads((out / "tokenizer_config.json").read_text())
        assert written["split_special_tokens"] is (name == "encoder")
    assert "max_input_chars_per_word is 200, but 100 in Bert" in caplog.text


@pytest.mark.parametrize("is_of_hub", [True, False])
@pytest.mark.parametrize("casing", ["uncased", "cased"])
def test_tokenizer_json_gives_the_same_ids(tmp_path, casing, is_of_hub):
    """The package has Unicode 8, and the original's rules differ in few texts.

    They are characters for private use, which it drops, and capital sigmas.
    """
    vocabulary = Vocabulary(GOLDEN / "vocab" / f"{casing}.txt")
    known = TokenizerSettings.of(
        casing == "uncased",
        special_tokens=SPECIAL_TOKENS if is_of_hub else (),
        is_of_hub=is_of_hub,
    )
    files = TokenizerFiles(vocabulary=vocabulary, known=known)
    write_tokenizer_json(
        str(tmp_path),
        Checkpoint("", None, TrainedFor(max_seq_length=999), files),
    )
    theirs = tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    lines = (GOLDEN / "tokenization.jsonl").read_text("utf-8").splitlines()
    texts = [json.loads(line)["text"] for line in lines]
    if is_of_hub:
        texts += ["title[SEP]x [MASK] ΟΔΥΣΣΕΥΣ", "a\ue000b"]
    ids = files.tokenizer.vocab
    different = [
        text
        for text in texts
        if theirs.encode(text).ids
        != [ids["[CLS]"], *files.tokenizer.text_to_ids(text), ids["[SEP]"]]
    ]
    assert len(different) <= (3 if is_of_hub else 180)
    kinds = ("Cn", "Cs") if is_of_hub else ("Cn", "Cs", "Co")
    known = "\u08dc\u2e5d" if is_of_hub else "\u08dc\u2e5d\u03a3"
    for text in different:
        assert any(
            char in known or unicodedata.category(char) in kinds
            for char in text
        )
    pair = theirs.encode("a b", "c")
    assert pair.type_ids == [0, 0, 0, 0, 1, 1]


def test_tokenizer_json_has_what_is_applied(directory, tmp_path):
    """Lengths, sides, added tokens; a source's own file is kept if it has."""
    text = "[PAD]\n[UNK]\n<s>\n[SEP]\n[MASK]\na\nb\nx\n# y\n##a\n"
    (directory / "vocab.txt").write_text(text)
    added = {"content": "# y", "normalized": True, "single_word": True}
    settings = {
        "do_lower_case": False,
        "cls_token": "<s>",
        "truncation_side": "left",
        "model_max_length": 5,
        "added_tokens_decoder": {"8": added},
    }
    path = directory / "tokenizer_config.json"
    path.write_text(json.dumps(settings))
    convert(directory, tmp_path / "out", "huggingface")
    written = tmp_path / "out" / "tokenizer.json"
    theirs = tokenizers.Tokenizer.from_file(str(written))
    assert theirs.encode("a aa # y [MASK]").ids == [2, 9, 8, 4, 3]
    assert theirs.encode("B # yy").ids == [2, 1, 1, 1, 3]

    own = json.loads(written.read_text()) | {"truncation": None}
    (directory / "tokenizer.json").write_text(json.dumps(own, indent=3))
    convert(directory, tmp_path / "kept", "huggingface")
    kept = (tmp_path / "kept" / "tokenizer.json").read_text()
    assert kept == json.dumps(own, indent=3)
    own["truncation"] = json.loads(written.read_text())["truncation"]
    own["truncation"]["max_length"] = 4
    (directory / "tokenizer.json").write_text(json.dumps(own, indent=3))
    convert(directory, tmp_path / "new", "huggingface")
    assert (tmp_path / "new" / "tokenizer.json").read_text() == (
        written.read_text()
    )


@pytest.mark.parametrize(
    ("kind", "is_special"),
    [
        ("classifier", False),
        ("token_classification", True),
        ("question_answering", True),
    ],
)
def test_tokenizer_json_names_the_marks_that_a_task_shows(
    tmp_path, kind, is_special
):
    """Else programs that read it alone tag [CLS], and answer with [SEP]."""
    source = litert_files.write_model(tmp_path / "model", kind)
    convert(source, tmp_path / "out", "huggingface")
    written = json.loads((tmp_path / "out" / "tokenizer.json").read_text())
    found = [one["content"] for one in written["added_tokens"]]
    assert found == (list(SPECIAL_TOKENS) if is_special else [])
    settings = open_checkpoint(str(tmp_path / "out")).tokenizer_settings
    assert not settings.special_tokens


@pytest.mark.parametrize(
    "name, value, word",
    [
        (
            "bert.encoder.layer.0.crossattention.self.query.bias",
            np.zeros(16, np.float32),
            "cross-attention",
        ),
        (
            "cls.predictions.decoder.weight",
            np.ones([61, 16], np.float32),
            "decoder.weight differs",
        ),
        ("bert.pooler.dense.bias", np.zeros(16, np.int8), "type I8"),
    ],
)
def test_weights_that_cannot_be_loaded(directory, tmp_path, name, value, word):
    weights = weights_of(directory) | {name: value}
    safetensors.numpy.save_file(weights, directory / "model.safetensors")
    assert word in error_of(directory, tmp_path / "out")


def test_files_of_weights_that_are_not_read(directory, tmp_path):
    path = directory / "model.safetensors"
    path.write_bytes(path.read_bytes()[:1000])
    line = error_of(directory, tmp_path / "out")
    assert "cannot be read as safetensors" in line
    path.rename(directory / "pytorch_model.bin")
    line = error_of(directory, tmp_path / "out")
    assert "runs whatever code is in it" in line


@pytest.mark.parametrize(
    ("flags", "word"),
    [
        ({"input": None}, "--input"),
        ({"output": None}, "--output"),
        ({"output_format": None}, "--output_format"),
        ({"input": "model/config.json"}, "is a file"),
        ({"input": "nothing"}, "no such checkpoint"),
        ({"vocab_file": "nothing"}, "cannot read the vocabulary"),
        ({"output": "model"}, "holds a checkpoint already"),
        ({"output": "theirs"}, "files of a model already (tokenizer.json)"),
        ({"output": "model/config.json/out"}, "cannot be written"),
        ({"do_lower_case": True}, "was trained with False"),
    ],
)
def test_flags_that_cannot_work(directory, tmp_path, monkeypatch, flags, word):
    monkeypatch.chdir(tmp_path)
    (directory / "tokenizer_config.json").write_text('{"do_lower_case": false}')
    (directory / "vocab.txt").write_text("[PAD]\n")
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs" / "tokenizer.json").write_text("theirs")
    values = {"input": "model", "output": "out", "output_format": "original"}
    assert word in scripts.error_of(convert_checkpoint, **(values | flags))
    assert (tmp_path / "theirs" / "tokenizer.json").read_text() == "theirs"


def test_capitals_in_the_vocabulary_are_a_casing(directory, tmp_path):
    for name in ("tokenizer_config.json", "vocab.txt"):
        (directory / name).unlink(missing_ok=True)
    vocab_file = GOLDEN / "vocab" / "cased.txt"
    out = tmp_path / "out"
    convert(directory, out, "huggingface", vocab_file=str(vocab_file))
    assert not Folder(str(out)).said["do_lower_case"]
