"""ner/job.py: outputs of batches come back word by word."""

import ner_pieces
import numpy as np

from records.in_memory import ShortRecords
from tasks.ner.data import Sentence
from tasks.ner.job import fill_words
from tasks.ner.windows import Converter

# Sentences of different lengths, one longer than a window.
SENTENCES = ["ab", "ab." * 7, ".", ["b", "aa", "a", "b"]]


def ids_of(batch: dict) -> dict[str, np.ndarray]:
    """A model whose output at every position is the id."""
    return {"logits": batch["input_ids"][:, :, None].astype(np.float32)}


def test_each_word_gets_the_output_at_its_first_piece(tmp_path):
    tokenizer = ner_pieces.tokenizer_in(tmp_path)
    converter = Converter(tokenizer, ["O"], 8, document_context=False)
    sentences = [Sentence(list(words), None, [], 0) for words in SENTENCES]
    data = ShortRecords(ner_pieces.features(converter, *sentences))
    assert data.num_records > len(sentences)
    found = np.zeros([sum(map(len, SENTENCES)), 1])
    fill_words(found, ids_of, data, 3, "x")
    wanted = [
        [ner_pieces.VOCAB.index(word[0])]
        for sentence in sentences
        for word in sentence.words
    ]
    assert found.tolist() == wanted
