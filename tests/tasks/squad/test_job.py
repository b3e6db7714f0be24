"""Where a job for SQuAD finds what was tuned for the weights it uses."""

import types

import pytest

from tasks.squad import job as squad_job


@pytest.mark.parametrize(
    "prefix, wanted",
    [
        ("model/bert_model.ckpt", "model"),
        ("bert_model.ckpt", "."),
        ("model", "model"),  # a Hugging Face directory
        ("", None),
    ],
)
def test_the_folder_of_the_weights(prefix, wanted, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model").mkdir()
    loaded = types.SimpleNamespace(prefix=prefix)
    assert squad_job._directory(loaded) == wanted
