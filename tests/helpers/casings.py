"""How the text of a model is normalized, by its path and flags."""

from checkpoints import lookup
from checkpoints.casing import TokenizerFiles
from checkpoints.tokenizer_folder import Folder
from tokenization import TokenizerSettings, Vocabulary


def settings_of(
    flag: bool | None, prefix: str, vocab_file: str | None
) -> TokenizerSettings:
    return TokenizerFiles(
        Folder(lookup.folder_of(prefix)) if prefix else None,
        Vocabulary(vocab_file) if vocab_file else None,
        flag,
        prefix,
    ).settings
