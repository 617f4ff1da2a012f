"""What the rest of the library asks of a sentence encoder, and a check of what one gives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, runtime_checkable

import numpy as np

_BLOCK = 4096
#: Squared lengths of unit rows in a file, which may be rounded to float16.
UNIT = (0.99, 1.01)
#: Those that do no harm where rows are brought to length one afterwards, nor beyond the range of
#: float16 before.
NEARLY_UNIT = (1e-4, 1e4)


@runtime_checkable
class Encoder(Protocol):
    """Turns sentences into unit vectors whose dot product is the cosine.

    ``dim`` is the length of a vector; ``hash`` names the model, so that vectors of two models are
    never mixed.
    """

    dim: int
    hash: str

    def encode(self, texts: Sequence[str], threads: int = 0) -> tuple[np.ndarray, np.ndarray]:
        """Encode ``n`` texts.

        Returns ``(n, dim)`` float32 C-contiguous unit rows and ``(n,)`` bool validity; an invalid
        row (a text with no piece in it) is all zeros. ``threads`` 0 uses every core. Raises
        TypeError for a plain ``str``.
        """
        ...


def row_fault(vectors: np.ndarray, valid: np.ndarray, limits: tuple[float, float] = UNIT) -> tuple[int, str] | None:
    """The first row of (n, d) floats with a fault, and what is wrong with it; None when all are
    right.

    A row that is `valid` (n,) has a squared length within `limits`, another one is all zeros or,
    with other limits than `UNIT`, anything.
    """
    for start in range(0, len(vectors), _BLOCK):
        block = np.asarray(vectors[start : start + _BLOCK], np.float32)
        usable = valid[start : start + _BLOCK]
        squares = np.einsum("ij,ij->i", block, block)
        right = (squares >= limits[0]) & (squares <= limits[1])
        faulty = np.flatnonzero(~np.where(usable, right, (squares == 0) if limits == UNIT else True))
        if len(faulty):
            row = int(faulty[0])
            return start + row, _fault(block[row], bool(usable[row]))
    return None


def _fault(row: np.ndarray, valid: bool) -> str:
    if not np.isfinite(row).all():
        return "is not finite"
    if not valid:
        return "is marked invalid but not all zeros"
    length = float(np.linalg.norm(row.astype(np.float64)))
    return f"has length {length:.4g}, not 1" if length else "is all zeros but marked valid"


def encode_checked(
    encoder: Encoder, texts: Sequence[str], threads: int, name: Callable[[int], str] = "text {}".format
) -> tuple[np.ndarray, np.ndarray]:
    """What ``encoder.encode`` gives; raises ValueError when that has another shape or a row that is
    no direction.

    `name` says what a text is called in the message, by its index.
    """
    vectors, valid = map(np.asarray, encoder.encode(texts, threads))
    if vectors.ndim != 2 or len(vectors) != len(texts) or valid.shape != (len(texts),) or valid.dtype != bool:
        raise ValueError(
            f"the encoder gave vectors of shape {vectors.shape} and {valid.dtype} validity of shape {valid.shape} for "
            f"{len(texts)} texts: expected (n, dim) and bool (n,)"
        )
    fault = row_fault(vectors, valid, NEARLY_UNIT)
    if fault is not None:
        raise ValueError(f"the vector of the encoder for {name(fault[0])} {fault[1]}: give unit rows")
    return vectors, valid
