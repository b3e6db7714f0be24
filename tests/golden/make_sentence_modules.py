"""Makes golden/sentence_modules/ with sentence-transformers.

    pip install sentence-transformers
    python tests/golden/make_sentence_modules.py

Made with sentence-transformers 6.2.0, transformers 5.24.0 and torch 2.13.0. The
folders of the models have an encoder in common, which is beside them, but for
their modules.
"""

import json
import shutil
from pathlib import Path

import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Dense, Normalize
from sentence_transformers.sentence_transformer.modules import (
    Dropout,
    LayerNorm,
    Pooling,
    Transformer,
)
from transformers import BertConfig, BertModel, BertTokenizer

HERE = Path(__file__).parent / "sentence_modules"
WORDS = "the cat sat on a mat and dog ran far from it".split()
TEXTS = ["the cat sat on a mat", "a dog", "it ran far from the dog and the cat"]
HIDDEN = 8

# The last two poolings in another order than that of the older files.
MODELS = {
    "joined": lambda: [
        Pooling(HIDDEN, ("mean", "cls")),
        Dense(2 * HIDDEN, 5, False, torch.nn.GELU()),
        Normalize(),
    ],
    "norm": lambda: [
        Pooling(HIDDEN, "weightedmean"),
        LayerNorm(HIDDEN),
        Dropout(0.3),
        Dense(HIDDEN, 6, activation_function=torch.nn.SiLU()),
    ],
    "two": lambda: [
        Pooling(HIDDEN, "mean_sqrt_len_tokens"),
        Dense(HIDDEN, 12),
        Normalize(),
        Dense(12, 4, activation_function=torch.nn.Identity()),
    ],
    "all": lambda: [
        Pooling(HIDDEN, ("cls", "max", "lasttoken", "weightedmean")),
        Dense(4 * HIDDEN, 8, activation_function=torch.nn.ReLU()),
    ],
    "last": lambda: [Pooling(HIDDEN, "lasttoken"), Normalize()],
}


def main() -> None:
    """The encoder, the modules of each model, and its vectors."""
    torch.manual_seed(1)
    shutil.rmtree(HERE, ignore_errors=True)
    encoder = HERE / "encoder"
    encoder.mkdir(parents=True)
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]
    (encoder / "vocab.txt").write_text("\n".join(tokens) + "\n")
    BertTokenizer(str(encoder / "vocab.txt")).save_pretrained(encoder)
    config = BertConfig(
        vocab_size=len(tokens),
        hidden_size=HIDDEN,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        max_position_embeddings=16,
        initializer_range=0.5,
    )
    BertModel(config).save_pretrained(encoder)
    transformer, found = Transformer(str(encoder)), {}
    for name, modules in MODELS.items():
        model = SentenceTransformer(modules=[transformer, *modules()])
        with torch.no_grad():
            for key, value in model.named_parameters():
                if not key.startswith("0.") and key.endswith("bias"):
                    value.normal_()
        model.eval()
        model.save(str(HERE / name))
        found[name] = model.encode(TEXTS).tolist()
        for path in (HERE / name).iterdir():
            if path.is_file() and path.name != "modules.json":
                path.unlink()
    content = {"texts": TEXTS, "vectors": found}
    (HERE / "vectors.json").write_text(json.dumps(content) + "\n")


if __name__ == "__main__":
    main()
