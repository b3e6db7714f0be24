"""Errors, files, log lines, progress, processes, clusters.

Import base before TensorFlow: it hides TensorFlow's start-up messages, makes
scripts start sooner and lets Ctrl-C end them in one line from then on (see
startup).
"""

from base import startup

startup.begin()
