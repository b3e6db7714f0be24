"""Lower programs here and have them compiled by another interpreter."""

import multiprocessing
import tempfile
from pathlib import Path
from typing import Any

from base import startup
from base.errors import UserError

from tools.accelerators import steps
from tools.json_process import JsonProcess

_FLAG = "accelerator_python"


class Compiler(JsonProcess):
    """A process of compiler.py; `first` are the versions of its packages.

    The program of the last job is kept for the next one, as the same step is
    compiled for several devices.
    """

    def __init__(self, python: str):
        program = Path(__file__).with_name("compiler.py")
        super().__init__(f"--{_FLAG}={python}", [python, str(program)])
        self._folder = tempfile.TemporaryDirectory()
        self._file = Path(self._folder.name) / "program"
        self._program, self._known = None, {}
        if "jax" not in self.first:
            self.__exit__()
            raise UserError(
                f"--{_FLAG}={python}: has no jax; name an interpreter with "
                "requirements-accelerators.txt"
            )

    def __exit__(self, *_: Any) -> None:
        super().__exit__()
        self._folder.cleanup()

    def compile(self, program: steps.Program, device: str) -> dict[str, Any]:
        """Return the numbers of `steps.lower`, and the compiler's answer.

        The answer has the figures of compiler.py, or "error": the reason.
        """
        if program != self._program:
            # In a process of its own, since TensorFlow keeps the variables and
            # graphs of all programs: some 5 GB for each of Large.
            spawn = multiprocessing.get_context("spawn")
            with startup.importing(), spawn.Pool(1) as child:
                lowered, self._known = child.apply(steps.lower, (program,))
            self._file.write_bytes(lowered)
            self._program = program
        job = {
            "program": str(self._file),
            "device": device,
            "replicas": program.replicas,
        }
        return {**self._known, **self.ask(job)}
