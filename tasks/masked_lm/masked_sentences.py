"""Sentences with [MASK] as ids. This module imports no TensorFlow."""

import tokenization


def sentence_to_ids(
    text: str, tokenizer: tokenization.FullTokenizer
) -> list[int]:
    """Return the ids of [CLS] text [SEP], with [MASK] as one token.

    The tokenizer splits "[MASK]" into [, mask and ], as the original's does.
    So the texts before, between and after the [MASK]s are tokenized.
    """
    vocab = tokenizer.vocab
    first, *others = text.split("[MASK]")
    ids = [vocab["[CLS]"], *tokenizer.text_to_ids(first)]
    for other in others:
        ids += [vocab["[MASK]"], *tokenizer.text_to_ids(other)]
    return [*ids, vocab["[SEP]"]]
