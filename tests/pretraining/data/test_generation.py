"""Plans; many buckets make each file, in the order of the passes."""

import collections
import dataclasses
import json
import os
import random
import shutil

from base import beam

import generator_runs
import pytest
from corpora import VOCAB_FILE, manual, write
from paths import GOLDEN

from pretraining.data import generation
from pretraining.data.schema import InstanceConfig
from records import tfrecord


@pytest.fixture(scope="module")
def corpus(tmp_path_factory) -> str:
    """Two files of text."""
    return generator_runs.write_corpus(tmp_path_factory.mktemp("corpus"))


def test_many_buckets_make_each_file(corpus, tmp_path):
    """Memory is bounded: fewer files do not make buckets larger."""
    flags = generator_runs.flags_for(corpus, tmp_path / "x@2")
    plan = generator_runs.small_buckets(flags, 40_000)
    assert plan.steps.num_buckets >= 8
    counts = generation.generate(plan, beam.Flags(2))
    assert counts["documents"] == 60
    written = sum(
        tfrecord.count_records(str(tmp_path / f"x-0000{i}-of-00002"))
        for i in (0, 1)
    )
    assert written == counts["instances"]
    # The long pages of the manual were dealt out in parts.
    assert counts["parts"] > 60
    lines = sum(len(page) for page in manual(60))
    assert counts["sentences"] + counts["lines_without_tokens"] == lines


def test_passes_follow_one_another(tmp_path):
    """All of the text comes once before any of it comes again."""
    documents = [
        [f"{a} {b} {a}" for b in "uvwxyz"] for a in "abcdefghijklmnopqrst"
    ]
    source = write(tmp_path / "in.txt", documents)
    flags = generator_runs.flags_for(source, tmp_path / "x", dupe_factor=6)
    plan = generator_runs.small_buckets(flags, 300)
    assert plan.steps.num_buckets > 2
    generation.generate(plan, beam.Flags(1))
    sequences = [
        tfrecord.decode_example(record)
        for record in tfrecord.read_records(str(tmp_path / "x"))
    ]
    firsts = []
    for features in sequences:
        ids = features["input_ids"].copy()
        count = int(features["masked_lm_weights"].sum())
        positions = features["masked_lm_positions"][:count]
        ids[positions] = features["masked_lm_ids"][:count]
        firsts.append(int(ids[1]))
    size = len(firsts) // 6
    for start in range(0, 6 * size, size):
        assert len(set(firsts[start : start + size])) >= 18
    # Shuffled within a pass, and differently in each.
    assert (
        len({tuple(firsts[i : i + 10]) for i in range(0, 6 * size, size)}) > 1
    )


def test_there_may_be_as_many_files_as_documents(tmp_path):
    words = "zero one two three four five six".split()
    documents = [[f"{word} {word}"] * 9 for word in words]
    source = write(tmp_path / "in.txt", documents)
    assert generator_runs.run(source, tmp_path / "x@7") == 0
    mixed = collections.Counter()
    for index in range(7):
        path = str(tmp_path / f"x-{index:05}-of-00007")
        for record in tfrecord.read_records(path):
            features = tfrecord.decode_example(record)
            ids = features["input_ids"].copy()
            count = int(features["masked_lm_weights"].sum())
            ids[features["masked_lm_positions"][:count]] = features[
                "masked_lm_ids"
            ][:count]
            a = set(ids[(features["segment_ids"] == 0)].tolist())
            b = set(ids[features["segment_ids"] == 1].tolist())
            is_random = features["next_sentence_labels"][0]
            assert len(a & b - {102}) == (not is_random)
            mixed[is_random] += 1
    assert mixed[0] > 5 and mixed[1] > 5
    assert "only 7 documents" in generator_runs.error_of(
        source, tmp_path / "y@8"
    )


def test_a_bucket_of_one_document_has_true_next_sentences(tmp_path):
    """Also one of copies, which share a bucket."""
    texts = [["one two"] * 30] * 3 + [["three four"] * 30]
    source = write(tmp_path / "in.txt", texts)
    flags = generator_runs.flags_for(source, tmp_path / "x")
    plan = generator_runs.small_buckets(flags, 10_000)
    steps = dataclasses.replace(plan.steps, num_buckets=16)
    counts = generation.generate(plan._replace(steps=steps), beam.Flags(2))
    assert counts["parts"] == 4
    assert counts["instances"] > 5 and not counts["random_next"]
    alone = write(tmp_path / "alone.txt", texts[:3])
    for bucket_mb in (1, 4):
        assert "only one document" in generator_runs.error_of(
            alone, tmp_path / "y", bucket_mb=bucket_mb
        )


def test_records_do_not_depend_on_the_order(corpus, tmp_path):
    """Nor on how the text is divided into files, or dealt out."""
    pages = manual(60)
    random.Random(1).shuffle(pages)
    (tmp_path / "in").mkdir()
    for number in range(6):
        write(tmp_path / "in" / f"{number}", pages[number::6])
    found = []
    for source, name in ((corpus, "a"), (f"{tmp_path}/in/*", "b")):
        flags = generator_runs.flags_for(source, tmp_path / name / "x@3")
        plan = generator_runs.small_buckets(flags, 100_000)
        generation.generate(plan, beam.Flags(2))
        found.append(generator_runs.bytes_of(tmp_path / name))
    assert found[0] == found[1] and len(found[0]) == 3


def test_the_home_directory_is_expanded_in_every_form(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    assert generation.expand_output_files("~/x@2,~/y") == [
        os.path.join(tmp_path, name)
        for name in ("x-00000-of-00002", "x-00001-of-00002", "y")
    ]


def plan_of(folder, vocab):
    flags = generation.GeneratorFlags(
        str(folder / "in.txt"), str(folder / "out"), str(vocab)
    )
    return generation.make_plan(flags, InstanceConfig())


@pytest.mark.parametrize("name", ["cased", "uncased"])
def test_the_vocabulary_decides_the_casing(tmp_path, name):
    (tmp_path / "in.txt").write_text("a b\n\nc d\n")
    made = plan_of(tmp_path, GOLDEN / "vocab" / f"{name}.txt")
    is_lower = name == "uncased"
    assert made.steps.tokenizer_settings.do_lower_case is is_lower
    assert made.job.fingerprint["do_lower_case"] is is_lower


def test_accents_stay_as_the_files_beside_the_vocabulary_say(tmp_path):
    """Also for the command that continues a run: it is another fingerprint."""
    (tmp_path / "in.txt").write_text("a b\n\nc d\n")
    vocab = GOLDEN / "vocab" / "uncased.txt"
    shutil.copy(vocab, tmp_path / "vocab.txt")
    settings = {"do_lower_case": True, "strip_accents": False}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings))
    plain, own = (
        plan_of(tmp_path, path) for path in (vocab, tmp_path / "vocab.txt")
    )
    assert own.steps.tokenizer_settings[:3] == (True, False, True)
    assert own.job.fingerprint == {
        **plain.job.fingerprint,
        "strip_accents": False,
    }


def test_another_command_corpus_or_vocabulary_is_refused(tmp_path):
    """What a run is continued by: tests/base/test_jobs.py has the rest."""
    source = write(tmp_path / "in.txt", manual(5))
    vocab = tmp_path / "vocab.txt"
    shutil.copy(VOCAB_FILE, vocab)
    output = tmp_path / "x"
    generator_runs.run(source, output, vocab_file=vocab)
    before = output.read_bytes()

    def error_of(**flags) -> str:
        flags = {"vocab_file": vocab} | flags
        return generator_runs.error_of(source, output, **flags)

    assert "--max_seq_length was 128, is 64" in error_of(max_seq_length=64)
    assert "--bucket_mb was 4, is 8" in error_of(bucket_mb=8)
    with open(vocab, "a") as file:
        file.write("newword\n")
    assert "vocab_file (SHA-256) was" in error_of()
    times = os.stat(source).st_atime_ns, os.stat(source).st_mtime_ns
    with open(source, "r+") as file:
        file.write("X")
    os.utime(source, ns=times)
    words = f"{source} has changed since (the same size"
    assert words in error_of(vocab_file=VOCAB_FILE)
    assert output.read_bytes() == before
    # Once the file is deleted, another command may use its name.
    output.unlink()
    generator_runs.run(source, output)
