"""Errors, files, log lines, progress, processes, clusters.

Import base before TensorFlow: importing it hides TensorFlow's start-up
messages (see tensorflow_messages).
"""

from base import tensorflow_messages

tensorflow_messages.hide()
