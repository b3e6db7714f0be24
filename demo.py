"""The old name of python -m tools.demo."""

from base import script

script.moved("python -m tools.demo")
