"""The cosine as it is (Artetxe and Schwenk 2019, section 3.1)."""

from mining.compiled import compiled
from mining.margins import MARGINS


@MARGINS.register("absolute")
@compiled
def absolute(cosine: float, own_mean: float, other_mean: float) -> float:
    """``cosine``; the means play no part."""
    return cosine
