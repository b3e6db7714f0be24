"""Errors, files, log lines, progress, processes, clusters.

Import base before TensorFlow: it sets the level of TensorFlow's messages, and
lets Ctrl-C end scripts in one line from then on (see startup).
"""

from base import startup

startup.begin()
