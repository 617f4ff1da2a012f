"""What a device setting may say: ``cpu``, ``cuda``, ``cuda:1``, ``cuda:0,cuda:1`` or
``cuda:all``."""

from __future__ import annotations

import re

#: Every GPU of the machine, as a device setting.
ALL_DEVICES = "cuda:all"
_DEVICE = re.compile(r"cpu|cuda(:\d+)?")


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
