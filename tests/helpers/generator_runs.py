"""A corpus, and runs of create_pretraining_data.py on it."""

import dataclasses
import pathlib
import sys

import scripts
from corpora import VOCAB_FILE, manual, write
from paths import ROOT

from pretraining.data import generation
from pretraining.data.schema import InstanceConfig

generator = scripts.load("create_pretraining_data")


def write_corpus(folder: pathlib.Path) -> str:
    """Write 60 documents in two files; return patterns that match both.

    Together they are enough for several documents in each bucket.
    """
    pages = manual(60)
    write(folder / "a.txt", pages[:25])
    write(folder / "b.txt", pages[25:])
    return f"{folder}/a.txt,{folder}/b*.txt"


def flags_for(corpus: str, output: pathlib.Path | str, **more) -> dict:
    """Return flags of a short run; `more` are added or replaced."""
    return {
        "input_file": corpus,
        "output_file": str(output),
        "vocab_file": VOCAB_FILE,
        "dupe_factor": 2,
        "num_workers": 1,
        **more,
    }


def run(corpus: str, output: pathlib.Path | str, **more) -> int:
    """Run the script in this process."""
    return scripts.run(generator, **flags_for(corpus, output, **more))


def command(flags: dict) -> list[str]:
    """Return the command line of a run in a process of its own."""
    script = str(ROOT / "create_pretraining_data.py")
    return [sys.executable, script] + [
        f"--{name}={value}" for name, value in flags.items()
    ]


def error_of(corpus: str, output: pathlib.Path | str, **more) -> str:
    """Run with bad flags or input and return the error line."""
    return scripts.error_of(generator, **flags_for(corpus, output, **more))


def bytes_of(folder: pathlib.Path) -> dict[str, bytes]:
    """Return name -> content of the files that are not hidden."""
    return {
        path.name: path.read_bytes()
        for path in folder.iterdir()
        if not path.name.startswith(".")
    }


def small_buckets(flags: dict, bucket_bytes: int) -> generation.GenerationPlan:
    """Return the script's plan with buckets smaller than 1 MB of text."""
    names = ("input_file", "output_file", "vocab_file")
    config = InstanceConfig(
        dupe_factor=flags["dupe_factor"],
        pack_sequences=flags.get("pack_sequences", False),
    )
    own = generation.GeneratorFlags(**{name: flags[name] for name in names})
    plan = generation.make_plan(own, config)
    num_buckets = generation.count_buckets(
        sum(size for _, size, _ in plan.inputs),
        bucket_bytes,
        plan.steps.num_files,
    )
    steps = dataclasses.replace(
        plan.steps, bucket_bytes=bucket_bytes, num_buckets=num_buckets
    )
    return plan._replace(steps=steps)
