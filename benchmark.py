"""The old name of python -m tools.benchmark."""

from base import script

script.moved("python -m tools.benchmark")
