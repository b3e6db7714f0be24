"""A small model to export, and the running of export_saved_model.py."""

from pathlib import Path

import scripts
import tiny
from task_settings import settings_of

from checkpoints import weight_files
from modeling import BertConfig
from tasks import registry
from tasks.task import Task

export_saved_model = scripts.load("export_saved_model")

VOCAB = [*tiny.SPECIAL, "good", "bad", "film"]
VOCAB += ["the", "##s", "caf", "##e", "[", "]", "mask", "σ", "##ος", "."]
CONFIG = tiny.config_of(
    VOCAB,
    vocab_size=len(VOCAB) + 2,
    num_hidden_layers=2,
    max_position_embeddings=20,
    initializer_range=0.5,
)

LABELS = ("O", "B-X", "I-X")
# Name -> task and more settings, one for each head.
HEADS = {
    "classifier": ("classifier", {"labels": LABELS}),
    "pairs": ("classifier", {"sentence_pairs": True}),
    "encoder": ("encoder", {}),
    "masked_lm": ("masked_lm", {"top_k": 3}),
    "sentence_score": ("sentence_score", {"score_whole_words": True}),
    "multiple_choice": ("multiple_choice", {}),
    "tagger": ("token_classification", {"labels": LABELS}),
    "bilstm": (
        "token_classification",
        {"labels": LABELS, "feature_layers": "last", "lstm_units": 4},
    ),
    "question_answering": (
        "question_answering",
        {
            "doc_stride": 8,
            "max_query_length": 5,
            "max_answer_length": 5,
            "null_threshold": 0.0,
        },
    ),
}


def create_task(name: str, vocab_file: str, **options) -> Task:
    """Return a task of CONFIG.

    Args:
        name: a key of HEADS.
        vocab_file: has VOCAB.
        **options: other settings than those of HEADS.
    """
    task, own = HEADS[name]
    values = {"config": CONFIG} | own | options
    return registry.create_task(settings_of(task, vocab_file, **values))


def write_model(folder: Path, variables, **settings) -> Path:
    """Write a model of CONFIG with `settings` and return its directory."""
    folder.mkdir()
    config = BertConfig.from_dict(CONFIG.to_dict() | settings)
    (folder / "bert_config.json").write_text(config.to_json_string())
    (folder / "vocab.txt").write_text("\n".join(VOCAB) + "\n")
    weight_files.write(
        str(folder / "bert_model.ckpt"), weight_files.as_tensors(variables)
    )
    return folder


def export(source: Path, target: Path, **flags) -> Path:
    """Run export_saved_model.py and return the directory of the SavedModel."""
    scripts.run(
        export_saved_model,
        init_checkpoint=str(source),
        export_dir=str(target),
        **flags,
    )
    return target


def ids_of(*texts: str) -> list[int]:
    """Return the ids of tokens, which are separated by spaces."""
    return [VOCAB.index(token) for text in texts for token in text.split()]
