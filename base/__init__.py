"""Errors, files, log lines, progress, processes, clusters.

Import base before TensorFlow: importing it hides TensorFlow's start-up
messages and makes scripts start sooner (see tensorflow_import).
"""

from base import tensorflow_import

tensorflow_import.prepare()
