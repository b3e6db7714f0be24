"""Models that all tests of this folder share: making them takes seconds."""

import page_models
import pytest


@pytest.fixture(scope="session")
def model_of(tmp_path_factory):
    """Return a function of a kind of model -> it; see page_models.py."""
    return page_models.made_once(tmp_path_factory.mktemp("models"))
