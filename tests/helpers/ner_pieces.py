"""Words of few pieces for the tests of windows, in Python and in the graph."""

from pathlib import Path

from hypothesis import strategies as st

import tokenization
from tasks import rows
from tasks.ner import windows
from tasks.ner.data import Sentence
from tasks.ner.windows import Converter

LABELS = ("O", "B-x", "I-x")
VOCAB = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b", "##a", "."]

# Words without a piece, of several words in the eyes of the tokenizer, and
# longer than a window.
WORDS = st.text(st.sampled_from("abA.\u200b "), min_size=1, max_size=12).map(
    lambda text: "a" * (9 * len(text)) if text.startswith("aA") else text
)


def tokenizer_in(folder: Path) -> tokenization.FullTokenizer:
    """Return a tokenizer with its vocabulary in a folder."""
    path = folder / "vocab.txt"
    path.write_text("\n".join(VOCAB) + "\n")
    return tokenization.FullTokenizer(str(path), do_lower_case=True)


def features(converter: Converter, *sentences: Sentence) -> dict:
    """Return the features of all records of sentences, {name: [n, S]}."""
    records = [(row, {"label_ids": x}) for row, x in converter(sentences)]
    return rows.features(records, windows.schema(converter.length))
