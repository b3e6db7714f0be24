"""Models as the fine-tuning scripts leave them, with random weights.

Nothing is trained: the heads are random, but large enough that predictions
differ from input to input.
"""

import json
import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import scripts
import tensorflow as tf
import tiny

import modeling
from checkpoints import lookup, weight_files
from checkpoints.casing import TokenizerFiles
from checkpoints.checkpoint import write_model
from checkpoints.model import Checkpoint
from checkpoints.published import BERT_CONFIG_NAME
from checkpoints.run_folder import WEIGHTS_NAME, RunFolder
from checkpoints.trained_for import TrainedFor
from finetuning import flags as finetuning_flags
from records import in_memory
from tasks.classifier.model import BertForSequenceClassification
from tasks.fine_tuned import find_source
from tasks.job import Wrapper
from tasks.ner.model import BertForTokenClassification
from tasks.settings import NO_BILSTM, BiLstmSize
from tasks.squad.model import BertForQuestionAnswering
from tasks.swag.model import BertForMultipleChoice
from tokenization import TokenizerSettings, Vocabulary


def write(folder: Path, model, vocab: Sequence[str], **settings) -> Path:
    """Write a model with `settings`, bilstm_size too, in its configuration."""
    folder.mkdir(parents=True)
    vocab_file = folder / "words.txt"
    vocab_file.write_text("\n".join(vocab) + "\n")
    bilstm_size = settings.pop("bilstm_size", NO_BILSTM)
    if bilstm_size.bilstm_layers:
        settings |= bilstm_size._asdict()
    files = TokenizerFiles(
        vocabulary=Vocabulary(vocab_file), known=TokenizerSettings.of()
    )
    trained_for = TrainedFor(**settings)
    written = Checkpoint("", model.config, trained_for, files)
    write_model(str(folder), model, written)
    return folder


def _grown(model):
    """Return the model with weights of its head that tell inputs apart."""
    tf.keras.utils.set_random_seed(7)
    for variable in model.variables:
        if "output_" in variable.path:
            shape, name = variable.shape, variable.path
            scale = 0.1 if name.endswith("bias") else 2.0
            variable.assign(scale * tf.random.normal(shape))
    return model


def _labels(names: Sequence[str]) -> dict[str, str]:
    return {str(number): name for number, name in enumerate(names)}


def write_classifier(
    folder: Path,
    config: modeling.BertConfig,
    vocab: Sequence[str],
    labels: Sequence[str] | None,
    is_pair: bool = False,
    length: int = 40,
    bilstm_size: BiLstmSize = NO_BILSTM,
) -> Path:
    """Write a classifier; labels None: a regression."""
    tf.keras.utils.set_random_seed(1)
    model = BertForSequenceClassification(
        config, labels and len(labels), bilstm_size=bilstm_size
    )
    settings = {"max_seq_length": length, "sentence_pairs": is_pair}
    settings["bilstm_size"] = bilstm_size
    if labels:
        settings["id2label"] = _labels(labels)
    return write(folder, _grown(model), vocab, **settings)


def write_reader(
    folder: Path,
    config: modeling.BertConfig,
    vocab: Sequence[str],
    is_version_2: bool = False,
) -> Path:
    """Write a model that answers questions, in windows of 32 tokens."""
    tf.keras.utils.set_random_seed(1)
    return write(
        folder,
        _grown(BertForQuestionAnswering(config)),
        vocab,
        max_seq_length=32,
        version_2_with_negative=is_version_2,
    )


def write_tagger(
    folder: Path,
    config: modeling.BertConfig,
    vocab: Sequence[str],
    labels: Sequence[str],
) -> Path:
    """Write a tagger of words, in windows of 32 tokens."""
    tf.keras.utils.set_random_seed(1)
    model = BertForTokenClassification(config, len(labels))
    return write(
        folder,
        _grown(model),
        vocab,
        max_seq_length=32,
        task="token_classification",
        document_context=False,
        id2label=_labels(labels),
    )


def write_chooser(
    folder: Path, config: modeling.BertConfig, vocab: Sequence[str]
) -> Path:
    """Write a model that chooses among continuations."""
    tf.keras.utils.set_random_seed(1)
    return write(
        folder,
        _grown(BertForMultipleChoice(config)),
        vocab,
        max_seq_length=32,
        task="multiple_choice",
    )


def damage(source: Path, folder: Path) -> Path:
    """Write a copy of a model in which one number of the output is NaN."""
    folder.mkdir()
    for name in ("bert_config.json", "vocab.txt", "tokenizer_config.json"):
        shutil.copy(source / name, folder)
    tensors = tiny.weights_of(lookup.find_checkpoint(str(source)))
    bias = [name for name in tensors if name.endswith("output_bias")]
    bias = bias or ["bert/embeddings/LayerNorm/beta"]
    tensors[bias[0]][0] = np.nan
    weight_files.write(str(folder / WEIGHTS_NAME), tensors)
    return folder


def changed(source: Path, folder: Path, **keys) -> Path:
    """Write a copy of a model with other keys in its configuration."""
    return change(shutil.copytree(source, folder), **keys)


def change(folder: Path, **keys) -> Path:
    """Set keys in the configuration of a model; return its directory."""
    path = folder / BERT_CONFIG_NAME
    path.write_text(json.dumps(json.loads(path.read_text()) | keys))
    return folder


def distilled_data(script, **flags) -> tuple[in_memory.ShortRecords, Wrapper]:
    """Return the training records of a command with answers, and its wrapper.

    `wrapper.job` is the job.
    """
    settings = finetuning_flags.read_settings(
        scripts.parse(script, **flags), RunFolder("")
    )
    Path(settings.output_dir).mkdir(parents=True, exist_ok=True)
    source = find_source(settings)
    job, wrapper, _ = script.create_work(settings, source)
    return wrapper.learned(job.learned()).data, wrapper
