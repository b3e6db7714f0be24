"""What an output_dir holds, read once, as a value.

A folder may hold nothing; a run that was begun, killed or finished; a sweep of
runs; a model that is of no run; or a run of the original. `RunFolder.read`
looks once, and a command hands on what it has seen. The folder is read again
only where the command itself has written to it.

    training_config.json   what the run was begun with, see `Identity`
    checkpoint             names of the training checkpoints, model.ckpt-<step>
    bert_model.ckpt        the weights to keep, alone
    scores.json            {step: score} of the evaluations of fine-tuning
    sweep_results.txt      of a sweep, whose runs are in runs/
"""

import contextlib
import dataclasses
import functools
import itertools
import json
import os
import re
import types
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from base import cluster, file_system, logs, text_files
from base.errors import UserError

from absl import logging

from checkpoints import published

WEIGHTS_NAME = "bert_model.ckpt"  # weights alone, of a finished model
RUN_NAME = "training_config.json"
SCORES_NAME = "scores.json"
RUNS_NAME, RESULTS_NAME = "runs", "sweep_results.txt"  # of a sweep
_LIST_NAME = "checkpoint"

# How long to wait for the end of a run that was told to stop, and saves.
_LOCK_SECONDS = 60.0

# Characters of a value, and names of entries, that a message shows. A checksum
# has 64.
_LONGEST_VALUE = 60
_MOST_NAMES = 4

# Settings that a run may lack: it has no vocabulary, no held-out data or no
# model to begin with, or it began with an earlier version, which did not record
# them. Where the run or the command lacks one, it is not compared.
IF_KNOWN = frozenset(
    {"init_checkpoint", "vocabulary", "records", "heldout_data"}
)


class Identity(NamedTuple):
    """What decides whether a command may resume the run in output_dir."""

    fixed: dict[str, Any]  # may not change when the run is resumed
    # May change, which is logged: what changes the model that comes out, and
    # how it is computed.
    results: dict[str, Any]
    execution: dict[str, Any]
    # Name of a setting -> the way out, or what to know, if it has changed.
    hints: Mapping[str, str] = types.MappingProxyType({})

    @property
    def adjustable(self) -> dict[str, Any]:
        """All that may change."""
        return {**self.results, **self.execution}

    @property
    def of_machines(self) -> dict[str, Any]:
        """What machines that train together share.

        They score held-out data together. A resumed run may have others.
        """
        heldout = self.execution.get("heldout_data")
        return {"heldout_data": heldout, **self.fixed}


@dataclasses.dataclass(frozen=True)
class RunFolder:
    """What a folder held when it was read; one that is missing has no names.

    Attributes:
        path: the folder.
        names: of the files and folders in it.
        listed: prefixes in the file `checkpoint`, the newest last. Their files
            may have been deleted.
        content: of the small files that describe a run.
    """

    path: str
    names: frozenset[str] = frozenset()
    listed: tuple[str, ...] = ()
    content: Mapping[str, bytes] = dataclasses.field(default_factory=dict)

    @classmethod
    def read(cls, path: str) -> "RunFolder":
        """Return what a folder holds now."""
        import tensorflow as tf  # late: flags are declared without it

        if not tf.io.gfile.isdir(path):
            return cls(path)
        names = frozenset(n.rstrip("/") for n in tf.io.gfile.listdir(path))
        listed = _listed(path) if _LIST_NAME in names else ()
        content = {}
        for name in names & {RUN_NAME, SCORES_NAME}:
            with file_system.open_for_reading(os.path.join(path, name)) as file:
                content[name] = file.read()
        return cls(path, names, listed, content)

    # --- Weights -------------------------------------------------------------

    @property
    def latest(self) -> str | None:
        """Prefix of the newest training checkpoint whose files are there.

        Others were damaged and deleted, or not copied.
        """
        return next(filter(self.has, reversed(self.listed)), None)

    def has(self, prefix: str) -> bool:
        """Return whether the folder holds this checkpoint, and all of it.

        Its index stands for that: it is written last and removed first (see
        weight_files.write).
        """
        return f"{os.path.basename(prefix)}.index" in self.names

    @property
    def kept(self) -> str | None:
        """Prefix of the weights alone; None without them."""
        prefix = os.path.join(self.path, WEIGHTS_NAME)
        return prefix if self.has(prefix) else None

    @property
    def weights(self) -> str | None:
        """Prefix of the weights to use; None without any.

        They are those that the run has kept, else its newest training
        checkpoint, which may be later: fine-tuning with --eval_steps keeps the
        best weights.
        """
        return self.kept or self.latest

    @functools.cached_property
    def resumed(self) -> str | None:
        """Prefix from which a run resumes; None if there is no run.

        Raises:
            UserError: none of the listed checkpoints exists. A new run would
                replace what is left of this one.
        """
        path = os.path.join(self.path, _LIST_NAME)
        if not self.latest and _LIST_NAME in self.names:
            what = f"{path} is damaged: restore it"
            if self.listed:
                what = f"{path} lists {self.listed[-1]}, whose files are "
                what += "missing: restore them"
            raise UserError(f"{what}, or delete {path} to begin anew")
        if self.latest and self.latest != self.listed[-1]:
            logging.warning(
                "The files of %s are missing: resuming from %s, the newest "
                "that is there",
                self.listed[-1],
                self.latest,
            )
        return self.latest

    @property
    def models(self) -> list[str]:
        """Names of the weights, or of their index, of models in the folder."""
        endings = (".index", ".safetensors", ".safetensors.index.json")
        # A killed run may have left a checkpoint that is not complete.
        return sorted(
            name
            for name in self.names
            if name.endswith(endings) and not name.endswith(".tmp.index")
        )

    # --- The run -------------------------------------------------------------

    @property
    def is_begun(self) -> bool:
        """Whether there is a run with weights to protect.

        They are its checkpoints, or the best weights of a run that was killed
        before its first checkpoint. Without either, an earlier start failed.
        """
        return bool(self.kept or self.listed)

    @property
    def has_settings(self) -> bool:
        """Whether a run has written what it was begun with."""
        return RUN_NAME in self.names

    @property
    def fixed(self) -> dict[str, Any]:
        """The settings of the run that may not change; empty without a run.

        Raises:
            UserError: the file that describes it is damaged.
        """
        return self._settings["fixed"]

    @property
    def adjustable(self) -> dict[str, Any]:
        """The other settings of a run that is begun; empty without one.

        Raises:
            UserError: the file that describes it is damaged.
        """
        return self._settings["adjustable"] if self.is_begun else {}

    @functools.cached_property
    def _settings(self) -> dict[str, dict[str, Any]]:
        if not self.has_settings:
            return {"fixed": {}, "adjustable": {}}
        path = os.path.join(self.path, RUN_NAME)
        run = text_files.json_object(path, self.content[RUN_NAME])
        if not all(
            isinstance(run.get(key), dict) for key in ("fixed", "adjustable")
        ):
            raise UserError(
                f"{path} does not describe a run: wanted objects fixed and "
                "adjustable; restore it, or use another --output_dir"
            )
        return run

    @functools.cached_property
    def scores(self) -> dict[int, float]:
        """{step: score} of the evaluations of a fine-tuning run so far."""
        try:
            scores = text_files.parse_json(
                self.content.get(SCORES_NAME, b"{}").decode()
            )
            return {int(step): float(score) for step, score in scores.items()}
        except (AttributeError, OverflowError, TypeError, ValueError):
            path = os.path.join(self.path, SCORES_NAME)
            logging.warning("%s is damaged: its scores do not count", path)
            return {}

    # --- A sweep -------------------------------------------------------------

    @property
    def is_sweep(self) -> bool:
        """Whether it is the folder of a sweep whose runs were finished."""
        return RESULTS_NAME in self.names

    @functools.cached_property
    def runs(self) -> tuple["RunFolder", ...]:
        """The folders of the runs of a sweep."""
        if RUNS_NAME not in self.names:
            return ()
        import tensorflow as tf

        place = os.path.join(self.path, RUNS_NAME)
        names = sorted(tf.io.gfile.listdir(place))
        return tuple(
            RunFolder.read(os.path.join(place, name.rstrip("/")))
            for name in names
        )

    # --- What a command may do there -----------------------------------------

    def check_free(self) -> None:
        """Check that there is no model where there is no run.

        A run would replace its weights, configuration and vocabulary, which may
        be those of a released model. A run of the original, which has the file
        `checkpoint`, is resumed, as by the original.

        Raises:
            UserError: there is a model.
        """
        if self.models and not self.listed:
            raise UserError(
                f"output_dir {self.path} holds a model "
                f"({os.path.join(self.path, self.models[0])}) and no run to "
                "resume; training would replace the model: use another "
                "--output_dir"
            )

    def check_no_sweep(self) -> None:
        """Raise a UserError if the folder has runs of a sweep."""
        found = RESULTS_NAME if self.is_sweep else None
        for run in self.runs:
            # Without a checkpoint there is nothing to protect.
            if not found and run.adjustable:
                found = f"{RUNS_NAME}/{os.path.basename(run.path)}"
        if found:
            raise UserError(
                f"output_dir {self.path} has the runs of a sweep ({found}), "
                "whose best model a single run would replace: use another "
                "--output_dir, or give --num_restarts or --sweep_* as the "
                "sweep did"
            )

    def check_no_run(self) -> None:
        """Raise a UserError if there is a run or a model that no sweep made."""
        # A sweep copies a model after it has written its results.
        found = self.latest if self.is_sweep else self.latest or self.kept
        if found:
            raise UserError(
                f"output_dir {self.path} has a run of its own ({found}), which "
                "--num_restarts and --sweep_* cannot resume: use another "
                "--output_dir for them, or leave them out to resume that run"
            )
        if not self.is_sweep:
            self.check_free()

    def check_same(self, identity: Identity) -> None:
        """Check that a command may resume the run, or begin one.

        Raises:
            UserError: the folder has weights of a run with other fixed settings
                (names the first difference), or a model that is of no run.
        """
        check_is_no_pattern(self.path, "output_dir")
        if not self.has_settings:
            self.check_free()
        elif self.is_begun:
            for name, old, value in _differences(self.fixed, identity.fixed):
                way_out = identity.hints.get(
                    name,
                    "use another --output_dir, or the command that began this "
                    "one",
                )
                raise UserError(
                    f"output_dir {self.path} belongs to a run with "
                    f"{differing(name, old, value)}; {way_out}"
                )

    def claim(self, identity: Identity) -> None:
        """Write the settings of a run that begins here; the folder is there.

        Those of a run that is resumed stay: it may be finished, and then it
        keeps the settings that it was trained with. See `write_settings`. Of
        several processes only the chief writes.
        """
        if cluster.is_chief() and not (self.has_settings and self.is_begun):
            self.write_settings(identity)

    def write_settings(self, identity: Identity) -> None:
        """Write `training_config.json`.

        What a run that goes on knows of IF_KNOWN stays, if this command lacks
        it.
        """
        parts = {
            "fixed": {**identity.fixed},
            "adjustable": identity.adjustable,
        }
        if self.is_begun:
            for key, part in parts.items():
                before = self._settings[key]
                for name in IF_KNOWN & before.keys():
                    if part.get(name) is None:
                        part[name] = before[name]
        path = os.path.join(self.path, RUN_NAME)
        text_files.write_json(path, parts, sort_keys=True)

    def warn_of_changes(self, identity: Identity) -> None:
        """Warn of settings that change within a run that goes on."""
        if not self.is_begun:
            return
        done = self.resumed.rpartition("-")[2] if self.resumed else "0"
        goes_on = (
            f"the run in {self.path} goes on with it after its {done} steps; "
            "for a new run give another --output_dir (or --restart, in "
            "fine-tuning)"
        )
        for name, old, value in _differences(
            self.adjustable, identity.adjustable
        ):
            logging.warning(
                "%s changes from %s to %s: %s",
                name,
                _shown(old),
                _shown(value),
                identity.hints.get(name, goes_on),
            )

    def warn_of_other_phase(self, settings: Mapping[str, Any]) -> None:
        """Warn of settings of a second phase in which the run here differs.

        What it did not record is not compared.
        """
        before = self.fixed | self.adjustable
        for name, value in json.loads(json.dumps(settings)).items():
            if name in before and not _is_same(before[name], value):
                logging.warning(
                    "The run in %s, which goes on here, has %s: give its value "
                    "unless this phase is to have another",
                    self.path,
                    differing(name, before[name], value),
                )

    def check_finished(self, identity: Identity) -> None:
        """Check that a run that is finished was trained as a command asks.

        Raises:
            UserError: a setting that changes the model that comes out is
                another; names the first.
        """
        for name, value in json.loads(json.dumps(identity.results)).items():
            old = self.adjustable.get(name)
            if not _is_same(old, value):
                raise UserError(
                    f"output_dir {self.path} holds a finished run with "
                    f"{differing(name, old, value)}: nothing is left to "
                    "train; use another --output_dir (or --restart, in "
                    "fine-tuning), or the command that made this one"
                )

    def move_aside(self, init_checkpoint: str | None) -> None:
        """Rename the folder of a run, so that another run can have its name.

        Raises:
            UserError: the folder is remote, or holds a model that is of no run
                or that the other run begins with.
        """
        if not self.has_settings:
            self.check_free()
            return
        if file_system.is_remote(self.path):
            raise UserError(
                "--restart moves folders on local disks alone: give another "
                f"--output_dir than {self.path}"
            )
        found = os.path.realpath(init_checkpoint or self.path)
        if found.startswith(os.path.join(os.path.realpath(self.path), "")):
            raise UserError(
                f"--restart moves {self.path} aside, and --init_checkpoint="
                f"{init_checkpoint} is in it: give another --output_dir"
            )
        names = (f"{self.path.rstrip('/')}.{n}" for n in itertools.count(1))
        aside = next(name for name in names if not os.path.exists(name))
        os.rename(self.path, aside)
        logs.say("The run that was in %s is in %s now", self.path, aside)

    def pinned(self, init_checkpoint: str | None) -> str | None:
        """Return --init_checkpoint, with the commit that a run began with.

        A model on the hub may get another commit while a run is interrupted, or
        between the runs of a sweep. A name without revision stands for the
        commit that is recorded here, or by a run of the sweep. Any other value
        is returned as it is.
        """
        if not published.is_of_hub(init_checkpoint):
            return init_checkpoint
        from checkpoints import hub  # where a model is of the hub

        asked = hub.name_of(init_checkpoint)
        if asked.revision:
            return init_checkpoint
        for run in (self, *self.runs):
            commit = run.adjustable.get("init_checkpoint")
            if not published.is_of_hub(commit):
                continue
            if hub.name_of(commit).repository == asked.repository:
                logging.info(
                    "The run in %s began with %s, which is used again",
                    run.path,
                    commit,
                )
                return commit
        return init_checkpoint


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
    check_is_no_pattern(output_dir, "output_dir")
    file_system.make_directory(output_dir)
    what = f"--output_dir={output_dir}"
    with file_system.locked_folder(output_dir, what, _LOCK_SECONDS):
        if not cluster.has_other_workers():  # whose processes are not seen
            file_system.remove_leftovers(output_dir)
        yield


def check_is_no_pattern(path: str, flag: str) -> None:
    r"""Check that TensorFlow takes the name of a checkpoint as it is.

    It reads `[`, `*`, `?` and `\` in it as a pattern, and does not find
    `out[1]/model.ckpt-10`.
    """
    sign = re.search(r"[\[*?\\]", path)
    if sign:
        raise UserError(
            f"--{flag}={path} has a {sign[0]}, which TensorFlow takes for a "
            "pattern when it reads checkpoints: rename the directory"
        )


def _listed(path: str) -> tuple[str, ...]:
    """Return the prefixes in a folder's file `checkpoint`, the newest last.

    All of them are in the folder itself, whatever folder the file names. The
    original writes absolute paths: in a copy of its output_dir they name the
    checkpoints of the first one, which a run in the copy must not delete.
    """
    import tensorflow as tf

    try:
        state = tf.train.get_checkpoint_state(path)
    except ValueError:  # the file is empty or names no checkpoint
        state = None
    if not state or not state.model_checkpoint_path:
        return ()
    paths = [*state.all_model_checkpoint_paths, state.model_checkpoint_path]
    *others, newest = map(os.path.basename, paths)
    older = dict.fromkeys(others)
    older.pop(newest, None)
    return tuple(os.path.join(path, name) for name in (*older, newest))


def _differences(
    before: Mapping[str, object], now: Mapping[str, object]
) -> Iterator[tuple[str, object, object]]:
    """Yield (name, value before, value now) of the settings that differ.

    Those in IF_KNOWN differ only where both values are known.
    """
    # Through JSON tuples become lists, as in the file.
    now = json.loads(json.dumps(now))
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
