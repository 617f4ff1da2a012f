from __future__ import annotations

from typing import cast

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from mining.training.data import Domain, PreparedPairs
from mining.training.sampling import Sampler


class _Pairs:
    """What the sampler looks at."""

    def __init__(self, sizes: list[int], weights: list[float]) -> None:
        self.domain = np.repeat(np.arange(len(sizes)), sizes).astype(np.uint16)
        self.domains = [
            Domain(str(number), None, weight, size, {})
            for number, (size, weight) in enumerate(zip(sizes, weights, strict=True))
        ]

    def __len__(self) -> int:
        return len(self.domain)


def sampler(sizes: list[int], weights: list[float], seed: int = 1) -> Sampler:
    return Sampler(cast(PreparedPairs, _Pairs(sizes, weights)), seed)


def test_equal_weights_make_permutations() -> None:
    drawn = sampler([30, 70], [1.0, 1.0])
    assert drawn.expected == 100
    assert sorted(drawn.epoch(0).tolist()) == list(range(100))
    assert drawn.epoch(0).tolist() == sampler([30, 70], [1.0, 1.0]).epoch(0).tolist()
    assert drawn.epoch(0).tolist() != drawn.epoch(1).tolist()
    assert drawn.epoch(0).tolist() != sampler([30, 70], [1.0, 1.0], seed=2).epoch(0).tolist()


@given(st.floats(0.01, 4), st.integers(0, 9))
def test_a_pair_comes_as_often_as_its_weight_says(weight: float, epoch: int) -> None:
    rows = sampler([50, 400], [1.0, weight]).epoch(epoch)
    times = np.bincount(rows, minlength=450)
    assert (times[:50] == 1).all()
    assert set(times[50:].tolist()) <= {int(np.floor(np.float32(weight))), int(np.floor(np.float32(weight))) + 1}
    assert abs(times[50:].mean() - weight) < 0.15


def test_an_epoch_has_as_many_pairs_as_the_weights_add_up_to() -> None:
    drawn = sampler([1000, 2000], [0.5, 1.25])
    assert drawn.expected == 3000
    assert abs(len(drawn.epoch(0)) - 3000) < 100
