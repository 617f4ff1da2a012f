from __future__ import annotations

from collections.abc import Iterator

from hypothesis import given
from hypothesis import strategies as st

from mining.training.sampling import MegaBatchSchedule


def published_schedule(largest: int, anneal: int, minibatches: int, epochs: int) -> Iterator[list[int]]:
    """The code published with Wieting et al. 2019, one mini-batch at a time; an empty list ends an
    epoch."""
    current, grow = 1, False
    for _ in range(epochs):
        position = 0
        while True:
            taken: list[int] = []
            if anneal == 0:
                while len(taken) < largest and position < minibatches:
                    taken.append(position)
                    position += 1
            else:
                if grow and current < largest:
                    current += 1
                    grow = False
                for _ in range(current):
                    if position < minibatches:
                        taken.append(position)
                        position += 1
                        if position % anneal == 0:
                            grow = True
            yield taken
            if not taken:
                break


@given(st.integers(1, 6), st.integers(0, 7), st.integers(1, 40), st.integers(1, 4))
def test_schedule_equals_the_published_one(largest: int, anneal: int, minibatches: int, epochs: int) -> None:
    schedule = MegaBatchSchedule(largest, anneal)
    for expected in published_schedule(largest, anneal, minibatches, epochs):
        taken = schedule.refill(minibatches)
        assert list(taken) == expected
        if not taken:
            schedule.restart()


def test_mega_batch_grows_by_one_about_every_anneal_minibatches() -> None:
    schedule = MegaBatchSchedule(100, 150)
    sizes = []
    while taken := schedule.refill(1500):
        sizes.append((taken.stop, len(taken)))
    assert sizes[149] == (150, 1)
    assert sizes[150] == (152, 2)
    assert sizes[-2][1] == 10
