"""Models on devices: one trace where shapes are not compiled."""

import numpy as np
import tensorflow as tf

from training import prediction


def test_one_trace_serves_batches_of_all_shapes():
    traced = []

    def forward(batch):
        traced.append(batch)
        return {"sum": tf.reduce_sum(batch["ids"], axis=-1)}

    strategy = tf.distribute.get_strategy()
    run = prediction.on_devices(strategy, forward, jit_compile=False)
    assert not run.few_shapes
    for shape in ((3, 8), (2, 16), (1, 8)):
        ids = np.arange(np.prod(shape), dtype=np.int32).reshape(shape)
        np.testing.assert_array_equal(run({"ids": ids})["sum"], ids.sum(-1))
    assert len(traced) == 1
