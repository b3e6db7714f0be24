r"""Damage the files that readers read; report what is neither result nor line.

    python tests/fuzz/fuzz.py --seconds=3600 --seed=7
    python tests/fuzz/fuzz.py --reader=squad --cases=5000
    python tests/fuzz/fuzz.py --reader=squad --replay=/tmp/findings/squad-17

A case damages one file of a reader's sample (readers.py, mutations.py) and
reads. A result is right, and so is what a script ends with in one line. All
else is a finding: another exception, the end of the process, more than SECONDS
of processor time, more than MEMORY above what the sample takes, another file
written, a program started. Those of one place in the code are one finding; the
folder and the stack trace of the first are kept in --findings. The cases are a
function of the seed. The exit status is 1 if there is a finding.
"""

import collections
import contextlib
import faulthandler
import os
import random
import re
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent.parent
PARTS = "tests/fuzz", "", "tests", "tests/helpers"
sys.path[:0] = [str(ROOT / part) for part in PARTS]
sys.dont_write_bytecode = True  # every file that is written counts
os.environ["HF_HUB_OFFLINE"] = "1"

from base import errors, logs, script  # noqa: E402, F401  (defines --verbosity)

import conftest  # noqa: E402, F401
import mutations  # noqa: E402
from absl import flags, logging  # noqa: E402
from readers import READERS, Reader  # noqa: E402

FLAGS = flags.FLAGS

flags.DEFINE_list("reader", [], "Names of readers; all if empty.")
flags.DEFINE_float("seconds", 0, "For all readers together; 0: --cases.")
flags.DEFINE_integer("cases", 0, "Of each reader; 0: as many as make test-all.")
flags.DEFINE_integer("seed", 0, "The cases are a function of it.")
flags.DEFINE_string("findings", "/tmp/findings", "A new folder.")
flags.DEFINE_string("replay", None, "The folder of a finding, read once more.")

SECONDS, MEMORY = 10, 1 << 29

_CHANGES = ("os.remove", "os.rename", "os.mkdir", "os.rmdir", "os.truncate")
_PROGRAMS = ("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn")
_PROGRAMS += ("socket.connect", "pickle.find_class")


def main(_: list[str]) -> int:
    """Run all cases; return 1 if there is a finding."""
    names = FLAGS.reader or list(READERS)
    if FLAGS.replay:
        with tempfile.TemporaryDirectory() as work:
            files = shutil.copytree(FLAGS.replay, f"{work}/files")
            READERS[names[0]].read(Path(files))
        return 0
    is_good = True
    for name in names:
        began = time.monotonic()
        cases, findings = fuzz(name, FLAGS.seconds / len(names))
        seconds = time.monotonic() - began
        print(f"{name}: {cases:,} cases, {seconds:.0f} s", flush=True)
        for place, count in findings.items():
            print(f"  {count} x {place}", flush=True)
        is_good = is_good and not findings
    return 0 if is_good else 1


def fuzz(name: str, seconds: float) -> tuple[int, collections.Counter]:
    """Run the cases of a reader; return their number and {place: findings}.

    They run in another process, which is replaced when a case ends it.
    """
    reader, end = READERS[name], time.monotonic() + seconds
    last = sys.maxsize if seconds else FLAGS.cases or reader.cases
    number, findings = -len(reader.failed), collections.Counter()
    while number < last and not (seconds and time.monotonic() > end):
        with tempfile.TemporaryDirectory() as work:
            child = os.fork()
            if not child:
                until = end if seconds else float("inf")
                _child(reader, name, range(number, last), until, Path(work))
            status = os.waitpid(child, 0)[1]
            log = Path(work, "log").read_text(errors="replace")
            progress = Path(work, "number")
            if not progress.exists():
                raise RuntimeError(f"{name}: the sample cannot be read: {log}")
            number = int(progress.read_text()) + 1
            places = re.findall("^FINDING (.*)", log, re.MULTILINE)
            if status:
                how = os.waitstatus_to_exitcode(status)
                how = signal.Signals(-how).name if how < 0 else f"status {how}"
                frame = re.search(rf'"{ROOT}/(?!tests)(.*)", line (\d+)', log)
                place = ":".join(frame.groups()) if frame else log[-500:]
                places.append(f"{how} at {place}")
                _keep(Path(work), f"{name}-{number - 1}", log[-9999:])
            findings.update(places)
    return number + len(reader.failed), findings


def _keep(work: Path, name: str, trace: str) -> None:
    target = Path(FLAGS.findings, name.replace(" ", "_"))
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(work / "files", target)
    target.with_suffix(".txt").write_text(trace)


def _child(
    reader: Reader, name: str, numbers: range, end: float, work: Path
) -> None:
    """Run cases and end the process; findings go to the file `log`."""
    status = 1
    with contextlib.suppress(BaseException):
        log = os.open(work / "log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(log, 2)
        logging.set_verbosity(logging.FATAL)
        try:
            _run(reader, name, numbers, end, work)
            status = 0
        except BaseException:
            traceback.print_exc()
    os._exit(status)


def _run(
    reader: Reader, name: str, numbers: range, end: float, work: Path
) -> None:
    folder, temporary = work / "files", work / "temporary"
    folder.mkdir()
    temporary.mkdir()
    tempfile.tempdir = str(temporary)
    reader.sample(folder)
    clean = _contents(folder)
    reader.read(folder)
    _restore(temporary, {})
    changes, seen = _watched(work), set()
    _limit()
    for number in numbers:
        if time.monotonic() > end:
            break
        (work / "number").write_text(f"{number}")
        rng = random.Random(f"{FLAGS.seed} {name} {number}")
        if number < 0:
            file, data = reader.failed[number]
        else:
            file = rng.choice(sorted(clean))
            data = mutations.damage(file, clean[file], rng)
        _restore(folder, clean | {file: data})
        changes.clear()
        trace = ""
        signal.setitimer(signal.ITIMER_PROF, SECONDS)
        try:
            reader.read(folder)
        except errors.UserError:
            pass
        except BaseException as error:
            if not script._file_failure(error):
                trace = traceback.format_exc()
                place = f"{type(error).__name__} at {_place(error)}"
        signal.setitimer(signal.ITIMER_PROF, 0)
        if not trace and (changes or _contents(temporary)):
            trace = place = f"{changes or 'a temporary file is left'}"
        expected = clean | {file: data}
        if not trace and not reader.writes and _contents(folder) != expected:
            trace = place = "a file of the folder is not as before"
        if trace:
            os.write(2, f"FINDING {place}\n".encode())
        if trace and place not in seen:
            seen.add(place)
            _restore(folder, expected)
            _keep(work, f"{name}-{number}", f"{file}\n{trace}")
        _restore(temporary, {})


def _limit() -> None:
    """Let the process have so much more memory; be killed by the timer."""
    status = Path("/proc/self/status").read_text()
    size = int(re.search(r"VmData:\s*(\d+)", status)[1]) << 10
    hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
    resource.setrlimit(resource.RLIMIT_DATA, (size + MEMORY, hard))
    faulthandler.enable()
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    faulthandler.register(signal.SIGPROF, all_threads=False, chain=True)


def _watched(work: Path) -> list[str]:
    """Return a list to which every forbidden act of this process is added."""
    found: list[str] = []

    def hook(event: str, arguments: tuple) -> None:
        if event in _PROGRAMS:
            found.append(f"{event}{arguments}")
        elif event in _CHANGES or event == "open" and _writes(*arguments):
            for path in map(os.fsdecode, arguments[: 1 + ("rename" in event)]):
                # shutil.rmtree removes names below a folder that is open.
                is_known = path == os.devnull or (
                    event != "open" and not os.path.isabs(path)
                )
                if not is_known and not _is_below(path, work):
                    found.append(f"{event} {path}")

    sys.addaudithook(hook)
    return found


def _is_below(path: str, folder: Path) -> bool:
    return Path(os.path.realpath(path)).is_relative_to(folder)


def _writes(path: Any, mode: Any, number: int) -> bool:
    return isinstance(path, (str, bytes)) and bool(
        number & (os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC)
    )


def _contents(folder: Path) -> dict[str, bytes]:
    """Return {path in the folder: content} of all files."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def _restore(folder: Path, files: dict[str, bytes]) -> None:
    """Make a folder hold these files alone."""
    there = _contents(folder)
    for name in there.keys() - files.keys():
        (folder / name).unlink()
    for name, data in files.items():
        if there.get(name) != data:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(data)


def _place(error: BaseException) -> str:
    """Return file and line of this project where an error was raised."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [
        frame
        for frame in frames
        if frame.filename.startswith(f"{ROOT}/")
        and not frame.filename.startswith(f"{ROOT}/tests/")
    ]
    where = (ours or frames)[-1]
    return f"{where.filename.removeprefix(f'{ROOT}/')}:{where.lineno}"


if __name__ == "__main__":
    script.run(main)
