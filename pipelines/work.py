"""Doing one step, on whatever worker the runner chose: outputs, marker, bounded retry, peak memory, and errors by
file."""

from __future__ import annotations

import contextlib
import errno
import importlib
import logging
import os
import re
import resource
import socket
import time
import traceback
from typing import Any

from mining.errors import BitextError
from pipelines.artefacts import Outputs, Step, verified_marker, write_json
from pipelines.versions import check_versions

log = logging.getLogger(__name__)

ATTEMPTS = 3
#: Errors of the file system that another attempt does not mend.
LASTING = {
    errno.ENOSPC,
    errno.EDQUOT,
    errno.ENOENT,
    errno.EACCES,
    errno.EPERM,
    errno.EROFS,
    errno.ENOTDIR,
    errno.EISDIR,
}


def do_step(step: Step) -> None:
    """Run a step and write its marker. A failure is left in the step's error file, since runners report exceptions each
    in their own way, or not at all."""
    try:
        _attempt(step)
    except Exception as error:
        known = isinstance(error, BitextError)
        failure = {
            "message": str(error) if known else f"{type(error).__name__}: {error}",
            "exit_code": error.exit_code if isinstance(error, BitextError) else 1,
            "known": known,
            "traceback": traceback.format_exc(),
            "worker": f"{socket.gethostname()}:{os.getpid()}",
        }
        step.error_path.parent.mkdir(parents=True, exist_ok=True)
        write_json(step.error_path, failure)


def _attempt(step: Step) -> None:
    for attempt in range(1, ATTEMPTS + 1):
        outputs = Outputs(step)
        try:
            _run(step, outputs)
        except OSError as error:
            outputs.discard()
            if attempt == ATTEMPTS or error.errno in LASTING:
                raise
            log.warning("%s %s: %s; attempt %d of %d follows", step.stage, step.name, error, attempt + 1, ATTEMPTS)
            time.sleep(0.5 * attempt)
        except BaseException:
            outputs.discard()
            raise
        else:
            return


def _run(step: Step, outputs: Outputs) -> None:
    # A runner may deliver an element twice; the second time there is nothing left to do.
    if step.marker_path.exists() and verified_marker(step) is not None:
        return
    check_versions(step.versions)
    module = importlib.import_module(f"pipelines.stages.{step.stage}")
    reset_peak_memory()
    started, cpu = time.monotonic(), time.process_time()
    info = module.run(step, outputs)
    cost = {
        "seconds": round(time.monotonic() - started, 3),
        "cpu_seconds": round(time.process_time() - cpu, 3),
        "peak_memory": peak_memory(),
        "worker": f"{socket.gethostname()}:{os.getpid()}",
    }
    outputs.commit(info, cost)


def reset_peak_memory() -> None:
    """Start measuring the peak anew (Linux; elsewhere the peak is that of the whole process)."""
    with contextlib.suppress(OSError), open("/proc/self/clear_refs", "w", encoding="ascii") as refs:
        refs.write("5")


def peak_memory() -> int:
    """Peak resident memory of this process in bytes since the last reset."""
    with contextlib.suppress(OSError), open("/proc/self/status", encoding="ascii") as status:
        found: Any = re.search(r"VmHWM:\s+(\d+) kB", status.read())
        if found:
            return int(found[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
