#!/usr/bin/env bash
# transformers.js cuts the closing [SEP] off a text that is too long.
#
# One would guess that truncation=true gives the ids that tokenizers and
# transformers give in Python for the same tokenizer.json: the text loses tokens
# until [CLS], text and [SEP] fit, and of a pair the longer text loses them.
# What happens: [CLS], the text and [SEP] are put together first, and everything
# beyond the limit is dropped, [SEP] included; of a pair, the second text goes
# first, and with it the mark between the two. Vectors of cut texts therefore
# differ from Python's.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check tokenizers==0.23.1
venv/bin/python - <<'PYTHON'
import json
import os

import tokenizers
from tokenizers import Tokenizer, pre_tokenizers, processors
from tokenizers.models import WordPiece

print("tokenizers", tokenizers.__version__)
tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcde"]
model = WordPiece({t: i for i, t in enumerate(tokens)}, unk_token="[UNK]")
tokenizer = Tokenizer(model)
tokenizer.add_special_tokens(tokens[:5])
tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
tokenizer.post_processor = processors.TemplateProcessing(
    single="[CLS] $A [SEP]",
    pair="[CLS] $A [SEP] $B:1 [SEP]:1",
    special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
)
os.makedirs("model")
tokenizer.save("model/tokenizer.json")
with open("model/tokenizer_config.json", "w") as file:
    json.dump({"tokenizer_class": "BertTokenizer", "model_max_length": 6}, file)
with open("model/config.json", "w") as file:
    json.dump({"model_type": "bert"}, file)
tokenizer.enable_truncation(6)
ids = [tokenizer.encode("a b c d e").ids, tokenizer.encode("a b c", "d e").ids]
print("Python:", ids)
assert ids == [[2, 5, 6, 7, 8, 3], [2, 5, 6, 3, 8, 3]]
PYTHON
npm init --yes > npm.log
ONNXRUNTIME_NODE_INSTALL=skip npm install --ignore-scripts --no-audit --no-fund \
  @huggingface/transformers@4.3.2 >> npm.log
cat > ids.mjs <<'JS'
import assert from "node:assert";
import { AutoTokenizer, env } from "@huggingface/transformers";

console.log("transformers.js", env.version);
env.allowRemoteModels = false;
env.localModelPath = "./";
const tokenizer = await AutoTokenizer.from_pretrained("model");
const options = { truncation: true, max_length: 6, return_tensor: false };
const one = tokenizer("a b c d e", options).input_ids;
const pair = tokenizer("a b c", { ...options, text_pair: "d e" }).input_ids;
console.log("transformers.js:", JSON.stringify([one, pair]));
assert.deepStrictEqual(one, [2, 5, 6, 7, 8, 9], "the end is kept now");
assert.notStrictEqual(pair.at(-1), 3, "the end of a pair is kept now");
JS
node ids.mjs
echo "As described."
