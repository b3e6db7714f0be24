"""Files in a model's folder that change what it computes."""

import json
import shutil
from pathlib import Path

from base.errors import UserError

import hub_models
import hub_server
import pytest

from checkpoints import hub, known_settings, lookup
from checkpoints.known_settings import REFUSED, WARNED


@pytest.fixture
def folder(hub_folder, tmp_path) -> Path:
    """A Hugging Face directory that a test may change."""
    return Path(shutil.copytree(hub_folder, tmp_path / "model"))


@pytest.mark.parametrize("name", known_settings.SETTINGS[known_settings.FILES])
def test_files_that_change_a_model_are_named(folder, caplog, name):
    (folder / name).write_text("{}")
    treatment = known_settings.SETTINGS[known_settings.FILES][name].treatment
    if treatment == REFUSED:
        with pytest.raises(UserError, match=f"^{folder} has {name}: "):
            lookup.find_checkpoint(str(folder))
        # Also where it is alone.
        (folder / "model.safetensors").unlink()
        with pytest.raises(UserError, match=f"^{folder} has {name}: "):
            lookup.find_checkpoint(str(folder))
        return
    assert lookup.find_checkpoint(str(folder)) == str(folder)
    assert (f"{folder} has {name}: " in caplog.text) == (treatment == WARNED)


def test_files_of_the_hub_that_change_a_model_are_named(
    folder, tmp_path, caplog
):
    server = hub_server.HubServer()
    files = hub_server.read_folder(folder)
    adapter = {"adapter_config.json": b"{}", "adapter_model.safetensors": b""}
    server.add("a/adapter", main=files | adapter)
    server.add("a/adapter-alone", main=adapter)
    server.add("a/setfit", main=files | {"config_setfit.json": b"{}"})
    with hub_models.client_of(server, tmp_path / "home"):
        for name in ("adapter", "adapter-alone"):
            with pytest.raises(UserError, match="has adapter_config.json: an "):
                hub.fetch(f"hf://a/{name}")
        hub.fetch("hf://a/setfit")
    server.close()
    assert "has config_setfit.json: a classifier of SetFit" in caplog.text
    assert not any("adapter_model" in line for line in server.requests)


def test_the_adapter_of_an_encoder_in_a_folder(folder, tmp_path):
    inner = tmp_path / "0_Transformer"
    folder.rename(inner)
    kind = "sentence_transformers.models.Transformer"
    modules = [{"path": inner.name, "type": kind}]
    (tmp_path / "modules.json").write_text(json.dumps(modules))
    assert lookup.find_checkpoint(str(tmp_path)) == str(inner)
    # That of the root belongs to no model.
    (tmp_path / "adapter_config.json").write_text("{}")
    assert lookup.find_checkpoint(str(tmp_path)) == str(inner)
    (inner / "adapter_config.json").write_text("{}")
    with pytest.raises(UserError, match=f"^{inner} has adapter_config.json"):
        lookup.find_checkpoint(str(tmp_path))


@pytest.mark.parametrize(
    "kind, path",
    [
        ("Router", ""),
        ("StaticEmbedding", ""),
        ("WordEmbeddings", "0_WordEmbeddings"),
        ("CLIPModel", "0_CLIPModel"),
        ("Transformer", "../model"),
    ],
)
def test_a_model_without_an_encoder_says_what_it_has(folder, kind, path):
    """StaticEmbedding has model.safetensors, Asym's is in config.json."""
    modules = [{"path": path, "type": f"sentence_transformers.models.{kind}"}]
    (folder / "modules.json").write_text(json.dumps(modules))
    words = f"^{folder}/modules.json: its modules are {kind}, the first in "
    with pytest.raises(UserError, match=words):
        lookup.find_checkpoint(str(folder))
