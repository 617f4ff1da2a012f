"""``bitext evaluate bucc``: mined pairs against gold."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mining.errors import UsageError
from pipelines.cli.commands.evaluate import EVALUATIONS
from pipelines.cli.options import Call, command
from pipelines.cli.say import check_json, closing, limit_text, share, show_table, warn

if TYPE_CHECKING:
    import pyarrow as pa

    from mining.config.corpus import CorpusSpec
    from mining.config.evaluate import BuccConfig
    from mining.evaluation import BuccResult, CrossValidation

#: Where a run folder has all matched pairs, those below its threshold too: tuning needs them.
MATCHED = Path("work", "emit", "matched.parquet")


def _warn_of_cut(pairs: Path) -> None:
    """Say so when a file of pairs is the part of a run's pairs above its threshold."""
    try:
        cut = json.loads((pairs.parent / "metrics.json").read_text(encoding="utf-8"))["threshold"]
    except (OSError, ValueError, KeyError, TypeError):
        return
    if cut is not None:
        warn(
            f"{pairs} was cut at the run's threshold {cut}: a lower threshold, tuning and folds see only "
            "the pairs above it. Give the run folder to evaluate all matched pairs"
        )


@dataclass(frozen=True)
class Split:
    """The files of one split: a run's pairs, the gold and the tables beside them."""

    pairs: Path
    gold: Path
    dropped: Path | None
    candidates: Path | None

    @classmethod
    def find(cls, pairs: Path, gold: Path, dropped: Path | None = None, candidates: Path | None = None) -> Split:
        """Complete the paths: a run folder stands for all pairs that it matched, and tables beside
        are found."""
        beside_pairs = pairs if pairs.is_dir() else pairs.parent
        if pairs.is_dir():
            whole = pairs / MATCHED
            pairs = whole if whole.is_file() else pairs / "pairs.parquet"
        if pairs.parent == beside_pairs:
            _warn_of_cut(pairs)
        if not pairs.is_file():
            raise UsageError(f"{pairs}: no such file of pairs: give the pairs file of a run, or its folder")
        if not gold.is_file():
            raise UsageError(f"{gold}: no such gold file")
        found = []
        for given, name in ((dropped, "dropped"), (candidates, "candidates")):
            if given is not None and not given.is_file():
                raise UsageError(f"--{name} {given}: no such file")
            beside = beside_pairs / f"{name}.parquet"
            found.append(given if given is not None else beside if beside.is_file() else None)
        return cls(pairs, gold, *found)


def _load_pairs(path: Path) -> pa.Table:
    from mining.pairs import read_pairs_file

    return read_pairs_file(path, ["score", "source_id", "target_id"])


def _known_ids(corpus: CorpusSpec | None) -> Callable[[list[str]], list[bool]] | None:
    """A function that reads a corpus once and says which of some ids it holds; memory is that of
    the ids asked for."""
    if corpus is None:
        return None
    from mining.corpus import read_rows

    def known(ids: list[str]) -> list[bool]:
        wanted = set(ids)
        missing = set(ids)
        for row in read_rows(corpus):
            if row.id in wanted:
                missing.discard(row.id)
                if not missing:
                    break
        return [row_id not in missing for row_id in ids]

    return known


def _show_result(name: str, result: BuccResult) -> None:
    c = result.counts
    rows = [
        ["precision", share(result.precision), f"{c['correct']} of {c['extracted']} extracted pairs"],
        ["recall", share(result.recall), f"{c['correct']} of {c['gold_kept']} gold pairs"],
        ["F1", share(result.f1), f"threshold {limit_text(result.threshold)} ({result.threshold_from})"],
    ]
    if c["gold_kept"] != c["gold_rows"]:
        merged = c["gold"] - c["gold_kept"]
        rows.append(["gold", str(c["gold_rows"]), f"{c['gold_repeated']} repeated, {merged} equal but for duplicates"])
    if result.recall_at is not None:
        for side in ("forward", "backward", "union"):
            shares = ", ".join(f"@{k} {share(v)}" for k, v in enumerate(result.recall_at[side], start=1))
            rows.append([f"candidates, {side}", "", shares])
    show_table(name, ["", "value", "of"], rows)
    if result.missed:
        missed = [
            [reason, str(entry["count"]), "; ".join(" ".join(ids) for ids in entry["examples"][:2])]
            for reason, entry in result.missed.items()
        ]
        show_table(f"{name}: missed gold pairs", ["reason", "pairs", "examples"], missed)
    if result.domains is not None:
        domains = [
            [domain, share(entry["recall"]), f"{entry['correct']} of {entry['gold']}"]
            for domain, entry in result.domains.items()
        ]
        show_table(f"{name}: recall per gold domain", ["domain", "recall", "pairs"], domains)
    for warning in result.warnings:
        warn(warning)


def _show_folds(folds: CrossValidation) -> None:
    rows = [
        [str(i), share(fold.precision), share(fold.recall), share(fold.f1), limit_text(fold.threshold)]
        for i, fold in enumerate(folds.folds, start=1)
    ]
    rows.append(["mean", share(folds.precision), share(folds.recall), share(folds.f1), ""])
    show_table("held-out folds", ["fold", "precision", "recall", "F1", "threshold"], rows)


def _check_flags(settings: BuccConfig) -> None:
    if (settings.test_pairs is None) != (settings.test_gold is None):
        raise UsageError("--test-pairs and --test-gold belong together: give both")
    if settings.folds is not None and (settings.test_pairs is not None or settings.threshold != "tune"):
        raise UsageError("--folds tunes the threshold by itself: leave out --threshold, --test-pairs and --test-gold")


@EVALUATIONS.register("bucc")
@command(
    "mining.config.evaluate:BuccConfig",
    "evaluate bucc --pairs run --gold de-en.training.gold",
    "evaluate bucc --pairs train --gold train.gold --test-pairs test --test-gold test.gold",
    "evaluate bucc --pairs run --gold de-en.training.gold-domains --folds 5 --json metrics.json",
    "evaluate bucc --pairs run --gold de-en.training.gold --source de-en.training.de "
    "--target de-en.training.en --format tsv --columns id,text",
    file=None,
)
def bucc(settings: BuccConfig, call: Call) -> None:
    """Precision, recall and F1 of mined pairs against gold, and why pairs were missed.

    The threshold is tuned for the best F1 unless `--threshold` gives it. `dropped.parquet` and
    `candidates.parquet` beside the pairs are used when they exist: the first maps gold ids of
    repeated sentences to the one that was kept, the second gives recall@k and tells pairs that were
    never neighbours from those that were not selected.
    """
    from mining.evaluation import cross_validate, evaluate_pairs, read_gold

    _check_flags(settings)
    split = Split.find(settings.pairs, settings.gold, settings.dropped, settings.candidates)
    test = Split.find(settings.test_pairs, settings.test_gold) if settings.test_pairs and settings.test_gold else None
    corpora = settings.source, settings.target
    files = [path for one in (split, test) if one is not None for path in vars(one).values()]
    check_json(settings.json_file, *files, *(path for corpus in corpora if corpus for path in corpus.paths))
    gold, table = read_gold(split.gold), _load_pairs(split.pairs)
    limit = None if settings.threshold == "none" else settings.threshold
    result = evaluate_pairs(table, gold, split.dropped, split.candidates, limit, *map(_known_ids, corpora))
    report = result.to_dict()
    _show_result("tuning split" if test else "pairs", result)
    line = f"F1 {share(result.f1)} at threshold {limit_text(result.threshold)} ({result.threshold_from})"
    if settings.folds is not None:
        validation = cross_validate(table, gold, split.dropped, settings.folds)
        _show_folds(validation)
        report["cross_validation"] = validation.to_dict()
        line = f"F1 {share(validation.f1)} (mean of {settings.folds} held-out folds); on all gold: {line}"
    if test is not None:
        line = _test(test, split, result, tuned=limit == "tune", report=report)
    closing(line, settings.json_file, report)


def _test(test: Split, split: Split, result: BuccResult, *, tuned: bool, report: dict[str, Any]) -> str:
    """Measure the second split at the threshold of the first; the last line."""
    from mining.evaluation import evaluate_pairs, read_gold

    if tuned and result.threshold is None:
        raise UsageError(f"{split.pairs}: holds no pairs to tune the threshold on: give --threshold")
    pairs, gold = _load_pairs(test.pairs), read_gold(test.gold)
    tested = evaluate_pairs(pairs, gold, test.dropped, test.candidates, result.threshold)
    _show_result("test split", tested)
    report["test"] = tested.to_dict()
    return (
        f"test F1 {share(tested.f1)} at threshold {limit_text(result.threshold)} ({result.threshold_from}); "
        f"tuning split: F1 {share(result.f1)}"
    )
