"""The old name of python -m tools.compile_steps."""

from base import script

script.moved("python -m tools.compile_steps")
