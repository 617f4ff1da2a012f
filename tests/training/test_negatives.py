from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mining.training import negatives
from mining.training.negatives import EqualTexts, Negatives, choose_negatives, false_negatives
from mining.training.objectives.margin import MarginObjective

GROUPS = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=1, max_size=15)


def related(groups: np.ndarray, i: int, j: int) -> bool:
    """Whether the pairs i and j share a text."""
    return bool(set(groups[:, i].tolist()) & set(groups[:, j].tolist()))


def slow_hardest(units: np.ndarray, groups: np.ndarray, k: int, pool: str) -> list[list[list[int]]]:
    """One sentence at a time, as in the published code, with the texts of related pairs left
    out."""
    n = units.shape[1]
    rows = units.reshape(2 * n, -1)
    chosen = []
    for side in (0, 1):
        offered = range(2 * n) if pool == "monolingual" else range(n * (1 - side), n * (1 - side) + n)
        of_side = []
        for i in range(n):
            allowed = [row for row in offered if not related(groups, i, row % n)]
            best = sorted(allowed, key=lambda row: (-float(units[side, i] @ rows[row]), row))[:k]
            of_side.append(best + [-1] * (k - len(best)))
        chosen.append(of_side)
    return chosen


def tensors(units: np.ndarray) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.from_numpy(units[0]), torch.from_numpy(units[1])


@settings(deadline=None, max_examples=150)
@given(
    n=st.integers(1, 12),
    kinds=st.integers(1, 20),
    k=st.integers(1, 4),
    pool=st.sampled_from(["bilingual", "monolingual"]),
    tile=st.sampled_from([1, 3, 5, 1024]),
    seed=st.integers(0, 999),
)
def test_hardest_equal_the_slow_ones(n: int, kinds: int, k: int, pool: negatives.Pool, tile: int, seed: int) -> None:
    chance = np.random.default_rng(seed)
    # Small whole numbers: products are exact, and ties are frequent.
    units = chance.integers(-2, 3, (2, n, 4)).astype(np.float32)
    groups = chance.integers(0, kinds, (2, n))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(negatives, "_TILE", tile)
        patch.setattr(negatives, "_COLUMNS_A_GROUP", 2)
        patch.setattr(negatives, "_ROWS_A_GROUP", 2)
        found = choose_negatives(tensors(units), EqualTexts(*groups), k=k, pool=pool)
    expected = slow_hardest(units, groups, k, pool)
    assert found.of_source.tolist() == expected[0]
    assert found.of_target.tolist() == expected[1]
    assert found.of_source.dtype == np.int64


def test_hardest_over_whole_tiles_and_groups() -> None:
    chance = np.random.default_rng(0)
    units = chance.integers(-3, 4, (2, 150, 6)).astype(np.float32)
    groups = chance.integers(0, 90, (2, 150))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(negatives, "_TILE", 64)
        for pool in ("bilingual", "monolingual"):
            found = choose_negatives(tensors(units), EqualTexts(*groups), k=2, pool=pool)
            assert [side.tolist() for side in found] == slow_hardest(units, groups, 2, pool)


@given(GROUPS)
def test_cells_are_those_of_pairs_that_share_a_text(groups: list[tuple[int, int]]) -> None:
    sides = np.array(groups).T
    n = len(groups)
    rows, columns = false_negatives(*sides)
    expected = {(i, j) for i in range(n) for j in range(n) if related(sides, i, j)}
    assert set(zip(rows.tolist(), columns.tolist(), strict=True)) == expected
    equal = EqualTexts(*sides)
    blocks = [equal.cells(start, min(start + 4, n)) for start in range(0, n, 4)]
    assert {cell for block in blocks for cell in zip(*map(np.ndarray.tolist, block), strict=True)} == expected
    everyone = np.arange(n)
    assert set(zip(*np.nonzero(equal.related(everyone[:, None], everyone)), strict=True)) == expected


def test_published_masking_takes_a_duplicate_of_the_translation() -> None:
    units = np.eye(4, dtype=np.float32)[[[0, 1, 2], [0, 1, 0]]]
    groups = np.array([[0, 1, 2], [3, 4, 3]])
    published = choose_negatives(tensors(units), EqualTexts.none(3))
    masked = choose_negatives(tensors(units), EqualTexts(*groups))
    assert published.of_source[0, 0] == 3 + 2
    assert masked.of_source[0, 0] == 3 + 1


@pytest.mark.parametrize("kind", ["max", "mix", "random"])
@pytest.mark.parametrize("pool", ["bilingual", "monolingual"])
def test_a_pair_alone_has_no_negative_and_no_loss(kind: negatives.Kind, pool: negatives.Pool) -> None:
    """The published code takes its own translation, whose loss is the whole margin."""
    one = torch.nn.functional.normalize(torch.ones((1, 3)), dim=1)
    found = choose_negatives((one, one), EqualTexts.none(1), kind=kind, pool=pool)
    assert (found.of_source.tolist(), found.of_target.tolist()) == ([[-1]], [[-1]])
    blocks = found.blocks(slice(0, 1))
    vectors = torch.stack((one, one, one, one))
    loss, gradient = MarginObjective(delta=0.4)(vectors, torch.from_numpy(blocks >= 0))
    assert loss == 0
    assert not gradient.any()


def rows_of(found: Negatives) -> np.ndarray:
    return np.stack(found)


@settings(deadline=None, max_examples=80)
@given(
    groups=GROUPS,
    k=st.integers(1, 5),
    kind=st.sampled_from(["mix", "random"]),
    pool=st.sampled_from(["bilingual", "monolingual"]),
    mask=st.booleans(),
    draws=st.integers(0, 3),
    seed=st.integers(0, 99),
)
def test_random_ones_are_allowed_and_there_when_any_is(
    groups: list[tuple[int, int]],
    k: int,
    kind: negatives.Kind,
    pool: negatives.Pool,
    mask: bool,
    draws: int,
    seed: int,
) -> None:
    sides, n = np.array(groups).T, len(groups)
    equal = EqualTexts(*sides) if mask else EqualTexts.none(n)
    units = tensors(np.random.default_rng(seed).standard_normal((2, n, 4)).astype(np.float32))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(negatives, "_DRAWS", draws)
        found = choose_negatives(units, equal, k=k, kind=kind, pool=pool, seed=seed, mega_batch=3)
    for side, rows in enumerate(found):
        for i in range(n):
            allowed = [j for j in range(n) if j != i and not (mask and related(sides, i, j))]
            offered = {j + n * other for j in allowed for other in ((0, 1) if pool == "monolingual" else (1 - side,))}
            assert set(rows[i].tolist()) <= (offered or {-1})


def test_random_ones_cover_the_pool_evenly() -> None:
    n, k = 6, 4000
    for pool, offered in (("bilingual", n - 1), ("monolingual", 2 * (n - 1))):
        found = choose_negatives(None, EqualTexts.none(n), k=k, kind="random", pool=pool)
        for side in found:
            for row in side:
                counts = np.bincount(row, minlength=2 * n)
                assert (counts > 0).sum() == offered
                assert np.abs(counts[counts > 0] / k - 1 / offered).max() < 0.04


def test_mix_is_half_the_hardest() -> None:
    units = torch.nn.functional.normalize(torch.randn((2, 1000, 8), generator=torch.Generator().manual_seed(1)), dim=-1)
    equal = EqualTexts.none(1000)
    best, mixed = (choose_negatives((units[0], units[1]), equal, kind=kind, seed=5) for kind in ("max", "mix"))
    shares = [(one == other).mean() for one, other in zip(best, mixed, strict=True)]
    assert all(0.45 < share < 0.55 for share in shares)
    hardest_of_both = (rows_of(best) == rows_of(mixed))[..., 0].all(0).mean()
    assert 0.2 < hardest_of_both < 0.3


@pytest.mark.parametrize("kind", ["mix", "random"])
def test_draws_are_repeated_by_seed_and_mega_batch(kind: negatives.Kind) -> None:
    units = torch.nn.functional.normalize(torch.randn((2, 200, 8), generator=torch.Generator().manual_seed(1)), dim=-1)

    def draw(seed: int, mega_batch: int) -> np.ndarray:
        found = choose_negatives(
            (units[0], units[1]), EqualTexts.none(200), k=2, kind=kind, seed=seed, mega_batch=mega_batch
        )
        return rows_of(found)

    assert (draw(1, 7) == draw(1, 7)).all()
    assert (draw(1, 7) != draw(1, 8)).any()
    assert (draw(1, 7) != draw(2, 7)).any()


def test_monolingual_pool_finds_the_nearest_on_its_own_side() -> None:
    units = np.eye(6, dtype=np.float32)[[[0, 0, 2, 3], [4, 5, 5, 1]]]
    found = choose_negatives(tensors(units), EqualTexts.none(4), pool="monolingual")
    assert found.of_source[:2, 0].tolist() == [1, 0]
    assert found.of_target[1:3, 0].tolist() == [4 + 2, 4 + 1]


def test_a_copy_of_the_sentence_on_the_other_side_is_left_out() -> None:
    groups = np.array([[0, 3, 4], [1, 0, 5]])
    units = np.eye(4, dtype=np.float32)[[[0, 1, 2], [3, 0, 2]]]
    published = choose_negatives(tensors(units), EqualTexts.none(3))
    masked = choose_negatives(tensors(units), EqualTexts(*groups))
    assert published.of_source[0, 0] == 3 + 1
    assert masked.of_source[0, 0] == 3 + 2


def test_more_than_there_are() -> None:
    units = np.eye(3, dtype=np.float32)[[[0, 1, 2], [0, 1, 2]]]
    found = choose_negatives(tensors(units), EqualTexts.none(3), k=4)
    assert found.of_source.tolist() == [[4, 5, -1, -1], [3, 5, -1, -1], [3, 4, -1, -1]]


def test_blocks_are_in_the_order_of_the_vectors() -> None:
    found = Negatives(np.arange(12).reshape(4, 3), np.arange(12, 24).reshape(4, 3))
    blocks = found.blocks(slice(1, 3))
    assert blocks.shape == (2, 3, 2)
    assert blocks[0].tolist() == [[3, 6], [4, 7], [5, 8]]
    assert blocks[1].tolist() == [[15, 18], [16, 19], [17, 20]]


def test_hardest_need_vectors() -> None:
    with pytest.raises(ValueError, match="'max' need the vectors"):
        choose_negatives(None, EqualTexts.none(3))
