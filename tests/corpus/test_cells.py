"""Blocks of lines cut into cells."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from mining.corpus import cells


@pytest.mark.parametrize("width", [1, 2])
def test_the_kernel_stays_within_its_arrays(width: int) -> None:
    # In Python a place beyond an array is an error; the kernel would read or write whatever lies
    # there.
    kernel: Any = cells._find_cells
    for length in range(6):
        for block in map(bytes, itertools.product(b"a\t\r\n", repeat=length)):
            found = cells.find_cells(block, width)
            again = [np.zeros_like(array) for array in found[1:]]
            getattr(kernel, "py_func", kernel)(found.data, ord("\t"), *again)
            for one, other in zip(found[1:], again, strict=True):
                assert one.tolist() == other.tolist()
