#!/usr/bin/env bash
# Importing OpenVINO takes the messages of absl's programs off the terminal.
#
# One would guess that importing a library for inference leaves the logging of
# the program as it is. Programs around TensorFlow log with absl, and many keep
# a file with the same messages.
# What happens: `import openvino` also imports its converter of models, whose
# logger takes absl's handler off the root logger. In a program that has a
# handler for a file beside absl's, no warning or error of absl.logging appears
# on standard error any more; the file has them.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check \
  absl-py==2.5.0 numpy==2.4.6 openvino==2026.4.1
cat >"$folder/program.py" <<'PYTHON'
import logging as standard_logging
import sys

from absl import app, logging


def main(_):
    file = standard_logging.FileHandler(sys.argv[1])
    standard_logging.getLogger().addHandler(file)
    logging.error("before the import")
    import openvino

    logging.error("after the import")
    print("openvino", openvino.__version__)


app.run(main)
PYTHON
"$folder/venv/bin/python" "$folder/program.py" "$folder/log" 2>"$folder/shown"
"$folder/venv/bin/pip" freeze | grep absl
echo "on standard error:"
cut -d "]" -f 2- "$folder/shown"
echo "in the file:"
cat "$folder/log"
grep --quiet "before the import" "$folder/shown"
grep --quiet "after the import" "$folder/log"
if grep --quiet "after the import" "$folder/shown"; then
  echo "CHANGED: the message after the import is shown"
  exit 1
fi
