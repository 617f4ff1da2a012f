"""``bitext evaluate bucc``: mined pairs against gold."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from mining.errors import UsageError
from pipelines.cli.evaluate.encoders import Json
from pipelines.cli.evaluate.output import limit_text, refuse_inputs, share, show_table, write_json
from pipelines.cli.say import say, warn

if TYPE_CHECKING:
    import pyarrow as pa

    from mining.evaluation import BuccResult, CrossValidation

BUCC_HELP = """Precision, recall and F1 of mined pairs against gold, and why gold pairs were missed.

The threshold is tuned for the best F1 unless `--threshold` gives it. `dropped.parquet` and `candidates.parquet` beside
the pairs are used when they exist: the first maps gold ids of repeated sentences to the one that was kept, the second
gives recall@k and tells pairs that were never neighbours from those that were not selected.

Examples:

    bitext evaluate bucc --pairs run --gold de-en.training.gold

    bitext evaluate bucc --pairs train --gold train.gold --test-pairs test --test-gold test.gold

    bitext evaluate bucc --pairs run --gold de-en.training.gold-domains --folds 5 --json metrics.json

    bitext evaluate bucc --pairs run --gold de-en.training.gold --source de-en.training.de --target de-en.training.en
    --format tsv --columns id,text
"""


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


def _parse_threshold(text: str) -> float | Literal["tune"] | None:
    if text == "tune":
        return "tune"
    if text == "none":
        return None
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise UsageError(f"--threshold {text}: give a number, 'tune' (best F1) or 'none' (all pairs)")
    return value


def _known_ids(path: str | None, side: str, corpus: dict[str, Any]) -> Callable[[list[str]], list[bool]] | None:
    """A function that reads a corpus once and says which of some ids it holds; memory is that of
    the ids asked for."""
    if path is None:
        return None
    from mining.config.base import validate
    from mining.corpus import CorpusSpec, read_rows

    spec = validate(CorpusSpec, {"path": path, **corpus}, f"--{side} {path}")

    def known(ids: list[str]) -> list[bool]:
        wanted = set(ids)
        missing = set(ids)
        for row in read_rows(spec):
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


def _check_flags(test_pairs: Path | None, test_gold: Path | None, folds: int | None, threshold: str) -> None:
    if (test_pairs is None) != (test_gold is None):
        raise UsageError("--test-pairs and --test-gold belong together: give both")
    if folds is not None and folds < 2:
        raise UsageError(f"--folds {folds}: give at least 2")
    if folds is not None and (test_pairs is not None or threshold != "tune"):
        raise UsageError("--folds tunes the threshold by itself: leave out --threshold, --test-pairs and --test-gold")


def bucc(
    pairs: Annotated[Path, typer.Option(help="The run folder (all pairs it matched), or a file of pairs.")],
    gold: Annotated[Path, typer.Option(help="Lines of source id, tab, target id; a third column is a domain.")],
    threshold: Annotated[str, typer.Option(help="A number, 'tune' for the best F1, or 'none' for all pairs.")] = "tune",
    dropped: Annotated[Path | None, typer.Option(help="Drop ledger; default: the one beside the pairs.")] = None,
    candidates: Annotated[Path | None, typer.Option(help="Candidates; default: those beside the pairs.")] = None,
    test_pairs: Annotated[Path | None, typer.Option(help="Pairs of a second split; same threshold.")] = None,
    test_gold: Annotated[Path | None, typer.Option(help="Gold pairs of the second split.")] = None,
    source: Annotated[str | None, typer.Option(help="Source corpus: must hold the gold's source ids.")] = None,
    target: Annotated[str | None, typer.Option(help="Target corpus: must hold the gold's target ids.")] = None,
    format: Annotated[str, typer.Option(help="Format of the corpora.")] = "auto",
    columns: Annotated[str | None, typer.Option(help="Columns of TSV corpora, for example id,text.")] = None,
    id: Annotated[str | None, typer.Option(help="Name of the id column of the corpora.")] = None,
    text: Annotated[str | None, typer.Option(help="Name of the text column of the corpora.")] = None,
    folds: Annotated[int | None, typer.Option(help="Cross-validate the threshold over this many folds.")] = None,
    json_: Json = None,
) -> None:
    _check_flags(test_pairs, test_gold, folds, threshold)
    limit = _parse_threshold(threshold)
    split = Split.find(pairs, gold, dropped, candidates)
    test = Split.find(test_pairs, test_gold) if test_pairs is not None and test_gold is not None else None
    if source is None and target is None and (format != "auto" or columns or id or text):
        raise UsageError("--format, --columns, --id and --text are of corpora: give --source or --target too")
    files = [path for one in (split, test) if one is not None for path in vars(one).values()]
    refuse_inputs(json_, *files, source, target)
    given = {"format": format, "columns": columns.split(",") if columns else None, "id": id, "text": text}
    # Only ids matter here, so rows with faulty texts are no obstacle.
    corpus = {"invalid_utf8": "skip", "on_bad_row": "skip", **{k: v for k, v in given.items() if v is not None}}
    known = _known_ids(source, "source", corpus), _known_ids(target, "target", corpus)
    _run(split, test, limit, folds, known, json_)


def _run(
    split: Split,
    test: Split | None,
    limit: float | Literal["tune"] | None,
    folds: int | None,
    known: Any,
    out: Path | None,
) -> None:
    from mining.evaluation import cross_validate, evaluate_pairs, read_gold

    gold, table = read_gold(split.gold), _load_pairs(split.pairs)
    result = evaluate_pairs(table, gold, split.dropped, split.candidates, limit, *known)
    report = result.to_dict()
    _show_result("tuning split" if test else "pairs", result)
    closing = f"F1 {share(result.f1)} at threshold {limit_text(result.threshold)} ({result.threshold_from})"
    if folds is not None:
        validation = cross_validate(table, gold, split.dropped, folds)
        _show_folds(validation)
        report["cross_validation"] = validation.to_dict()
        closing = f"F1 {share(validation.f1)} (mean of {folds} held-out folds); on all gold: {closing}"
    if test is not None:
        if limit == "tune" and result.threshold is None:
            raise UsageError(f"{split.pairs}: holds no pairs to tune the threshold on: give --threshold")
        tested = evaluate_pairs(
            _load_pairs(test.pairs), read_gold(test.gold), test.dropped, test.candidates, result.threshold
        )
        _show_result("test split", tested)
        report["test"] = tested.to_dict()
        closing = (
            f"test F1 {share(tested.f1)} at threshold {limit_text(result.threshold)} ({result.threshold_from}); "
            f"tuning split: F1 {share(result.f1)}"
        )
    if out is not None:
        write_json(out, report)
        closing += f"; metrics in {out}"
    say(closing)
