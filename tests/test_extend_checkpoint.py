"""extend_checkpoint: vocabulary, configuration and weights agree."""

import json
import shutil
from pathlib import Path

import mask_models
import numpy as np
import pytest
import scripts
import tensorflow as tf

from checkpoints import weight_files
from checkpoints.checkpoint import open_checkpoint
from pretraining.model import BertForPreTraining

extend_checkpoint = scripts.load("tools.extend_checkpoint")
fill_mask = scripts.load("fill_mask")

TABLE = "bert/embeddings/word_embeddings"
BIAS = "cls/predictions/output_bias"
POSITIONS = "bert/embeddings/position_embeddings"

# Two [unused] tokens; the configuration has 20 rows, two more than tokens.
VOCAB = ["[PAD]", "[unused1]", "[unused2]", *mask_models.WORDS.split()[1:]]


@pytest.fixture(scope="module")
def source(tmp_path_factory) -> Path:
    folder = mask_models.write_model(tmp_path_factory.mktemp("model"))
    (folder / "vocab.txt").write_text("\n".join(VOCAB) + "\n")
    return folder


def extend(source: Path | str, out: Path, **flags) -> None:
    flags = {"init_checkpoint": source, "output_dir": out} | flags
    assert scripts.run(extend_checkpoint, **flags) == 0


def write(path: Path, text: str) -> str:
    path.write_text(text, "utf-8")
    return str(path)


@pytest.fixture
def words(tmp_path) -> str:
    """Five words: two replace tokens, two take rows, one needs a new one."""
    return write(tmp_path / "words", "mats\ncats\ncatmat\nsats\nons\n")


def weights_of(folder: Path) -> dict[str, np.ndarray]:
    return weight_files.read_weights(str(folder / "bert_model.ckpt"))


def lines_of(path: Path) -> list[str]:
    return path.read_text("utf-8").splitlines()


# --- What comes out ----------------------------------------------------------


def test_words_of_a_list(source, words, tmp_path, caplog):
    write(source / "vocab.txt", "\n".join([*VOCAB, "##mat"]) + "\n")
    caplog.set_level("INFO", logger="absl")
    try:
        extend(source, tmp_path / "out", new_words_file=words)
    finally:
        write(source / "vocab.txt", "\n".join(VOCAB) + "\n")
    out = tmp_path / "out"
    vocab = lines_of(out / "vocab.txt")
    assert vocab == [
        *("[PAD]", "mats", "cats", *VOCAB[3:], "##mat"),
        *("catmat", "sats", "ons"),
    ]
    config = json.loads((out / "bert_config.json").read_text())
    assert config["vocab_size"] == len(vocab) == 22
    before, after = weights_of(source), weights_of(out)
    assert set(before) == set(after)
    ids = {token: number for number, token in enumerate(VOCAB)}
    new = {1: ("mat", "##s"), 2: ("cat", "##s"), 20: ("sat", "##s")}
    new |= {21: ("on", "##s")}
    for name in (TABLE, BIAS):
        assert len(after[name]) == 22
        for number, pieces in new.items():
            mean = np.mean([before[name][ids[p]] for p in pieces], axis=0)
            np.testing.assert_allclose(after[name][number], mean, rtol=1e-5)
        old = [0, *range(3, 19)]
        np.testing.assert_array_equal(after[name][old], before[name][old])
    for name in set(before) - {TABLE, BIAS}:
        np.testing.assert_array_equal(after[name], before[name])
    assert lines_of(out / "new_words.tsv")[:3] == [
        "id\tword\tcount\tpieces",
        "1\tmats\t0\tmat ##s",
        "2\tcats\t0\tcat ##s",
    ]
    log = caplog.text
    assert "Pieces per word: 2.000 before, 1.000 after" in log
    assert "2 words replace [unused] tokens, 3 are appended" in log
    assert "vocab_size 20 becomes 22" in log
    assert "Make the records anew" in log


def test_it_is_a_model(source, words, tmp_path, capsys):
    """Old tokens keep their logits, new ones can be predicted."""
    out = tmp_path / "out"
    extend(source, out, new_words_file=words)
    scripts.run(fill_mask, init_checkpoint=out, text="cats [MASK] on", top_k=21)
    assert "sats" in capsys.readouterr().out
    logits = []
    for folder in (source, out):
        prefix = str(folder / "bert_model.ckpt")
        config = open_checkpoint(prefix).config
        model = BertForPreTraining(config)
        weight_files.restore_weights(model.variables, prefix)
        ids = tf.constant([[5, 8, 7, 11, 13, 14, 6]])  # [1, 7]
        hidden = model.bert(ids).sequence_output  # [1, 7, H]
        logits.append(model.word_logits(hidden[:, 2]))
    old = [0, *range(3, 18)]
    before, after = (np.take(value, old, axis=-1) for value in logits)
    np.testing.assert_allclose(after, before, atol=1e-5)


def test_words_of_a_text(source, tmp_path, caplog):
    text = "The cats sat. A cat sat on mats.\n\nCats, cats: mats! sats\n"
    write(tmp_path / "a.txt", text)
    caplog.set_level("INFO", logger="absl")
    extend(
        source, tmp_path / "out", input_file=tmp_path / "*.txt", num_new_words=5
    )
    assert lines_of(tmp_path / "out" / "new_words.tsv")[1:] == [
        "1\tcats\t3\tcat ##s",
        "2\tmats\t2\tmat ##s",
    ]
    assert "--num_new_words=5: the text has only 2" in caplog.text
    assert "occur less than 2 times (1: 'sats')" in caplog.text
    # 17 words and marks; six of them of two pieces.
    assert "Pieces per word: 1.353 before, 1.059 after" in caplog.text
    after = weights_of(tmp_path / "out")
    assert len(after[TABLE]) == 20


def test_words_left_out_are_said(source, tmp_path, caplog):
    """Every reason, with its count and the first words; on the screen."""
    lines = ["mats", "IL-2", "a/b", "c.d", "e-f", "cat", "two parts", "mats"]
    lines += ["MATS", "Café", "##ats", "cat"]
    words = write(tmp_path / "words", "\n".join(lines))
    caplog.set_level("INFO", logger="absl")
    extend(source, tmp_path / "out", new_words_file=words)
    shown = [r.getMessage() for r in caplog.records if r.levelname != "INFO"]
    assert shown[1] == (
        "10 of 12 words are left out, as they are split at punctuation marks "
        "or between ideographs (5: 'IL-2', 'a/b', 'c.d', ...); are tokens "
        "already (2: 'cat', 'cat'); contain spaces, and a token is one word "
        "(1: 'two parts'); repeat an earlier line, perhaps in other capitals "
        "or accents (2: 'mats', 'MATS') (--verbosity=0 names all)"
    )
    assert "ideographs: IL-2 a/b c.d e-f ##ats" in caplog.text
    assert "vocab_size stays 20" in shown[3]


def test_a_model_without_the_head_is_warned_of(source, tmp_path, caplog):
    """It can be extended and fine-tuned, and not be pre-trained further."""
    model = tmp_path / "model"
    shutil.copytree(source, model)
    kept = {n: v for n, v in weights_of(source).items() if "cls/" not in n}
    weight_files.write(str(model / "bert_model.ckpt"), kept)
    extend(model, tmp_path / "out", max_position_embeddings=30)
    assert "out has no masked LM head (cls/predictions/...)" in caplog.text
    assert "hf://google-bert/bert-base-uncased" in caplog.text


def test_positions(source, tmp_path):
    """A text of more than 12 tokens; a short one gives the same as before."""
    out = tmp_path / "out"
    extend(source, out, max_position_embeddings=30)
    before, after = weights_of(source), weights_of(out)
    rows = np.arange(30) % 12
    np.testing.assert_array_equal(after[POSITIONS], before[POSITIONS][rows])
    config = json.loads((out / "bert_config.json").read_text())
    assert config["max_position_embeddings"] == 30
    settings = json.loads((out / "tokenizer_config.json").read_text())
    assert settings["model_max_length"] == 30
    assert lines_of(out / "vocab.txt") == VOCAB
    assert not (out / "new_words.tsv").exists()
    scripts.run(fill_mask, init_checkpoint=out, text="[MASK] " * 20)


# --- Mistakes ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("flags", "word"),
    [
        ({"init_checkpoint": None}, "--init_checkpoint"),
        ({"output_dir": None}, "--output_dir"),
        ({"new_words_file": None}, "nothing to add"),
        ({"num_new_words": 5}, "not both"),
        ({"new_words_file": None, "num_new_words": 5}, "--input_file"),
        ({"new_words_file": None, "input_file": "text"}, "--num_new_words"),
        ({"init_checkpoint": "none"}, "none: no such checkpoint"),
        ({"new_words_file": "none"}, "none: cannot be read"),
        ({"new_words_file": "latin"}, "latin: line 2 is not UTF-8"),
        ({"new_words_file": "blank"}, "is empty"),
        ({"new_words_file": "known"}, "none of its 2 words"),
        ({"input_file": "*.none"}, "no file matches"),
        (
            {"new_words_file": None, "num_new_words": 5, "input_file": "known"},
            "and is split into pieces",
        ),
        ({"min_frequency": 3}, "--num_new_words"),
        ({"max_position_embeddings": 12}, "has 12 already"),
        ({"output_dir": "."}, "holds a checkpoint already"),
        ({"output_dir": "/proc/nowhere"}, "--output_dir=/proc/nowhere"),
        ({"bert_config_file": "small.json"}, "contradict each other"),
        ({"init_checkpoint": "other"}, "it is not a BERT checkpoint"),
    ],
)
def test_mistakes_end_in_one_line(source, tmp_path, monkeypatch, flags, word):
    monkeypatch.chdir(tmp_path)
    write(Path("words"), "mats\n")
    write(Path("known"), "the\ncat\n")
    write(Path("blank"), "\n \n")
    Path("latin").write_bytes(b"mats\ncaf\xe9\n")
    config = json.loads((source / "bert_config.json").read_text())
    write(Path("small.json"), json.dumps(config | {"hidden_size": 8}))
    weight_files.write("other", {"x": np.zeros([2], np.float32)})
    weight_files.write("bert_model.ckpt", {"x": np.zeros([2], np.float32)})
    for name in ("vocab.txt", "bert_config.json"):
        Path(name).write_bytes((source / name).read_bytes())
    before = sorted(tmp_path.rglob("*"))
    values = {"init_checkpoint": source, "output_dir": "out"}
    values |= {"new_words_file": "words"} | flags
    assert word in scripts.error_of(extend_checkpoint, **values)
    assert sorted(tmp_path.rglob("*")) == before
