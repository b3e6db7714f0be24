#!/usr/bin/env bash
# A token that is to be found as a whole word hides shorter tokens inside it,
# also where it is not found itself.
#
# One would guess that tokenizers tries the next token where a `single_word`
# token does not stand alone, so that "AB" in "ABCx" is found although "ABC" is
# no whole word there; and that adding a token again with other flags is an error,
# or changes nothing.
# What happens: the match of "ABC" is thrown away with the text that it covers,
# and "AB" is not found in it. Adding a token again replaces its flags without a
# word.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check \
  tokenizers==0.23.1
"$folder/venv/bin/python" - <<'PYTHON'
import tokenizers
from tokenizers import AddedToken, Tokenizer
from tokenizers.models import WordPiece

print("tokenizers", tokenizers.__version__)


def found(text, *tokens):
    vocabulary = {"[UNK]": 0, "AB": 1, "ABC": 2}
    tokenizer = Tokenizer(WordPiece(vocabulary, unk_token="[UNK]"))
    for token in tokens:
        tokenizer.add_tokens([token])
    return tokenizer.encode(text).tokens


short = AddedToken("AB", normalized=False)
whole = AddedToken("ABC", normalized=False, single_word=True)
alone, hidden = found("ABCx", short), found("ABCx", short, whole)
print("AB in ABCx, alone and beside the whole word ABC:", alone, hidden)
again = found("xABCx", whole, AddedToken("ABC", normalized=False))
print("ABC in xABCx, added as a whole word and then without:", again)
assert "AB" in alone and "AB" not in hidden, "shorter tokens are tried now"
assert "ABC" in again, "a token that is added again keeps its flags now"
PYTHON
echo "As described."
