"""Errors, files, log lines, progress, processes, clusters.

Import base before TensorFlow: it hides TensorFlow's start-up messages, makes
scripts start sooner (see startup) and lets Ctrl-C end them in one line from
then on (see interrupts).
"""

from base import interrupts, startup

interrupts.prepare()
startup.begin()
