"""The old name of python -m tools.playground."""

from base import script

script.moved("python -m tools.playground")
