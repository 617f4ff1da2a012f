"""Doing one step, on whatever worker the runner chose: outputs, marker, bounded retry, peak memory,
and errors by file."""

from __future__ import annotations

import base64
import contextlib
import errno
import json
import logging
import os
import re
import resource
import socket
import time
import traceback

from mining.errors import BitextError, UsageError
from mining.io.atomic import is_full, reason
from mining.io.json_file import write_json
from pipelines.records import located
from pipelines.steps import Cost, Failure, Outputs, Step, check_versions, parse_failure, read_marker, verified_marker

log = logging.getLogger(__name__)

ATTEMPTS = 3
#: Errors of the file system that another attempt does not mend.
LASTING = {
    errno.ENOENT,
    errno.EACCES,
    errno.EPERM,
    errno.EROFS,
    errno.ENOTDIR,
    errno.EISDIR,
}


#: Stands before a failure that a runner carries to the driver inside the text of an exception.
CARRIED = "bitext-failed-step:"
_CARRIED = re.compile(CARRIED + "([A-Za-z0-9+/]+=*)")


class StepFailedError(Exception):
    """A step failed, and not even its error file could be written. The text holds the name of the
    step and the failure, in a form that survives what runners make of it."""


def carrying(step: Step[object], failure: Failure) -> StepFailedError:
    """The exception that carries a failure; with a text alone, for a runner may pickle it."""
    packed = base64.b64encode(json.dumps({"name": step.name, **vars(failure), "traceback": ""}).encode()).decode()
    return StepFailedError(f"stage {step.stage}, {step.name}: {failure.message} [{CARRIED}{packed}]")


def carried_failure(error: Exception) -> tuple[str, Failure] | None:
    """Name of the step and failure, if a runner's exception carries them."""
    found = _CARRIED.search(str(error))
    if found is None:
        return None
    facts = json.loads(base64.b64decode(found[1]))
    return facts.pop("name"), parse_failure(json.dumps(facts))


def do_step(step: Step[object]) -> None:
    """Run a step and write its marker. A failure is left in the step's error file, since runners
    report exceptions each in their own way, or not at all; only where that file cannot be written
    there is a StepFailedError."""
    try:
        _attempt(step)
    except Exception as error:
        if read_marker(step) is not None:
            # A runner delivered the step twice, and the other time it was done.
            log.warning("%s %s: %s; the step is done already", step.stage, step.name, error)
            return
        _write_failure(step, _failure(error))
    else:
        # An earlier attempt of the runner may have failed.
        with contextlib.suppress(OSError):
            step.error_path.unlink(missing_ok=True)


def _failure(error: Exception) -> Failure:
    known = isinstance(error, BitextError)
    text = str(error) if known else reason(error) if isinstance(error, OSError) else f"{type(error).__name__}: {error}"
    usage = isinstance(error, BitextError) and error.exit_code == 2
    return Failure(text, 2 if usage else 1, known, traceback.format_exc(), _worker())


def _worker() -> str:
    return f"{socket.gethostname()}:{os.getpid()}"


def _write_failure(step: Step[object], failure: Failure) -> None:
    try:
        write_json(step.error_path, vars(failure), durable=False)
    except (OSError, UsageError):
        raise carrying(step, failure) from None


def _attempt(step: Step[object]) -> None:
    for attempt in range(1, ATTEMPTS + 1):
        outputs = Outputs(step)
        try:
            _run(step, outputs)
        except OSError as error:
            outputs.discard()
            if attempt == ATTEMPTS or error.errno in LASTING or is_full(error):
                raise
            log.warning("%s %s: %s; attempt %d of %d follows", step.stage, step.name, error, attempt + 1, ATTEMPTS)
            time.sleep(0.5 * attempt)
        except BaseException:
            outputs.discard()
            raise
        else:
            return


def _run(step: Step[object], outputs: Outputs) -> None:
    # A runner may deliver an element twice; the second time there is nothing left to do.
    if step.marker_path.exists() and verified_marker(step) is not None:
        return
    check_versions(step.versions)
    stage = step.find_stage()
    reset_peak_memory()
    started, cpu = time.monotonic(), time.process_time()
    report = stage.run(located(step.inputs, step.run), step.params, outputs)
    seconds = round(time.monotonic() - started, 3), round(time.process_time() - cpu, 3)
    outputs.commit(report, Cost(*seconds, peak_memory(), _worker()))


def reset_peak_memory() -> None:
    """Start measuring the peak anew (Linux; elsewhere the peak is that of the whole process)."""
    with contextlib.suppress(OSError), open("/proc/self/clear_refs", "w", encoding="ascii") as refs:
        refs.write("5")


def peak_memory() -> int:
    """Peak resident memory of this process in bytes since the last reset."""
    with contextlib.suppress(OSError), open("/proc/self/status", encoding="ascii") as status:
        found = re.search(r"VmHWM:\s+(\d+) kB", status.read())
        if found:
            return int(found[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
