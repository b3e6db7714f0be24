r"""Train and encode with sentence-transformers, to compare with this project.

    python -m venv /tmp/peer
    /tmp/peer/bin/pip install sentence-transformers accelerate datasets
    /tmp/peer/bin/python tests/sentence_transformers_embeddings.py \
        --model=all-MiniLM-L6-v2 --data_dir=glue/STS-B --seed=1
    /tmp/peer/bin/python tests/sentence_transformers_embeddings.py \
        --model=all-MiniLM-L6-v2 --input_file=sentences.txt

The first trains as run_embeddings.py does by its defaults on pairs with scores:
AdamW with epsilon 1e-6, bias correction, weight decay 0.01 but for biases and
layer norms, a rate that rises over a tenth of the steps and falls linearly,
gradients clipped to a norm of 1. The second makes the vector of each line;
--backend=onnx needs sentence-transformers[onnx]. Both print one line. None of
the project's code is used.
"""

import argparse
import csv
import tempfile
import time
from pathlib import Path

import sentence_transformers
from scipy import stats
from sentence_transformers import SentenceTransformer


def read_flags() -> argparse.Namespace:
    """Return the values of the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", required=True)
    parser.add_argument("--data_dir", type=Path)
    parser.add_argument("--input_file", type=Path)
    parser.add_argument("--backend", default="torch", choices=["torch", "onnx"])
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--learning_rate", type=float, default=2e-5)
    parser.add_argument("--epochs", type=float, default=1)
    parser.add_argument("--batch_size", type=int, default=32)
    parser.add_argument("--max_length", type=int, default=128)
    return parser.parse_args()


def read_pairs(path: Path) -> dict[str, list]:
    """Return the columns of a file of STS-B, the scores from 0 to 1."""
    with path.open(encoding="utf-8", newline="") as file:
        rows = [*csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)]
    texts = {n: [row[n] for row in rows] for n in ("sentence1", "sentence2")}
    return texts | {"score": [float(row["score"]) / 5 for row in rows]}


def train(model: SentenceTransformer, flags: argparse.Namespace) -> None:
    """Train on the cosines of pairs; the seed orders them."""
    import datasets
    from sentence_transformers.sentence_transformer import losses

    with tempfile.TemporaryDirectory() as folder:
        options = sentence_transformers.SentenceTransformerTrainingArguments(
            output_dir=folder,
            num_train_epochs=flags.epochs,
            per_device_train_batch_size=flags.batch_size,
            learning_rate=flags.learning_rate,
            warmup_steps=0.1,  # a share
            weight_decay=0.01,
            adam_epsilon=1e-6,
            max_grad_norm=1.0,
            seed=flags.seed,
            bf16=flags.dtype == "bfloat16",
            use_cpu=True,
            save_strategy="no",
            report_to="none",
            disable_tqdm=True,
        )
        sentence_transformers.SentenceTransformerTrainer(
            model,
            options,
            datasets.Dataset.from_dict(
                read_pairs(flags.data_dir / "train.tsv")
            ),
            loss=losses.CosineSimilarityLoss(model),
        ).train()


def main() -> None:
    """Train and score, or encode; print one line."""
    flags = read_flags()
    began = time.monotonic()
    options = {}
    if flags.input_file and flags.dtype != "float32":
        options = {"dtype": flags.dtype}
    model = SentenceTransformer(
        flags.model, device="cpu", backend=flags.backend, model_kwargs=options
    )
    model.max_seq_length = flags.max_length
    loaded = time.monotonic()
    name = f"sentence-transformers {sentence_transformers.__version__}"
    line = f"{name} {flags.backend} {flags.dtype} load={loaded - began:.1f}s"
    if flags.input_file:
        texts = flags.input_file.read_text(encoding="utf-8").splitlines()
        model.encode(texts, batch_size=flags.batch_size)
        seconds = time.monotonic() - loaded
        line += f" encoding={seconds:.1f}s {len(texts) / seconds:.1f}/s"
    else:
        train(model, flags)
        line += f" training={time.monotonic() - loaded:.1f}s"
        pairs = read_pairs(flags.data_dir / "dev.tsv")
        a, b = (
            model.encode(pairs[column], normalize_embeddings=True)
            for column in ("sentence1", "sentence2")
        )
        spearman = stats.spearmanr((a * b).sum(-1), pairs["score"])[0]
        line += f" seed={flags.seed} spearman={spearman:.4f}"
    print(line, flush=True)


if __name__ == "__main__":
    main()
