"""The whole job, text in, pairs out: the time, the share of each stage, and the same job written
plainly.

    python benchmarks/mine.py --work runs/mine

mines 400,000 against 400,000 distinct real sentences (English, and seven other languages) with the
model that ships with the package, each time in a process of its own and from nothing, and in turn
by `plain_mining.py`: sentencepiece, `embedding_bag`, a FAISS inverted file in each direction, a
loop over the candidates. Prints medians, the share of each stage, F1 against the known
translations, and the ratio of the two.
"""

from __future__ import annotations

import argparse
import statistics
import time
from pathlib import Path

from corpora import LANGUAGES, SOURCE, TARGET, gold_pairs, write_corpora
from jobs import Job, best_f1, machine, mine
from plain_mining import PlainMiner

from mining.evaluation.threshold import BestThreshold, best_threshold


def plain_f1(output: Path, corpora: Path) -> BestThreshold:
    """The best F1 of the plain job's pairs over all thresholds."""
    gold = gold_pairs(corpora)
    rows = [line.split("\t") for line in output.read_text(encoding="utf-8").rstrip("\n").split("\n")]
    return best_threshold([float(row[0]) for row in rows], [gold[row[1]] == row[2] for row in rows], len(gold))


def show_stages(jobs: list[Job]) -> None:
    """Median seconds and share of each stage."""
    whole = statistics.median(job.seconds for job in jobs)
    print(
        "\n| stage | seconds | share | CPU seconds | peak memory, MiB | disk written, MiB |\n|---|--:|--:|--:|--:|--:|"
    )
    for number, stage in enumerate(jobs[0].stages):
        seconds = statistics.median(job.stages[number].seconds for job in jobs)
        cpu = statistics.median(job.stages[number].cpu for job in jobs)
        print(
            f"| {stage.name} | {seconds:.2f} | {seconds / whole:.1%} | {cpu:.2f} | {stage.memory / 2**20:,.0f} "
            f"| {stage.disk / 2**20:,.1f} |"
        )


def main() -> None:
    """Run both in turn and print the comparison."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, default=Path("runs/mine"), help="folder of corpora and runs")
    parser.add_argument("--rows", type=int, default=400_000, help="sentences a side")
    parser.add_argument("--languages", default=",".join(LANGUAGES), help="of the other side")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--plain-repeats", type=int, default=1, help="0 leaves the plain job out")
    parser.add_argument("--factory", default="IVF1024,Flat", help="of the plain job's indexes")
    parser.add_argument("--probes", type=int, default=8)
    parser.add_argument("options", nargs="*", help="further options of `bitext mine`, after --")
    a = parser.parse_args()
    corpora = write_corpora(a.work / "corpora", a.rows, tuple(a.languages.split(",")))
    print(f"{machine()}\n{a.rows:,} x {a.rows:,} sentences, medians of {a.repeats} and {a.plain_repeats}", flush=True)
    jobs: list[Job] = []
    plain: list[float] = []
    output = a.work / "plain.tsv"
    for turn in range(max(a.repeats, a.plain_repeats)):
        if turn < a.repeats:
            jobs.append(mine(corpora, a.work / "run", a.options))
        if turn < a.plain_repeats:
            started = time.perf_counter()
            miner = PlainMiner(a.factory, a.probes)
            miner.mine(corpora / SOURCE, corpora / TARGET, output)
            plain.append(time.perf_counter() - started)
    show_stages(jobs)
    ours = statistics.median(job.seconds for job in jobs)
    print(
        f"\nbitext mine: {ours:.1f} s, peak memory {max(job.memory for job in jobs) / 2**20:,.0f} MiB, "
        f"best F1 {100 * best_f1(jobs[-1], corpora).f1:.2f}"
    )
    if plain:
        theirs = statistics.median(plain)
        steps = ", ".join(f"{name} {seconds:.1f}" for name, seconds in miner.seconds.items())
        print(f"plain: {theirs:.1f} s ({steps}), best F1 {100 * plain_f1(output, corpora).f1:.2f}")
        print(f"ratio {theirs / ours:.1f}")


if __name__ == "__main__":
    main()
