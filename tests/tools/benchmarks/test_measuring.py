"""Running scripts and measuring them."""

from base.errors import UserError

import pytest

from tools.benchmarks import measuring


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
    with pytest.raises(UserError, match="^build_vocab.py failed: --input_file"):
        measuring.run_script(
            "build_vocab.py", input_file="/no/where", output_file="/no/vocab"
        )
