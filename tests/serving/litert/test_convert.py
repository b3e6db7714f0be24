"""The two mistakes that serving/litert/convert.py names."""

from base.errors import UserError

import pytest
import tensorflow as tf

from serving.litert import convert


@pytest.mark.parametrize(
    "is_new_axis, error, words",
    [
        (True, UserError, "LiteRT lacks .*StridedSlice"),  # x[:, None]
        (False, RuntimeError, "weights: they are not among its constants"),
    ],
)
def test_a_module_that_cannot_be_converted(is_new_axis, error, words):
    module = tf.Module()
    module.weights = [tf.Variable(tf.ones([100_000]))]

    @tf.function(input_signature=[tf.TensorSpec([None, None], name="x")])
    def function(x):
        if is_new_axis:
            return {"y": x[:, None, :] * module.weights[0][0]}
        return {"y": x + 1.0}

    concrete = function.get_concrete_function()
    with pytest.raises(error, match=words):
        convert.convert(module, concrete, "none")
