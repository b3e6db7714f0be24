"""The old name of python -m tools.extend_checkpoint."""

from base import script

script.moved("python -m tools.extend_checkpoint")
