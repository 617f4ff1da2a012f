"""Precision, recall and F1 of mined pairs against gold, in the manner of the BUCC shared task, and
why pairs are missed.

Like LASER's evaluation on the same candidates (the best score of a pair counts, F1 is maximised
over the ranked list), except where that one loses pairs: gold ids dropped as duplicates stand for
the id that was kept (there, repeated sentences are struck from the id map and their pairs cannot be
found), pairs of one score are accepted or rejected together (there, a tie may be cut in two and the
extraction differs from the reported F1), and the whole list may be the best (there, an index
error).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypedDict

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from mining.checks import check_threshold
from mining.errors import InputError
from mining.evaluation.gold import Gold, KeptGold, KnownIds, check_known, keep_gold
from mining.evaluation.tables import (
    SIDES,
    GoldRanks,
    IdIndex,
    Ledger,
    RecallAt,
    ScoredPairs,
    TableSource,
    gold_ranks,
    join_pairs,
    read_ledger,
)
from mining.evaluation.threshold import best_threshold, precision_recall_f1
from mining.schemas import Reason

EXAMPLES = 5
NOT_NEIGHBOURS = "not_neighbours"
NOT_SELECTED = "not_selected"
NOT_IN_PAIRS = "not_in_pairs"
#: These two reasons of the ledger concern a pair, not a row: the row was encoded and searched.
_PAIR_REASONS = pa.array([Reason.UNMATCHED, Reason.BELOW_THRESHOLD], pa.large_string())
#: Misses that another matching or threshold could have avoided (or for which nothing says that none
#: could).
REACHABLE = frozenset({Reason.BELOW_THRESHOLD, NOT_SELECTED, NOT_IN_PAIRS})


class Counts(TypedDict):
    """Numbers of pairs: `rows` of the table of mined pairs, `pairs` distinct ones, `extracted` and
    `correct` ones; `gold_rows` of the gold file, `gold` distinct and `gold_repeated` ones, and
    `gold_kept` after duplicate ids were merged; `unreachable` gold pairs, which no matching or
    threshold could have found."""

    correct: int
    extracted: int
    gold: int
    gold_kept: int
    gold_repeated: int
    gold_rows: int
    pairs: int
    rows: int
    unreachable: int


class Missed(TypedDict):
    """Gold pairs missed for one reason: their number, and up to `EXAMPLES` of them (ids as in the
    gold file)."""

    count: int
    examples: list[list[str]]


class DomainRecall(TypedDict):
    """Recall of the gold pairs of one domain."""

    correct: int
    gold: int
    recall: float


@dataclass(frozen=True)
class BuccResult:
    """Outcome of `evaluate_pairs`; `to_dict` is what ``metrics.json`` holds.

    `threshold` is None when every pair was extracted; `threshold_from` says ``tuned``, ``given`` or
    ``none``. `missed` has an entry for each reason why gold pairs were not extracted. `recall_at`
    and `domains` are None without candidates or domains.
    """

    precision: float
    recall: float
    f1: float
    threshold: float | None
    threshold_from: Literal["tuned", "given", "none"]
    counts: Counts
    missed: dict[str, Missed]
    recall_at: RecallAt | None
    domains: dict[str, DomainRecall] | None
    warnings: list[str]

    def to_dict(self) -> dict[str, object]:
        """Plain data with sorted keys, shares rounded to six decimals."""
        data: dict[str, object] = {name: getattr(self, name) for name in sorted(self.__dataclass_fields__)}
        return data | {name: round(getattr(self, name), 6) for name in ("f1", "precision", "recall")}


def _miss_reasons(
    missed: NDArray[np.int64], kept: KeptGold, ledger: Ledger, in_pairs: NDArray[np.bool_], ranks: GoldRanks | None
) -> pa.Array:
    """Why each of the gold pairs `missed` (m,) is missed."""
    ids = [ids.take(pa.array(missed)) for ids in (kept.source, kept.target)]
    dropped = [ledger.reasons(side, column) for side, column in zip(SIDES, ids, strict=True)]
    on_row = [pc.invert(pc.is_in(pc.fill_null(d, Reason.UNMATCHED), value_set=_PAIR_REASONS)) for d in dropped]
    if ranks is None:
        other = pa.scalar(NOT_IN_PAIRS)
    else:
        # Both rows lost their own best pair to the run's threshold, and this one scores no higher
        # than those.
        below = pc.and_(*(pc.fill_null(pc.equal(d, Reason.BELOW_THRESHOLD), False) for d in dropped))
        chosen = pc.if_else(below, Reason.BELOW_THRESHOLD, NOT_SELECTED)
        other = pc.if_else(pa.array(ranks.listed[missed]), chosen, NOT_NEIGHBOURS)
    for side, reason, row in reversed(list(zip(SIDES, dropped, on_row, strict=True))):
        named = pc.binary_join_element_wise(side, reason.cast(pa.string()), "_")
        other = pc.if_else(row, named, other)
    return pc.if_else(pa.array(in_pairs[missed]), Reason.BELOW_THRESHOLD, other)


def _missed(
    gold: Gold,
    kept: KeptGold,
    ledger: Ledger,
    in_pairs: NDArray[np.bool_],
    found: NDArray[np.bool_],
    ranks: GoldRanks | None,
) -> dict[str, Missed]:
    missed = np.flatnonzero(~found)
    reasons = _miss_reasons(missed, kept, ledger, in_pairs, ranks).dictionary_encode()
    codes = reasons.indices.to_numpy(zero_copy_only=False)
    report: dict[str, Missed] = {}
    for code, reason in enumerate(reasons.dictionary.to_pylist()):
        entries = kept.first[missed[codes == code]]
        examples = [[gold.source[i], gold.target[i]] for i in entries[:EXAMPLES].tolist()]
        report[reason] = {"count": len(entries), "examples": examples}
    return dict(sorted(report.items()))


def _domains(gold: Gold, kept: KeptGold, found: NDArray[np.bool_]) -> dict[str, DomainRecall] | None:
    """Recall of each domain; a pair that stands in several counts in each of them."""
    if gold.domain is None:
        return None
    names = IdIndex(gold.domain)
    distinct = np.unique(kept.number * len(names) + names.codes)
    totals = np.bincount(distinct % len(names), minlength=len(names)).tolist()
    hits = np.bincount(distinct % len(names), weights=found[distinct // len(names)], minlength=len(names)).tolist()
    report: dict[str, DomainRecall] = {
        name: {"correct": int(hit), "gold": total, "recall": round(int(hit) / total, 6)}
        for name, total, hit in zip(names.ids.to_pylist(), totals, hits, strict=True)
    }
    return dict(sorted(report.items()))


def _seen(
    gold: Gold, kept: KeptGold, ledger: Ledger, scored: ScoredPairs, ranks: GoldRanks | None
) -> dict[str, NDArray[np.bool_]]:
    """For each distinct gold id of a side, (n,) bool: does it occur in pairs, candidates or the
    drop ledger?"""
    seen = {}
    for side, mined in (("source", scored.source_ids), ("target", scored.target_ids)):
        distinct = getattr(gold, f"{side}_index").ids
        resolved = ledger.resolve(side, distinct)
        mask = mined.find(resolved) >= 0
        if ranks is not None:
            mask |= getattr(ranks, f"seen_{side}")[getattr(kept.index, side).find(resolved)]
        left = np.flatnonzero(~mask)
        mask[left] = ledger.holds(side, distinct.take(pa.array(left)))
        seen[side] = mask
    return seen


def _fits_exchanged(gold: Gold, dropped: TableSource | None, scored: ScoredPairs) -> bool:
    """Whether the run knows most ids of each column on the other side."""
    other = Gold.from_pairs(zip(gold.target, gold.source, strict=True))
    ledger = read_ledger(dropped, other.source_index, other.target_index)
    seen = _seen(other, keep_gold(other, ledger), ledger, scored, None)
    return all(2 * int(mask.sum()) > len(mask) for mask in seen.values())


def _coverage(
    gold: Gold,
    kept: KeptGold,
    ledger: Ledger,
    scored: ScoredPairs,
    ranks: GoldRanks | None,
    dropped: TableSource | None,
) -> list[str]:
    """Warn when most gold ids are unknown to the run; raises InputError when all ids of a side
    are."""
    if not scored.rows:
        return ["the file of pairs holds no pairs: nothing was extracted"]
    seen = _seen(gold, kept, ledger, scored, ranks)
    mend = "give the gold file of this corpus and check that ids, not line numbers, stand in both"
    for side, ids in (("source", gold.source), ("target", gold.target)):
        if ids and not seen[side].any():
            swapped = _fits_exchanged(gold, dropped, scored)
            raise InputError(
                f"{gold.path}: none of the {len(seen[side])} {side} ids occurs in the mined pairs, for example "
                f"'{ids[0]}' (line {gold.line[0]}): "
                + ("exchange its two columns, they are the other way round" if swapped else mend)
            )
    total = len(seen["source"]) + len(seen["target"])
    unseen = total - int(seen["source"].sum()) - int(seen["target"].sum())
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

    `pairs` has the columns score, source_id, target_id (others are ignored), one-to-one or not;
    `dropped` and `candidates` are tables of a run or paths of their Parquet files. `threshold` None
    extracts all pairs, a number those with ``score >= threshold``, "tune" the best for F1
    (`best_threshold`). With `known_source` and `known_target`, the ids of the corpora, gold ids
    outside them raise InputError; without them the ids met in the tables are compared instead.
    Raises ValueError for a threshold that is not finite.

    >>> import pyarrow as pa
    >>> from mining.evaluation import Gold, evaluate_pairs
    >>> columns = {"score": [1.2, 0.9], "source_id": ["s1", "s2"], "target_id": ["t1", "t9"]}
    >>> gold = Gold.from_pairs([("s1", "t1"), ("s2", "t2")])
    >>> result = evaluate_pairs(pa.table(columns), gold, threshold="tune")
    >>> result.threshold, result.precision, result.recall
    (1.05, 1.0, 0.5)
    """
    if threshold != "tune":
        check_threshold(threshold)
    check_known(gold, known_source, known_target)
    ledger = read_ledger(dropped, gold.source_index, gold.target_index)
    kept = keep_gold(gold, ledger)
    scored = join_pairs(pairs, kept.index)
    ranks = gold_ranks(candidates, kept.index) if candidates is not None else None
    covered_by_corpus = known_source is not None and known_target is not None
    warnings = [] if covered_by_corpus else _coverage(gold, kept, ledger, scored, ranks, dropped)
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
    missed = _missed(gold, kept, ledger, in_pairs, found, ranks)
    counts: Counts = {
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
        domains=_domains(gold, kept, found),
        warnings=warnings if in_pairs.any() or not scored.rows else [*warnings, "no mined pair is a gold pair"],
    )
