"""The checkpoint a run starts from, and the weights that it keeps.

scores.json in output_dir maps steps to scores. The runner adds one score for
every evaluation while training and keeps the weights with the highest.
"""

import json
import os

from base import cluster, file_system
from base.errors import UserError

from absl import logging

from checkpoints import checkpoint, lookup, published, weight_files
from checkpoints.checkpoint import open_checkpoint
from checkpoints.model import Checkpoint
from checkpoints.run_folder import SCORES_NAME, RunFolder, differing
from checkpoints.trained_for import TAIL, LongTexts, TrainedFor
from tasks import long_texts, registry
from tasks.job import FineTuningJob
from tasks.settings import RunSettings, choose_bilstm
from training.task_model import TaskModel

# What data to score or to predict need not have in common with training data.
_OF_FILES = {"data", "columns", "language", "part", "is_training", "is_taught"}
_OF_FILES |= {"lengths"}  # windows over a paragraph may overlap otherwise


# --- The checkpoint to begin from or to use -----------------------------------


def find_source(settings: RunSettings) -> Checkpoint:
    """Return the checkpoint to train from or to use, and the files beside it.

    Training starts from init_checkpoint, also where output_dir holds a run:
    that run began from it. Without training a fine-tuned model in output_dir
    comes before init_checkpoint.

    Raises:
        UserError: there is no model to use.
    """
    name, folder = settings.init_checkpoint, settings.folder
    if not settings.do_train:
        name = folder.kept or name
        if not name and not folder.latest:
            raise UserError(
                f"{folder.path} holds no fine-tuned model and there is no "
                "--init_checkpoint: --do_train first"
            )
    return read_source(settings, name)


def read_source(settings: RunSettings, name: str | None) -> Checkpoint:
    """Return a checkpoint as a run uses it.

    Its `trained_for` has the length, the BiLSTM and what is read of longer
    texts as the flags or the model say. All else is in the files beside the
    checkpoint, or in those that flags name. A model that is used as it is, not
    trained first, has the length it was fine-tuned with, unless the flag
    --max_seq_length is given.
    """
    checkpoint = open_checkpoint(
        name,
        settings.bert_config_file,
        settings.vocab_file,
        settings.do_lower_case,
    )
    own = checkpoint.trained_for
    length, long = settings.max_seq_length, settings.long_texts
    is_given, is_training = settings.is_length_given, settings.do_train
    if is_training:
        most = checkpoint.config.num_hidden_layers
        if settings.freeze_layers > most:
            raise UserError(
                f"--freeze_layers={settings.freeze_layers}: the model has "
                f"{most} layers; give at most that many"
            )
    elif own.max_seq_length and not is_given:
        length, is_given = own.max_seq_length, True
    elif own.max_seq_length not in (None, length):
        logging.warning(
            "--max_seq_length=%d; the model was fine-tuned with %d",
            length,
            own.max_seq_length,
        )
    length = checkpoint.fitting_length(length, is_given)
    own_long = checkpoint.long_texts
    if is_training and own_long.how != TAIL:
        own_long = LongTexts()
    long = long_texts.checked(long or own_long, length)
    if long != own_long and (not is_training or own_long.how == TAIL):
        logging.warning(
            "--long_texts: %s; the model's files say %s (long_texts, or "
            "truncation_side)",
            long,
            own_long,
        )
    _ = checkpoint.tokenizer  # reports what is missing before hours of work
    size = choose_bilstm(settings.bilstm, checkpoint, is_training)
    return checkpoint.changed(
        max_seq_length=length,
        long_texts=long if long != LongTexts() else None,
        bilstm_layers=size.bilstm_layers or None,
        bilstm_units=size.bilstm_units or None,
    )


# --- The weights to keep ------------------------------------------------------


def write_model(job: FineTuningJob, model: TaskModel, step: int) -> None:
    """Write the weights of a step with the files prediction needs."""
    checkpoint.write_model(
        job.settings.output_dir, model, job.task.checkpoint, step
    )


def restore(job: FineTuningJob, model: TaskModel) -> tuple[str, int]:
    """Set the weights to score or predict with; return prefix and step.

    They are the fine-tuned ones of output_dir, else those of init_checkpoint.

    Raises:
        UserError: there is no fine-tuned head, or it is another task's.
    """
    source = job.source
    # Training may have written weights.
    folder = RunFolder.read(job.settings.output_dir)
    prefix = folder.weights or source.prefix
    reader = weight_files.Reader(prefix)
    head = registry.find(job.task_name).head
    # A pre-trained checkpoint has no such head. restore_weights would name
    # the missing variables; this error names the reason.
    if head and not reader.has_tensor(head):
        raise UserError(
            f"{prefix} has no head for this task ({head}): scores of an "
            "untrained head are noise; --do_train first, or name the "
            "output_dir of a fine-tuned model as --init_checkpoint"
        )
    # If training was interrupted, no configuration has the size of a BiLSTM
    # yet. Without flags the model has no BiLSTM, and its output layer would
    # still fit if 2 * U = H: the scores would be noise.
    names = reader.get_variable_to_shape_map()
    has_bilstm = any(name.startswith("bilstm/") for name in names)
    if has_bilstm and getattr(model, "bilstm", None) is None:
        raise UserError(
            f"{prefix} has a BiLSTM, but the configuration does not: give "
            "--bilstm_layers and --bilstm_units as in training"
        )
    # Of an interrupted run, which has no configuration, nothing is known.
    trained_for, is_known = TrainedFor(), False
    if prefix == source.prefix:
        # A file that a flag names may say nothing of the head.
        trained_for, is_known = source.trained_for, not source.bert_config_file
    elif path := lookup.beside(prefix, published.BERT_CONFIG_NAME):
        trained_for, is_known = checkpoint.read_trained_for(path), True
    else:
        _check_record(job, prefix, folder)
    if is_known and not job.is_of_any_task:
        registry.check_task(
            trained_for.task, job.trained_for().task, prefix, "this script"
        )
    job.restored(trained_for)
    weight_files.restore_weights(model.variables, prefix, model.required)
    return prefix, weight_files.global_step(prefix)


def _check_record(job: FineTuningJob, prefix: str, folder: RunFolder) -> None:
    """Check that a job is that of an interrupted run, as far as it is recorded.

    Raises:
        UserError: the run had another vocabulary, other labels or options.
    """
    settings = job.settings
    before = folder.fixed.get("data")
    used = job.dev if settings.do_eval else job.test
    is_used = before and (settings.do_eval or settings.do_predict)
    for data in used[:1] if is_used else ():
        now = job.trained_for().to_dict() | job.fingerprint(data)
        now = json.loads(json.dumps(now))  # tuples become lists
        names = (now.keys() & before.keys()) - _OF_FILES | {"multi_label"}
        for name in sorted(names):
            old, new = before.get(name), now.get(name)
            if old != new:
                found = differing(name, old, new)
                raise UserError(
                    f"{prefix} is of a run with {found}, which its "
                    "interruption kept from being written beside it: give the "
                    "flags of that run, without --do_train"
                )


# --- Scores of a run ---------------------------------------------------------


class Scores:
    """The scores of a run's evaluations so far, which scores.json keeps.

    Attributes:
        by_step: {step: score}.
    """

    def __init__(self, folder: RunFolder):
        self.by_step = dict(folder.scores)
        self._path = os.path.join(folder.path, SCORES_NAME)

    @property
    def best(self) -> int:
        """The step of the highest score, the first of equal ones."""
        return max(self.by_step, key=self.by_step.get)

    def end_early(self, patience: int) -> bool:
        """Return whether the best is `patience` evaluations ago or more.

        With a patience of 0 training never stops early.
        """
        if not self.by_step or not patience:
            return False
        return sum(step > self.best for step in self.by_step) >= patience

    def forget_from(self, step: int) -> None:
        """Forget the scores of this step and of later ones."""
        kept = {n: score for n, score in self.by_step.items() if n < step}
        if kept != self.by_step:
            self.by_step = kept
            self.write()

    def write(self) -> None:
        """Write scores.json; of several processes only the chief writes it."""
        if cluster.is_chief():
            file_system.write_text(self._path, json.dumps(self.by_step))
