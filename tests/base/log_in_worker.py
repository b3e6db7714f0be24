"""A job for worker processes that writes log lines; see test_terminal.py."""

from absl import logging


def setup(settings):
    return settings


def work(state, job, report):
    logging.info("job %d", job)
    logging.warning("careful")
    return job + 1
