"""run_pretraining.py writes the casing that later scripts use."""

import json

import pytest
import scripts
from pretraining_runs import CASED, flags_for, write_data, write_vocab

from checkpoints import lookup
from checkpoints.run_folder import RunFolder
from pretraining import flags, run
from pretraining.run import Runs

run_pretraining = scripts.load("run_pretraining")

UNCASED = ["the", "paris", "a", "b", "c"]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return write_data(tmp_path_factory.mktemp("casing"))


@pytest.fixture
def casing_of(monkeypatch, data, tmp_path):
    """A function of flags that returns the casing that a run would write."""
    found = []

    def main(_) -> None:
        run_pretraining.check_flags()
        f = run_pretraining.FLAGS
        source = flags.open_source(f, Runs(RunFolder("")))
        found.append(run.with_casing(source, f.resume_from).files)

    def read(**given) -> bool | None:
        values = flags_for(data, tmp_path / "out") | given
        scripts.run(run_pretraining, **values)
        files = found.pop()
        return files.vocabulary and files.settings.do_lower_case

    monkeypatch.setattr(run_pretraining, "main", main)
    return read


def write_casing(folder, do_lower_case: bool) -> None:
    settings = json.dumps({"do_lower_case": do_lower_case})
    (folder / "tokenizer_config.json").write_text(settings)


@pytest.mark.parametrize("flag", ["init_checkpoint", "resume_from"])
def test_the_checkpoint_comes_before_the_vocabulary(casing_of, tmp_path, flag):
    source = tmp_path / "source"
    source.mkdir()
    prefix = source / "model.ckpt-5"
    (source / "model.ckpt-5.index").write_text("")
    vocab_file = write_vocab(source / "vocab.txt", CASED)
    given = {flag: prefix, "vocab_file": vocab_file}
    assert casing_of(**given) is False
    write_casing(source, True)
    assert casing_of(**given) is True
    with pytest.raises(ValueError, match="was trained with True: leave the"):
        casing_of(**given, do_lower_case=False)


def test_a_model_of_the_hub_is_not_asked_for(casing_of, tmp_path, monkeypatch):
    """The records have their casing already."""
    folder = tmp_path / "models--a--b" / "snapshots" / "abc"
    folder.mkdir(parents=True)
    write_vocab(folder / "vocab.txt", UNCASED)
    monkeypatch.setattr(lookup, "find_checkpoint", lambda *_: str(folder))
    assert casing_of(init_checkpoint=str(folder)) is True
    write_vocab(folder / "vocab.txt", CASED)
    assert casing_of(init_checkpoint=str(folder)) is False


def test_without_a_vocabulary_no_casing_is_written(casing_of):
    assert casing_of() is None
    with pytest.raises(ValueError, match="beside the vocabulary: give --vocab"):
        casing_of(do_lower_case=False)
