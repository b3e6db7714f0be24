#!/usr/bin/env bash
# A largest value that is NaN is hidden by XLA, and the softmax of a row with a
# NaN is not NaN without XLA.
#
# One would guess that a function computes the same with and without
# jit_compile=True, so that a check such as is_finite(reduce_max(abs(gradient)))
# finds a NaN in both; and that a NaN among logits makes the whole row of
# probabilities NaN in both, since all share one sum.
# What happens on a CPU: under XLA, reduce_max and reduce_min pass over a NaN
# and return a finite value. Without XLA, softmax is NaN only where the logit
# is, and 0 elsewhere. argmax passes over a NaN in both.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check \
  tensorflow==2.21.0
export TF_CPP_MIN_LOG_LEVEL=3 CUDA_VISIBLE_DEVICES=
"$folder/venv/bin/python" - <<'PYTHON'
import math

import tensorflow as tf

print("tensorflow", tf.__version__)
row = tf.constant([1.0, math.nan, 3.0, 2.0])


def both(function):
    return [
        tf.function(function, jit_compile=is_compiled)(row).numpy().tolist()
        for is_compiled in (False, True)
    ]


for function in (tf.reduce_max, tf.reduce_min, tf.nn.softmax, tf.argmax):
    print(function.__name__, "without and with XLA:", *both(function))
plain, compiled = both(tf.reduce_max)
assert math.isnan(plain) and compiled == 3.0, "XLA keeps the NaN now"
plain, compiled = both(tf.reduce_min)
assert math.isnan(plain) and compiled == 1.0, "XLA keeps the NaN now"
plain, compiled = both(tf.nn.softmax)
assert plain[0] == plain[3] == 0 and math.isnan(plain[1]), "softmax changed"
assert all(map(math.isnan, compiled)), "softmax under XLA changed"
assert both(tf.argmax) == [2, 2], "argmax changed"
PYTHON
echo "As described."
