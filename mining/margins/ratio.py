"""The cosine divided by how similar both ends are to anything at all (Artetxe and Schwenk 2019,
section 3.1)."""

import numpy as np

from mining.compiled import compiled
from mining.margins import MARGINS

#: A ratio over a smaller denominator says nothing: both texts are far from everything.
DENOMINATOR_FLOOR = 1e-3


@MARGINS.register("ratio")
@compiled
def ratio(cosine: float, own_mean: float, other_mean: float) -> float:
    """``cosine / ((own_mean + other_mean) / 2)``; not defined where the denominator is at most
    `DENOMINATOR_FLOOR`."""
    baseline = (own_mean + other_mean) / 2
    return cosine / baseline if baseline > DENOMINATOR_FLOOR else np.nan
