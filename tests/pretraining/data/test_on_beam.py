"""create_pretraining_data.py --runner=beam: the local runner's bytes."""

import random

from base import beam as base_beam
from base.jobs import pipeline

import generator_runs
import pytest
import scripts
from corpora import manual, write
from marks import nightly

from pretraining.data import documents, generation

IN_PROCESS = "--runner=FnApiRunner"


@pytest.fixture(scope="module")
def corpus(tmp_path_factory) -> str:
    """Two files of text, in which some documents occur several times."""
    folder = tmp_path_factory.mktemp("corpus")
    pages = manual(40) + manual(5) + manual(2)
    random.Random(1).shuffle(pages)
    write(folder / "a.txt", pages[:20])
    write(folder / "b.txt", pages[20:])
    return f"{folder}/a.txt,{folder}/b.txt"


def on_both(flags: dict, bucket_bytes: int, tmp_path, name: str):
    """Run a plan on both runners; return bytes and counts of both."""
    found = []
    for runner in ("local", "beam"):
        output = tmp_path / runner / name
        plan = generator_runs.small_buckets(
            {**flags, "output_file": str(output)}, bucket_bytes
        )
        counts = generation.generate(
            plan, base_beam.Flags(1, runner, IN_PROCESS)
        )
        found.append((generator_runs.bytes_of(tmp_path / runner), counts))
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    "name, bucket_bytes, pack_sequences",
    [("x@2", 50_000, True), nightly("x@8", 400_000, False)],
)
def test_the_bytes_are_those_of_the_local_runner(
    corpus, tmp_path, monkeypatch, name, bucket_bytes, pack_sequences
):
    """With many buckets per file, and several files per bucket."""
    monkeypatch.setattr(documents, "CHUNK_BYTES", 30_000)
    flags = generator_runs.flags_for(
        corpus, tmp_path / name, pack_sequences=pack_sequences
    )
    local, on_cluster = on_both(flags, bucket_bytes, tmp_path, name)
    assert local == on_cluster
    assert local[1]["documents"] == 47
    names = {path.name for path in (tmp_path / "beam").iterdir()}
    assert names == {*local[0], ".x.manifest.json"}


@pytest.mark.nightly
def test_a_killed_driver_goes_on_with_the_files_that_are_missing(
    corpus, tmp_path, monkeypatch
):
    flags = generator_runs.flags_for(
        corpus, tmp_path / "x@3", runner="beam", beam_options=IN_PROCESS
    )
    run, to_do = base_beam.run, []

    def run_and_fail(*args):
        run(*args)
        raise OSError(5, "the driver is lost")

    with monkeypatch.context() as patch:
        patch.setattr(base_beam, "run", run_and_fail)
        assert "the driver is lost" in scripts.error_of(
            generator_runs.generator, **flags
        )
    before = generator_runs.bytes_of(tmp_path)
    assert len(before) == 3
    (tmp_path / "x-00001-of-00003").unlink()
    build = pipeline._build
    monkeypatch.setattr(
        pipeline,
        "_build",
        lambda *args: (to_do.extend(args[3].todo), build(*args)),
    )
    scripts.run(generator_runs.generator, **flags)
    assert to_do == [1]
    assert generator_runs.bytes_of(tmp_path) == before


@pytest.mark.nightly
def test_bad_text_ends_in_one_line(tmp_path):
    source = tmp_path / "in.txt"
    source.write_bytes(b"a\n\nb\nabc\xe9 f\n")
    flags = {"runner": "beam", "beam_options": IN_PROCESS}
    output = tmp_path / "out" / "x"
    line = generator_runs.error_of(str(source), output, **flags)
    assert "in.txt: line 4 is not UTF-8: byte 0xe9" in line
    write(source, manual(4))
    generator_runs.run(str(source), output, **flags)


@pytest.mark.parametrize(
    "flags, message",
    [
        ({"beam_options": "--runner=x"}, "--beam_options needs --runner=beam"),
        (
            {"runner": "beam", "beam_options": "--runner=NoSuchRunner"},
            "Beam's NoSuchRunner cannot run the pipeline: Unexpected pipeline",
        ),
        (
            {"runner": "beam", "beam_options": "--parallelism=many"},
            "argument --parallelism: invalid int value: 'many'",
        ),
        (
            {"runner": "beam", "beam_options": "parallelism=2"},
            "found 'parallelism=2', wanted --name=value pairs",
        ),
        ({"runner": "beam", "beam_options": "--runner='x"}, "No closing"),
    ],
)
def test_bad_options_end_in_one_line(corpus, tmp_path, flags, message):
    found = generator_runs.error_of(corpus, tmp_path / "x", **flags)
    assert message in found
    assert not (tmp_path / "x").exists()
