"""Weights in the original's format: read, compared, written."""

from base.errors import UserError

import numpy as np
import pytest
import tensorflow as tf
from small_models import GOLDEN_MODEL, golden_config
from tiny import assert_same, values_of

from checkpoints import training_state, weight_files
from checkpoints.run_folder import RunFolder
from pretraining import model as pretraining_model


def test_reads_the_original_format_with_adam_slots():
    model = pretraining_model.BertForPreTraining(golden_config())
    report = weight_files.restore_weights(
        model.variables, str(GOLDEN_MODEL / "bert_model.ckpt")
    )
    assert len(report.restored) == len(model.variables)
    assert not report.new and not report.unused and not report.mismatched
    reader = tf.train.load_checkpoint(str(GOLDEN_MODEL / "bert_model.ckpt"))
    for variable in model.variables:
        np.testing.assert_array_equal(
            variable, reader.get_tensor(variable.path)
        )
    trained = str(GOLDEN_MODEL / "trained" / "model.ckpt-30")
    assert weight_files.global_step(trained) == 30


def test_what_optimizers_keep_is_passed_over(model, tmp_path):
    """Slots of TensorFlow's, NVIDIA's and our optimizers, and single numbers.

    A matrix below a weight that has another shape is none of them.
    """
    prefix, path = str(tmp_path / "c"), "bert/pooler/dense/kernel"
    wanted = values_of(model.variables)
    tensors = dict(wanted)
    names = (
        "BERTAdam BERTAdam_1 Adam Adam_1 adam_m adam_v lamb_m lamb_v accum "
        "shadow average ExponentialMovingAverage LAMBOptimizer/m "
        "ExponentialMovingAverage/biased AdamWeightDecayOptimizer"
    )
    for name in names.split():
        tensors |= {f"{p}/{name}": np.ones_like(v) for p, v in wanted.items()}
    for name in (
        "global_step",
        "beta1_power_1",
        "local_step",
        "current_loss_scale",
        "loss_scale/a",
    ):
        tensors[name] = np.int64(1)
    other = f"{path}/other"
    tensors[other] = np.ones([1, 1], np.float32)
    weight_files.write(prefix, tensors)
    found = weight_files.read_weights(prefix)
    assert {*found} == {*wanted, other}
    np.testing.assert_array_equal(found[path], wanted[path])
    report = weight_files.restore_weights(model.variables, prefix)
    assert report.unused == [other]
    # A run continues only with what it keeps itself.
    state = training_state.TrainingState(
        RunFolder.read(str(tmp_path)), model.variables, {}
    )
    with pytest.raises(UserError, match="variables differ, .*/Adam"):
        state.restore(prefix)


def test_a_new_head_is_reported_and_a_missing_encoder_refused(model, tmp_path):
    prefix = str(tmp_path / "c")
    tensors = weight_files.as_tensors(model.bert.variables)
    tensors["output_weights"] = np.zeros([2, 8], np.float32)
    weight_files.write(prefix, tensors)
    report = weight_files.restore_weights(model.variables, prefix)
    assert len(report.new) == 7 and all(
        p.startswith("cls/") for p in report.new
    )
    assert report.unused == ["output_weights"]
    del tensors["bert/pooler/dense/bias"]
    weight_files.write(prefix, tensors)
    with pytest.raises(UserError, match="lacks 1 .* bert/pooler/dense/bias"):
        weight_files.restore_weights(model.variables, prefix)


def test_nothing_is_changed_by_a_refused_restore(model, tmp_path):
    prefix = str(tmp_path / "c")
    tensors = weight_files.as_tensors(model.variables)
    tensors = {name: tf.zeros_like(value) for name, value in tensors.items()}
    tensors["bert/pooler/dense/bias"] = np.zeros([9], np.float32)
    weight_files.write(prefix, tensors)
    before = values_of(model.variables)
    message = r"pooler/dense/bias: the model has shape \[8\], .* holds \[9\]"
    with pytest.raises(UserError, match=message):
        weight_files.restore_weights(model.variables, prefix)
    assert_same(values_of(model.variables), before)


def test_weights_that_are_no_numbers_are_warned_of(model, tmp_path, caplog):
    """A ReLU that TensorFlow fuses into a product makes 0 of NaN."""
    prefix = str(tmp_path / "c")
    tensors = values_of(model.variables)
    name = "bert/encoder/layer_0/intermediate/dense/bias"
    tensors[name] = np.full_like(tensors[name], np.nan)
    weight_files.write(prefix, tensors)
    weight_files.restore_weights(model.variables, prefix)
    assert f"{prefix}: {name} holds numbers that are not finite" in caplog.text


def test_damage_on_disk_is_named(model, tmp_path):
    prefix = str(tmp_path / "c")
    weight_files.write(prefix, weight_files.as_tensors(model.variables))
    data = tmp_path / "c.data-00000-of-00001"
    content = bytearray(data.read_bytes())
    content[50] ^= 0xFF
    data.write_bytes(content)
    with pytest.raises(UserError, match="is damaged at"):
        weight_files.restore_weights(model.variables, prefix)


@pytest.mark.parametrize(
    "name, value, problem",
    [
        ("bert/pooler/dense/bias", [b"x"] * 8, "bias holds object, wanted r"),
        ("bert/pooler/dense/bias", [1j] * 8, "bias holds complex128, wanted"),
        ("global_step", b"x", "global_step holds .*, wanted real"),
        ("global_step", [1, 2], r"global_step is \[1 2\], wanted a number of"),
        ("global_step", np.nan, "global_step is nan, wanted a number of"),
        ("global_step", -4, "global_step is -4, wanted a number of steps"),
    ],
)
def test_variables_that_are_no_numbers_are_named(
    model, tmp_path, name, value, problem
):
    prefix = str(tmp_path / "c")
    tensors = weight_files.as_tensors(model.variables)
    weight_files.write(prefix, {**tensors, "global_step": 1, name: value})
    state = training_state.TrainingState(
        RunFolder.read(str(tmp_path)), model.variables, {}
    )
    with pytest.raises(UserError, match=f"c: .*{problem}"):
        state.restore(prefix)
    with pytest.raises(UserError, match=f"c: .*{problem}"):
        weight_files.restore_weights(model.variables, prefix)
        weight_files.global_step(prefix)


def test_a_footer_that_names_more_than_the_memory_is_one_line(model, tmp_path):
    prefix = str(tmp_path / "c")
    weight_files.write(prefix, weight_files.as_tensors(model.variables))
    index = bytearray((tmp_path / "c.index").read_bytes())
    # Two places and sizes as varints, 2^62 each.
    index[-48:-12] = (b"\x80" * 8 + b"\x40") * 4
    (tmp_path / "c.index").write_bytes(index)
    with pytest.raises(UserError, match="c cannot be read as a checkpoint"):
        weight_files.Reader(prefix)


@pytest.mark.parametrize("shape", [[], [2]], ids=["scalar", "vector"])
def test_compare_sorts_each_variable_into_one_list(shape):
    wanted = {"same": shape, "missing": shape, "other": shape}
    found = {"same": shape, "other": [3], "unknown": [], "same/adam_m": shape}
    report = weight_files.compare(wanted, found | {"global_step": []})
    assert report.restored == ["same"]
    assert report.new == ["missing"]
    assert report.unused == ["unknown"]
    assert report.mismatched == [
        f"other: the model has shape {shape}, the checkpoint holds [3]"
    ]
    assert weight_files.compare({}, {}) == ([], [], [], [])


def test_the_state_of_an_iterator_beside_the_weights_is_left_alone(tmp_path):
    v1 = tf.compat.v1
    with tf.Graph().as_default(), v1.Session() as session:
        data = tf.data.Dataset.range(3)
        rows = v1.data.make_initializable_iterator(data)
        state = tf.data.experimental.make_saveable_from_iterator(rows)
        weights = v1.get_variable("weights", initializer=[1.0, 2.0])
        session.run([rows.initializer, weights.initializer])
        saver = v1.train.Saver({"rows": state, "weights": weights})
        prefix = saver.save(session, str(tmp_path / "c"))
    reader = weight_files.Reader(prefix)
    names = reader.get_variable_to_shape_map()
    assert any("Iterator" in name for name in names)
    np.testing.assert_array_equal(reader.get_tensor("weights"), [1, 2])


def test_files_of_name_the_index_or_the_safetensors(tmp_path):
    assert weight_files.files_of("a/model.ckpt-1") == ["a/model.ckpt-1.index"]
    folder = tmp_path / "model[1]"
    folder.mkdir()
    for name in ("model-2.safetensors", "model-1.safetensors", "config.json"):
        (folder / name).write_text("")
    assert weight_files.files_of(str(folder)) == [
        str(folder / "model-1.safetensors"),
        str(folder / "model-2.safetensors"),
    ]


def test_killed_between_two_files_no_checkpoint_is_left(
    model, tmp_path, monkeypatch
):
    """Rather than new data under an old index, which no reader accepts."""
    prefix = str(tmp_path / "c")
    weight_files.write(prefix, weight_files.as_tensors(model.variables))
    rename = tf.io.gfile.rename

    def killed_at_the_index(source, target, overwrite):
        if source.endswith(".index"):
            raise KeyboardInterrupt
        rename(source, target, overwrite)

    monkeypatch.setattr(tf.io.gfile, "rename", killed_at_the_index)
    with pytest.raises(KeyboardInterrupt):
        weight_files.write(prefix, weight_files.as_tensors(model.variables))
    assert not (tmp_path / "c.index").exists()
    monkeypatch.setattr(tf.io.gfile, "rename", rename)
    weight_files.write(prefix, weight_files.as_tensors(model.variables))
    weight_files.restore_weights(model.variables, prefix)


def test_a_full_disk_is_one_line_and_leaves_nothing_unfinished(
    tmp_path, monkeypatch
):
    """The checkpoint that was there before the failure stays whole."""
    tensors = {"x": np.arange(5, dtype=np.float32)}
    prefix = str(tmp_path / "model.ckpt-2")
    weight_files.write(str(tmp_path / "model.ckpt-1"), tensors)
    before = sorted(tmp_path.iterdir())

    def fail(prefix, **_):
        path = f"{prefix.numpy().decode()}.data-00000-of-00001.tempstate7"
        (tmp_path / path).write_text("half")
        raise tf.errors.ResourceExhaustedError(
            None,
            None,
            "{{function_node __wrapped__SaveV2_device_/job:localhost/CPU:0}} "
            f"{path}; No space left on device [Op:SaveV2] name: ",
        )

    with monkeypatch.context() as patch:
        patch.setattr(tf.raw_ops, "SaveV2", fail)
        with pytest.raises(UserError) as error:
            weight_files.write(prefix, tensors)
    assert str(error.value) == (
        f"{prefix} cannot be written: No space left on device; mend that (a "
        "full disk needs free space), then give the same command again"
    )
    assert sorted(tmp_path.iterdir()) == before
    weight_files.write(prefix, tensors)
    assert len(list(tmp_path.iterdir())) == len(before) + 2


def test_a_file_that_cannot_get_its_name_is_one_line(tmp_path, monkeypatch):
    def fail(source, target, overwrite):
        raise tf.errors.UnavailableError(None, None, "the server is away")

    monkeypatch.setattr(tf.io.gfile, "rename", fail)
    with pytest.raises(UserError, match="written: the server is away; mend"):
        weight_files.write(str(tmp_path / "c"), {"x": np.zeros([2])})
    assert not list(tmp_path.iterdir())


def test_files_that_a_killed_process_left_are_removed(tmp_path):
    leftover = tmp_path / "c.tmp.data-00000-of-00001.tempstate17"
    leftover.write_text("half")
    other = tmp_path / "other.tmp.index"
    other.write_text("")
    weight_files.write(str(tmp_path / "c"), {"x": np.zeros([2])})
    assert not leftover.exists() and other.exists()
    assert weight_files.read_weights(str(tmp_path / "c"))["x"].shape == (2,)
