"""Lower programs here and have them compiled by another interpreter."""

import json
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from base import child_processes
from base.errors import UserError

from tools.accelerators import steps

_SCRIPT = Path(__file__).with_name("compiler.py")


class Compiler:
    """A process of compiler.py; `versions` are those of its packages.

    A context manager. The program of the last job is kept for the next one,
    as the same step is compiled for several devices.
    """

    def __init__(self, python: str):
        self._folder = tempfile.TemporaryDirectory()
        self._file = Path(self._folder.name) / "program"
        self._log = Path(self._folder.name) / "log"
        self._program, self._estimate = None, None
        try:
            with self._log.open("w") as log:
                self._process = subprocess.Popen(
                    [python, str(_SCRIPT)],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=log,
                    text=True,
                    preexec_fn=child_processes.end_with_parent,
                )
        except OSError as error:
            raise UserError(f"--accelerator_python: {error}") from error
        self.versions = self._answer()
        if "jax" not in self.versions:
            self.__exit__()
            raise UserError(
                f"--accelerator_python={python}: has no jax; name an "
                "interpreter with requirements-accelerators.txt"
            )

    def __enter__(self) -> "Compiler":
        return self

    def __exit__(self, *_: Any) -> None:
        self._process.kill()
        self._process.communicate()
        self._folder.cleanup()

    def compile(self, program: steps.Program, device: str) -> dict[str, Any]:
        """Return the figures of compiler.py, or {"error": the reason}."""
        if program != self._program:
            lowered, self._estimate = steps.lower(program)
            self._file.write_bytes(lowered)
            self._program = program
        job = {
            "program": str(self._file),
            "device": device,
            "replicas": program.replicas,
        }
        print(json.dumps(job), file=self._process.stdin, flush=True)
        return {"estimate": self._estimate, **self._answer()}

    def _answer(self) -> dict[str, Any]:
        line = self._process.stdout.readline()
        if line:
            return json.loads(line)
        last = self._log.read_text(errors="replace").strip().rpartition("\n")[2]
        raise UserError(f"{_SCRIPT.name} in --accelerator_python ended: {last}")
