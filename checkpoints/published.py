"""The names of a model's files; how models of the Hugging Face hub are told.

This file is all that most runs need of them: what reads or fetches such a model
is imported where there is one.
"""

import re

SCHEME = "hf://"

BERT_CONFIG_NAME = "bert_config.json"  # ours, and the original's

CONFIG_NAME = "config.json"
WEIGHTS_NAME = "model.safetensors"
INDEX_NAME = "model.safetensors.index.json"

# Of a tokenizer, here as there; this project writes the first two.
VOCAB_NAME = "vocab.txt"
TOKENIZER_CONFIG_NAME = "tokenizer_config.json"
TOKENIZER_NAME = "tokenizer.json"
SPECIAL_TOKENS_NAME = "special_tokens_map.json"
ADDED_TOKENS_NAME = "added_tokens.json"

# The settings that name tokenization.SPECIAL_TOKENS, in this order.
TOKEN_KEYS = ("pad_token", "unk_token", "cls_token", "sep_token", "mask_token")

# The key, in a checkpoint of tf.train.Checkpoint, of what was saved: objects,
# their variables, and the names of these.
OBJECT_GRAPH = "_CHECKPOINTABLE_OBJECT_GRAPH"

# What to say where a model lacks the masked LM's head.
WITH_MASKED_LM = (
    "models that have it are hf://google-bert/bert-base-uncased, "
    "hf://google-bert/bert-base-cased and the original's releases"
)

# Where the client's cache has a repository's files.
_CACHED = re.compile(r"/models--([^/]+?)--([^/]+)/snapshots/[^/]+")


def is_of_hub(path: object) -> bool:
    """Whether a value has the form hf://... of a model on the hub."""
    return isinstance(path, str) and path.startswith(SCHEME)


def repository_of(path: str) -> str | None:
    """Return owner/name if a path is in the hub's cache; None otherwise."""
    match = _CACHED.search(path)
    return f"{match[1]}/{match[2]}" if match else None
