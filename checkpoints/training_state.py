"""Save and resume a training run: weights, optimizer slots and step.

An output_dir holds `model.ckpt-<step>` for the last few saved steps, the file
`checkpoint` with their names, and `training_config.json`, which describes the
run, so that a command with another model or other data cannot continue it.
"""

import contextlib
import functools
import json
import os
import types
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence

from base import cluster, file_system, resuming, text_files
from base.errors import UserError

import numpy as np
import tensorflow as tf
from absl import logging

from checkpoints import hub, lookup, weight_files

TRAINING_NAME = "model.ckpt"

CONFIG_NAME = "training_config.json"

_OF_MODELS = ("index", "safetensors")  # endings of files

# How long to wait for the end of a run that was told to stop, and saves.
_LOCK_SECONDS = 60.0

_PINNED = "The run in %s began with %s, which is used again"


class TrainingState:
    """The training checkpoints of a run: weights, slots and step.

    Random numbers and the order of the data are functions of the seed and the
    step, so these three, and the loss scale of a run in float16, are the whole
    state of a run: killed and started again, it ends with the same bits.

    Args:
        output_dir: directory of `model.ckpt-<step>` and `checkpoint`.
        variables: the model's keras variables.
        slots: {variable path: {slot name: tf.Variable}} of the optimizer. As
            in the original, a slot is saved as `<variable path>/<slot name>`.
        keep_checkpoint_max: checkpoints to keep; 0 keeps all.
        is_chief: whether this process writes; of several only one does.
        loss_scale: {name: variable} of a run in float16, saved as
            `loss_scale/<name>`. Runs in other types have none.
    """

    def __init__(
        self,
        output_dir: str,
        variables: Sequence,
        slots: Mapping[str, Mapping[str, tf.Variable]],
        keep_checkpoint_max: int = 5,
        is_chief: bool = True,
        loss_scale: Mapping[str, tf.Variable] | None = None,
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
        self._loss_scale = {
            f"{weight_files.LOSS_SCALE}/{name}": variable
            for name, variable in (loss_scale or {}).items()
        }

    def latest(self) -> str | None:
        """Return the prefix of the newest checkpoint; None in a new run.

        Raises:
            UserError: none of the checkpoints that are listed is there. A new
                run would replace what is left of this one.
        """
        listed = lookup.listed_checkpoints(self.output_dir)
        found = lookup.latest_checkpoint(self.output_dir)
        path = os.path.join(self.output_dir, "checkpoint")
        if not listed and tf.io.gfile.exists(path):
            raise UserError(
                f"{path} is damaged: restore it, or delete it to begin anew"
            )
        if listed and not found:
            raise UserError(
                f"the files of {listed[-1]}, which {path} lists, are missing: "
                f"restore them, or delete {path} to begin anew"
            )
        if listed and found != listed[-1]:
            logging.warning(
                "The files of %s are missing: going on from %s, the newest "
                "that is there",
                listed[-1],
                found,
            )
        return found

    def save(self, step: int) -> str:
        """Write `model.ckpt-<step>`, delete the oldest; return the prefix."""
        prefix = os.path.join(self.output_dir, f"{TRAINING_NAME}-{step}")
        if not self.is_chief:
            return prefix
        tensors = weight_files.as_tensors(self._weights.values())
        others = {**self._slots, **self._loss_scale}
        tensors.update(
            {name: tf.convert_to_tensor(v) for name, v in others.items()}
        )
        tensors["global_step"] = np.int64(step)
        weight_files.write(prefix, tensors)
        kept = [
            listed
            for listed in lookup.listed_checkpoints(self.output_dir)
            if listed != prefix and tf.io.gfile.exists(listed + ".index")
        ] + [prefix]
        dropped: list[str] = []
        if self.keep_checkpoint_max:
            dropped = kept[: -self.keep_checkpoint_max]
            kept = kept[-self.keep_checkpoint_max :]
        # The list first: a run killed here leaves files that nothing refers
        # to, never a reference to files that are deleted.
        self._write_list(kept)
        for old in dropped:
            weight_files.remove(old)
        return prefix

    def restore(self, prefix: str) -> int:
        """Set every variable from a training checkpoint; return its step.

        Args:
            prefix: of the checkpoint.

        Raises:
            UserError: a variable is missing, unknown or of another shape.
        """
        reader = weight_files.open_reader(prefix)
        targets = {**self._weights, **self._slots}
        found = reader.get_variable_to_shape_map()
        wanted = {name: list(v.shape) for name, v in targets.items()}
        report = weight_files.compare(wanted, found)
        # Unlike when fine-tuning starts, nothing may be new or unused: the run
        # would go on without its moments, or as another model.
        problems = report.mismatched + report.new + report.unused
        if problems or "global_step" not in found:
            problem = problems[0] if problems else "global_step is missing"
            raise UserError(
                f"{prefix} is not a training checkpoint of this model "
                f"({len(problems)} variables differ, the first: {problem}); "
                "weights alone can be given as --init_checkpoint"
            )
        # A run may change its type: in float16 it then begins with the loss
        # scale of a new run, in the others it has none.
        targets.update(
            {n: v for n, v in self._loss_scale.items() if n in found}
        )
        for name, variable in targets.items():
            variable.assign(weight_files.read_tensor(reader, prefix, name))
        return int(weight_files.read_tensor(reader, prefix, "global_step"))

    def checksum(self) -> int:
        """Return a checksum of the state of the run, to compare machines."""
        total = 0
        state = {**self._weights, **self._slots, **self._loss_scale}
        for name, variable in state.items():
            total = zlib.crc32(name.encode(), total)
            total = zlib.crc32(variable.numpy().tobytes(), total)
        return total

    def _write_list(self, prefixes: Sequence[str]) -> None:
        """Write the `checkpoint` file, as TensorFlow does.

        Names are relative, so that an output_dir can be moved.

        Args:
            prefixes: of all checkpoints, the newest last.
        """
        names = [json.dumps(prefix.rsplit("/", 1)[-1]) for prefix in prefixes]
        lines = [f"model_checkpoint_path: {names[-1]}"]
        lines += [f"all_model_checkpoint_paths: {name}" for name in names]
        file_system.write_text(
            os.path.join(self.output_dir, "checkpoint"), "\n".join(lines) + "\n"
        )

    def clean(self) -> None:
        """Remove the unfinished files of a run that was killed."""
        if self.is_chief:
            pattern = os.path.join(self.output_dir, f"{TRAINING_NAME}-*.tmp*")
            for path in tf.io.gfile.glob(pattern):
                logging.info("Removing the unfinished %s", path)
                tf.io.gfile.remove(path)


_NONE: Mapping = types.MappingProxyType({})

# --- Settings of a run -------------------------------------------------------


@contextlib.contextmanager
def locked(output_dir: str) -> Iterator[None]:
    """Keep other training runs out of a local output_dir inside the block.

    Two of them would remove and replace each other's files. A run that was
    told to stop has the directory until it has saved: this waits a minute for
    it. The machines of a cluster share a directory, which the chief locks.

    Args:
        output_dir: created when missing, removed if it stays empty.

    Raises:
        UserError: another run goes on in it.
    """
    if file_system.is_remote(output_dir) or not cluster.is_chief():
        yield
        return
    lookup.check_is_no_pattern(output_dir, "output_dir")
    file_system.make_directory(output_dir)
    what = f"--output_dir={output_dir}"
    with resuming.locked_folder(output_dir, what, _LOCK_SECONDS):
        yield


def claim_output_dir(
    output_dir: str,
    fingerprint: Mapping[str, object],
    adjustable: Mapping[str, object],
    is_chief: bool = True,
    hints: Mapping[str, str] = _NONE,
    defaults: Mapping[str, object] = _NONE,
) -> Callable[[], None]:
    """Check that output_dir has no other run; write this run's settings to it.

    They are in `training_config.json`, the fingerprint under the key "fixed".
    Those of a run that goes on are not replaced at once: it may be finished,
    and then it keeps the settings that it was trained with.

    Args:
        output_dir: created when missing.
        fingerprint: model, data and all else that a resumed run may not
            change.
        adjustable: settings that may change when a run is resumed; a change
            is logged.
        is_chief: whether this process writes; of several only one does.
        hints: name of an adjustable setting -> what to log with its change.
        defaults: values of the fingerprint that files of earlier versions
            lack.

    Returns:
        Writes the settings of this command; to be called when it trains.

    Raises:
        UserError: output_dir holds weights of a run with another fingerprint
            (names the first difference), or a model that is of no run.
    """
    lookup.check_is_no_pattern(output_dir, "output_dir")
    file_system.make_directory(output_dir)
    path = os.path.join(output_dir, CONFIG_NAME)
    # Through JSON tuples become lists, as in the file.
    now = json.loads(
        json.dumps({"fixed": fingerprint, "adjustable": adjustable})
    )
    text = json.dumps(now, indent=2, sort_keys=True) + "\n"
    write = functools.partial(_write_if, is_chief, path, text)
    if tf.io.gfile.exists(path) and _has_weights(output_dir):
        before = _read_run(path)
        _check_fixed(output_dir, {**defaults, **before["fixed"]}, now["fixed"])
        _warn_of_changes(before["adjustable"], now["adjustable"], hints)
        return write
    if not tf.io.gfile.exists(path):
        check_free(output_dir)
    write()
    return write


def _write_if(is_chief: bool, path: str, text: str) -> None:
    """Write a text file on the chief; other machines write none."""
    if is_chief:
        file_system.write_text(path, text)


def _warn_of_changes(
    before: Mapping[str, object],
    now: Mapping[str, object],
    hints: Mapping[str, str],
) -> None:
    """Warn of adjustable settings that change; see `claim_output_dir`."""
    for name, value in now.items():
        old = before.get(name)
        if old != value:
            hint = f": {hints[name]}" if name in hints else ""
            logging.warning(
                "%s changes from %s to %s%s", name, old, value, hint
            )


def _has_weights(output_dir: str) -> bool:
    """Whether a run in output_dir has weights to protect.

    They are its checkpoints, or the best weights of a run that was killed
    before its first checkpoint. Without either, an earlier start failed.
    """
    weights = os.path.join(output_dir, lookup.WEIGHTS_NAME + ".index")
    has_best = tf.io.gfile.exists(weights)
    return has_best or bool(lookup.listed_checkpoints(output_dir))


def check_free(output_dir: str) -> None:
    """Check that output_dir, which has no run, has no model either.

    A run would replace its weights, configuration and vocabulary, which may
    be those of a released model. The checkpoints of a run of the original,
    with the file `checkpoint`, are gone on with, as by the original.

    Raises:
        UserError: it does.
    """
    if lookup.listed_checkpoints(output_dir):
        return
    found = tf.io.gfile.glob(
        [os.path.join(output_dir, f"*.{name}") for name in _OF_MODELS]
    )
    if found:
        raise UserError(
            f"output_dir {output_dir} holds a model ({found[0]}) and no run "
            "to go on with; training would replace the model: use another "
            "--output_dir"
        )


def _check_fixed(
    output_dir: str, before: Mapping[str, object], now: Mapping[str, object]
) -> None:
    """Raise a UserError for the first value that a run may not change."""
    for name, value in now.items():
        if before.get(name) != value:
            raise UserError(
                f"output_dir {output_dir} belongs to a run with {name} = "
                f"{_differing(before.get(name), value)}; use another "
                "--output_dir, or the command that began this one"
            )


def read_fingerprint(directory: str) -> dict[str, object] | None:
    """Return the fingerprint of the run in a directory; None without one.

    Raises:
        UserError: the file that describes it is damaged.
    """
    path = os.path.join(directory, CONFIG_NAME)
    return _read_run(path)["fixed"] if tf.io.gfile.exists(path) else None


def read_adjustable(directory: str) -> dict[str, object]:
    """Return the adjustable settings of the run that has begun in a directory.

    Returns:
        {name: value}; empty without a checkpoint of a run.

    Raises:
        UserError: the file that describes the run is damaged.
    """
    path = os.path.join(directory, CONFIG_NAME)
    if not _has_weights(directory) or not tf.io.gfile.exists(path):
        return {}
    return _read_run(path)["adjustable"]


def pinned(init_checkpoint: str | None, output_dir: str | None) -> str | None:
    """Return --init_checkpoint, with the commit that a run began with.

    A model on the hub may get another commit while a run is interrupted, or
    between the runs of a sweep. A name without revision stands for the commit
    that is recorded in output_dir, or by a run in its folder `runs`. Any other
    value is returned as it is.

    Args:
        init_checkpoint: value of the flag.
        output_dir: of the run.
    """
    if not hub.is_name(init_checkpoint) or not output_dir:
        return init_checkpoint
    if hub.parse(init_checkpoint).revision:
        return init_checkpoint
    for folder in _folders_of_runs(output_dir):
        recorded = read_adjustable(folder).get("init_checkpoint")
        if _is_commit_of(init_checkpoint, recorded):
            # Once, though the flags are read more than once.
            logging.log_first_n(logging.INFO, _PINNED, 1, folder, recorded)
            return recorded
    return init_checkpoint


def pinned_all(
    names: Sequence[str], output_dir: str | None, flag: str
) -> tuple[str, ...]:
    """Return the values of a flag that names several models; see `pinned`.

    Args:
        names: values of the flag.
        output_dir: of the run.
        flag: its name. A run records the commits under this name, in the order
            of the flag, None for those that are not on the hub.
    """
    is_open = [
        hub.is_name(name) and not hub.parse(name, flag).revision
        for name in names
    ]
    if not any(is_open) or not output_dir:
        return tuple(names)
    for folder in _folders_of_runs(output_dir):
        recorded = read_adjustable(folder).get(flag)
        if not isinstance(recorded, list) or len(recorded) != len(names):
            continue
        found = [
            commit if must_pin and _is_commit_of(name, commit) else name
            for name, commit, must_pin in zip(
                names, recorded, is_open, strict=True
            )
        ]
        logging.log_first_n(logging.INFO, _PINNED, 1, folder, ",".join(found))
        return tuple(found)
    return tuple(names)


def _folders_of_runs(output_dir: str) -> list[str]:
    """Return output_dir and the folders of the runs of a sweep in it."""
    runs = tf.io.gfile.glob(os.path.join(output_dir, "runs/*"))
    return [output_dir, *sorted(runs)]


def _is_commit_of(name: str, recorded: str | None) -> bool:
    """Return whether a recorded name is that of the same model on the hub."""
    if not hub.is_name(recorded):
        return False
    return hub.parse(recorded).repository == hub.parse(name).repository


def _read_run(path: str) -> dict[str, dict[str, object]]:
    """Return the content of a training_config.json.

    Raises:
        UserError: it is damaged.
    """
    run = text_files.read_json_object(path)
    if not all(
        isinstance(run.get(key), dict) for key in ("fixed", "adjustable")
    ):
        raise UserError(
            f"{path} does not describe a run: wanted objects fixed and "
            "adjustable; restore it, or use another --output_dir"
        )
    return run


def _differing(old: object, new: object) -> str:
    """Return "<old>, not <new>"; of dictionaries only the entries that differ.

    A fingerprint may hold a whole configuration, or hundreds of input files.
    """
    if isinstance(old, dict) and isinstance(new, dict):
        names = [n for n in {**old, **new} if old.get(n) != new.get(n)]
        old = {name: old.get(name) for name in names}
        new = {name: new.get(name) for name in names}
    return f"{old}, not {new}"
