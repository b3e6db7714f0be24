"""Marks of single values of pytest.mark.parametrize."""

import pytest


def nightly(*values):
    """Return a row of parameters that `make test` leaves out."""
    return pytest.param(*values, marks=pytest.mark.nightly)


def on_hosts(*values):
    """Return a row of parameters that `make test-hosts` alone has."""
    return pytest.param(*values, marks=pytest.mark.hosts)
