"""The score threshold of the best F1 (BUCC shared task, Zweigenbaum et al. 2017, section 4), safe
with tied scores, and its cross-validation: tuned on some folds of the gold pairs, measured on the
fold held out."""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

from mining.errors import UsageError
from mining.evaluation.gold import Gold, KeptGold, keep_gold
from mining.evaluation.tables import ScoredPairs, TableSource, join_pairs, read_ledger

_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
_BLOCK_IDS = 1_000_000
#: Scores carry six decimals, so a midpoint of two of them needs seven.
THRESHOLD_DECIMALS = 7


@dataclass(frozen=True)
class BestThreshold:
    """Where F1 is highest; a pair is extracted when ``score >= threshold`` (None: there was nothing
    to extract)."""

    threshold: float | None
    precision: float
    recall: float
    f1: float
    extracted: int
    correct: int


def precision_recall_f1(extracted: int, correct: int, n_gold: int) -> tuple[float, float, float]:
    """Precision, recall and F1 of `correct` among `extracted` pairs and `n_gold` gold pairs; 0
    where undefined."""
    precision = correct / extracted if extracted else 0.0
    recall = correct / n_gold if n_gold else 0.0
    f1 = 2 * correct / (extracted + n_gold) if extracted + n_gold else 0.0
    return precision, recall, f1


def midpoint(accepted: float, rejected: float) -> float:
    """A threshold between two neighbouring scores, ``rejected < threshold <= accepted``, short if
    it can be."""
    middle = (accepted + rejected) / 2
    for candidate in (round(middle, THRESHOLD_DECIMALS) if np.isfinite(middle) else middle, middle):
        if rejected < candidate <= accepted:
            return float(candidate)
    return float(accepted)


def _checked(scores: ArrayLike, correct: ArrayLike, n_gold: int) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    score_array = np.asarray(scores, dtype=np.float64)
    correct_array = np.asarray(correct, dtype=bool)
    if score_array.ndim != 1 or score_array.shape != correct_array.shape:
        raise ValueError(f"scores {score_array.shape} and correct {correct_array.shape} must be one value a pair")
    if not np.isfinite(score_array).all():
        raise ValueError("a score is NaN or infinite")
    if int(correct_array.sum()) > n_gold:
        raise ValueError(f"{int(correct_array.sum())} correct pairs but only {n_gold} gold pairs: are pairs repeated?")
    return score_array, correct_array


def best_threshold(scores: ArrayLike, correct: ArrayLike, n_gold: int) -> BestThreshold:
    """The threshold of the highest F1 over the distinct score values.

    `scores` is (n,) float64 in any order, `correct` (n,) bool, one entry a distinct pair; `n_gold`
    the number of gold pairs. Pairs of one score are accepted or rejected together. Of equal F1 the
    highest threshold wins. The threshold is the midpoint between the last accepted score and the
    next lower one, rounded to seven decimals where that still separates the two; the last score
    itself when nothing lies below. It may be negative. Raises ValueError for unequal lengths and a
    score that is not finite.
    """
    score_array, correct_array = _checked(scores, correct, n_gold)
    n = len(score_array)
    if n == 0:
        return BestThreshold(None, 0.0, 0.0, 0.0, 0, 0)
    order = np.argsort(-score_array, kind="stable")
    ranked = score_array[order]
    ends = np.append(np.flatnonzero(ranked[1:] != ranked[:-1]), n - 1)
    found = np.cumsum(correct_array[order])[ends]
    best = int(np.argmax(2 * found / (ends + 1 + n_gold)))
    end = int(ends[best])
    threshold = float(ranked[end]) if end == n - 1 else midpoint(float(ranked[end]), float(ranked[end + 1]))
    extracted, hits = end + 1, int(found[best])
    return BestThreshold(threshold, *precision_recall_f1(extracted, hits, n_gold), extracted, hits)


def best_threshold_reference(scores: ArrayLike, correct: ArrayLike, n_gold: int) -> BestThreshold:
    """What `best_threshold` computes, by trying every distinct score in turn."""
    score_array, correct_array = _checked(scores, correct, n_gold)
    distinct = sorted(set(score_array.tolist()), reverse=True)
    best = BestThreshold(None, 0.0, 0.0, 0.0, 0, 0)
    for i, lowest in enumerate(distinct):
        accepted = score_array >= lowest
        extracted, hits = int(accepted.sum()), int(correct_array[accepted].sum())
        precision, recall, f1 = precision_recall_f1(extracted, hits, n_gold)
        if best.threshold is None or f1 > best.f1:
            threshold = lowest if i + 1 == len(distinct) else midpoint(lowest, distinct[i + 1])
            best = BestThreshold(threshold, precision, recall, f1, extracted, hits)
    return best


def _mix(value: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Spread the bits of (n,) uint64 values (the finaliser of splitmix64, Steele et al. 2014)."""
    value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return value ^ (value >> np.uint64(31))


def hash_ids(ids: pa.Array) -> NDArray[np.uint64]:
    """A 64-bit hash of each id, (n,) uint64: the same in every process, computed without a loop
    over ids."""
    blocks = [_hash_block(ids.slice(i, _BLOCK_IDS)) for i in range(0, len(ids), _BLOCK_IDS)]
    return np.concatenate(blocks) if blocks else np.empty(0, dtype=np.uint64)


def _hash_block(ids: pa.Array) -> NDArray[np.uint64]:
    ids = pa.concat_arrays([ids.cast(pa.large_string())])
    offsets = np.frombuffer(ids.buffers()[1], dtype=np.int64)[ids.offset : ids.offset + len(ids) + 1]
    data = np.frombuffer(ids.buffers()[2] or b"", dtype=np.uint8)[offsets[0] : offsets[-1]]
    lengths = np.diff(offsets)
    within = np.arange(len(data), dtype=np.int64) - np.repeat(offsets[:-1] - offsets[0], lengths)
    powers = np.cumprod(np.full(int(lengths.max(initial=0)) + 1, _MULTIPLIER))
    terms = (data.astype(np.uint64) + np.uint64(1)) * powers[within]
    running = np.concatenate(([np.uint64(0)], np.cumsum(terms)))
    ends = offsets - offsets[0]
    return _mix(running[ends[1:]] - running[ends[:-1]])


def hash_pairs(source: NDArray[np.uint64], target: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Combine the hashes (n,) uint64 of the two ids of each pair."""
    return _mix(source * _MULTIPLIER + target)


@dataclass(frozen=True)
class Fold:
    """What the threshold tuned on the other folds extracts from this one."""

    precision: float
    recall: float
    f1: float
    threshold: float | None
    extracted: int
    correct: int
    gold: int


@dataclass(frozen=True)
class CrossValidation:
    """Held-out precision, recall and F1: `folds` one by one, and their means."""

    folds: list[Fold]

    @property
    def precision(self) -> float:
        """Mean precision of the folds."""
        return sum(fold.precision for fold in self.folds) / len(self.folds)

    @property
    def recall(self) -> float:
        """Mean recall of the folds."""
        return sum(fold.recall for fold in self.folds) / len(self.folds)

    @property
    def f1(self) -> float:
        """Mean F1 of the folds."""
        return sum(fold.f1 for fold in self.folds) / len(self.folds)

    def to_dict(self) -> dict[str, object]:
        """Plain data with sorted keys, shares rounded to six decimals."""
        shares = ("f1", "precision", "recall")
        folds = [{**asdict(fold), **{name: round(getattr(fold, name), 6) for name in shares}} for fold in self.folds]
        return {
            "f1": round(self.f1, 6),
            "folds": [dict(sorted(fold.items())) for fold in folds],
            "precision": round(self.precision, 6),
            "recall": round(self.recall, 6),
        }


def assign_folds(kept: KeptGold, scored: ScoredPairs, folds: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The fold of each gold pair (g,) and of each mined pair (n,).

    Gold pairs are dealt out in the order of a hash of their ids, so that folds differ by at most
    one pair; a mined pair that is gold goes with it, any other goes by the hash of its own ids.
    """
    gold_hash = hash_pairs(hash_ids(kept.source), hash_ids(kept.target))
    gold_fold = np.empty(len(kept), dtype=np.int64)
    gold_fold[np.argsort(gold_hash, kind="stable")] = np.arange(len(kept)) % folds
    mined = hash_pairs(hash_ids(scored.source_ids.ids)[scored.source], hash_ids(scored.target_ids.ids)[scored.target])
    mined_fold = (mined % np.uint64(folds)).astype(np.int64)
    is_gold = scored.gold >= 0
    mined_fold[is_gold] = gold_fold[scored.gold[is_gold]]
    return gold_fold, mined_fold


def cross_validate(pairs: pa.Table, gold: Gold, dropped: TableSource | None = None, folds: int = 5) -> CrossValidation:
    """Tune the threshold on all folds but one, extract the held-out fold with it; for each fold,
    and the mean.

    Arguments as for `evaluate_pairs`. Raises UsageError when there are fewer than two folds or more
    folds than gold pairs.
    """
    kept = keep_gold(gold, read_ledger(dropped, gold.source_index, gold.target_index))
    if not 2 <= folds <= len(kept):
        mend = f"use 2 to {len(kept)} folds, or none" if len(kept) > 1 else "use no folds"
        raise UsageError(f"--folds {folds}: {gold.path} has {len(kept)} distinct gold pairs: {mend}")
    scored = join_pairs(pairs, kept.index)
    gold_fold, mined_fold = assign_folds(kept, scored, folds)
    is_gold = scored.gold >= 0
    report = []
    for fold in range(folds):
        tuning, held_out = mined_fold != fold, mined_fold == fold
        threshold = best_threshold(scored.score[tuning], is_gold[tuning], int((gold_fold != fold).sum())).threshold
        extracted = held_out if threshold is None else held_out & (scored.score >= threshold)
        counts = int(extracted.sum()), int((extracted & is_gold).sum()), int((gold_fold == fold).sum())
        precision, recall, f1 = precision_recall_f1(*counts)
        report.append(Fold(precision, recall, f1, threshold, *counts))
    return CrossValidation(report)
