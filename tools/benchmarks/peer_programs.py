"""What other libraries do where a program of this project is timed.

    python peer_programs.py FUNCTION [ARGUMENT ...]

runs in an interpreter that has these libraries, and imports nothing of this
project. Each function is what their users would write, with their defaults.
"""

import json
import sys
import time


def tokenizers(text: str, output_dir: str) -> None:
    """Learn a vocabulary with tokenizers."""
    from tokenizers import BertWordPieceTokenizer

    tokenizer = BertWordPieceTokenizer(lowercase=True)
    tokenizer.train([text], vocab_size=30522, min_frequency=2)
    tokenizer.save_model(output_dir)


def openvino(model: str, vocab_file: str, texts: str, output: str) -> None:
    """Write the vectors of texts with OpenVINO, sorted by length.

    In bfloat16 where the processor has it.

    Args:
        model: ONNX file.
        vocab_file: lower-cased.
        texts: file with one on each line.
        output: .npy file.
    """
    import numpy as np
    import openvino
    from tokenizers import BertWordPieceTokenizer

    tokenizer = BertWordPieceTokenizer(vocab_file, lowercase=True)
    tokenizer.enable_truncation(128)
    core = openvino.Core()
    types = core.get_property("CPU", "OPTIMIZATION_CAPABILITIES")
    dtype = "BF16" if "BF16" in types else "FP32"
    options = {"INFERENCE_PRECISION_HINT": dtype}
    model = core.compile_model(model, "CPU", options)
    with open(texts, encoding="utf-8") as file:
        rows = tokenizer.encode_batch(file.read().splitlines())
    order = sorted(range(len(rows)), key=lambda row: -len(rows[row].ids))
    found = {}
    for start in range(0, len(order), 32):
        batch = order[start : start + 32]
        shape = len(batch), len(rows[batch[0]].ids)
        ids, mask = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
        for row, number in enumerate(batch):
            length = len(rows[number].ids)
            ids[row, :length], mask[row, :length] = rows[number].ids, 1
        inputs = {"input_ids": ids, "attention_mask": mask}
        states = model(inputs | {"token_type_ids": np.zeros_like(ids)})[0]
        sums = (states * mask[..., None]).sum(1)
        sums /= np.linalg.norm(sums, axis=1, keepdims=True)
        found.update(zip(batch, sums, strict=True))
    np.save(output, np.stack([found[row] for row in range(len(rows))]))


def transformers(model: str, train_file: str, output_dir: str) -> None:
    """Fine-tune with transformers' Trainer for an epoch, grouped by length.

    Args:
        model: folder.
        train_file: table of sentences and labels, 0 or 1, with a header.
        output_dir: gets the fine-tuned model.
    """
    import transformers

    tokenizer = transformers.AutoTokenizer.from_pretrained(model)
    with open(train_file, encoding="utf-8") as file:
        rows = [line.rstrip("\n").split("\t") for line in file][1:]
    trainer = transformers.Trainer(
        transformers.AutoModelForSequenceClassification.from_pretrained(model),
        transformers.TrainingArguments(
            output_dir,
            per_device_train_batch_size=32,
            num_train_epochs=1,
            learning_rate=2e-5,
            weight_decay=0.01,
            train_sampling_strategy="group_by_length",
            report_to=[],
            save_strategy="no",
            use_cpu=True,
        ),
        transformers.DataCollatorWithPadding(tokenizer),
        [
            tokenizer(text, truncation=True, max_length=128)
            | {"labels": int(label)}
            for text, label in rows
        ],
    )
    trainer.train()
    trainer.save_model(output_dir)


def faiss(file: str) -> None:
    """Search among the vectors of a .npy file with faiss.

    For each line of standard input, a number of vectors to search for, writes
    the processor seconds and the rows of the ten nearest.
    """
    import faiss
    import numpy as np

    vectors = np.load(file)
    index = faiss.IndexFlatIP(vectors.shape[1])
    index.add(vectors)
    print(json.dumps(f"faiss {faiss.__version__}"), flush=True)
    for line in sys.stdin:
        asked = vectors[: int(line)]
        began = time.process_time()
        _, rows = index.search(asked, 10)
        seconds = time.process_time() - began
        print(json.dumps([seconds, rows.tolist()]), flush=True)


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
