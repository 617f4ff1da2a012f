"""The cosine less how similar both ends are to anything at all (Artetxe and Schwenk 2019, section
3.1)."""

from mining.compiled import compiled
from mining.margins import MARGINS


@MARGINS.register("distance")
@compiled
def distance(cosine: float, own_mean: float, other_mean: float) -> float:
    """``cosine - (own_mean + other_mean) / 2``."""
    return cosine - (own_mean + other_mean) / 2
