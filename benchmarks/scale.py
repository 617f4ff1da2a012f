"""How the cost of each stage of a mining job grows as the corpora double.

    python benchmarks/scale.py --work runs/scale

mines corpora of distinct real sentences, from 25 thousand a side to a million, each in a process of
its own, with the bundled model; prints wall and CPU seconds, peak memory and
disk of every stage at each size, and the exponent by which they grow (the slope of the logarithms,
least squares over all sizes and over the last three).
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from corpora import write_corpora
from jobs import Job, Stage, best_f1, machine, mine

SIZES = (25_000, 50_000, 100_000, 200_000, 400_000, 800_000, 1_000_000)
#: Stages that together are what a reader thinks of as one thing.
SEARCH = ("clusters", "assign", "join", "train_index", "index", "search", "merge")
Cost = Callable[[Stage], float]


def exponent(sizes: Sequence[int], values: Sequence[float]) -> float:
    """The slope of ``log(value)`` over ``log(size)``; not a number where a value is zero."""
    if min(values) <= 0 or len(sizes) < 2:
        return float("nan")
    return float(np.polyfit(np.log(sizes), np.log(values), 1)[0])


def _names(jobs: Sequence[Job]) -> list[str]:
    """Every stage of any job, in the order in which they are done."""
    names: list[str] = []
    for job in jobs:
        names += [stage.name for stage in job.stages if stage.name not in names]
    return names


def _value(job: Job, names: Sequence[str], cost: Cost, join: Callable[[list[float]], float]) -> float:
    return join([cost(stage) for stage in job.stages if stage.name in names] or [0.0])


def table(sizes: Sequence[int], jobs: Sequence[Job], what: str, cost: Cost, *, peak: bool, decimals: int = 1) -> None:
    """Print one kind of cost: a row a stage, a column a size, and the two exponents."""
    join = max if peak else sum
    print(f"\n{what}\n\n| stage | {' | '.join(f'{size:,}' for size in sizes)} | growth | last three |")
    print(f"|---|{'--:|' * (len(sizes) + 2)}")
    rows = [(name, (name,)) for name in _names(jobs)]
    rows += [("**all of search**", SEARCH), ("**whole job**", tuple(_names(jobs)))]
    for name, members in rows:
        values = [_value(job, members, cost, join) for job in jobs]
        cells = " | ".join(f"{value:,.{decimals}f}" for value in values)
        growth = exponent(sizes, values), exponent(sizes[-3:], values[-3:])
        print(f"| {name} | {cells} | {growth[0]:.2f} | {growth[1]:.2f} |")


def _median(jobs: Sequence[Job]) -> Job:
    return sorted(jobs, key=lambda job: job.seconds)[len(jobs) // 2]


def main() -> None:
    """Mine at each size and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, default=Path("runs/scale"), help="folder of corpora and runs")
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    parser.add_argument("--repeats", type=int, default=1, help="the job of the median time counts")
    parser.add_argument("options", nargs="*", help="further options of `bitext mine`, after --")
    arguments = parser.parse_args()
    print(machine(), flush=True)
    jobs = []
    for size in arguments.sizes:
        corpora = write_corpora(arguments.work / "corpora", size)
        runs = [mine(corpora, arguments.work / "run", arguments.options) for _ in range(arguments.repeats)]
        jobs.append(_median(runs))
        quality = best_f1(runs[-1], corpora)
        spread = f" (median of {len(runs)}: {statistics.median(run.seconds for run in runs):.1f})"
        print(
            f"{size:,} a side: {jobs[-1].seconds:.1f} s{spread if len(runs) > 1 else ''}, "
            f"F1 {100 * quality.f1:.2f}, peak {jobs[-1].memory / 2**20:,.0f} MiB",
            flush=True,
        )
    sizes = arguments.sizes
    table(sizes, jobs, "Wall seconds", lambda stage: stage.seconds, peak=False)
    table(sizes, jobs, "CPU seconds", lambda stage: stage.cpu, peak=False)
    table(sizes, jobs, "Peak memory, MiB", lambda stage: stage.memory / 2**20, peak=True, decimals=0)
    table(sizes, jobs, "Disk written, MiB", lambda stage: stage.disk / 2**20, peak=False)


if __name__ == "__main__":
    main()
