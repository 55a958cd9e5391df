"""Runs the programs, and keeps what they say."""

import json
import os
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.e2e.clients.plan import Plan
from tests.e2e.clients.programs import Program
from tests.parts.process import mortal
from tests.patience import LateError

__all__ = ["Told", "run_program"]

_ROOT = Path(__file__).parents[3]
_LIMIT_S = 200
_WORDS_SHOWN = 4000


@dataclass
class Told:
    """What a client said it saw, step by step, and how its program ended."""

    plan: Plan
    steps: list[dict[str, Any]] = field(default_factory=list)
    end: str = ""
    """Empty if it ended well."""
    seconds: float = 0.0

    def all_of(self, step: str) -> Iterator[dict[str, Any]]:
        return (one for one in self.steps if one["step"] == step)

    def one(self, step: str, **fields: object) -> dict[str, Any]:
        """The one line of a step; without it, the last words of the program."""
        for line in self.all_of(step):
            if all(line[name] == value for name, value in fields.items()):
                return line
        raise LateError(f"it never came to {step!r} {fields or ''}: {self.end or 'no word'}")


def run_program(program: Program, plan: Plan) -> Told:
    """Run a program to its end. One that fails has told a part of it."""
    told = Told(plan)
    start = time.monotonic()
    env = {**os.environ, **program.env()}  # noqa: TID251 (a child inherits)
    argv = mortal([*program.command(), plan.to_json()])
    child = subprocess.Popen(
        argv, cwd=_ROOT, env=env, text=True, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    with child:
        try:
            output, errors = child.communicate(timeout=_LIMIT_S)
            if child.returncode:
                told.end = f"it ended with status {child.returncode}:\n{errors[-_WORDS_SHOWN:]}"
        except subprocess.TimeoutExpired:
            child.kill()
            output, errors = child.communicate()
            told.end = f"it did not end within {_LIMIT_S} s:\n{errors[-_WORDS_SHOWN:]}"
    told.steps = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
    told.seconds = time.monotonic() - start
    return told
