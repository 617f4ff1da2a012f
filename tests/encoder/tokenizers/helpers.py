"""What the tests of tokenizers share."""

from __future__ import annotations

from mining.encoder import Tokens


def unpacked(pieces: Tokens) -> list[list[int]]:
    """The ids of each text."""
    bounds = zip(pieces.offsets[:-1], pieces.offsets[1:], strict=True)
    return [pieces.ids[start:stop].tolist() for start, stop in bounds]
