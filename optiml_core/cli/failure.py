"""How a command ends early: a failure with its exit status, caught once in ``main``."""

from __future__ import annotations

from optiml_core.records import Failure

DONE = 0
NEGATIVE = 1  # the honest negative: no improvement, not equivalent, could not tell
BAD_INPUT = 2
MISSING = 3  # something needed is missing here

MISSING_KINDS = frozenset({"missing-tool", "sandbox-missing", "no-device", "missing-package"})


class CommandFailure(Exception):
    """Ends a command with one message. ``status`` is 2 for bad input, 3 for something missing."""

    def __init__(self, failure: Failure, status: int | None = None) -> None:
        super().__init__(failure.message)
        self.failure = failure
        self.status = status if status is not None else (MISSING if failure.kind in MISSING_KINDS else BAD_INPUT)


def bad_input(message: str, *, file: str | None = None, line: int | None = None, cure: str = "") -> CommandFailure:
    return CommandFailure(Failure("bad-input", message, file, line, cure=cure), BAD_INPUT)
