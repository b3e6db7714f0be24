"""The old name of python -m tools.reproduce_paper."""

from base import script

script.moved("python -m tools.reproduce_paper")
