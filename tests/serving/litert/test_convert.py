"""The two mistakes that serving/litert/convert.py names."""

from base.errors import UserError

import pytest
import tensorflow as tf

from serving.litert import convert


def module_of(numbers: int) -> tf.Module:
    module = tf.Module()
    module.weights = [tf.Variable(tf.ones([numbers]))]
    return module


def test_a_file_without_weights_is_noticed():
    with pytest.raises(RuntimeError, match="90 bytes for 1000 weights"):
        convert._check_weights(b"x" * 90, module_of(1000), "none")
    convert._check_weights(b"x" * 1000, module_of(1000), "int8")


def test_an_operation_that_litert_lacks_is_named():
    """x[:, None] of an unknown size."""
    module = module_of(1)

    @tf.function(input_signature=[tf.TensorSpec([None, None], name="x")])
    def function(x):
        return {"y": x[:, None, :] * module.weights[0]}

    signatures = {"f": function.get_concrete_function()}
    with pytest.raises(UserError, match="LiteRT lacks .*StridedSlice"):
        convert.convert(module, signatures, "none")
