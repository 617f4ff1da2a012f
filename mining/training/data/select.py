"""Which of the pairs that passed the filters stay (duplicates, caps), and which the vocabulary is
learnt from."""

from __future__ import annotations

import numpy as np

from mining.corpus import first_occurrence
from mining.schemas import Reason
from mining.training.data.prepared import Ledger
from mining.training.data.read import Spool

_CAPS, _SAMPLE = 1, 2
"""What is drawn, so that no two draws share their random numbers."""


def select(spool: Spool, ledger: Ledger, *, duplicates: bool, seed: int) -> np.ndarray:
    """The pairs that stay, (n,) bool; the others are counted in `ledger`.

    With `duplicates`, the first of equal pairs stays, whatever its domain. Caps draw at random from
    what is left.
    """
    keep = np.ones(len(spool), bool)
    if duplicates and len(spool):
        rows = np.arange(len(spool))
        first = first_occurrence(spool.keys.view(np.uint8).reshape(-1, 16), np.zeros_like(rows), rows)
        keep = first == rows
        ledger.drop(Reason.DUPLICATE, spool.domain[~keep])
    sizes = np.bincount(spool.domain[keep], minlength=len(spool.domains))
    for number, facts in enumerate(spool.domains):
        if facts.cap is None or sizes[number] <= facts.cap:
            continue
        rows = np.flatnonzero(keep & (spool.domain == number))
        keep[rows] = False
        keep[_draw(rows, facts.cap, (seed, _CAPS, number))] = True
        ledger.drop(Reason.DOMAIN_CAP, spool.domain[rows[~keep[rows]]])
    return keep


def sample(spool: Spool, keep: np.ndarray, count: int, seed: int) -> np.ndarray:
    """About `count` of the pairs of `keep`, (n,) bool, drawn at random: of each domain in
    proportion to pairs x weight.

    A domain that has not enough gives all it has, and the others make up for it.
    """
    sizes = np.bincount(spool.domain[keep], minlength=len(spool.domains))
    quotas = shares(sizes, np.array([facts.weight for facts in spool.domains]), count)
    chosen = np.zeros(len(spool), bool)
    for number, quota in enumerate(quotas.tolist()):
        if quota:
            rows = np.flatnonzero(keep & (spool.domain == number))
            chosen[_draw(rows, quota, (seed, _SAMPLE, number))] = True
    return chosen


def shares(sizes: np.ndarray, weights: np.ndarray, count: int) -> np.ndarray:
    """(d,) int64: how many of `count` fall to each domain of `sizes` (d,), in proportion to sizes x
    weights.

    None gets more than its size; every domain with anything gets one, so the sum may exceed `count`
    by as many.
    """
    quotas = np.zeros(len(sizes))
    open_ = sizes > 0
    left = float(min(count, sizes.sum()))
    while left > 0 and open_.any():
        wanted = np.where(open_, sizes * weights, 0.0)
        offer = left * wanted / wanted.sum()
        full = open_ & (offer >= sizes)
        if not full.any():
            quotas[open_] = offer[open_]
            break
        quotas[full] = sizes[full]
        left -= float(sizes[full].sum())
        open_ &= ~full
    rounded = np.clip(np.round(quotas).astype(np.int64), (sizes > 0).astype(np.int64), sizes)
    return rounded.astype(np.int64)


def _draw(rows: np.ndarray, count: int, key: tuple[int, int, int]) -> np.ndarray:
    """`count` of the `rows` without repetition."""
    seed, purpose, number = key
    chance = np.random.Generator(np.random.Philox(key=[seed, (purpose << 32) | number]))
    return rows if count >= len(rows) else chance.choice(rows, count, replace=False, shuffle=False)
