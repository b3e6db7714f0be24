"""A SavedModel gives the model's outputs to a process with only TensorFlow."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from base.errors import UserError

import mask_models
import numpy as np
import pytest
import tensorflow as tf
from exports import (
    CONFIG,
    HEADS,
    VOCAB,
    create_task,
    export,
    ids_of,
    write_model,
)
from marks import nightly
from tensorflow.core.protobuf import saved_model_pb2
from tensorflow.python.framework import test_util

import tokenization
from modeling import BertConfig
from pretraining import model as pretraining_model
from tasks import loading, saved_model
from tasks.classifier import model as classifier_model
from training.task_model import TaskModel

pytest.importorskip("tensorflow_text")

# Loads SavedModels as a server does, and prints their outputs.
LOADER = """
import json, sys
import tensorflow as tf, tensorflow_text
for line in sys.stdin:
    directory, signature, questions = json.loads(line)
    function = tf.saved_model.load(directory).signatures[signature]
    outputs = []
    for question in questions:
        found = function(**{k: tf.constant(v) for k, v in question.items()})
        outputs.append({
            k: [x.decode() for x in v.numpy().ravel()]
            if v.dtype == tf.string else v.numpy().tolist()
            for k, v in found.items()
        })
    print(json.dumps(outputs), flush=True)
"""


@pytest.fixture(scope="module")
def ask(tmp_path_factory) -> Iterator[Callable[..., list[dict]]]:
    """Returns the outputs of a signature for each question.

    Another process computes them, which has nothing of this project.
    """
    errors = tmp_path_factory.mktemp("ask") / "errors"
    with (
        errors.open("w") as log,
        subprocess.Popen(
            [sys.executable, "-c", LOADER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            cwd="/",
            env={"PATH": "/usr/bin:/bin", "TF_CPP_MIN_LOG_LEVEL": "2"},
        ) as process,
    ):

        def outputs(directory: Path, signature: str, *questions) -> list[dict]:
            request = json.dumps([str(directory), signature, questions])
            process.stdin.write(request + "\n")
            process.stdin.flush()
            line = process.stdout.readline()
            assert line, errors.read_text()[-2000:]
            return json.loads(line)

        yield outputs
        process.stdin.close()


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    """An encoder and its SavedModel."""
    tf.keras.utils.set_random_seed(4)
    model = TaskModel(CONFIG)
    folder = tmp_path_factory.mktemp("encoder")
    source = write_model(folder / "model", model.variables)
    return model, export(source, folder / "1")


@pytest.mark.slow
def test_each_weight_is_stored_once(encoder):
    """Keras stores a copy of each variable beside the one that is served."""
    model, directory = encoder
    stored = tf.train.load_checkpoint(str(directory / "variables/variables"))
    shapes = sorted(
        shape
        for name, shape in stored.get_variable_to_shape_map().items()
        if not name.startswith("_CHECKPOINTABLE")
    )
    assert shapes == sorted(v.value.shape.as_list() for v in model.variables)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["bfloat16", nightly("float16")])
def test_kernels_are_stored_in_the_type_of_their_products(
    encoder, dtype, tmp_path
):
    """The answers are those of kernels that are converted in each call."""
    model, directory = encoder
    source = str(directory.parent / "model")
    path = str(export(source, tmp_path / "1", dtype=dtype))
    stored = tf.train.load_checkpoint(f"{path}/variables/variables")
    found = sorted(
        (stored.get_variable_to_shape_map()[name], kind.name)
        for name, kind in stored.get_variable_to_dtype_map().items()
        if not name.startswith("_CHECKPOINTABLE")
    )
    assert found == sorted(
        (v.value.shape.as_list(), dtype if "kernel" in v.path else "float32")
        for v in model.variables
    )
    rows = np.array([[2, 6, 7, 8, 3], [2, 7, 3, 0, 0]], np.int32)
    batch = {
        "input_ids": tf.constant(rows),
        "input_mask": tf.constant((rows > 0).astype(np.int32)),
        "segment_ids": tf.zeros_like(rows),
    }
    graph = loading.load_graph(loading.find(source, dtype=dtype))
    graph.skip_padding()
    wanted = graph.ids_signature()(**batch)
    answers = tf.saved_model.load(path).signatures["ids"](**batch)
    for name, value in wanted.items():
        np.testing.assert_array_equal(answers[name], value)


@pytest.mark.slow
def test_ids_signature_uses_no_text_operation(encoder):
    """A server without them can load it as far as this signature needs."""
    loaded = tf.saved_model.load(str(encoder[1]))
    graph = loaded.signatures["ids"].graph
    names = {op.type for op in graph.get_operations()}
    assert not any("Wordpiece" in name or "Unicode" in name for name in names)


@pytest.mark.slow
def test_signatures_share_the_model(encoder):
    """It is traced, stored and loaded as one function that both call."""
    saved = saved_model_pb2.SavedModel()
    saved.ParseFromString((encoder[1] / "saved_model.pb").read_bytes())
    (meta_graph,) = saved.meta_graphs
    functions = [
        function.signature.name
        for function in meta_graph.graph_def.library.function
        if any("MatMul" in node.op for node in function.node_def)
    ]
    assert len(functions) == 1, functions


@pytest.mark.nightly
def test_outputs_of_a_masked_lm_are_its_probabilities(tmp_path, ask):
    tf.keras.utils.set_random_seed(3)
    model = pretraining_model.BertForPreTraining(CONFIG)
    source = write_model(tmp_path / "model", model.variables)
    directory = export(source, tmp_path / "1", top_k=3)
    texts = ["a [MASK] film", "[MASK][MASK] good .", "[mask] [MASK]s"]
    (found,) = ask(directory, "serving_default", {"text": texts})
    tokens = np.array(found["tokens"]).reshape(3, 2, 3)
    tokenizer = tokenization.FullTokenizer(str(source / "vocab.txt"))
    for row, text in enumerate(texts):
        masks = mask_models.fillings(model, tokenizer, text, 3)
        for place, (wanted, scores) in enumerate(masks):
            assert tokens[row, place].tolist() == wanted
            np.testing.assert_allclose(
                found["scores"][row][place], scores, atol=1e-5
            )
        for place in range(len(masks), 2):
            assert tokens[row, place].tolist() == ["", "", ""]
            assert found["scores"][row][place] == [0.0] * 3


def test_more_tokens_than_there_are_cannot_be_asked_for(tmp_path):
    vocab_file = tmp_path / "vocab.txt"
    vocab_file.write_text("\n".join(VOCAB))
    task = create_task("masked_lm", str(vocab_file), top_k=1000)
    model = task.create_model("float32")
    graph = task.create_graph(model)
    found = graph.from_texts(tf.constant(["a [MASK] film"]))
    assert found["tokens"].shape[-1] == len(VOCAB)


@pytest.mark.slow
@pytest.mark.parametrize(
    "head, first, second",
    [
        ("pairs", "text_a", "text_b"),
        nightly("question_answering", "question", "context"),
        nightly("multiple_choice", "context", "choices"),
    ],
)
def test_a_graph_takes_as_many_of_each_text(tmp_path, head, first, second):
    """One text is not repeated for several others, nor left out for none."""
    vocab_file = tmp_path / "vocab.txt"
    vocab_file.write_text("\n".join(VOCAB))
    task = create_task(head, str(vocab_file))
    model = task.create_model("float32")
    graph = task.create_graph(model)
    made = graph.signatures()

    def ask(count: int) -> dict:
        """Give one first text and `count` second ones."""
        shape = [count, 2] if second == "choices" else [count]
        texts = {first: tf.constant(["good"]), second: tf.fill(shape, "bad")}
        return made["serving_default"](**texts)

    assert {len(value) for value in ask(1).values()} == {1}
    message = f"{first} and {second} must have the same length"
    for count in (0, 2):
        with pytest.raises(tf.errors.InvalidArgumentError, match=message):
            ask(count)
    ids = tf.ones([2] * (len(graph.ids.shape) - 1) + [8], tf.int32)
    message = "(?s)shape = .*input_ids_input_mask_segment_ids"
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        made["ids"](input_ids=ids, input_mask=ids[:1], segment_ids=ids * 0)


@pytest.mark.slow
def test_a_program_that_xla_compiles_refuses_wrong_ids(encoder):
    """XLA drops assertions: such ids had outputs."""
    model = tf.saved_model.load(str(encoder[1]))
    signature = model.signatures["ids"]
    spec = tf.TensorSpec([None, None], tf.int32)

    @tf.function(input_signature=[spec] * 2, jit_compile=True)
    def run(ids, mask):
        return signature(input_ids=ids, input_mask=mask, segment_ids=ids * 0)

    ids = tf.ones([2, CONFIG.max_position_embeddings + 1], tf.int32)
    for mask, words in (
        (ids, "(?s)size.* but got"),
        (ids[:1], "(?s)shape = .*input_ids_input_mask_segment_ids"),
    ):
        with pytest.raises(tf.errors.InvalidArgumentError, match=words):
            run(ids, mask)
    assert len(run(ids[:, :4], ids[:, :4])["mean_output"]) == 2


def test_an_export_that_fails_or_was_killed_leaves_nothing(tmp_path):
    ended = subprocess.Popen(["true"])
    ended.wait()
    (tmp_path / f"1.{ended.pid}.tmp").mkdir()
    other = tmp_path / f"1.{os.getppid()}.tmp"  # another export goes on
    other.mkdir()
    directory = str(tmp_path / "1")
    with pytest.raises(KeyError):
        with saved_model._new_directory(directory) as folder:
            Path(folder, "half").write_text("")
            raise KeyError
    assert list(tmp_path.iterdir()) == [other]
    # Both were begun: the second finds what the first has written.
    with saved_model._new_directory(directory):
        pass
    with pytest.raises(UserError, match="exists already"):
        with saved_model._new_directory(directory):
            pass
    assert sorted(tmp_path.iterdir()) == [tmp_path / "1", other]


@pytest.mark.slow
def test_outputs_of_an_encoder(encoder, ask):
    model, directory = encoder
    (found,) = ask(directory, "serving_default", {"text": ["good film", "bad"]})
    output = model.bert(
        **model.encoder_inputs(
            {"input_ids": tf.constant([ids_of("[CLS] bad [SEP]")])}
        )
    )
    np.testing.assert_allclose(
        found["pooled_output"][1], output.pooled_output[0], atol=1e-5
    )
    np.testing.assert_allclose(
        found["sequence_output"][1][:3], output.sequence_output[0], atol=1e-5
    )
    np.testing.assert_allclose(
        found["mean_output"][1],
        tf.reduce_mean(output.sequence_output[0], axis=0),
        atol=1e-5,
    )


@pytest.mark.slow
def test_padding_is_skipped_and_changes_nothing(encoder, ask):
    """Rows of one token, full ones, a hole; the model itself pads."""
    model, directory = encoder
    rng = np.random.default_rng(5)
    mask = np.arange(9) < np.array([[9], [1], [4], [9]])
    mask[3, 5] = False
    ids = np.where(mask, rng.integers(1, 18, mask.shape), 0)
    question = {
        "input_ids": ids.tolist(),
        "input_mask": mask.astype(int).tolist(),
        "segment_ids": rng.integers(0, 2, mask.shape).tolist(),
    }
    (found,) = ask(directory, "ids", question)
    features = {k: tf.constant(v) for k, v in question.items()}
    wanted = model.bert(**model.encoder_inputs(features))
    sequence = np.array(found["sequence_output"])
    np.testing.assert_allclose(
        sequence[mask], wanted.sequence_output.numpy()[mask], atol=1e-5
    )
    assert not sequence[~mask].any()
    np.testing.assert_allclose(
        found["pooled_output"], wanted.pooled_output, atol=1e-5
    )
    means = [
        row[real].mean(axis=0)
        for row, real in zip(wanted.sequence_output.numpy(), mask, strict=True)
    ]
    np.testing.assert_allclose(found["mean_output"], means, atol=1e-5)


@pytest.mark.slow
def test_ids_longer_than_the_model_are_an_error(encoder):
    ids = tf.ones([1, 21], tf.int32)
    signature = tf.saved_model.load(str(encoder[1])).signatures["ids"]
    with pytest.raises(
        tf.errors.InvalidArgumentError, match="max_position_embeddings 20"
    ):
        signature(input_ids=ids, input_mask=ids, segment_ids=ids)


@pytest.mark.parametrize(
    "name", [nightly(x) if x == "bilstm" else x for x in HEADS]
)
def test_a_batch_of_no_texts_has_no_outputs(name, tmp_path):
    """Servers send such a batch to warm up."""
    vocab_file = tmp_path / "vocab.txt"
    vocab_file.write_text("\n".join(VOCAB) + "\n")
    task = create_task(name, str(vocab_file))
    model = task.create_model("float32")
    export = task.create_graph(model)
    nothing = [
        tf.zeros([0, 2][: spec.shape.rank], tf.string)
        for spec in export.text_specs()
    ]
    answer = export.from_texts
    if name == "bilstm":  # which fails outside a graph
        answer = tf.function(answer, autograph=False)
    export.skip_padding()
    found = [answer(*nothing)]
    if name == "tagger":
        found.append(export.from_words(tf.zeros([0, 2], tf.string)))
    for outputs in found:
        assert outputs
        assert all(value.shape[0] == 0 for value in outputs.values())


@pytest.mark.slow
@pytest.mark.skipif(
    not test_util.IsMklEnabled(), reason="fused by oneDNN's rewrites alone"
)
@pytest.mark.parametrize("activation", ["gelu", nightly("gelu_erf")])
def test_tensorflow_fuses_bias_and_activation_into_the_product(
    tmp_path, activation
):
    """Into the product: a tenth of the time of a Base model on a CPU."""
    config = BertConfig.from_dict(CONFIG.to_dict() | {"hidden_act": activation})
    model = TaskModel(config)
    folder = write_model(
        tmp_path / "model", model.variables, hidden_act=activation
    )
    directory = str(export(folder, tmp_path / "1"))
    graph = tf.Graph()
    with graph.as_default(), tf.compat.v1.Session() as session:
        loaded = tf.compat.v1.saved_model.load(session, ["serve"], directory)
        signature = loaded.signature_def["ids"]
        metadata = tf.compat.v1.RunMetadata()
        session.run(
            signature.outputs["pooled_output"].name,
            {x.name: [[1, 2]] for x in signature.inputs.values()},
            tf.compat.v1.RunOptions(output_partition_graphs=True),
            metadata,
        )
    fused = [
        tuple(node.attr["fused_ops"].list.s)
        for part in metadata.partition_graphs
        for node in [
            *part.node,
            *(n for f in part.library.function for n in f.node_def),
        ]
        if node.attr["fused_ops"].list.s
    ]
    name = b"GeluExact" if activation == "gelu_erf" else b"GeluApproximate"
    assert fused.count((b"BiasAdd", name)) == CONFIG.num_hidden_layers


# --- An export that exists ---------------------------------------------------

PREFIX = "run/bert_model.ckpt"


def create_graph(folder: Path, model, *labels: str):
    """Return the export of a classifier."""
    path = folder / "vocab.txt"
    path.write_text("\n".join(VOCAB) + "\n")
    task = create_task("classifier", str(path), labels=labels)
    return task.create_graph(model)


@pytest.mark.nightly
def test_an_export_tells_whether_it_has_the_same_weights(tmp_path, caplog):
    model = classifier_model.BertForSequenceClassification(CONFIG, 2)
    folder = tmp_path / "1"
    export = create_graph(tmp_path, model, "no", "yes")
    saved_model.write(export, f"{folder}/")
    with caplog.at_level("INFO", logger="absl"):
        export = create_graph(tmp_path, model, "no", "yes")
        saved_model.check_written(export, str(folder), PREFIX)
    assert caplog.messages[-1] == (
        f"{folder} exists already and holds the weights of {PREFIX}: not "
        "written again"
    )
    model.output_bias.assign([0.0, 1e-7])
    with pytest.raises(UserError) as error:
        saved_model.check_written(export, str(folder), PREFIX)
    assert str(error.value) == (
        f"--export_dir={folder} holds the SavedModel of other weights than "
        f"{PREFIX}: give the same command with a new one, such as a higher "
        "number, or remove it"
    )


def test_exports_without_a_checksum_and_of_other_settings(tmp_path):
    """As earlier versions wrote them, the first ones without a description."""
    model = classifier_model.BertForSequenceClassification(CONFIG, 2)
    export = create_graph(tmp_path, model, "no", "yes")
    folder = tmp_path / "served"
    path = folder / saved_model.DESCRIPTION
    path.parent.mkdir(parents=True)
    with pytest.raises(UserError, match="served exists already: give a new"):
        saved_model.check_written(export, str(folder), PREFIX)
    (folder / "saved_model.pb").write_bytes(b"")
    for has_description in (False, True):
        if has_description:
            path.write_text(json.dumps(export.task.description()))
        with pytest.raises(UserError, match="SavedModel of other weights than"):
            saved_model.check_written(export, str(folder), PREFIX)
    export = create_graph(tmp_path, model, "yes", "no")
    with pytest.raises(UserError) as error:
        saved_model.check_written(export, str(folder), PREFIX)
    assert str(error.value) == (
        f"--export_dir={folder} holds a SavedModel with labels = ['no', "
        "'yes'], not ['yes', 'no']: give the same command with a new one, "
        "such as a higher number, or remove it"
    )
