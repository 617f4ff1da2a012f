"""Devices and threads: what a device setting may say, how many threads work, and how torch uses
them.

torch is imported by the functions that need it, so that settings and the command line can check
names of devices at once.
"""

from __future__ import annotations

import ctypes
import os
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from mining.errors import UsageError

if TYPE_CHECKING:
    import torch

T = TypeVar("T")

#: Every GPU of the machine, as a device setting.
ALL_DEVICES = "cuda:all"
_DEVICE = re.compile(r"cpu|cuda(:\d+)?")

PARSING = threading.Lock()
"""Held while numpy reads the header of a file, which it lets Python parse.

In Python 3.11 a parse fails with ``SystemError: AST constructor recursion depth mismatch`` when
another thread parses something meanwhile; it can, whenever the garbage collector runs within the
parse.
"""


def several_devices(name: str) -> bool:
    """Whether a device setting stands for more than one, or may."""
    return "," in name or name == ALL_DEVICES


def first_device(name: str) -> str:
    """The device that encodes where a setting names several for the search."""
    return "cuda" if name == ALL_DEVICES else name.partition(",")[0].strip()


def check_devices(name: str) -> str:
    """A device setting as it is; raises ValueError for what is the name of no device. It need not
    be here."""
    if name != ALL_DEVICES and not all(_DEVICE.fullmatch(part.strip()) for part in name.split(",")):
        raise ValueError(f"device '{name}': not supported; use cpu, cuda, cuda:0, cuda:0,cuda:1 or {ALL_DEVICES}")
    return name


def resolve_threads(threads: int) -> int:
    """The number of threads meant by `threads`: 0 stands for every core this process may use."""
    if threads > 0:
        return threads
    if hasattr(os, "sched_getaffinity"):
        return max(1, len(os.sched_getaffinity(0)))
    return os.cpu_count() or 1


@contextmanager
def torch_threads(threads: int) -> Iterator[None]:
    """Let torch use `threads` threads (0: all cores) inside the block, and as many as before after
    it."""
    import torch

    before = torch.get_num_threads()
    wanted = resolve_threads(threads)
    if wanted == before:
        yield
        return
    torch.set_num_threads(wanted)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def share(units: Iterable[T], begins: Iterable[Callable[[], Callable[[T], None]]]) -> None:
    """Deal `units` to threads, one for each of `begins`, which is called there first and gives what
    a unit is done by.

    Each thread takes the next unit when it has done one. After an error no unit is begun, and it is
    raised when all threads have ended.
    """
    waiting, lock, failed = iter(units), threading.Lock(), threading.Event()

    def run(begin: Callable[[], Callable[[T], None]]) -> None:
        try:
            work = begin()
            while not failed.is_set():
                with lock:
                    unit = next(waiting, None)
                if unit is None:
                    return
                work(unit)
        except BaseException:
            failed.set()
            raise

    starts = list(begins)
    if len(starts) == 1:
        run(starts[0])
        return
    with ThreadPoolExecutor(len(starts)) as pool:
        for done in [pool.submit(run, begin) for begin in starts]:
            done.result()


def on_single_threads(units: Sequence[T], begin: Callable[[], Callable[[T], None]]) -> None:
    """Deal `units` to as many threads as torch uses, in each of which torch works by itself alone.

    Products whose tile stays in the cache of one core are fastest that way: no thread waits for
    another.
    """
    import torch

    threads = torch.get_num_threads()

    def alone() -> Callable[[T], None]:
        torch.set_num_threads(1)
        return begin()

    try:
        share(units, [alone] * max(1, min(threads, len(units))))
    finally:
        torch.set_num_threads(threads)


def resolve_device(name: str) -> torch.device:
    """The one device called `name`; raises UsageError when it is unknown, not there, or more than
    one."""
    import torch

    if several_devices(name):
        raise UsageError(
            f"device '{name}': one device is wanted here, for example cuda:0; only exact search by torch uses several"
        )
    try:
        device = torch.device(name)
    except RuntimeError:
        raise UsageError(f"device '{name}': unknown; use cpu or cuda") from None
    if device.type not in {"cpu", "cuda"}:
        raise UsageError(f"device '{name}': not supported; use cpu or cuda")
    if device.type == "cuda" and not torch.cuda.is_available():
        raise UsageError(f"device '{name}': this machine or this build of torch has no CUDA; use cpu")
    if device.type == "cuda" and device.index is not None and device.index >= torch.cuda.device_count():
        raise UsageError(f"device '{device}': this machine has {torch.cuda.device_count()} CUDA devices")
    return device


def resolve_devices(names: str | Sequence[str]) -> list[torch.device]:
    """The devices of a list, or of a setting: one name, several with commas between them, or
    ``cuda:all``.

    Raises UsageError when one is unknown or not there.
    """
    import torch

    if names == ALL_DEVICES:
        resolve_device("cuda")
        return [torch.device("cuda", index) for index in range(torch.cuda.device_count())]
    parts = [part.strip() for part in names.split(",")] if isinstance(names, str) else list(names)
    return [resolve_device(part) for part in parts]


@contextmanager
def full_accumulation() -> Iterator[None]:
    """Matrix products of half precision summed in float32 throughout, and those of float32 without
    TF32, within the block."""
    import torch

    matmul = torch.backends.cuda.matmul
    wanted = {"allow_fp16_reduced_precision_reduction": False, "allow_fp16_accumulation": False}
    before = {name: getattr(matmul, name) for name in wanted if hasattr(matmul, name)}
    precision = torch.get_float32_matmul_precision()
    for name in before:
        setattr(matmul, name, wanted[name])
    torch.set_float32_matmul_precision("highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(precision)
        for name, value in before.items():
            setattr(matmul, name, value)


_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_LARGEST = (1 << 31) - 1


def keep_freed_memory() -> None:
    """Tell glibc to keep blocks that were freed instead of giving them back to the system each
    time.

    The megabytes that a training step frees and asks for again are otherwise cleared page by page
    by the kernel: a step of 1,024 pairs took twice as long. It holds for the process; without glibc
    nothing happens.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return
    mallopt(_M_MMAP_THRESHOLD, 1 << 30)
    mallopt(_M_TRIM_THRESHOLD, _LARGEST)
