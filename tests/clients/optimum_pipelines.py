"""Pipelines on optimum's models: python optimum_pipelines.py FILE.

The ONNX files are run, not the weights beside them.
"""

import json
import sys
from importlib import metadata
from pathlib import Path

from optimum.onnxruntime import (
    ORTModelForMaskedLM,
    ORTModelForQuestionAnswering,
    ORTModelForSequenceClassification,
    ORTModelForTokenClassification,
)
from transformers import AutoTokenizer, pipeline

request = json.loads(Path(sys.argv[1]).read_text())


def load(task, kind, name, **options):
    """Return a pipeline of a folder."""
    folder = f"{request['folder']}/{name}"
    model = kind.from_pretrained(folder)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    return pipeline(task, model, tokenizer=tokenizer, **options)


classify = load(
    "text-classification", ORTModelForSequenceClassification, "classifier"
)
tag = load(
    "token-classification",
    ORTModelForTokenClassification,
    "tagger",
    ignore_labels=[],
)
answer = load("question-answering", ORTModelForQuestionAnswering, "reader")
fill = load("fill-mask", ORTModelForMaskedLM, "masked_lm")
found = {
    "version": metadata.version("optimum-onnx"),
    "classifier": classify(request["texts"], top_k=None, truncation=True),
    "tagger": tag(request["texts"][:-1]),  # it does not cut
    "reader": [
        answer(question=request["question"], context=text)
        for text in request["texts"]
    ],
    "masked_lm": fill(request["masked"][:-1], top_k=5),
}
print(json.dumps(found, default=float))
