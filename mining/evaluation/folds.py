"""Cross-validation of the threshold: tuned on some folds of the gold pairs, measured on the fold
held out."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from mining.errors import UsageError
from mining.evaluation.bucc import KeptGold, ScoredPairs, keep_gold, score_pairs
from mining.evaluation.gold import Gold
from mining.evaluation.tables import TableSource, read_ledger
from mining.evaluation.threshold import best_threshold, precision_recall_f1

_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
_BLOCK_IDS = 1_000_000


def _mix(value: np.ndarray) -> np.ndarray:
    """Spread the bits of (n,) uint64 values (the finaliser of splitmix64, Steele et al. 2014)."""
    value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return value ^ (value >> np.uint64(31))


def hash_ids(ids: pa.Array) -> np.ndarray:
    """A 64-bit hash of each id, (n,) uint64: the same in every process, computed without a loop
    over ids."""
    blocks = [_hash_block(ids.slice(i, _BLOCK_IDS)) for i in range(0, len(ids), _BLOCK_IDS)]
    return np.concatenate(blocks) if blocks else np.empty(0, dtype=np.uint64)


def _hash_block(ids: pa.Array) -> np.ndarray:
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


def hash_pairs(source: np.ndarray, target: np.ndarray) -> np.ndarray:
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

    def to_dict(self) -> dict[str, Any]:
        """Plain data with sorted keys, shares rounded to six decimals."""
        shares = ("f1", "precision", "recall")
        folds = [{**asdict(fold), **{name: round(getattr(fold, name), 6) for name in shares}} for fold in self.folds]
        return {
            "f1": round(self.f1, 6),
            "folds": [dict(sorted(fold.items())) for fold in folds],
            "precision": round(self.precision, 6),
            "recall": round(self.recall, 6),
        }


def assign_folds(kept: KeptGold, scored: ScoredPairs, folds: int) -> tuple[np.ndarray, np.ndarray]:
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
    scored = score_pairs(pairs, kept)
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
