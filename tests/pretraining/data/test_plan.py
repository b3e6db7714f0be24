"""The output files that a command names, and the casing that it has."""

import logging
import os

import pytest
from paths import GOLDEN

from pretraining.data import plan
from pretraining.data.instances import InstanceConfig


def test_the_home_directory_is_expanded_in_every_form(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    assert plan.expand_output_files("~/x@2,~/y") == [
        os.path.join(tmp_path, name)
        for name in ("x-00000-of-00002", "x-00001-of-00002", "y")
    ]


@pytest.mark.parametrize(
    "name, flag, casing, words",
    [
        ("cased", None, False, "False, as the capitals in"),
        ("uncased", None, True, "True, as"),
        ("cased", True, True, "looks cased"),
        ("uncased", False, False, "looks uncased"),
        ("cased", False, False, ""),
        ("uncased", True, True, ""),
    ],
)
def test_the_casing_is_the_flags_or_the_vocabularys(
    tmp_path, caplog, name, flag, casing, words
):
    (tmp_path / "in.txt").write_text("a b\n\nc d\n")
    with caplog.at_level(logging.INFO):
        made = plan.make_plan(
            str(tmp_path / "in.txt"),
            str(tmp_path / "out"),
            str(GOLDEN / "vocab" / f"{name}.txt"),
            InstanceConfig(),
            flag,
        )
    assert made.steps.do_lower_case is casing
    assert made.job.fingerprint["do_lower_case"] is casing
    assert words in caplog.text and bool(words) is bool(caplog.text)
