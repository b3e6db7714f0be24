"""Scripts that read a model by its name on the hub."""

import concurrent.futures
import json
from collections.abc import Iterator
from pathlib import Path

import classifier_runs
import hub_models
import hub_server
import pytest
import scripts
from interruptions import interrupted_at

from checkpoints import hub, training_state
from checkpoints.run_folder import Identity, RunFolder
from extras import sweeps
from finetuning.flags import read_settings

NAME = "hf://a/model"


@pytest.fixture(scope="module")
def server(hub_folder) -> Iterator[hub_server.HubServer]:
    server = hub_server.HubServer()
    server.add("a/model", main=hub_server.read_folder(hub_folder))
    yield server
    server.close()


@pytest.fixture(scope="module")
def client(server, tmp_path_factory) -> Iterator[None]:
    with hub_models.client_of(server, tmp_path_factory.mktemp("home")):
        yield


def test_masks_are_filled_as_from_the_folder(client, hub_folder, capsys):
    fill_mask = scripts.load("fill_mask")
    for place in (hub_folder, NAME):
        scripts.run(fill_mask, init_checkpoint=place, text="the [MASK] sat")
    first, second = capsys.readouterr().out.split("the [MASK] sat\n")[1:]
    assert first == second and "0." in first


def test_a_model_is_converted(client, hub_folder, tmp_path):
    convert = scripts.load("convert_checkpoint")
    out = tmp_path / "out"
    scripts.run(convert, input=NAME, output=out, output_format="original")
    vocab = (hub_folder / "vocab.txt").read_text()
    assert (out / "vocab.txt").read_text() == vocab
    assert (out / "bert_model.ckpt.index").exists()
    message = scripts.error_of(
        convert, input="hf://model", output=out / "x", output_format="original"
    )
    assert message.startswith("--input=hf://model: wanted hf://owner/name")


def flags_for(sentences_dir: Path, out: Path, **more) -> dict:
    flags = classifier_runs.flags_for(Path(), sentences_dir, out, **more)
    return flags | {
        "init_checkpoint": NAME,
        "max_seq_length": 12,
        "train_batch_size": 50,
        "num_train_epochs": 1,
        "jit_compile": False,
        "pad_to_max_length": True,
    }


def replace(server, name: str, files: dict[str, bytes]) -> None:
    """Give a model a new commit; a new process asks for it."""
    before = server.repositories[name]
    server.add(name, main=files)
    server.repositories[name].files.update(before.files)
    hub.fetch.cache_clear()


@pytest.mark.nightly
def test_a_run_goes_on_with_its_commits(
    client, server, hub_folder, sentences_dir, tmp_path
):
    """The model on the hub changes while it is interrupted."""
    run_classifier = scripts.load("run_classifier")
    files = hub_server.read_folder(hub_folder)
    server.add("a/encoder", main=files)
    out = tmp_path / "out"
    name = "hf://a/encoder"
    flags = flags_for(sentences_dir, out, save_checkpoints_steps=2)
    flags["init_checkpoint"] = name
    with interrupted_at(r"Saved .*model\.ckpt-2$"):
        scripts.run(run_classifier, **flags)
    run = json.loads((out / "training_config.json").read_text())
    commit = server.repositories["a/encoder"].commits["main"]
    assert run["adjustable"]["init_checkpoint"] == f"{name}@{commit}"
    config = json.loads(files["config.json"]) | {"hidden_act": "relu"}
    replace(
        server,
        "a/encoder",
        files | {"config.json": json.dumps(config).encode()},
    )
    assert scripts.run(run_classifier, **flags) == 0
    assert json.loads((out / "training_config.json").read_text()) == run
    # The new commit is read where it is asked for.
    flags["init_checkpoint"] = f"{name}@main"
    line = scripts.error_of(run_classifier, **flags)
    assert "belongs to a run with model" in line


def test_the_runs_of_a_sweep_have_one_commit(
    client, server, hub_folder, sentences_dir, tmp_path
):
    """Also those that a later command adds."""
    run_classifier = scripts.load("run_classifier")
    files = hub_server.read_folder(hub_folder)
    server.add("a/swept", main=files)

    def command(count: int) -> list[str]:
        flags = flags_for(sentences_dir, tmp_path, num_restarts=count)
        flags["init_checkpoint"] = "hf://a/swept"
        parsed = scripts.parse(run_classifier, **flags)
        settings = read_settings(parsed, RunFolder.read(parsed.output_dir))
        recorded = settings.adjustable()["init_checkpoint"]
        sweep = sweeps.from_flags(parsed, "s.py", recorded)
        return sweep.command(list(sweep.runs)[-1], "out")

    commit = server.repositories["a/swept"].commits["main"]
    wanted = f"--init_checkpoint=hf://a/swept@{commit}"
    assert command(2).count(wanted) == 1
    folder = tmp_path / "runs" / "seed1"
    recorded = {"init_checkpoint": f"hf://a/swept@{commit}"}
    folder.mkdir(parents=True)
    RunFolder(str(folder)).claim(Identity({}, recorded, {}))
    training_state.TrainingState(RunFolder.read(str(folder)), [], {}).save(1)
    replace(server, "a/swept", files | {"README.md": b"new"})
    assert wanted in command(3)


def test_readers_that_start_together(server, tmp_path):
    """Machines of a cluster that share a home: the weights come once.

    The client's locks are on files, so that threads stand for processes.
    """
    before = len(server.requests)
    fetch = hub.fetch.__wrapped__
    with (
        hub_models.client_of(server, tmp_path),
        concurrent.futures.ThreadPoolExecutor(4) as pool,
    ):
        found = set(pool.map(fetch, [NAME] * 4))
    assert len(found) == 1 and found.pop().startswith(str(tmp_path))
    weights = [r for r in server.requests[before:] if "safetensors" in r]
    assert len([r for r in weights if r.startswith("GET")]) == 1
