"""From a dump to records on a file system that is not this machine's.

Local paths and those of another file system give the same bytes, and nothing
needs TensorFlow.
"""

import pathlib
import subprocess
import sys

import corpus_runs
import generator_runs
import pytest
import scripts
from paths import HELPERS, ROOT

CODE = """
import sys
sys.path[:0] = sys.argv[1:3]
import scripts, shared_files
steps = eval(sys.argv[3])
for name, flags in steps:
    assert scripts.run(scripts.load(name), **flags) == 0
assert "tensorflow" not in sys.modules
"""


def steps(folder: str, records: str, beam: dict) -> list[tuple[str, dict]]:
    """Return scripts and their flags, from a dump to records."""
    train, vocab = f"{folder}/out/train-*", f"{folder}/out/vocab.txt"
    return [
        (
            "prepare_corpus",
            {
                "input_file": f"{folder}/in/*.bz2",
                "output_dir": f"{folder}/out",
                "num_shards": 2,
                **beam,
            },
        ),
        (
            "build_vocab",
            {
                "input_file": train,
                "output_file": vocab,
                "vocab_size": 3000,
                **beam,
            },
        ),
        (
            "create_pretraining_data",
            {
                "input_file": train,
                "vocab_file": vocab,
                "output_file": f"{records}/x@2",
                "dupe_factor": 2,
                **beam,
            },
        ),
    ]


@pytest.mark.nightly
def test_another_file_system_gets_the_same_bytes(tmp_path, monkeypatch):
    found = []
    for name in ("local", "shared"):
        root = tmp_path / name
        (root / "data" / "in").mkdir(parents=True)
        dump = root / "data" / "in" / "wiki.bz2"
        dump.write_bytes(corpus_runs.ENGLISH.read_bytes())
        if name == "local":
            for script, flags in steps(f"{root}/data", f"{root}/x", {}):
                assert scripts.run(scripts.load(script), **flags) == 0
        else:
            _run_on_shared_files(root, monkeypatch)
        data, records = (root / "data" / "out"), root / "x"
        found.append(
            (
                {
                    path.name: path.read_bytes()
                    for path in data.iterdir()
                    if path.suffix == ".txt"
                },
                generator_runs.bytes_of(records),
            )
        )
    assert found[0] == found[1]
    assert len(found[0][0]) == 3 and len(found[0][1]) == 2


def _run_on_shared_files(root: pathlib.Path, monkeypatch) -> None:
    """Run all steps in a process that has not imported TensorFlow."""
    monkeypatch.setenv("SHARED_FILES", str(root))
    beam = {"runner": "beam", "beam_options": "--runner=FnApiRunner"}
    todo = steps("shared://data", "shared://x", beam)
    result = subprocess.run(
        [sys.executable, "-c", CODE, str(ROOT), str(HELPERS), repr(todo)],
        capture_output=True,
        text=True,
        cwd=root,
    )
    assert result.returncode == 0, result.stderr[-3000:]
