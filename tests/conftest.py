"""Tests run on the files of the checkout, whatever the working directory."""

import gc
import os
import signal
import sys
from pathlib import Path

import hypothesis
import pytest
from absl import logging

# A shell that runs the tests in the background ignores Ctrl-C, and so would the
# scripts that tests start.
signal.signal(signal.SIGINT, signal.default_int_handler)

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
# training/devices.py, avoid_broken_products, would cost each process its probe.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_FP16")

# A slow machine is no failure, and every run tries the same examples: a failure
# belongs to a change. --hypothesis-profile=default tries others.
hypothesis.settings.register_profile(
    "same_every_time", deadline=None, derandomize=True
)
hypothesis.settings.load_profile("same_every_time")


@pytest.fixture(autouse=True)
def log_level() -> None:
    """Log from INFO on, as scripts do, whatever level a test before left."""
    logging.set_verbosity(logging.INFO)


@pytest.fixture(autouse=True)
def random_seeds() -> None:
    """Weights and dropout that a test does not seed are the same every time."""
    if "tensorflow" in sys.modules:
        sys.modules["tensorflow"].keras.utils.set_random_seed(1)


@pytest.fixture(scope="session")
def hub_folder(tmp_path_factory) -> Path:
    """A tiny masked LM as a Hugging Face directory; is not to be changed."""
    import hub_models  # imports TensorFlow, which not all tests need

    return hub_models.write_model(tmp_path_factory.mktemp("hub"))


@pytest.fixture(scope="session")
def encoder_dir(tmp_path_factory) -> Path:
    """An encoder of classifier_runs.py; is not to be changed."""
    import classifier_runs
    import tiny

    return tiny.write_model(
        tmp_path_factory.mktemp("encoder"),
        classifier_runs.CONFIG,
        classifier_runs.VOCAB,
    )


@pytest.fixture(scope="session")
def sentences_dir(tmp_path_factory) -> Path:
    """The sentences of classifier_runs.py; are not to be changed."""
    import classifier_runs

    return classifier_runs.write_data(tmp_path_factory.mktemp("sentences"))


@pytest.fixture
def tensorflow_files(monkeypatch) -> None:
    """Remote paths go through TensorFlow, whatever a test before imported."""
    monkeypatch.delitem(sys.modules, "apache_beam", raising=False)


def pytest_collection_finish() -> None:
    """Leave what is imported out of garbage collections: 7% of the time."""
    gc.collect()
    gc.freeze()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let the tests of a case of the contract follow each other.

    The model of the case is then made in one process alone.
    """

    def order(item: pytest.Item) -> tuple[bool, str]:
        if item.path.name != "test_tasks_contract.py":
            return True, ""
        values = item.callspec.params if hasattr(item, "callspec") else {}
        case = values.get("case")
        return False, case.name if case else values.get("name", "")

    items.sort(key=order)
