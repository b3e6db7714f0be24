#!/usr/bin/env bash
# safetensors.numpy writes a transposed array with its numbers in another order.
#
# One would guess that save_file writes what an array shows, as numpy.save does,
# or refuses a view that is not contiguous, as safetensors.torch does. Weights
# are transposed all the time: a kernel is [in, out] in TensorFlow and
# [out, in] in PyTorch.
# What happens: the shape is that of the view, the bytes are those of the memory
# below it. The file is valid, and the matrix that comes back is another one.
# The same happens to every second column. numpy.ascontiguousarray mends both.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check \
  numpy==2.2.6 safetensors==0.8.0
"$folder/venv/bin/python" - "$folder" <<'PYTHON'
import sys

import numpy as np
import safetensors
from safetensors.numpy import load_file, save_file

print("safetensors", safetensors.__version__, "numpy", np.__version__)
file = f"{sys.argv[1]}/x.safetensors"
kernel = np.arange(6, dtype=np.float32).reshape(2, 3)
views = {"transposed": kernel.T, "columns": kernel[:, ::2]}
save_file(views, file)
back = load_file(file)
for name, view in views.items():
    print(name, "saved:", view.tolist(), "loaded:", back[name].tolist())
    assert back[name].shape == view.shape
    assert not np.array_equal(back[name], view), "the numbers are right now"
save_file({k: np.ascontiguousarray(v) for k, v in views.items()}, file)
back = load_file(file)
assert all(np.array_equal(back[k], v) for k, v in views.items())
PYTHON
echo "As described."
