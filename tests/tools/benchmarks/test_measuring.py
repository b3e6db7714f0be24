"""Running scripts and reading numbers from their logs."""

from base.errors import UserError

import pytest

from tools.benchmarks import measuring


def test_numbers_are_read_from_a_log():
    log = "I0 Took 3.5 s\nI0 Wrote 1,234 total instances\n"
    assert measuring.number_between(log, "Took ", " s") == 3.5
    assert measuring.number_between(log, "Wrote ", " total instances") == 1234


def test_a_script_is_run_and_its_memory_measured(tmp_path):
    text = tmp_path / "text.txt"
    text.write_text("one two three\n" * 9)
    run = measuring.run_script(
        "build_vocab.py",
        input_file=text,
        output_file=tmp_path / "vocab.txt",
        vocab_size=120,
    )
    assert (tmp_path / "vocab.txt").exists() and "vocab.txt" in run.log
    assert run.seconds > 0 and run.megabytes > 10


def test_a_script_that_fails_is_quoted():
    with pytest.raises(UserError, match="no file matches") as caught:
        measuring.run_script(
            "build_vocab.py", input_file="/no/where", output_file="/no/vocab"
        )
    assert str(caught.value).startswith("build_vocab.py failed: --input_file")
