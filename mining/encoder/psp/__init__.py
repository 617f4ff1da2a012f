"""The released models of Wieting et al.: read without running anything they hold."""

from __future__ import annotations

from mining.encoder.psp.checkpoint import load_checkpoint
from mining.encoder.psp.formats import Released, is_released, read_released

__all__ = ["Released", "is_released", "load_checkpoint", "read_released"]
