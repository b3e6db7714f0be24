"""Ask a script that another interpreter runs, in JSON lines."""

import json
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from base import child_processes
from base.errors import UserError


class JsonProcess:
    """A process of a script; `first` is the first line that it writes.

    A context manager; the end of the block ends the process.

    Args:
        flag: the flag that names the interpreter, for errors.
        python: the interpreter.
        script: writes a JSON line, then one for each line that it reads.
    """

    def __init__(self, flag: str, python: str, script: Path):
        self._flag, self._python, self._script = flag, python, script
        self._log = tempfile.TemporaryFile("w+", errors="replace")
        try:
            self._process = subprocess.Popen(
                [python, str(script)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._log,
                text=True,
                preexec_fn=child_processes.end_with_parent,
            )
        except OSError as error:
            raise UserError(f"--{flag}: {error}") from error
        self.first = self._answer()

    def __enter__(self) -> "JsonProcess":
        return self

    def __exit__(self, *_: Any) -> None:
        self._process.kill()
        self._process.communicate()
        self._log.close()

    def ask(self, question: Any) -> Any:
        """Return the answer.

        Raises:
            UserError: the process has ended; quotes its last line.
        """
        print(json.dumps(question), file=self._process.stdin, flush=True)
        return self._answer()

    def _answer(self) -> Any:
        line = self._process.stdout.readline()
        if line:
            return json.loads(line)
        self._log.seek(0)
        last = self._log.read().strip().rpartition("\n")[2]
        raise UserError(
            f"{self._script.name} in --{self._flag}={self._python} ended: "
            f"{last[:500]}"
        )
