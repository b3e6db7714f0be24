"""Ask a program that another interpreter runs, in JSON lines."""

import contextlib
import json
import subprocess
import tempfile
from typing import Any

from base import machine
from base.errors import UserError, naming


class JsonProcess(contextlib.AbstractContextManager):
    """A process of a program; `first` is the first line that it writes.

    A context manager; the end of the block ends the process.

    Args:
        name: what errors call it.
        command: interpreter and program, which writes a JSON line, then one for
            each line that it reads.
        **options: of subprocess.Popen.
    """

    def __init__(self, name: str, command: list[str], **options: Any):
        self._name = name
        self._log = tempfile.TemporaryFile("w+", errors="replace")
        with naming(name, OSError):
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._log,
                text=True,
                preexec_fn=machine.end_with_parent,
                **options,
            )
        self.first = self._answer()

    def __exit__(self, *_: Any) -> None:
        self.process.kill()
        self.process.communicate()
        self._log.close()

    def ask(self, question: Any) -> Any:
        """Return the answer.

        Raises:
            UserError: the process has ended; quotes its last line.
        """
        with contextlib.suppress(BrokenPipeError):  # _answer reports it
            print(json.dumps(question), file=self.process.stdin, flush=True)
        return self._answer()

    def _answer(self) -> Any:
        line = self.process.stdout.readline()
        if line:
            return json.loads(line)
        self._log.seek(0)
        last = self._log.read().strip().rpartition("\n")[2]
        raise UserError(f"{self._name} ended: {last[:500] or 'no message'}")
