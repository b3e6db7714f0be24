"""The output files that a command names."""

import os

from pretraining import plan


def test_the_home_directory_is_expanded_in_every_form(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    assert plan.expand_output_files("~/x@2,~/y") == [
        os.path.join(tmp_path, name)
        for name in ("x-00000-of-00002", "x-00001-of-00002", "y")
    ]
