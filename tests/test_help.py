"""--help of every script: it shows each flag that the script has."""

import pytest
import scripts

# TensorFlow defines flags of its own while it is imported. Imported here, they
# are not taken for flags of the first script that imports it.
import tensorflow  # noqa: F401
from paths import ROOT

SCRIPTS = sorted(
    path.stem
    for path in ROOT.glob("*.py")
    if path.read_text().rstrip().endswith("errors.run(main)")
)


@pytest.mark.parametrize("name", SCRIPTS)
def test_help_shows_every_flag(name):
    """Flags of shared modules too, each with a sentence that explains it."""
    own = scripts.load(name).FLAGS
    shown = {flag.name for flag in own.get_key_flags_for_module(name)}
    assert shown == set(own) and shown
    for flag in own:
        assert len(own[flag].help) > 5, flag
