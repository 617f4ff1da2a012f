"""Precision, recall and F1 that an encoder reaches on a mining task, in memory and by the kernels
of `mining.mine`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from mining.api import Searched, Sentences, Side, Texts, match_texts, search_texts
from mining.checks import check_count, check_names
from mining.config.corpus import CorpusSpec
from mining.config.evaluate import FOLDS, MARGINS
from mining.config.mine import STRATEGY
from mining.config.search import K
from mining.corpus import read_rows
from mining.errors import InputError
from mining.evaluation.bucc import BuccResult, evaluate_pairs
from mining.evaluation.gold import Gold, read_gold
from mining.evaluation.threshold import CrossValidation, cross_validate
from mining.schemas import Reason
from mining.search.memory import search_settings

if TYPE_CHECKING:
    from mining.encoder import Encoder

_LEDGER = pa.schema([("side", pa.string()), ("id", pa.string()), ("reason", pa.string()), ("kept_id", pa.string())])


@dataclass(frozen=True)
class MarginResult:
    """Outcome for one margin: `tuned` with the threshold of the best F1 on all gold pairs,
    `held_out` by folds.

    `held_out` is None when no folds were asked for.
    """

    tuned: BuccResult
    held_out: CrossValidation | None

    @property
    def f1(self) -> float:
        """F1 with the threshold tuned on all gold pairs, between 0 and 1."""
        return self.tuned.f1

    def to_dict(self) -> dict[str, object]:
        """Plain data with sorted keys, shares between 0 and 1 with six decimals."""
        report = self.tuned.to_dict()
        report["cross_validation"] = self.held_out.to_dict() if self.held_out is not None else None
        return dict(sorted(report.items()))


@dataclass(frozen=True)
class MiningTask:
    """Two piles of sentences, and the gold pairs of their ids; "" stands for a text that cannot be
    used.

    Without ids the gold names the sentences by their positions ("0", "1", …).
    """

    source: Texts
    target: Texts
    gold: Gold
    source_ids: Texts | None = None
    target_ids: Texts | None = None


def _read_side(spec: CorpusSpec) -> dict[str, str]:
    """The texts of a corpus by their ids."""
    texts: dict[str, str] = {}
    for row in read_rows(spec):
        if row.id in texts:
            raise InputError(f"{row.file}, line {row.line}: the id '{row.id}' stands twice: give every row its own")
        texts[row.id] = row.texts[0] if row.reason in (None, Reason.BLANK) else ""
    if not texts:
        raise InputError(f"{', '.join(spec.paths)}: holds no sentences")
    return texts


def read_mining_task(source: CorpusSpec, target: CorpusSpec, gold: str | Path) -> MiningTask:
    """Read both sides and the gold whole; raises InputError for faulty content and an id that
    stands twice."""
    left, right = _read_side(source), _read_side(target)
    return MiningTask(list(left.values()), list(right.values()), read_gold(gold), list(left), list(right))


def _ledger_rows(name: str, side: Side) -> list[tuple[str, str, str, str | None]]:
    kept = side.rows.ids.to_pylist()
    rows: list[tuple[str, str, str, str | None]] = []
    for row_id, row in zip(side.ids, side.row.tolist(), strict=True):
        if row < 0:
            rows.append((name, row_id, Reason.BLANK, None))
        elif kept[row] != row_id:
            rows.append((name, row_id, Reason.DUPLICATE, kept[row]))
        elif not side.valid[row]:
            rows.append((name, row_id, Reason.NO_PIECES, None))
    return rows


def drop_ledger(searched: Searched) -> pa.Table:
    """The rows that were not searched, with the columns of ``dropped.parquet`` that evaluation
    reads."""
    rows = [*_ledger_rows("source", searched.source), *_ledger_rows("target", searched.target)]
    return pa.Table.from_pylist([dict(zip(_LEDGER.names, row, strict=True)) for row in rows], schema=_LEDGER)


def evaluate_mining(
    task: MiningTask,
    encoder: Encoder,
    margins: Sequence[str] = MARGINS,
    strategy: str = STRATEGY,
    k: int = K,
    folds: int | None = FOLDS,
    *,
    target_encoder: Encoder | None = None,
    threads: int = 0,
    **search: object,
) -> dict[str, MarginResult]:
    """Mine a task and compare with its gold, for each of `margins`; texts are encoded and searched
    once.

    The threshold is tuned on all gold pairs and, with `folds`, held out fold by fold. The other
    arguments and the pairs are those of `mining.mine`, the figures those of ``bitext mine --gold``.
    Raises InputError for gold ids
    that are not among the ids, UsageError when k exceeds a side or folds the gold, and ValueError
    for an unknown margin or strategy.

    >>> from mining import Gold, MiningTask, evaluate_mining, load_encoder
    >>> english, german = ["I like tea.", "It is cold."], ["Es ist kalt.", "Ich mag Tee."]
    >>> task = MiningTask(english, german, Gold.from_pairs([("0", "1"), ("1", "0")]))
    >>> evaluate_mining(task, load_encoder(), k=1, folds=None)["ratio"].f1
    1.0
    """
    for margin in margins:
        check_names(margin, strategy)
    source = Sentences(task.source, encoder, task.source_ids)
    target = Sentences(task.target, target_encoder or encoder, task.target_ids)
    searched = search_texts(source, target, search_settings(k=check_count("k", k), **search), threads)
    dropped, known = drop_ledger(searched), (frozenset(searched.source.ids), frozenset(searched.target.ids))
    results = {}
    for margin in margins:
        pairs = match_texts(searched, margin, strategy, threads=threads)
        tuned = evaluate_pairs(pairs, task.gold, dropped, None, "tune", *known)
        held_out = cross_validate(pairs, task.gold, dropped, folds) if folds is not None else None
        results[margin] = MarginResult(tuned, held_out)
    return results
