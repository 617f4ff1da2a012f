"""``bitext score``: cosine and margin of given pairs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mining.errors import UsageError
from pipelines.cli.commands import COMMANDS
from pipelines.cli.options import Call, command
from pipelines.cli.say import say, warn

if TYPE_CHECKING:
    from mining.config.score import ScoreConfig
    from mining.scoring import PairScorer


@COMMANDS.register("score")
@command(
    "mining.config.score:ScoreConfig",
    "score pairs.tsv --columns source,target -o scores.tsv",
    "score --model model pairs.tsv --columns source,target -o scores.tsv",
    "score -m model corpus.de corpus.en --format text -o scores.parquet",
    "score -m model pairs.jsonl -o scores.jsonl --source-pool de.txt.xz --target-pool en.npy --k 4",
)
def score(settings: ScoreConfig, call: Call) -> None:
    """Add cosine, and with pools the margin, to a file of aligned pairs.

    Every row of the input gives one row, in order, with its texts as they were. A row that cannot
    be scored (a blank side, a text too long) has empty scores and a reason.
    """
    from mining.io.atomic import refuse_input
    from mining.scoring import score_file

    for key in ("k", "margin"):
        if key in call.flags and settings.source_pool is None:
            raise UsageError(
                f"--{key} is for the margin against pools: give --source-pool and --target-pool, or leave it out"
            )
    if call.config is not None:
        refuse_input(settings.output, [call.config])
    _report(score_file(settings), settings)


def _report(scorer: PairScorer, settings: ScoreConfig) -> None:
    from mining.scoring import SCORED

    for pool in scorer.pools or ():
        say(
            f"pool {pool.name}: {len(pool.vectors)} distinct sentences of {pool.rows} rows "
            f"({pool.repeated} repeated, {pool.unusable} unusable)",
            err=True,
        )
    if scorer.floored:
        warn(f"{scorer.floored} pairs are far from both pools; their ratio is set to 0")
    left_out = {reason: n for reason, n in sorted(scorer.tally.items()) if reason != SCORED}
    reasons = f" ({', '.join(f'{n} {reason}' for reason, n in left_out.items())})" if left_out else ""
    kind = f"cosine and {settings.margin} margin" if scorer.pools else "cosine"
    say(
        f"{scorer.tally[SCORED]} of {sum(scorer.tally.values())} pairs scored ({kind}), "
        f"{sum(left_out.values())} without a score{reasons}: {settings.output}"
    )
