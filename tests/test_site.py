"""The documentation as a site: its links and its navigation are whole."""

import subprocess
import sys

import pytest
from paths import ROOT


@pytest.mark.nightly
def test_the_site_is_built_without_a_warning(tmp_path):
    """mkdocs.yml is strict: a warning is an error."""
    run = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--site-dir", tmp_path],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    for page in ("", "reference/modeling", "flags", "published_settings"):
        assert (tmp_path / page / "index.html").exists()
