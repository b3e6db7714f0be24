"""The steps of a scale: vocabulary, records, pre-training, fine-tuning."""

import json
import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from tools.reproduction import tasks as reproduction_tasks
from tools.reproduction.plan import (
    FINETUNING,
    PRETRAINING,
    RECORDS,
    VOCABULARY,
    Step,
)
from tools.reproduction.scales import Finetuning, Phase, Scale, Size

# The seed of the scripts' own default is that of the first run.
FIRST_SEED = 12345
# Fine-tuning run r of a model: 1000 (r - 1) more than the model's seed.
SEEDS_BETWEEN_RESTARTS = 1000

# What replaces the predicted tokens, in percent: [MASK], the same, random.
Masking = tuple[int, int, int]
STANDARD: Masking = (80, 10, 10)
DEFAULT_OBJECTIVE = "mlm_nsp"  # of run_pretraining.py

# (length, masking, is_held_out) -> name of the step that makes these records.
AddRecords = Callable[[int, Masking, bool], str]

# --- Text and records --------------------------------------------------------


def max_predictions(length: int, masked_lm_prob: float) -> int:
    """Return the slots for predicted tokens: 20 of 128, 77 of 512 at 0.15."""
    return math.ceil(round(length * masked_lm_prob, 6))


def vocabulary_step(scale: Scale) -> Step:
    """Return the step that learns the vocabulary from the training text."""
    return Step(
        "vocabulary",
        "Vocabulary of the training text",
        VOCABULARY,
        "build_vocab.py",
        (
            ("input_file", "{train_text}"),
            ("output_file", "{work_dir}/vocab.txt"),
            ("vocab_size", str(scale.corpus.vocab_size)),
            *_casing(scale),
        ),
        output="vocab.txt",
    )


def records_step(
    scale: Scale,
    length: int,
    masking: Masking,
    is_held_out: bool,
    after: tuple[str, ...],
) -> Step:
    """Return the step that makes records of a length and a masking."""
    corpus = scale.corpus
    part = "held_out" if is_held_out else "train"
    name = f"records/{part}_length{length}_mask{masking_name(masking, '-')}"
    files = 1 if is_held_out else corpus.num_record_files
    passes = corpus.held_out_dupe_factor if is_held_out else corpus.dupe_factor
    mask, _, random = masking
    return Step(
        name,
        f"{'Held-out' if is_held_out else 'Training'} records, length "
        f"{length}, masking {masking_name(masking)}",
        RECORDS,
        "create_pretraining_data.py",
        (
            (
                "input_file",
                "{held_out_text}" if is_held_out else "{train_text}",
            ),
            ("output_file", f"{{work_dir}}/{name}/{part}.tfrecord@{files}"),
            ("vocab_file", "{vocab_file}"),
            *_casing(scale),
            ("max_seq_length", str(length)),
            (
                "max_predictions_per_seq",
                str(max_predictions(length, corpus.masked_lm_prob)),
            ),
            ("masked_lm_prob", number(corpus.masked_lm_prob)),
            ("mask_token_prob", number(mask / 100)),
            ("random_token_prob", number(random / 100)),
            ("dupe_factor", str(passes)),
        ),
        after=after,
        output=name,
    )


def masking_name(masking: Masking, separator: str = "/") -> str:
    """Return "80/10/10"."""
    return separator.join(map(str, masking))


def _casing(scale: Scale) -> tuple[tuple[str, str], ...]:
    return () if scale.corpus.do_lower_case else (("do_lower_case", "false"),)


def number(value: float) -> str:
    """Return a number in few characters: 5e-05, 0.1, 3."""
    return f"{value:.10g}"


# --- Pre-training ------------------------------------------------------------


class Pretrained(NamedTuple):
    """A pre-trained model: what its steps depend on besides the scale."""

    size: Size
    objective: str
    masking: Masking
    num_train_steps: int
    seed: int  # from 1

    @property
    def name(self) -> str:
        """Return the folder of its checkpoints."""
        rate = self.size.learning_rate
        own_rate = f"_lr{number(rate)}" if rate else ""
        return (
            f"pretraining/{self.objective}_{self.size.name}{own_rate}_mask"
            f"{masking_name(self.masking, '-')}_steps{self.num_train_steps}/"
            f"seed{self.seed}"
        )

    @property
    def title(self) -> str:
        """Return what tells it from other models."""
        return (
            f"{self.objective}, {self.size.name}, masking "
            f"{masking_name(self.masking)}, seed {self.seed}"
        )


def phase_ends(phases: Sequence[Phase], num_train_steps: int) -> list[int]:
    """Return the last step of each phase; phases of no step repeat it.

    Args:
        phases: their shares add up to 1.
        num_train_steps: of all phases.
    """
    ends, share = [], 0.0
    for phase in phases:
        share += phase.share
        ends.append(round(share * num_train_steps))
    ends[-1] = num_train_steps
    return ends


def checkpoint_of(
    model: Pretrained, scale: Scale, step: int | None = None
) -> tuple[str, str]:
    """Return (directory of weights, name of the step that writes them).

    Args:
        model: the run.
        scale: its phases.
        step: of training; None for the last.
    """
    ends = phase_ends(scale.pretraining.phases, model.num_train_steps)
    step = step or model.num_train_steps
    phase = next(n for n, end in enumerate(ends, 1) if end >= step)
    folder = f"{model.name}/phase{phase}"
    if step == ends[phase - 1]:
        return folder, folder
    return f"{folder}/step-{step}", folder


def pretraining_steps(
    model: Pretrained,
    scale: Scale,
    keep: Sequence[int],
    add_records: AddRecords,
) -> list[Step]:
    """Return the steps of a model's phases.

    Args:
        model: the run.
        scale: phases, rates, batches.
        keep: training steps whose weights are kept.
        add_records: adds a step to the plan.
    """
    given, num_steps = scale.pretraining, model.num_train_steps
    ends = phase_ends(given.phases, num_steps)
    found, first = [], 0
    for index, (phase, end) in enumerate(zip(given.phases, ends, strict=True)):
        if end == first:
            continue  # too few steps for a share as small as this
        is_last, length = end == num_steps, phase.max_seq_length
        name = f"{model.name}/phase{index + 1}"
        after = [train := add_records(length, model.masking, False)]
        flags = [("do_train", "true")]
        inputs = [("input_file", f"{{work_dir}}/{train}/train.tfrecord-*")]
        if is_last:
            after.append(held_out := add_records(length, STANDARD, True))
            flags.append(("do_eval", "true"))
            path = f"{{work_dir}}/{held_out}/held_out.tfrecord-*"
            inputs.append(("eval_input_file", path))
        if found:
            after.append(found[-1].name)
            flags.append(("resume_from", f"{{work_dir}}/{found[-1].name}"))
        flags += [
            ("bert_config_file", f"{{work_dir}}/{config_path(model.size)}"),
            ("vocab_file", "{vocab_file}"),
            *inputs,
            ("output_dir", f"{{work_dir}}/{name}"),
        ]
        if model.objective != DEFAULT_OBJECTIVE:
            flags.append(("objective", model.objective))
        rate = model.size.learning_rate or given.learning_rate
        flags += [
            ("max_seq_length", str(length)),
            (
                "max_predictions_per_seq",
                str(max_predictions(length, scale.corpus.masked_lm_prob)),
            ),
            ("train_batch_size", str(phase.train_batch_size)),
            ("learning_rate", number(rate)),
            ("num_train_steps", str(num_steps)),
            (
                "num_warmup_steps",
                str(round(given.warmup_proportion * num_steps)),
            ),
            ("random_seed", str(FIRST_SEED + model.seed - 1)),
            ("save_checkpoints_steps", str(given.save_checkpoints_steps)),
            ("keep_checkpoint_max", "1"),
        ]
        if is_last:
            flags.append(("eval_batch_size", str(given.eval_batch_size)))
            flags.append(("max_eval_steps", str(given.max_eval_steps)))
        if given.bias_correction:
            flags.append(("bias_correction", "true"))
        flags += _dtype(scale)
        if not is_last:
            flags.append(("stop_after_steps", str(end)))
        if kept := [str(step) for step in keep if first < step < end]:
            flags.append(("keep_steps", ",".join(kept)))
        flags += extra_flags(given.flags)
        found.append(
            Step(
                name,
                f"Pre-training, {model.title}, steps {first + 1:,} to {end:,} "
                f"at length {length}",
                PRETRAINING,
                "run_pretraining.py",
                tuple(flags),
                tuple(after),
                name,
                model.size,
            )
        )
        first = end
    return found


def config_path(size: Size) -> str:
    """Return the path of a size's bert_config.json below the work directory."""
    return f"configs/{size.name}.json"


def _dtype(scale: Scale) -> list[tuple[str, str]]:
    return [] if scale.dtype == "float32" else [("dtype", scale.dtype)]


def extra_flags(flags: Sequence[str]) -> list[tuple[str, str]]:
    """Return flags such as "--use_tpu" and "-tpu_name=x" as pairs."""
    pairs = []
    for flag in flags:
        # absl takes one dash for two.
        name, _, value = flag.lstrip("-").partition("=")
        pairs.append((name, value or "true"))
    return pairs


# --- Fine-tuning -------------------------------------------------------------


def finetuning_step(
    model: Pretrained,
    scale: Scale,
    task: str,
    restart: int,
    checkpoint_step: int | None = None,
    has_bilstm: bool = False,
) -> Step:
    """Return the step that fine-tunes and scores a model on a task.

    Args:
        model: the pre-trained one.
        scale: epochs, batches, rates.
        task: a name in tasks.TASKS.
        restart: number of the run, from 1; each has another seed.
        checkpoint_step: pre-training steps; None: all of them.
        has_bilstm: put a BiLSTM on top of the encoder.
    """
    checkpoint, after = checkpoint_of(model, scale, checkpoint_step)
    name = checkpoint.replace("pretraining/", "finetuning/", 1)
    name += f"{'/bilstm' if has_bilstm else ''}/{task}/run{restart}"
    # The activations of an encoder are kept beside the records of NER-features,
    # under the same name for every encoder: no other step may read or replace
    # them.
    is_own = task == reproduction_tasks.NER_FEATURES
    given = scale.for_task(task)
    script, own = _task_flags(task, given)
    seed = FIRST_SEED + model.seed - 1 + SEEDS_BETWEEN_RESTARTS * (restart - 1)
    rates = given.learning_rates
    flags = [
        ("do_train", "true"),
        ("do_eval", "true"),
        *own,
        ("init_checkpoint", f"{{work_dir}}/{checkpoint}"),
        ("output_dir", f"{{work_dir}}/{name}"),
        (
            "records_dir",
            f"{{work_dir}}/{name}/records"
            if is_own
            else f"{{work_dir}}/records/{task}",
        ),
        *_casing(scale),
        ("max_seq_length", str(given.max_seq_length)),
        ("train_batch_size", str(given.train_batch_size)),
        (
            "sweep_learning_rates" if len(rates) > 1 else "learning_rate",
            ",".join(map(number, rates)),
        ),
        ("num_train_epochs", number(given.num_train_epochs)),
        ("random_seed", str(seed)),
        ("keep_checkpoint_max", "1"),
    ]
    if not given.bias_correction:
        flags.append(("bias_correction", "false"))
    if has_bilstm:
        flags.append(("bilstm_layers", str(scale.bilstm.layers)))
        flags.append(("bilstm_units", str(scale.bilstm.units)))
    flags += _dtype(scale) + extra_flags(given.flags)
    at = f" at step {checkpoint_step:,}" if checkpoint_step else ""
    with_bilstm = " with a BiLSTM" if has_bilstm else ""
    return Step(
        name,
        f"{task}{with_bilstm}, run {restart}, from {model.title}{at}",
        FINETUNING,
        script,
        tuple(flags),
        (after,),
        name,
        model.size,
        task,
    )


def _task_flags(
    task: str, given: Finetuning
) -> tuple[str, list[tuple[str, str]]]:
    """Return the script of a task and the flags that only it has."""
    batch = str(given.eval_batch_size)
    if task == reproduction_tasks.SQUAD:
        return "run_squad.py", [
            ("do_predict", "true"),
            ("train_file", "{squad_train_file}"),
            ("predict_file", "{squad_dev_file}"),
            ("doc_stride", str(given.doc_stride)),
            ("predict_batch_size", batch),
        ]
    if task in reproduction_tasks.GLUE:
        return "run_classifier.py", [
            ("task_name", task),
            ("data_dir", f"{{glue_dir}}/{task}"),
            ("eval_batch_size", batch),
        ]
    flags = [
        ("train_file", "{ner_train_file}"),
        ("dev_file", "{ner_dev_file}"),
        ("eval_batch_size", batch),
    ]
    if task == reproduction_tasks.NER_FEATURES:
        flags.append(("feature_based", "true"))
        flags.append(("lstm_units", str(given.lstm_units)))
    return "run_ner.py", flags


def config_json(size: Size, scale: Scale) -> str:
    """Return the text of a size's bert_config.json.

    Args:
        size: layers, width, heads.
        scale: dropout, positions, initial weights, rows of the embedding
            table.
    """
    config = {
        "attention_probs_dropout_prob": scale.model.dropout,
        "hidden_act": "gelu",
        "hidden_dropout_prob": scale.model.dropout,
        "hidden_size": size.hidden_size,
        "initializer_range": scale.model.initializer_range,
        "intermediate_size": 4 * size.hidden_size,
        "max_position_embeddings": scale.model.max_position_embeddings,
        "num_attention_heads": size.num_attention_heads,
        "num_hidden_layers": size.num_hidden_layers,
        "type_vocab_size": 2,
        "vocab_size": scale.corpus.vocab_size,
    }
    return json.dumps(config, indent=2) + "\n"
