"""The old name of python -m tools.verify_run."""

from base import script

script.moved("python -m tools.verify_run")
