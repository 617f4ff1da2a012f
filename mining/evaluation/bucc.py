"""Precision, recall and F1 of mined pairs against gold, in the manner of the BUCC shared task, and why pairs are
missed.

Like LASER's evaluation on the same candidates (the best score of a pair counts, F1 is maximised over the ranked list),
except where that one loses pairs: gold ids dropped as duplicates stand for the id that was kept (there, repeated
sentences are struck from the id map and their pairs cannot be found), pairs of one score are accepted or rejected
together (there, a tie may be cut in two and the extraction differs from the reported F1), and the whole list may be
the best (there, an index error).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from mining.errors import InputError
from mining.evaluation.gold import Gold, KnownIds, check_known
from mining.evaluation.tables import (
    GoldRanks,
    Ledger,
    PairIndex,
    TableSource,
    gold_ranks,
    positions,
    read_ledger,
)
from mining.evaluation.threshold import best_threshold, precision_recall_f1

EXAMPLES = 5
#: Ledger reasons that concern a pair, not a row: the row was encoded and searched.
PAIR_REASONS = frozenset({"unmatched", "below_threshold"})
NOT_NEIGHBOURS = "not_neighbours"
NOT_SELECTED = "not_selected"
NOT_IN_PAIRS = "not_in_pairs"
BELOW_THRESHOLD = "below_threshold"
#: Misses that another matching or threshold could have avoided (or for which nothing says that none could).
REACHABLE = frozenset({BELOW_THRESHOLD, NOT_SELECTED, NOT_IN_PAIRS})


@dataclass(frozen=True)
class KeptGold:
    """Distinct gold pairs after every duplicate id gave way to the id that was kept.

    `source` and `target` are the kept ids, `example` the first ids of the gold file that led there, `domain` the
    domains of all of them; one entry a pair.
    """

    source: list[str]
    target: list[str]
    example: list[tuple[str, str]]
    domain: list[list[str]] | None

    def __len__(self) -> int:
        return len(self.source)


def keep_gold(gold: Gold, ledger: Ledger) -> KeptGold:
    """Map the gold ids through the ledger's kept ids and merge the pairs that become equal."""
    examples: dict[tuple[str, str], tuple[str, str]] = {}
    domains: dict[tuple[str, str], dict[str, None]] = {}
    for i, ids in enumerate(zip(gold.source, gold.target, strict=True)):
        kept = (ledger.resolve("source", ids[0]), ledger.resolve("target", ids[1]))
        examples.setdefault(kept, ids)
        if gold.domain is not None:
            domains.setdefault(kept, {})[gold.domain[i]] = None
    return KeptGold(
        source=[source for source, _ in examples],
        target=[target for _, target in examples],
        example=list(examples.values()),
        domain=[list(names) for names in domains.values()] if gold.domain is not None else None,
    )


@dataclass(frozen=True)
class ScoredPairs:
    """The distinct mined pairs: `score` (n,) float64, `gold` (n,) int64 the number of the gold pair or -1.

    `source` and `target` (n,) are positions in `source_ids` and `target_ids`. `rows` counts the rows of the table.
    """

    score: np.ndarray
    gold: np.ndarray
    source: np.ndarray
    target: np.ndarray
    source_ids: pa.Array
    target_ids: pa.Array
    rows: int


def _codes(pairs: pa.Table, name: str) -> tuple[np.ndarray, pa.Array]:
    column = pairs.column(name)
    if column.null_count:
        raise InputError(f"the mined pairs: {column.null_count} rows have no {name}: every pair needs both ids")
    encoded = column.cast(pa.large_string()).dictionary_encode().unify_dictionaries()
    if not encoded.num_chunks:
        return np.empty(0, dtype=np.int64), pa.array([], pa.large_string())
    codes = [chunk.indices.to_numpy(zero_copy_only=False) for chunk in encoded.chunks]
    return np.concatenate(codes).astype(np.int64), encoded.chunk(0).dictionary


def score_pairs(pairs: pa.Table, kept: KeptGold) -> ScoredPairs:
    """Join mined pairs (columns score, source_id, target_id) with gold; of a repeated pair the best score counts.

    Raises InputError when a column is missing or a score is missing or NaN.
    """
    missing = [name for name in ("score", "source_id", "target_id") if name not in pairs.column_names]
    if missing:
        raise InputError(
            f"the mined pairs: column '{missing[0]}' is missing; there are {', '.join(pairs.column_names)}"
        )
    score = pairs.column("score").cast(pa.float64()).to_numpy()
    faulty = np.flatnonzero(np.isnan(score))
    if len(faulty):
        raise InputError(
            f"the mined pairs: row {faulty[0] + 1} has no score ({len(faulty)} such rows): score all pairs"
        )
    source, source_ids = _codes(pairs, "source_id")
    target, target_ids = _codes(pairs, "target_id")
    falling = np.argsort(-score, kind="stable")
    keys = source * max(len(target_ids), 1) + target
    distinct = np.sort(falling[np.unique(keys[falling], return_index=True)[1]])
    source, target = source[distinct], target[distinct]
    index = PairIndex(kept.source, kept.target)
    number = index.find(
        positions(source_ids, index.source_ids)[source], positions(target_ids, index.target_ids)[target]
    )
    return ScoredPairs(score[distinct], number, source, target, source_ids, target_ids, len(score))


@dataclass(frozen=True)
class BuccResult:
    """Outcome of `evaluate_pairs`; `to_dict` is what ``metrics.json`` holds.

    `threshold` is None when every pair was extracted; `threshold_from` says ``tuned``, ``given`` or ``none``. `missed`
    has for each reason the number of gold pairs not extracted and up to five examples (ids as in the gold file).
    `unreachable` counts those that no matching or threshold could have found. `recall_at` and `domains` are None
    without candidates or domains.
    """

    precision: float
    recall: float
    f1: float
    threshold: float | None
    threshold_from: Literal["tuned", "given", "none"]
    counts: dict[str, int]
    missed: dict[str, dict[str, Any]]
    recall_at: dict[str, Any] | None
    domains: dict[str, dict[str, Any]] | None
    warnings: list[str]

    def to_dict(self) -> dict[str, Any]:
        """Plain data with sorted keys, shares rounded to six decimals."""
        data = {name: getattr(self, name) for name in sorted(self.__dataclass_fields__)}
        return {
            name: round(value, 6) if name in {"precision", "recall", "f1"} else value for name, value in data.items()
        }


def _miss_reason(i: int, kept: KeptGold, ledger: Ledger, in_pairs: bool, ranks: GoldRanks | None) -> str:
    if in_pairs:
        return BELOW_THRESHOLD
    dropped = [ledger.reason[s].get(ids[i]) for s, ids in (("source", kept.source), ("target", kept.target))]
    for side, reason in zip(("source", "target"), dropped, strict=True):
        if reason is not None and reason not in PAIR_REASONS:
            return f"{side}_{reason}"
    if ranks is None:
        return NOT_IN_PAIRS
    if not ranks.listed[i]:
        return NOT_NEIGHBOURS
    # Both rows lost their own best pair to the run's threshold, and this one scores no higher than those.
    return BELOW_THRESHOLD if dropped == [BELOW_THRESHOLD, BELOW_THRESHOLD] else NOT_SELECTED


def _missed(
    kept: KeptGold, ledger: Ledger, in_pairs: np.ndarray, found: np.ndarray, ranks: GoldRanks | None
) -> dict[str, dict[str, Any]]:
    report: dict[str, dict[str, Any]] = {}
    for i in np.flatnonzero(~found).tolist():
        reason = _miss_reason(i, kept, ledger, bool(in_pairs[i]), ranks)
        entry = report.setdefault(reason, {"count": 0, "examples": []})
        entry["count"] += 1
        if len(entry["examples"]) < EXAMPLES:
            entry["examples"].append(list(kept.example[i]))
    return dict(sorted(report.items()))


def _domains(kept: KeptGold, found: np.ndarray) -> dict[str, dict[str, Any]] | None:
    if kept.domain is None:
        return None
    totals: dict[str, list[int]] = {}
    for hit, names in zip(found.tolist(), kept.domain, strict=True):
        for name in names:
            count = totals.setdefault(name, [0, 0])
            count[0] += 1
            count[1] += hit
    return {
        name: {"correct": hits, "gold": total, "recall": round(hits / total, 6)}
        for name, (total, hits) in sorted(totals.items())
    }


def _seen(gold: Gold, ledger: Ledger, scored: ScoredPairs, ranks: GoldRanks | None) -> dict[str, list[bool]]:
    """For each distinct gold id of a side: does it occur in pairs, candidates or the drop ledger?"""
    seen = {}
    for side, ids, mined in (("source", gold.source, scored.source_ids), ("target", gold.target, scored.target_ids)):
        distinct = list(dict.fromkeys(ids))
        kept = pa.array([ledger.resolve(side, i) for i in distinct], pa.large_string())
        mined_mask = positions(kept, mined) >= 0
        listed = getattr(ranks, f"seen_{side}") if ranks is not None else set()
        seen[side] = [
            bool(here) or k in listed or i in ledger.kept[side] or i in ledger.reason[side]
            for i, k, here in zip(distinct, kept.to_pylist(), mined_mask, strict=True)
        ]
    return seen


def _coverage(gold: Gold, ledger: Ledger, scored: ScoredPairs, ranks: GoldRanks | None) -> list[str]:
    """Warn when most gold ids are unknown to the run; raises InputError when all ids of a side are."""
    if not scored.rows:
        return ["the file of pairs holds no pairs: nothing was extracted"]
    seen = _seen(gold, ledger, scored, ranks)
    mend = "give the gold file of this corpus and check that ids, not line numbers, stand in both"
    for side, ids, mined in (("source", gold.source, scored.target_ids), ("target", gold.target, scored.source_ids)):
        if ids and not any(seen[side]):
            swapped = bool((positions(pa.array(ids, pa.large_string()), mined) >= 0).any())
            raise InputError(
                f"{gold.path}: none of the {len(seen[side])} {side} ids occurs in the mined pairs, for example "
                f"'{ids[0]}' (line {gold.line[0]}): "
                + ("exchange its two columns, they are the other way round" if swapped else mend)
            )
    total = len(seen["source"]) + len(seen["target"])
    unseen = total - sum(seen["source"]) - sum(seen["target"])
    if 2 * unseen <= total:
        return []
    return [
        f"{gold.path}: {unseen} of {total} gold ids ({unseen / total:.1%}) occur neither in the pairs nor in "
        f"candidates or dropped rows: wrong gold, or a wrong id column? {mend[0].upper()}{mend[1:]}"
    ]


def evaluate_pairs(
    pairs: pa.Table,
    gold: Gold,
    dropped: TableSource | None = None,
    candidates: TableSource | None = None,
    threshold: float | Literal["tune"] | None = None,
    known_source: KnownIds | None = None,
    known_target: KnownIds | None = None,
) -> BuccResult:
    """Compare mined pairs with gold.

    `pairs` has the columns score, source_id, target_id (others are ignored), one-to-one or not; `dropped` and
    `candidates` are tables of a run or paths of their Parquet files. `threshold` None extracts all pairs, a number
    those with ``score >= threshold``, "tune" the best for F1 (`best_threshold`). With `known_source` and
    `known_target`, the ids of the corpora, gold ids outside them raise InputError; without them the ids met in the
    tables are compared instead.

    >>> table = pa.table({"score": [1.2, 0.9], "source_id": ["s1", "s2"], "target_id": ["t1", "t9"]})
    >>> evaluate_pairs(table, Gold.from_pairs([("s1", "t1"), ("s2", "t2")]), threshold="tune").threshold
    1.05
    """
    check_known(gold, known_source, known_target)
    ledger = read_ledger(dropped, gold.source, gold.target)
    kept = keep_gold(gold, ledger)
    scored = score_pairs(pairs, kept)
    ranks = gold_ranks(candidates, kept.source, kept.target) if candidates is not None else None
    covered_by_corpus = known_source is not None and known_target is not None
    warnings = [] if covered_by_corpus else _coverage(gold, ledger, scored, ranks)
    limit = threshold if threshold != "tune" else best_threshold(scored.score, scored.gold >= 0, len(kept)).threshold
    return _result(gold, kept, ledger, scored, ranks, limit, threshold, warnings)


def _result(
    gold: Gold,
    kept: KeptGold,
    ledger: Ledger,
    scored: ScoredPairs,
    ranks: GoldRanks | None,
    limit: float | None,
    threshold: float | str | None,
    warnings: list[str],
) -> BuccResult:
    is_gold = scored.gold >= 0
    extracted = np.ones(len(scored.score), dtype=bool) if limit is None else scored.score >= limit
    in_pairs, found = np.zeros(len(kept), dtype=bool), np.zeros(len(kept), dtype=bool)
    in_pairs[scored.gold[is_gold]] = True
    found[scored.gold[is_gold & extracted]] = True
    missed = _missed(kept, ledger, in_pairs, found, ranks)
    counts = {
        "correct": int(found.sum()),
        "extracted": int(extracted.sum()),
        "gold": len(gold),
        "gold_kept": len(kept),
        "gold_repeated": gold.repeated,
        "gold_rows": gold.rows,
        "pairs": len(scored.score),
        "rows": scored.rows,
        "unreachable": sum(entry["count"] for reason, entry in missed.items() if reason not in REACHABLE),
    }
    precision, recall, f1 = precision_recall_f1(counts["extracted"], counts["correct"], len(kept))
    return BuccResult(
        precision=precision,
        recall=recall,
        f1=f1,
        threshold=limit,
        threshold_from="none" if threshold is None else "tuned" if threshold == "tune" else "given",
        counts=counts,
        missed=missed,
        recall_at=ranks.recall_at() if ranks is not None else None,
        domains=_domains(kept, found),
        warnings=warnings if in_pairs.any() or not scored.rows else [*warnings, "no mined pair is a gold pair"],
    )
