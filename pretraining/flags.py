"""What the flags of run_pretraining.py ask for: source, settings, records."""

import dataclasses

from base import file_system, flags
from base.errors import UserError

from absl import logging
from absl.flags import FlagValues

import optimization
import tokenization
from checkpoints import weight_files
from checkpoints.casing import TokenizerFiles
from checkpoints.checkpoint import open_checkpoint
from checkpoints.model import Checkpoint
from modeling import BertConfig
from pretraining import objectives, records
from pretraining import run as pretraining_run
from pretraining.data.schema import MASKING_FLAGS, InstanceConfig
from pretraining.records import PretrainingFiles
from pretraining.run import Runs
from tokenization import Vocabulary
from training.settings import TrainingSettings


def open_source(f: FlagValues, runs: Runs) -> Checkpoint:
    """Return the checkpoint, or the files, that the flags name; check them.

    Raises:
        UserError: a file is damaged, or the run of --resume_from has another
            objective or vocabulary, as far as they are known.
    """
    if f.size:
        vocabulary = Vocabulary(f.vocab_file)
        source = Checkpoint(
            "",
            BertConfig.from_size(f.size, len(vocabulary.tokens)),
            files=TokenizerFiles(
                vocabulary=vocabulary, do_lower_case=f.do_lower_case
            ),
        )
    else:
        source = open_checkpoint(
            runs.folder.pinned(f.init_checkpoint),
            f.bert_config_file,
            f.vocab_file,
            f.do_lower_case,
        )
    place = f.bert_config_file or source.prefix
    objectives.set_direction(source.config, f.objective, place)
    vocabulary = source.files.vocabulary
    if vocabulary:
        vocab = vocabulary.tokens
        source.check_vocab(len(vocab))
        tokenization.validate_special_tokens(vocab, vocab_file=vocabulary.path)
    if before := runs.before:
        what = f"--resume_from={f.resume_from}"
        pretraining_run.check_same_objective(
            before,
            f.objective,
            what,
            "its weights alone can be given as --init_checkpoint",
        )
        trained = before.fixed.get("vocabulary")
        given = pretraining_run.vocabulary_digest(vocabulary)
        if trained and given and trained != given:
            raise UserError(
                f"{what} is a run with another vocabulary than "
                f"{vocabulary.path}, whose ids stand for other tokens: give "
                "the records and the --vocab_file of that vocabulary"
            )
    return source


def config_of_run(f: FlagValues, source: Checkpoint) -> BertConfig:
    """Return the source's configuration with the values that flags give."""
    given = {
        "initializer_range": f.initializer_range,
        "sinusoidal_positions": f.sinusoidal_positions,
        "hidden_dropout_prob": f.dropout,
        "attention_probs_dropout_prob": f.dropout,
    }
    given = {n: value for n, value in given.items() if value is not None}
    return BertConfig.from_dict(source.config.to_dict() | given)


def read_settings(f: FlagValues, runs: Runs) -> TrainingSettings:
    """Return the training flags as plain values.

    A run that goes on ends where it was to end, if no flag says otherwise.
    With --train_hours the number of steps is that of the run in output_dir, or
    1 until it is known.
    """
    steps = f.num_train_steps
    if f.train_hours:
        steps = runs.folder.adjustable.get("num_train_steps", 1)
    elif not f["num_train_steps"].present:
        steps = runs.continued.adjustable.get("num_train_steps", steps)
    settings = flags.read(
        TrainingSettings,
        f,
        init_checkpoint=runs.folder.pinned(f.init_checkpoint),
        resume_from=runs.resume_from,
    )
    settings = with_steps(f, settings, steps, runs)
    place, known = runs.place, runs.continued.adjustable
    planned = known.get("num_train_steps")
    if place and known.get("schedule") == "wsd" and planned != steps:
        begin = optimization.cooldown_start(
            planned, known["cooldown_proportion"]
        )
        if f.do_train and weight_files.global_step(place) > begin:
            logging.warning(
                "The learning rate of %s fell from step %d on, and rises "
                "again: what the fall brought is lost. To go on from there, "
                "give --resume_from=%s-%d and another --output_dir",
                place,
                begin,
                place.rpartition("-")[0],
                begin,
            )
    return settings


def with_steps(
    f: FlagValues, settings: TrainingSettings, steps: int, runs: Runs
) -> TrainingSettings:
    """Return the settings of a run with so many steps, and its warm-up."""
    warmup, share = f.num_warmup_steps, f.warmup_proportion
    if share is None and f.train_hours:
        share = 0.1
    if not f["num_warmup_steps"].present:
        before = runs.continued.adjustable
        is_wsd = settings.schedule == before.get("schedule") == "wsd"
        if share is not None:
            warmup = int(share * steps)
        # It stays what it was, in wsd also where the number of steps changes.
        if share is None or is_wsd:
            warmup = before.get("num_warmup_steps", warmup)
    return dataclasses.replace(
        settings, num_train_steps=steps, num_warmup_steps=warmup
    )


def open_records(
    f: FlagValues, source: Checkpoint
) -> tuple[PretrainingFiles | None, PretrainingFiles | None]:
    """Return the records to train on and those to evaluate on; None: none.

    Raises:
        UserError: flags of masks are given, and all records have masks.
    """
    # A default becomes a length that the model has positions for.
    length = source.fitting_length(
        f.max_seq_length, bool(f["max_seq_length"].present)
    )
    instances = flags.read(InstanceConfig, f, max_seq_length=length)

    def find(name: str) -> PretrainingFiles:
        files = file_system.find_files(f[name].value, name)
        data = records.find_data(
            files, source.config, instances, source.files.vocabulary
        )
        data.log(name)
        return data

    data = find("input_file") if f.do_train else None
    eval_data = None
    if f.eval_input_file and (f.do_eval or f.eval_steps):
        eval_data = find("eval_input_file")
    elif f.do_eval:
        eval_data = data or find("input_file")
        if data:
            logging.warning(
                "No --eval_input_file: evaluating on the training records, "
                "whose scores are better than those of other text"
            )
    if any(d and d.masks for d in (data, eval_data)):
        instances.warn_of_few_predictions()
        return data, eval_data
    # The last one is also the length of features of records with masks.
    for name in MASKING_FLAGS[:-1]:
        if f[name].present:
            problem = (
                f"--{name} is for records without masks "
                "(create_pretraining_data.py --unmasked); these have some"
            )
            if not f.recipe:  # which may have set the flag
                raise UserError(problem)
            logging.warning("%s, and keep them", problem)
    return data, eval_data
