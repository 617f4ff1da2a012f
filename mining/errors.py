"""Errors a user can mend; everything else is a defect and keeps its traceback."""

from __future__ import annotations

from mining.shown import shown


class BitextError(Exception):
    """Base of all errors that are reported as one line, without a traceback.

    ``exit_code`` is what the command line returns: 2 for bad usage or configuration, 1 for a failed
    run.
    """

    exit_code = 1

    def __str__(self) -> str:
        """The message; what cannot be seen in the names and texts that it quotes stands there as an
        escape."""
        return shown(super().__str__())


class UsageError(BitextError):
    """Bad flags or configuration: unknown key, missing file, undeclared column, unwritable folder,
    k too large."""

    exit_code = 2


class InputError(BitextError):
    """Faulty content met while running: invalid UTF-8, a bad row, a truncated file, gold that does
    not fit."""


class RunError(BitextError):
    """The run itself failed: a stage, a worker, a full disk."""
