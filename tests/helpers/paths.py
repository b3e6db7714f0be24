"""The folders of the checkout that tests use."""

from pathlib import Path

HELPERS = Path(__file__).resolve().parent
TESTS = HELPERS.parent
ROOT = TESTS.parent
GOLDEN = TESTS / "golden"
