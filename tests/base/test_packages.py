"""Packages that may be missing."""

import sys

from base import packages
from base.errors import UserError

import pytest


def test_a_package_that_is_there():
    assert packages.load("json.decoder", "x", "json").JSONDecoder


def test_a_missing_package_is_named_with_its_requirements(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(UserError) as caught:
        packages.load("pyarrow", "--x", "pyarrow", "requirements-x.txt")
    line = str(caught.value)
    assert line.startswith("--x needs pyarrow (")
    assert line.endswith("): pip install -r requirements-x.txt")
