"""The run in an output_dir: its settings, its lock, what may not change.

`training_config.json` describes the run, so that a command with another model
or other data cannot continue it.
"""

import contextlib
import itertools
import json
import os
import types
from collections.abc import Iterator, Mapping

from base import cluster, file_system, logs, text_files
from base.errors import UserError

import tensorflow as tf
from absl import logging

from checkpoints import lookup, published

# How long to wait for the end of a run that was told to stop, and saves.
_LOCK_SECONDS = 60.0

# Characters of a value, and names of entries, that a message shows. A checksum
# has 64.
_LONGEST_VALUE = 60
_MOST_NAMES = 4

_NONE: Mapping = types.MappingProxyType({})

# Settings that a run may lack: it has no vocabulary, no held-out data or no
# model to begin with, or it began with an earlier version, which did not record
# them. Where the run or the command lacks one, it is not compared.
IF_KNOWN = frozenset(
    {"init_checkpoint", "vocabulary", "records", "heldout_data"}
)


@contextlib.contextmanager
def locked(output_dir: str) -> Iterator[None]:
    """Keep other training runs out of a local output_dir inside the block.

    Two of them would remove and replace each other's files. A run that was
    told to stop has the directory until it has saved: this waits a minute for
    it. The machines of a cluster share a directory, which the chief locks. The
    directory is created when missing, and removed if it stays empty.

    Raises:
        UserError: another run trains in it.
    """
    if file_system.is_remote(output_dir) or not cluster.is_chief():
        yield
        return
    lookup.check_is_no_pattern(output_dir, "output_dir")
    file_system.make_directory(output_dir)
    what = f"--output_dir={output_dir}"
    with file_system.locked_folder(output_dir, what, _LOCK_SECONDS):
        yield


def claim_output_dir(
    output_dir: str,
    fingerprint: Mapping[str, object],
    adjustable: Mapping[str, object],
    hints: Mapping[str, str] = _NONE,
) -> None:
    """Check that output_dir has no other run; write this run's settings to it.

    The settings of a run that is resumed are not replaced: it may be finished,
    and then it keeps the settings that it was trained with. See
    `write_settings`. Of several processes only the chief writes.

    Args:
        fingerprint: model, data and all else that a resumed run may not
            change.
        adjustable: settings that may change, see `warn_of_changes`.
        hints: name of a setting -> the way out if it has changed.

    Raises:
        UserError: output_dir holds weights of a run with another fingerprint
            (names the first difference), or a model that is of no run.
    """
    lookup.check_is_no_pattern(output_dir, "output_dir")
    file_system.make_directory(output_dir)
    path = os.path.join(output_dir, lookup.RUN_NAME)
    if tf.io.gfile.exists(path) and _has_weights(output_dir):
        # Through JSON tuples become lists, as in the file.
        now, before = json.loads(json.dumps(fingerprint)), _read_run(output_dir)
        for name, old, value in _differences(before["fixed"], now):
            way_out = hints.get(
                name,
                "use another --output_dir, or the command that began this one",
            )
            raise UserError(
                f"output_dir {output_dir} belongs to a run with "
                f"{differing(name, old, value)}; {way_out}"
            )
        return
    if not tf.io.gfile.exists(path):
        check_free(output_dir)
    if cluster.is_chief():
        write_settings(output_dir, fingerprint, adjustable)


def warn_of_changes(
    output_dir: str,
    adjustable: Mapping[str, object],
    hints: Mapping[str, str] = _NONE,
) -> None:
    """Warn of settings that change within a run that goes on.

    `hints` are what to say with the change of a setting.
    """
    if not _has_weights(output_dir):
        return
    now, before = (
        json.loads(json.dumps(adjustable)),
        read_adjustable(output_dir),
    )
    latest = lookup.checkpoint_to_resume(output_dir)
    done = latest.rpartition("-")[2] if latest else "0"
    goes_on = (
        f"the run in {output_dir} goes on with it after its {done} steps; for "
        "a new run give another --output_dir (or --restart, in fine-tuning)"
    )
    for name, old, value in _differences(before, now):
        logging.warning(
            "%s changes from %s to %s: %s",
            name,
            _shown(old),
            _shown(value),
            hints.get(name, goes_on),
        )


def warn_of_other_run(folder: str, settings: Mapping[str, object]) -> None:
    """Warn of settings in which a run differs from the one that it continues.

    The other run is that of the folder; what it did not record is not compared.
    """
    run = _read_run(folder)
    before = run["fixed"] | run["adjustable"]
    for name, value in json.loads(json.dumps(settings)).items():
        if name in before and not _is_same(before[name], value):
            logging.warning(
                "The run in %s, which goes on here, has %s: give its value "
                "unless this phase is to have another",
                folder,
                differing(name, before[name], value),
            )


def move_aside(output_dir: str) -> None:
    """Rename the folder of a run, so that another run can have its name.

    Raises:
        UserError: the folder is remote, holds a model that is of no run, or a
            run that trains now.
    """
    if not tf.io.gfile.exists(os.path.join(output_dir, lookup.RUN_NAME)):
        check_free(output_dir)
        return
    if file_system.is_remote(output_dir):
        raise UserError(
            "--restart moves folders on local disks alone: give another "
            f"--output_dir than {output_dir}"
        )
    with locked(output_dir):
        names = (f"{output_dir.rstrip('/')}.{n}" for n in itertools.count(1))
        aside = next(name for name in names if not os.path.exists(name))
        os.rename(output_dir, aside)
    logs.say("The run that was in %s is in %s now", output_dir, aside)


def check_finished(output_dir: str, results: Mapping[str, object]) -> None:
    """Check that a run that is finished was trained with these settings.

    They are those that change the model that comes out.

    Raises:
        UserError: it was trained with others; names the first.
    """
    now = json.loads(json.dumps(results))
    before = read_adjustable(output_dir)
    for name, value in now.items():
        old = before.get(name)
        if not _is_same(old, value):
            raise UserError(
                f"output_dir {output_dir} holds a finished run with "
                f"{differing(name, old, value)}: nothing is left to train; "
                "use another --output_dir (or --restart, in fine-tuning), or "
                "the command that made this one"
            )


def write_settings(
    output_dir: str,
    fingerprint: Mapping[str, object],
    adjustable: Mapping[str, object],
) -> None:
    """Write `training_config.json`, the fingerprint under the key "fixed".

    What a run that goes on knows of IF_KNOWN stays, if this command lacks it.
    """
    path = os.path.join(output_dir, lookup.RUN_NAME)
    parts = {"fixed": {**fingerprint}, "adjustable": {**adjustable}}
    if _has_weights(output_dir):
        before = _read_run(output_dir)
        for key, part in parts.items():
            for name in IF_KNOWN & before[key].keys():
                if part.get(name) is None:
                    part[name] = before[key][name]
    text_files.write_json(path, parts, sort_keys=True)


def _has_weights(output_dir: str) -> bool:
    """Whether a run in output_dir has weights to protect.

    They are its checkpoints, or the best weights of a run that was killed
    before its first checkpoint. Without either, an earlier start failed.
    """
    kept = lookup.kept_weights(output_dir)
    return bool(kept or lookup.listed_checkpoints(output_dir))


def check_free(output_dir: str) -> None:
    """Check that output_dir, which has no run, has no model either.

    A run would replace its weights, configuration and vocabulary, which may
    be those of a released model. A run of the original, which has the file
    `checkpoint`, is resumed, as by the original.

    Raises:
        UserError: output_dir has a model.
    """
    if lookup.listed_checkpoints(output_dir):
        return
    if found := lookup.files_of_models(output_dir):
        raise UserError(
            f"output_dir {output_dir} holds a model ({found[0]}) and no run "
            "to resume; training would replace the model: use another "
            "--output_dir"
        )


def read_fingerprint(directory: str) -> dict[str, object]:
    """Return the fingerprint of the run in a directory; empty without one.

    Raises:
        UserError: the file that describes it is damaged.
    """
    return _read_run(directory)["fixed"]


def read_adjustable(directory: str) -> dict[str, object]:
    """Return the adjustable settings of the run that has begun in a directory.

    Without a checkpoint of a run the result is empty.

    Raises:
        UserError: the file that describes the run is damaged.
    """
    return _read_run(directory)["adjustable"] if _has_weights(directory) else {}


def pinned(init_checkpoint: str | None, output_dir: str | None) -> str | None:
    """Return --init_checkpoint, with the commit that a run began with.

    A model on the hub may get another commit while a run is interrupted, or
    between the runs of a sweep. A name without revision stands for the commit
    that is recorded in output_dir, or by a run in its folder `runs`. Any other
    value is returned as it is.
    """
    name = init_checkpoint
    if not published.is_of_hub(name):
        return name
    from checkpoints import hub  # where a model is of the hub

    asked = hub.parse(name)
    if asked.revision or not output_dir:
        return name
    runs = tf.io.gfile.glob(os.path.join(output_dir, "runs/*"))
    for folder in (output_dir, *sorted(runs)):
        commit = read_adjustable(folder).get("init_checkpoint")
        if not published.is_of_hub(commit):
            continue
        if hub.parse(commit).repository == asked.repository:
            # Once, though the flags are read more than once.
            logging.log_first_n(
                logging.INFO,
                "The run in %s began with %s, which is used again",
                1,
                folder,
                commit,
            )
            return commit
    return name


def _read_run(directory: str) -> dict[str, dict[str, object]]:
    """Return what training_config.json has, or nothing under both its keys."""
    path = os.path.join(directory, lookup.RUN_NAME)
    if not tf.io.gfile.exists(path):
        return {"fixed": {}, "adjustable": {}}
    run = text_files.read_json_object(path)
    if not all(
        isinstance(run.get(key), dict) for key in ("fixed", "adjustable")
    ):
        raise UserError(
            f"{path} does not describe a run: wanted objects fixed and "
            "adjustable; restore it, or use another --output_dir"
        )
    return run


def _differences(
    before: Mapping[str, object], now: Mapping[str, object]
) -> Iterator[tuple[str, object, object]]:
    """Yield (name, value before, value now) of the settings that differ.

    Those in IF_KNOWN differ only where both values are known.
    """
    for name in {**now, **before}:
        old, value = before.get(name), now.get(name)
        is_known = name not in IF_KNOWN or None not in (old, value)
        if is_known and not _is_same(old, value):
            yield name, old, value


def _is_same(old: object, new: object) -> bool:
    """Whether two values are equal; an option that is off may be missing."""
    return old == new or not (old or new)


def differing(name: str, old: object, new: object) -> str:
    """Return "<name> = <old>, not <new>"; for dictionaries, which entries.

    A fingerprint may hold a whole configuration, hundreds of input files or
    checksums, which would tell nobody anything: long values are only named.
    """
    entries = ""
    if isinstance(old, dict) and isinstance(new, dict):
        names = [n for n in {**old, **new} if old.get(n) != new.get(n)]
        old, new = ({n: part.get(n) for n in names} for part in (old, new))
        more = ["..."] * (len(names) > _MOST_NAMES)
        entries = f" ({', '.join(names[:_MOST_NAMES] + more)})"
    if max(len(f"{old}"), len(f"{new}")) > _LONGEST_VALUE:
        return f"other {name}{entries}"
    return f"{name} = {_shown(old)}, not {_shown(new)}"


def _shown(value: object) -> object:
    return "its default" if value is None else value
