"""fill_mask.py: texts from flags and files, mistakes."""

import re
import shutil

import mask_models
import pytest
import scripts
from tiny import weights_of

from checkpoints import weight_files
from checkpoints.checkpoint import open_checkpoint
from pretraining.model import BertForPreTraining

fill_mask = scripts.load("fill_mask")


@pytest.fixture(scope="module")
def model_dir(tmp_path_factory):
    return mask_models.write_model(tmp_path_factory.mktemp("model"))


def test_main_takes_text_and_file(model_dir, tmp_path, capsys):
    (tmp_path / "text").write_text("The [MASK].\n\nA [MASK] sat.\n")
    scripts.run(
        fill_mask,
        init_checkpoint=model_dir,
        text="On [MASK]",
        input_file=tmp_path / "text",
        top_k=2,
    )
    lines = capsys.readouterr().out.splitlines()
    assert lines[::2] == ["On [MASK]", "The [MASK].", "A [MASK] sat."]
    assert all(line.count(",") == 1 for line in lines[1::2])


def test_a_line_separator_is_part_of_its_line(model_dir, tmp_path):
    """U+2028 ends a line for str.splitlines alone."""
    (tmp_path / "text").write_text("A [MASK]\u2028cat.\nThe [MASK].\n", "utf-8")
    sentences = fill_mask.read_sentences(str(tmp_path / "text"))
    assert sentences == ["A [MASK]\u2028cat.", "The [MASK]."]


def test_a_model_without_a_pooler_fills_masks(
    model_dir, tmp_path, capsys, caplog
):
    """As one that was trained for masked words alone."""
    folder = tmp_path / "model"
    shutil.copytree(model_dir, folder)
    values = weights_of(model_dir / "bert_model.ckpt")
    kept = {n: v for n, v in values.items() if "pooler" not in n}
    assert len(kept) == len(values) - 2
    weight_files.write(str(folder / "bert_model.ckpt"), kept)
    assert printed(model_dir, capsys) == printed(folder, capsys)
    assert "no pooler" not in caplog.text  # nothing reads it


def printed(model_dir, capsys, **flags) -> str:
    scripts.run(
        fill_mask, init_checkpoint=model_dir, text="A [MASK] sat.", **flags
    )
    return capsys.readouterr().out


def test_what_is_printed_are_the_probabilities(model_dir, capsys):
    checkpoint = open_checkpoint(str(model_dir))
    model = BertForPreTraining(checkpoint.config)
    weight_files.restore_weights(model.variables, checkpoint.prefix)
    text = "A [MASK] sat on [MASK] mat."
    wanted = [text]
    masks = mask_models.fillings(model, checkpoint.tokenizer, text, 3)
    for number, (tokens, scores) in enumerate(masks, 1):
        pairs = zip(tokens, scores, strict=True)
        listed = ", ".join(f"{token} {score:.2f}" for token, score in pairs)
        wanted.append(f"    [MASK] {number}: {listed}")
    scripts.run(fill_mask, init_checkpoint=model_dir, text=text, top_k=3)
    assert capsys.readouterr().out.splitlines() == wanted


def test_more_fillings_than_tokens_are_all_tokens(model_dir, capsys):
    tokens = printed(model_dir, capsys, top_k=1000).splitlines()[1].split()
    assert sorted(tokens[::2]) == sorted(mask_models.WORDS.split())


def test_products_in_bfloat16(model_dir, capsys):
    def numbers(dtype: str) -> list[float]:
        flags = {"text": "The cat sat on a mat.", "dtype": dtype}
        scores = {"score": True, "token_scores": True}
        scripts.run(fill_mask, init_checkpoint=model_dir, **flags, **scores)
        printed = capsys.readouterr().out
        return [float(number) for number in re.findall(r"-?\d+\.\d+", printed)]

    exact, found = map(numbers, ("float32", "bfloat16"))
    assert found == pytest.approx(exact, rel=0.1) and found != exact


@pytest.mark.parametrize(
    "values, message",
    [
        ({"text": "no gap"}, "'no gap': no [MASK] in the text"),
        ({"text": "a [mask]"}, "only '[mask]'"),
        ({}, "give --text or --input_file"),
        ({"text": "a [MASK]", "score": True}, "'a [MASK]': [MASK] in the"),
        ({"text": "a", "score": True, "top_k": 2}, "--top_k or --score, not"),
        ({"text": "[MASK]", "token_scores": True}, "--token_scores needs"),
        ({"text": "[MASK]", "max_seq_length": 13}, "max_position_embeddings"),
        ({"text": "[MASK]", "vocab_file": "/no/file"}, "/no/file"),
        ({"text": "[MASK]", "bert_config_file": "/no/file"}, "/no/file"),
        ({"input_file": "/no/file"}, "/no/file"),
        ({"init_checkpoint": None}, "--init_checkpoint is required"),
        ({"text": "[MASK]", "init_checkpoint": "/no/dir"}, "/no/dir"),
    ],
)
def test_mistakes_end_in_one_line(model_dir, values, message):
    values = {"init_checkpoint": model_dir, **values}
    assert message in scripts.error_of(fill_mask, **values)


def test_a_checkpoint_without_the_head(model_dir, tmp_path):
    shutil.copytree(model_dir, tmp_path / "model")
    values = weights_of(model_dir / "bert_model.ckpt")
    kept = {n: v for n, v in values.items() if n.startswith("bert/")}
    weight_files.write(str(tmp_path / "model" / "bert_model.ckpt"), kept)
    message = scripts.error_of(
        fill_mask, init_checkpoint=tmp_path / "model", text="[MASK]"
    )
    assert "cannot do masked_lm, as it has no head for it" in message
    assert "--task" not in message


def test_vocabulary_without_mask(model_dir, tmp_path):
    shutil.copytree(model_dir, tmp_path / "model")
    vocab = tmp_path / "model" / "vocab.txt"
    vocab.write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n")
    message = scripts.error_of(
        fill_mask, init_checkpoint=tmp_path / "model", text="[MASK]"
    )
    assert "[MASK]" in message


def test_a_text_file_without_text(model_dir, tmp_path):
    values = {"init_checkpoint": model_dir, "input_file": tmp_path / "text"}
    (tmp_path / "text").write_bytes(b" \n\n")
    assert "text has no text" in scripts.error_of(fill_mask, **values)
