"""Running a script: its flags, its help, its end.

Every script ends in `script.run(main)`. An error that a user can cause (base/
errors.py) becomes one line on standard error; any other exception is a bug of
this project and keeps its stack trace.

Exit status of every script:

    0  everything that the flags ask for is done, or --help was shown
    1  an error, shown as one line "ERROR: ..."; or a run was stopped by
       Ctrl-C or SIGTERM (the same command resumes it); or a bug
"""

import difflib
import errno
import os
import re
import sys
import traceback
from collections.abc import Callable
from typing import Any, NoReturn

from base import file_system, interrupts, logs
from base import flags as declared_flags
from base.errors import OPERATION, UserError, reason

from absl import app, flags

# What the system says of a full disk and of a full quota.
_FULL = (os.strerror(errno.ENOSPC), os.strerror(errno.EDQUOT))

# A flag that is gone, or of transformers, without one that stands for the same
# -> what to do.
_INSTEAD = {
    "teacher_checkpoint": "batch_predict.py --as_teacher writes the answers "
    "that --teacher_answers reads, see docs/distillation.md",
    "transfer_file": "batch_predict.py --as_teacher answers the texts, and "
    "--learn_all_answers learns them, see docs/distillation.md",
    "resume_from_checkpoint": "the same command again resumes the run that is "
    "in --output_dir",
    "metric_for_best_model": "--eval_steps keeps the best weights by the "
    "task's own score, see docs/fine_tuning.md",
}

# A flag of another script, or of transformers, whose letters mislead -> the one
# that stands for the same, or in the scripts that lack it the next one.
_SAME = {
    "model": ("init_checkpoint",),
    "init_checkpoint": ("model",),
    "model_name_or_path": ("init_checkpoint",),
    "bf16": ("dtype",),
    "fp16": ("dtype",),
    "load_best_model_at_end": ("eval_steps",),
    "overwrite_output_dir": ("restart",),
    "per_device_train_batch_size": ("train_batch_size",),
    "max_steps": ("num_train_steps", "num_train_epochs"),
    "seed": ("random_seed",),
    "validation_file": ("dev_file",),
    "save_total_limit": ("keep_checkpoint_max",),
}

# How much a flag has to be like an unknown one, from 0 to 1.
_ALIKE = 0.6

_OUT_OF_MEMORY = re.compile("OOM when allocating|[Oo]ut of memory")


# Ends a process that trains with others: training/cluster_watch.py sets this
# to its Watch.
ending: Any = None

# The `main` of a script: gets the program's name, returns the exit status.
Main = Callable[[list[str]], int | None]


def run(main: Main) -> None:
    """Parse the flags, run `main`, and end the process with its status.

    `main` gets the program's name, and returns the status, None for 0.
    """
    interrupts.answer_signals()
    app.run(lambda argv: _guarded(main, argv), flags_parser=_parse_flags)


def _parse_flags(argv: list[str]) -> list[str]:
    if {"--help", "--helpfull"} & {*argv}:
        sys.exit(_show_help(full="--helpfull" in argv))
    for argument in argv:
        if not file_system.is_utf_8(argument):
            _end(f"{argument!a} is not UTF-8: rename the file")
    try:
        return flags.FLAGS(argv)
    except flags.Error as error:
        words = str(error)
        if name := getattr(error, "flagname", None):  # one that is not known
            words = f"there is no flag --{name}{_instead_of(name)}"
        _end(f"{words} (--helpfull lists the flags)")


def _instead_of(name: str) -> str:
    """Return what to give instead of an unknown flag, or "".

    The flags most like it have its letters (cuont: count), its words (epochs:
    num_train_epochs), or it for initials (lr: learning_rate). absl compares
    letters from the beginning on, and takes num_epochs for num_errors.
    """
    if name in _INSTEAD:
        return f": {_INSTEAD[name]}"
    words = {*name.split("_")}

    def likeness(flag: str) -> float:
        initials = "".join(word[:1] for word in flag.split("_"))
        if name == initials or flag in _SAME.get(name, ()):
            return 1.0
        letters = difflib.SequenceMatcher(None, name, flag).ratio()
        return max(letters, 0.9 * len(words & {*flag.split("_")}) / len(words))

    flags_here = flags.FLAGS.get_key_flags_for_module(sys.argv[0])
    scores = {flag.name: likeness(flag.name) for flag in flags_here}
    best = max(scores.values(), default=0)
    if best < _ALIKE:
        return ""
    found = [f"--{flag}" for flag, score in scores.items() if score == best]
    return f": did you mean {' or '.join(found[:3])}?"


def _show_help(full: bool) -> None:
    """Print what the script does, and its flags: all, or the main ones.

    The main flags are those that the script's docstring names, and --output.
    """
    about = sys.modules["__main__"].__doc__ or ""  # none with python -OO
    own = flags.FLAGS.get_key_flags_for_module(sys.argv[0])
    own.append(flags.FLAGS["verbosity"])
    flags.FLAGS["verbosity"].help = (
        "What appears on standard error: 0, the whole log; 1, with more of "
        "it; -1, warnings and errors alone; -2, errors alone."
    )
    named = ["output", *re.findall(r"--(\w+)", about)]
    shown = flags.FlagValues()
    for flag in own:
        if full or {flag.name, f"no{flag.name}"} & {*named}:
            shown[flag.name] = flag
    listed = shown.get_help("  ", include_special_flags=False)
    text = f"{about}\nFlags:\n{listed}"
    if more := len(own) - len(shown):
        text += f"\n{more} more: --helpfull"
    try:
        print(text, flush=True)
    except BrokenPipeError:
        _drop_output()


def _drop_output() -> None:
    """Send standard output nowhere, since its reader has closed it.

    `head` does so. Without this, Python fails when it writes the rest at exit.
    """
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _guarded(main: Main, argv: list[str]) -> int | None:
    """Run `main`; end the process in one line where a user can mend it."""
    logs.set_up()
    if len(argv) > 1:
        _end(f"unexpected argument {argv[1]!r}: flags are --name=value")
    try:
        declared_flags.check(flags.FLAGS)
        status = main(argv)
        if ending:
            ending.leave()
        return status
    except UserError as error:
        _end(str(error))
    except KeyboardInterrupt:
        _end("interrupted")
    except BrokenPipeError:
        _drop_output()
        _end("standard output was closed")
    except Exception as error:
        if line := _file_failure(error) or _out_of_memory(error):
            _end(line)
        if ending and (line := ending.explain(error)):
            ending.end_process(line)
        logs.error_to_file(traceback.format_exc())
        raise


def _end(line: str) -> NoReturn:
    """End the process in one line, which the log gets too."""
    logs.error_to_file(line)
    sys.exit(logs.error_line(line))


def _file_failure(error: Exception) -> str | None:
    """Return a line for a file operation that a user can make succeed."""
    words = reason(error)
    if any(full in words for full in _FULL):
        # TensorFlow's message has the path.
        path = getattr(error, "filename", None)
        if path := path or getattr(error, "file_written", None):
            words = f"{path}: {words}"
        words += "; free space there and give the same command again"
    else:
        # tf.io.gfile fails in many places: no network, no credentials, no
        # such bucket.
        *_, last = traceback.extract_tb(error.__traceback__)
        if not last.filename.endswith("tensorflow/python/lib/io/file_io.py"):
            return None
    return f"a file operation failed: {words}"


def _out_of_memory(error: Exception) -> str | None:
    """Return a line for an array that the memory does not hold."""
    lines = str(error).splitlines()
    if not isinstance(error, MemoryError):  # numpy's
        # In errors of TensorFlow and XLA the line comes below the place in a
        # tf.function.
        lines = list(filter(_OUT_OF_MEMORY.search, lines))
        if not lines:
            return None
    words = OPERATION.sub("", lines[0]) if lines else "nothing is free"
    return (
        f"out of memory: {words}; use smaller batches, shorter sequences or a "
        "smaller model"
    )
