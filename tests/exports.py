"""A small model to export, and the running of export_saved_model.py."""

from pathlib import Path

import scripts

import modeling
from checkpoints import weight_files
from modeling import BertConfig
from pretraining import model as pretraining_model
from tasks.classifier import export as classifier_export
from tasks.classifier import model as classifier_model
from tasks.encoder import export as features_export
from tasks.encoder import layers as features_layers
from tasks.masked_lm import export as pretraining_export
from tasks.ner import export as ner_export
from tasks.ner import feature_based
from tasks.ner import model as ner_model
from tasks.squad import export as squad_export
from tasks.squad import model as squad_model
from tasks.squad import windows as squad_windows
from tasks.swag import export as swag_export
from tasks.swag import model as swag_model

export_saved_model = scripts.load("export_saved_model")

VOCAB = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "good", "bad", "film"]
VOCAB += ["the", "##s", "caf", "##e", "[", "]", "mask", "σ", "##ος", "."]
CONFIG = BertConfig(
    vocab_size=len(VOCAB) + 2,
    hidden_size=16,
    num_hidden_layers=2,
    num_attention_heads=2,
    intermediate_size=32,
    max_position_embeddings=20,
    type_vocab_size=2,
    initializer_range=0.5,
)

LABELS = ["O", "B-X", "I-X"]
CHOICE = next(iter(features_layers.table_7(2).values()))
# Name -> function of (tokenizer, vocab_file, max_seq_length) that returns an
# export with random weights, one for each head.
EXPORTS = {
    "classifier": lambda *common: classifier_export.Classifier(
        classifier_model.BertForSequenceClassification(CONFIG, 3),
        *common,
        labels=LABELS,
        is_pair=False,
    ),
    "pairs": lambda *common: classifier_export.Classifier(
        classifier_model.BertForSequenceClassification(CONFIG, None),
        *common,
        labels=None,
        is_pair=True,
    ),
    "encoder": lambda *common: features_export.Encoder(
        modeling.TaskModel(CONFIG), *common
    ),
    "masked_lm": lambda *common: pretraining_export.MaskedLm(
        pretraining_model.BertForPreTraining(CONFIG),
        *common,
        tokens=VOCAB,
        top_k=3,
    ),
    "multiple_choice": lambda *common: swag_export.MultipleChoice(
        swag_model.BertForMultipleChoice(CONFIG), *common
    ),
    "tagger": lambda *common: ner_export.Tagger(
        ner_model.BertForTokenClassification(CONFIG, 3), *common, labels=LABELS
    ),
    "bilstm": lambda *common: ner_export.Tagger(
        feature_based.BertForFeatureTagging(CONFIG, 3, CHOICE, 4),
        *common,
        labels=LABELS,
    ),
    "question_answering": lambda *common: squad_export.QuestionAnswering(
        squad_model.BertForQuestionAnswering(CONFIG),
        *common[:2],
        squad_windows.Lengths(20, 8, 5),
        max_answer_length=5,
        null_threshold=0.0,
    ),
}


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
