"""The table of settings, and the files that published models have."""

import json
from pathlib import Path

from base.errors import UserError

import pytest

from checkpoints import known_settings
from checkpoints.known_settings import REFUSED, SETTINGS, WARNED

# Files as their software writes them, of models of a few units.
SAVED = json.loads(
    (Path(__file__).parent / "published_settings.json").read_text()
)


@pytest.mark.parametrize("saved", SAVED)
def test_every_key_of_saved_files_is_known(saved, caplog):
    """And no value that they have by default is refused or warned of."""
    for name, found in SAVED[saved].items():
        for one in found if isinstance(found, list) else [found]:
            if "SparseEncoder" in saved and name != "modules.json":
                with pytest.raises(UserError, match="here it has to be"):
                    known_settings.check(name, f"{saved}/{name}", one)
            else:
                known_settings.check(name, f"{saved}/{name}", one)
    assert not caplog.text


@pytest.mark.parametrize(
    "name", [name for name in SETTINGS if name != known_settings.FILES]
)
def test_what_is_refused_or_warned_of_is_named(name, caplog):
    def nested(key, value):
        first, _, rest = key.partition(".")
        return {first: nested(rest, value) if rest else value}

    for key, setting in SETTINGS[name].items():
        caplog.clear()
        for value in (None, *setting.harmless):
            known_settings.check(name, key, nested(key, value))
        assert not caplog.text
        if setting.treatment == REFUSED:
            with pytest.raises(UserError, match=f"{key} is 'other'"):
                known_settings.check(name, key, nested(key, "other"))
        else:
            known_settings.check(name, key, nested(key, "other"))
            is_warned = f"{key} is 'other'" in caplog.text
            assert is_warned == (setting.treatment == WARNED)
    caplog.clear()
    known_settings.check(
        name, f"{name} of a", {"new": 1, "newer": 2, "no": None}
    )
    known_settings.check(name, f"{name} of a", {"new": 1, "newer": 2})
    assert caplog.text.count("not applied: 'new', 'newer';") == 1
    assert "'no'" not in caplog.text
