"""The score threshold of the best F1 (BUCC shared task, Zweigenbaum et al. 2017, section 4), safe
with tied scores."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

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


def _checked(scores: ArrayLike, correct: ArrayLike, n_gold: int) -> tuple[np.ndarray, np.ndarray]:
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
