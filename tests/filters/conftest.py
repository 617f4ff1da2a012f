"""A filter that comes as one more file."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from mining import filters

MAX_DIGITS = '''
import numpy as np
import pyarrow.compute as pc
from pydantic import Field

from mining.filters import FILTERS, Bounds, Filter, PairBatch


@FILTERS.register("max_digits")
class MaxDigits(Filter):
    """Drops pairs with many digits."""

    cost = 1
    max_digits: int | None = Field(default=None, ge=0)
    """Most digits of a side."""

    def bounds(self) -> Bounds | None:
        return (-np.inf, self.max_digits) if self.max_digits is not None else None

    def score(self, batch: PairBatch) -> np.ndarray:
        digits = [pc.count_substring_regex(side, "[0-9]") for side in (batch.source, batch.target)]
        return np.maximum(*digits).astype(np.float64)
'''


@pytest.fixture
def new_filter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The filter `max_digits`, in a file of its own beside the others."""
    folder = tmp_path / "more_filters"
    folder.mkdir()
    (folder / "max_digits.py").write_text(MAX_DIGITS)
    monkeypatch.setattr(filters, "__path__", [*filters.__path__, str(folder)])
    yield
    sys.modules.pop("mining.filters.max_digits", None)
    filters.FILTERS._entries.pop("max_digits", None)
