"""F1 of every margin and strategy on a BUCC task, as a Markdown table, with recall by gold domain
for the best.

    python benchmarks/bucc.py --model model-en-de --output runs/bucc-de-en

reads ``$BITEXT_DATA/bucc/de-en.training.*`` (default ``../shared/data``). All twelve runs share one
folder, so that everything up to the search is done once.
"""

from __future__ import annotations

import argparse
import itertools
import os
from pathlib import Path

from mining.config.base import validate
from mining.config.mine import MineConfig
from mining.evaluation import cross_validate, read_gold
from mining.io.parquet import read_parquet
from mining.margins import MARGINS
from mining.matching import STRATEGIES
from pipelines.mine import MineResult, run_mine


def run(arguments: argparse.Namespace, margin: str, strategy: str) -> MineResult:
    """Mine with one margin and strategy, the threshold tuned on the gold."""
    other, english = arguments.task.split("-")
    data = Path(os.environ.get("BITEXT_DATA", "../shared/data"), "bucc")
    stem = f"{arguments.task}.{arguments.split}"
    columns = ["id", "text"]
    settings = {
        "source": {"path": str(data / f"{stem}.{other}"), "columns": columns},
        "target": {"path": str(data / f"{stem}.{english}"), "columns": columns},
        "gold": str(data / f"{stem}.gold-domains"),
        "model": arguments.model,
        "output": arguments.output,
        "margin": margin,
        "strategy": strategy,
    }
    return run_mine(validate(MineConfig, settings, "benchmark"), quiet=True)


def held_out_f1(result: MineResult, gold: Path) -> float:
    """Mean F1 of five held-out folds of the gold, each with the threshold tuned on the other
    four."""
    pairs = read_parquet(result.folder / "work/emit/matched.parquet", ["score", "source_id", "target_id"])
    return cross_validate(pairs, read_gold(gold), result.folder / "dropped.parquet", 5).f1


def main() -> None:
    """Run all twelve and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--output", default="runs/bucc")
    parser.add_argument("--task", default="de-en")
    parser.add_argument("--split", default="training")
    arguments = parser.parse_args()
    gold = Path(
        os.environ.get("BITEXT_DATA", "../shared/data"), "bucc", f"{arguments.task}.{arguments.split}.gold-domains"
    )
    print("| margin | strategy | precision | recall | F1 | threshold | F1, five held-out folds |")
    print("|---|---|--:|--:|--:|--:|--:|")
    results = []
    for margin, strategy in itertools.product(MARGINS, STRATEGIES):
        result = run(arguments, margin, strategy)
        bucc = result.metrics["bucc"]
        results.append((bucc["f1"], margin, strategy, bucc))
        shares = " | ".join(f"{100 * bucc[name]:.2f}" for name in ("precision", "recall", "f1"))
        folds = 100 * held_out_f1(result, gold)
        print(f"| {margin} | {strategy} | {shares} | {result.threshold:.4f} | {folds:.2f} |", flush=True)
    _, margin, strategy, bucc = max(results, key=lambda entry: entry[0])
    print(f"\nRecall by gold domain, {margin} and {strategy}:\n\n| domain | found | gold | recall |\n|---|--:|--:|--:|")
    for domain, entry in bucc["domains"].items():
        print(f"| {domain} | {entry['correct']} | {entry['gold']} | {100 * entry['recall']:.1f} |")
    for direction in ("forward", "backward", "union"):
        print(f"\nrecall@1..k {direction}: {', '.join(f'{100 * share:.2f}' for share in bucc['recall_at'][direction])}")
    missed = {reason: entry["count"] for reason, entry in bucc["missed"].items()}
    print(f"\nmissed: {missed}")


if __name__ == "__main__":
    main()
