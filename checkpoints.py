"""Checkpoints: every format in, the original's name-based one out, atomically.

A variable's path is its checkpoint key (`bert/encoder/layer_0/...`), so
reading and writing are one loop over names. A training checkpoint
`model.ckpt-<step>` holds the weights, the optimizer's slots
(`<path>/adam_m`, `<path>/adam_v`) and `global_step`, exactly as the original
wrote it; `bert_model.ckpt` holds the weights alone. Both are read by
`tf.train.load_checkpoint` and by every converter made for the 2018 release.

`find_checkpoint` tells what a path stands for: such a prefix, a directory with
one, or a Hugging Face directory, which huggingface.py reads under the same
names.
"""

import json
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
from absl import logging

import file_system
import huggingface
import tokenization
from errors import UserError
from modeling import BertConfig

WEIGHTS_NAME = "bert_model.ckpt"
TRAINING_NAME = "model.ckpt"
BERT_CONFIG_NAME = "bert_config.json"
CONFIG_NAME = "training_config.json"
# What tf.train.load_checkpoint returns; TensorFlow does not name the class.
Reader = Any
# What a training checkpoint holds beside the weights.
_TRAINING_ONLY = re.compile(r"(/adam_m|/adam_v)$|^global_step$")
# A fine-tuned task starts its own head, and a masked LM saved without next
# sentences has no pooler; the rest of the encoder has to be there.
ENCODER = r"^bert/(?!pooler/)"
# The files a name-based checkpoint consists of, in the order in which they
# appear: the index last, since it makes the checkpoint visible.
_SUFFIXES = (".data-00000-of-00001", ".index")


class LoadReport(NamedTuple):
    """What a checkpoint gave and what it did not, by variable path."""

    restored: list[str]
    new: list[str]  # in the model, not in the checkpoint
    unused: list[str]  # in the checkpoint, not in the model
    mismatched: list[str]  # "path: [model shape] and [checkpoint shape]"


def join(directory: str, name: str) -> str:
    """Join a directory, local or remote (`gs://...`), and a file name."""
    return (
        str(PurePosixPath(directory) / name)
        if "://" not in directory
        else (directory.rstrip("/") + "/" + name)
    )


def find_checkpoint(path: str, flag: str = "init_checkpoint") -> str:
    """Return the checkpoint that `path` stands for.

    Args:
        path: a prefix (`.../bert_model.ckpt`, `.../model.ckpt-1000`) or a
            directory: a released one, an `output_dir` of ours, or one of
            Hugging Face's.
        flag: the flag the path came from, for messages.

    Returns:
        The prefix all files of the checkpoint share; a Hugging Face
        directory stands for itself.

    Raises:
        UserError: nothing there; says what `path` looks like instead.
    """
    if tf.io.gfile.exists(path + ".index"):
        return path
    if tf.io.gfile.isdir(path):
        return _find_in_directory(path, flag)
    match = re.fullmatch(r"(.+)\.(index|meta|data-\d+-of-\d+)", path)
    if match:
        raise UserError(
            f"--{flag}={path} names one file of a checkpoint: give the prefix "
            f"all its files share, {match.group(1)}"
        )
    if tf.io.gfile.exists(path):
        raise UserError(
            f"--{flag}={path} is a file; give a checkpoint prefix, or the "
            "directory the file is in"
        )
    raise UserError(
        f"--{flag}={path}: no such checkpoint (looked for {path}.index and "
        "for a directory of that name)"
    )


def _find_in_directory(directory: str, flag: str) -> str:
    """Return the prefix a directory holds: finished weights come first."""
    weights = join(directory, WEIGHTS_NAME)
    if tf.io.gfile.exists(weights + ".index"):
        return weights
    latest = tf.train.latest_checkpoint(directory)
    if latest:
        return latest
    if huggingface.is_directory(directory):
        return directory
    huggingface.refuse_pickles(directory)
    found = tf.io.gfile.glob(join(directory, "*.index"))
    hint = (
        f"; it holds {', '.join(sorted(found)[:3])}: name one, without .index"
        if found
        else ""
    )
    raise UserError(
        f"--{flag}={directory} is a directory without {WEIGHTS_NAME}.index, a "
        f"`checkpoint` file or {huggingface.WEIGHTS_NAME}{hint}"
    )


def find_training_checkpoint(path: str) -> str:
    """Return the prefix of the newest training checkpoint `path` stands for.

    Raises:
        UserError: there is none.
    """
    if tf.io.gfile.isdir(path):
        latest = tf.train.latest_checkpoint(path)
        if latest:
            return latest
        raise UserError(f"resume_from {path}: no `checkpoint` file in it")
    return find_checkpoint(path)


def beside(prefix: str, name: str) -> str | None:
    """Return the path of file `name` beside a checkpoint, None if absent."""
    folder = prefix.rsplit("/", 1)[0] if "/" in prefix else "."
    if tf.io.gfile.isdir(prefix):  # Hugging Face's
        folder = prefix
    path = join(folder, name)
    return path if tf.io.gfile.exists(path) else None


def read_config(prefix: str, bert_config_file: str | None = None) -> BertConfig:
    """Return the configuration a flag names, or the one beside a checkpoint.

    Args:
        prefix: of `find_checkpoint`; empty without a checkpoint.
        bert_config_file: the flag.

    Raises:
        UserError: there is none, or it is no BERT's.
    """
    path = bert_config_file or (prefix and beside(prefix, BERT_CONFIG_NAME))
    if path:
        return BertConfig.from_json_file(path)
    if not prefix:
        raise UserError("--bert_config_file is required without a checkpoint")
    if tf.io.gfile.isdir(prefix):
        return huggingface.read_config(prefix)
    raise UserError(
        f"no {BERT_CONFIG_NAME} beside {prefix}: name it with "
        "--bert_config_file"
    )


def find_vocab(prefix: str, vocab_file: str | None = None) -> str:
    """Return the vocabulary a flag names, or the one beside a checkpoint.

    Raises:
        UserError: there is none.
    """
    path = vocab_file or (prefix and beside(prefix, "vocab.txt"))
    if not prefix and not path:
        raise UserError("--vocab_file is required without a checkpoint")
    if not path:
        raise UserError(
            f"no vocab.txt beside {prefix}: name it with --vocab_file"
        )
    return path


def resolve_lower_case(do_lower_case: bool | None, prefix: str) -> bool:
    """Return the casing a flag asks for, or the one a checkpoint has.

    A checkpoint says so in the tokenizer_config.json beside it, or, a
    released one, by the name of its directory. What says nothing lower-cases,
    as the original does.

    Raises:
        UserError: flag and checkpoint disagree.
    """
    folder = prefix if tf.io.gfile.isdir(prefix) else prefix.rpartition("/")[0]
    trained = huggingface.lower_cases(folder or ".") if prefix else None
    if trained is None:
        trained = tokenization.casing_of_checkpoint(prefix)
    if do_lower_case is None:
        do_lower_case = True if trained is None else trained
        logging.info(
            "do_lower_case = %s%s",
            do_lower_case,
            "" if trained is None else f", as {prefix} was trained",
        )
    elif trained is not None and trained != do_lower_case:
        raise UserError(
            f"--do_lower_case={do_lower_case}, but {prefix} was trained with "
            f"{trained}: leave the flag out, or mend what says so beside it"
        )
    return do_lower_case


def restore_weights(
    variables: Sequence,
    init_checkpoint: str,
    required: str = ENCODER,
) -> LoadReport:
    """Set `variables` from a checkpoint; report everything by name.

    Args:
        variables: keras.Variable list; a variable's `.path` is its key.
        init_checkpoint: prefix or directory, see `find_checkpoint`.
        required: paths that match this pattern have to be restored. A head
            may be new (fine-tuning starts that way); a piece of the encoder
            may not: the original trained from scratch without a word then.

    Raises:
        UserError: a required variable is missing or has another shape.
    """
    prefix = find_checkpoint(init_checkpoint)
    reader = open_reader(prefix)
    shapes = reader.get_variable_to_shape_map()
    report = compare(
        {variable.path: list(variable.shape) for variable in variables}, shapes
    )
    log_report(report, prefix)
    check_required(report, prefix, required)
    restored = set(report.restored)
    for variable in variables:
        if variable.path in restored:
            variable.assign(read_tensor(reader, prefix, variable.path))
    return report


def check_required(
    report: LoadReport, prefix: str, required: str = ENCODER
) -> None:
    """Stop at what a model cannot do without.

    Raises:
        UserError: a mismatched variable, or a missing one that matches
            `required`.
    """
    wrong = [line for line in report.mismatched if line.startswith("bert/")]
    if wrong:
        raise UserError(
            f"{prefix} and the configuration contradict each other in "
            f"{len(wrong)} variables, the first: {wrong[0]}; use the "
            "bert_config.json that belongs to the checkpoint"
        )
    for line in report.mismatched:
        if re.search(required, line):
            raise UserError(
                f"{prefix} was fitted to another task, or to other labels: "
                f"{line}"
            )
        logging.warning("%s: starts from new weights: %s", prefix, line)
    pooler = [path for path in report.new if path.startswith("bert/pooler/")]
    missing = [path for path in report.new if re.search(required, path)]
    if len(pooler) == 1:  # half of it is no way to save a model
        missing = missing or pooler
    if missing:
        raise UserError(
            f"{prefix} lacks {len(missing)} variables the encoder needs, the "
            f"first: {missing[0]} (it holds {len(report.unused)} unknown ones"
            + (f", the first: {report.unused[0]}" if report.unused else "")
            + "): not a BERT checkpoint in the original's names, or one with "
            "fewer layers"
        )
    if pooler:
        logging.warning(
            "%s has no pooler (bert/pooler/...): it starts from new weights",
            prefix,
        )


def compare(
    wanted: Mapping[str, Sequence[int]], found: Mapping[str, Sequence[int]]
) -> LoadReport:
    """Compare the shapes a model wants with those a checkpoint holds."""
    mismatched = [
        f"{path}: the model wants {list(wanted[path])}, the checkpoint holds "
        f"{list(found[path])}"
        for path in wanted
        if path in found and list(found[path]) != list(wanted[path])
    ]
    return LoadReport(
        restored=[p for p in wanted if list(found.get(p, ())) == wanted[p]]
        if wanted
        else [],
        new=[path for path in wanted if path not in found],
        unused=sorted(
            path
            for path in found
            if path not in wanted and not is_training_only(path)
        ),
        mismatched=mismatched,
    )


def is_training_only(name: str) -> bool:
    """Whether a key belongs to training (slots, step), not to the model."""
    return bool(_TRAINING_ONLY.search(name))


def log_report(report: LoadReport, prefix: str) -> None:
    """Say what was restored and name everything that was not."""
    logging.info(
        "Checkpoint %s: %d variables restored, %d new, %d unused, "
        "%d mismatched",
        prefix,
        *map(len, report),
    )
    for name in ("new", "unused", "mismatched"):
        for path in getattr(report, name):
            logging.info("  %s: %s", name, path)


def open_reader(prefix: str) -> Reader:
    """Open a checkpoint that `find_checkpoint` returned.

    Raises:
        UserError: it cannot be read.
    """
    try:
        if tf.io.gfile.isdir(prefix):
            return huggingface.Reader(prefix)
        return tf.train.load_checkpoint(prefix)
    except (tf.errors.OpError, ValueError, RuntimeError) as error:
        raise UserError(
            f"{prefix} cannot be read as a checkpoint: {error}"
        ) from error


def files_of(prefix: str) -> list[str]:
    """Return the files whose bytes say which weights a checkpoint holds.

    An index has the checksum of every tensor.
    """
    if tf.io.gfile.isdir(prefix):
        return sorted(tf.io.gfile.glob(join(prefix, "*.safetensors")))
    return [prefix + ".index"]


def read_tensor(reader: Reader, prefix: str, name: str) -> np.ndarray:
    """Read one tensor; damage on disk becomes a UserError that names it."""
    try:
        return reader.get_tensor(name)
    except (tf.errors.OpError, ValueError, RuntimeError) as error:
        raise UserError(
            f"{prefix} is damaged at {name}: {error}; use an earlier checkpoint"
        ) from error


def write(prefix: str, tensors: Mapping[str, np.ndarray]) -> None:
    """Write a name-based checkpoint; it appears whole or not at all.

    Args:
        prefix: path without suffix; files of that name are replaced.
        tensors: checkpoint key to value.
    """
    names = sorted(tensors)
    temporary = prefix + ".tmp"
    tf.raw_ops.SaveV2(
        prefix=tf.constant(temporary),
        tensor_names=tf.constant(names),
        shape_and_slices=tf.constant([""] * len(names)),
        tensors=[tf.convert_to_tensor(tensors[name]) for name in names],
    )
    for suffix in _SUFFIXES:
        tf.io.gfile.rename(temporary + suffix, prefix + suffix, overwrite=True)


def as_tensors(variables: Sequence) -> dict[str, tf.Tensor]:
    """Return {path: value} of keras or tf variables, ready for `write`."""
    return {
        getattr(variable, "path", variable.name): tf.convert_to_tensor(
            getattr(variable, "value", variable)
        )
        for variable in variables
    }


class TrainingState:
    """Weights, slots and step in `output_dir`, newest few kept.

    The random numbers and the place in the data are functions of the seed and
    the step, so these three are the whole state of a run.

    Args:
        output_dir: where `model.ckpt-<step>` and `checkpoint` live.
        variables: the model's keras variables.
        slots: {variable path: {slot name: tf.Variable}} of the optimizer.
        keep_checkpoint_max: how many to keep; 0 keeps all.
        is_chief: the one process of several that writes.
    """

    def __init__(
        self,
        output_dir: str,
        variables: Sequence,
        slots: Mapping[str, Mapping[str, tf.Variable]],
        keep_checkpoint_max: int = 5,
        is_chief: bool = True,
    ):
        self.output_dir = output_dir
        self.keep_checkpoint_max = keep_checkpoint_max
        self.is_chief = is_chief
        self._weights = {variable.path: variable for variable in variables}
        self._slots = {
            f"{path}/{name}": slot
            for path, named in slots.items()
            for name, slot in named.items()
        }

    def latest(self) -> str | None:
        """Return the prefix of the newest whole checkpoint, if any."""
        return tf.train.latest_checkpoint(self.output_dir)

    def save(self, step: int) -> str:
        """Write `model.ckpt-<step>`, drop the oldest; return the prefix."""
        prefix = join(self.output_dir, f"{TRAINING_NAME}-{step}")
        if not self.is_chief:
            return prefix
        tensors = as_tensors(self._weights.values())
        tensors.update(
            {name: tf.convert_to_tensor(s) for name, s in self._slots.items()}
        )
        tensors["global_step"] = np.int64(step)
        write(prefix, tensors)
        kept = [p for p in self._listed() if p != prefix] + [prefix]
        dropped: list[str] = []
        if self.keep_checkpoint_max:
            dropped = kept[: -self.keep_checkpoint_max]
            kept = kept[-self.keep_checkpoint_max :]
        self._write_list(kept)
        for old in dropped:
            remove(old)
        return prefix

    def restore(self, prefix: str) -> int:
        """Set every variable from a training checkpoint; return its step.

        Raises:
            UserError: anything missing, unknown or of another shape.
        """
        reader = open_reader(prefix)
        targets = {**self._weights, **self._slots}
        found = reader.get_variable_to_shape_map()
        wanted = {name: list(v.shape) for name, v in targets.items()}
        report = compare(wanted, found)
        problems = report.mismatched + report.new + report.unused
        if problems or "global_step" not in found:
            problem = problems[0] if problems else "global_step is missing"
            raise UserError(
                f"{prefix} is no training checkpoint of this model "
                f"({len(problems)} variables differ, the first: {problem}); "
                "weights alone can be given as --init_checkpoint"
            )
        for name, variable in targets.items():
            variable.assign(read_tensor(reader, prefix, name))
        return int(read_tensor(reader, prefix, "global_step"))

    def _write_list(self, prefixes: Sequence[str]) -> None:
        """Write the `checkpoint` file; the last prefix is the newest.

        Names are relative, so that a moved output_dir still works.
        """
        names = [json.dumps(prefix.rsplit("/", 1)[-1]) for prefix in prefixes]
        lines = [f"model_checkpoint_path: {names[-1]}"]
        lines += [f"all_model_checkpoint_paths: {name}" for name in names]
        write_text(join(self.output_dir, "checkpoint"), "\n".join(lines) + "\n")

    def _listed(self) -> list[str]:
        state = tf.train.get_checkpoint_state(self.output_dir)
        return list(state.all_model_checkpoint_paths) if state else []

    def clean(self) -> None:
        """Remove what a killed run left half-written."""
        if self.is_chief:
            pattern = join(self.output_dir, f"{TRAINING_NAME}-*.tmp*")
            for path in tf.io.gfile.glob(pattern):
                logging.info("Removing the unfinished %s", path)
                tf.io.gfile.remove(path)


def remove(prefix: str) -> None:
    """Delete a checkpoint's files, the index first."""
    for suffix in reversed(_SUFFIXES):
        if tf.io.gfile.exists(prefix + suffix):
            tf.io.gfile.remove(prefix + suffix)


def claim_output_dir(
    output_dir: str,
    fixed: Mapping[str, object],
    adjustable: Mapping[str, object],
    is_chief: bool = True,
) -> None:
    """Write down what a run is, or compare with what it was.

    Args:
        output_dir: created when missing.
        fixed: model, data and whatever decides what a step computes on; a run
            with another value cannot go on here.
        adjustable: may change between restarts; a change is logged.

    Raises:
        UserError: names the first fixed value that differs, old and new.
    """
    make_directory(output_dir)
    path = join(output_dir, CONFIG_NAME)
    now = json.loads(json.dumps({"fixed": fixed, "adjustable": adjustable}))
    # Without a checkpoint there is nothing to protect: an earlier start failed.
    is_begun = tf.train.latest_checkpoint(output_dir) is not None
    if is_begun and tf.io.gfile.exists(path):
        with tf.io.gfile.GFile(path) as file:
            before = json.load(file)
        for name, value in now["fixed"].items():
            old = before["fixed"].get(name)
            if old != value:
                raise UserError(
                    f"output_dir {output_dir} belongs to a run with {name} = "
                    f"{_differing(old, value)}; use another --output_dir, or "
                    "the command that began this one"
                )
        for name, value in now["adjustable"].items():
            old = before["adjustable"].get(name)
            if old != value:
                logging.warning("%s changes from %s to %s", name, old, value)
    if is_chief:
        write_text(path, json.dumps(now, indent=2, sort_keys=True) + "\n")


def _differing(old: object, new: object) -> str:
    """Say `old, not new`, of dictionaries only the entries that differ."""
    if isinstance(old, dict) and isinstance(new, dict):
        names = [n for n in {**old, **new} if old.get(n) != new.get(n)]
        old = {name: old.get(name) for name in names}
        new = {name: new.get(name) for name in names}
    return f"{old}, not {new}"


def make_directory(path: str, flag: str = "output_dir") -> None:
    """Create a directory and what leads to it.

    Raises:
        UserError: it cannot be made, or is not writable.
    """
    try:
        tf.io.gfile.makedirs(path)
        probe = join(path, f".writable.{os.getpid()}")  # runs may share it
        with tf.io.gfile.GFile(probe, "w") as file:
            file.write("")
        tf.io.gfile.remove(probe)
    except tf.errors.OpError as error:
        raise UserError(
            f"--{flag}={path} cannot be written: {error.message}"
        ) from error


def write_text(path: str, text: str) -> None:
    """Write a small text file that appears whole or not at all."""
    with file_system.atomic_file(path) as file:
        file.write(text.encode())


def global_step(path: str) -> int:
    """Return the step a checkpoint was saved at, 0 if it does not say."""
    prefix = find_checkpoint(path)
    reader = open_reader(prefix)
    if not reader.has_tensor("global_step"):
        return 0
    return int(read_tensor(reader, prefix, "global_step"))
