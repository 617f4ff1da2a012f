"""What a run gives its user: the pairs at or above the threshold, the ledger of all other rows, and
``metrics.json``.

``gold`` checks early that the gold standard belongs to the corpora, ``threshold`` tunes on it,
``output`` writes pairs and ledger, and ``metrics`` counts and compares with gold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from mining.errors import InputError
from mining.evaluation import evaluate_pairs
from mining.evaluation.gold import Gold, check_known, read_gold
from mining.evaluation.tables import IdIndex
from mining.io.files import new_digest
from mining.io.json_file import write_json
from mining.io.parquet import read_parquet, write_parquet
from mining.io.tsv import tsv_writer
from mining.schemas import DROPPED_SCHEMA, PAIRS_SCHEMA
from pipelines.engine import Context
from pipelines.records import Artefact, Listing, Sides
from pipelines.steps import Outputs, stage
from pipelines.transforms.corpus import ReadSide
from pipelines.transforms.duplicates import Corpus
from pipelines.transforms.encode import EncodedSide
from pipelines.transforms.ledger import DroppedInputs, LedgerLists, ledger_blocks, write_dropped
from pipelines.transforms.neighbours import SearchedSide
from pipelines.transforms.pairs import Emitted, MatchReport, ScoreReport

#: Columns of matched pairs that are compared with gold.
_EVALUATED = ["score", "source_id", "target_id"]


@dataclass(frozen=True)
class GoldInputs:
    """The gold file, and the chunks of both sides."""

    gold: Artefact
    chunks: Sides[Listing]


def _read_gold(file: Artefact) -> Gold:
    """The gold standard; raises InputError when it is not what the run began with."""
    digest = new_digest()
    gold = read_gold(file.path, digest)
    if digest.hexdigest() != file.hash:
        raise InputError(f"{file.path}: the gold file changed during the run: run the command again")
    return gold


def _known(chunks: Listing) -> Callable[[list[str]], list[bool]]:
    def known(ids: list[str]) -> list[bool]:
        wanted = IdIndex(ids)
        # One entry more for ids that are not wanted.
        present = np.zeros(len(wanted) + 1, dtype=bool)
        for path in chunks.read().paths:
            present[wanted.find(read_parquet(path, columns=["id"]).column("id"))] = True
        return present[wanted.codes].tolist()

    return known


@stage("gold", "numba", "pyarrow", "unicode")
def gold(inputs: GoldInputs, params: None, outputs: Outputs) -> int:
    """Check early, before anything costly, that the ids of gold are those of the corpora; reports
    the number of pairs."""
    found = _read_gold(inputs.gold)
    check_known(found, *inputs.chunks.map(_known))
    return len(found)


def check_gold(ctx: Context, sides: Sides[ReadSide]) -> None:
    """Check the gold standard, if there is one. Raises InputError when it is not of the corpora."""
    if ctx.inputs.gold is not None:
        chunks = sides.map(lambda side: ctx.listing(chunk.table for chunk in side.chunks))
        ctx.run([ctx.step(gold, "gold", GoldInputs(ctx.inputs.gold.artefact, chunks), None)])


@dataclass(frozen=True)
class ThresholdInputs:
    """The gold file, the matched pairs, and what the ledger needs: duplicates stand for the id that
    was kept."""

    gold: Artefact
    matched: Artefact
    ledger: Sides[LedgerLists]


@dataclass(frozen=True)
class ThresholdReport:
    """The threshold (None: no pair is right), and the ledger of the rows that were not kept."""

    dropped: Artefact
    threshold: float | None


@stage("threshold", "numba", "pyarrow", "unicode")
def threshold(inputs: ThresholdInputs, params: None, outputs: Outputs) -> ThresholdReport:
    """Tune the threshold on gold: the best F1 of the matched pairs."""
    path = outputs.path("duplicates.parquet")
    sides = Sides("source", "target").with_other(inputs.ledger)
    write_parquet(path, DROPPED_SCHEMA, (block for side in sides for block in ledger_blocks(*side, None)))
    pairs = read_parquet(inputs.matched.path, columns=_EVALUATED)
    result = evaluate_pairs(pairs, _read_gold(inputs.gold), dropped=path, threshold="tune")
    return ThresholdReport(outputs.artefact("duplicates.parquet"), result.threshold)


@dataclass(frozen=True)
class PairsReport:
    """The pairs at or above the threshold, in two formats, and their number."""

    tsv: Artefact
    parquet: Artefact
    pairs: int


@stage("output", "numba", "pyarrow")
def write_pairs(inputs: Artefact, limit: float | None, outputs: Outputs) -> PairsReport:
    """Write the matched pairs of at least this score (None: all)."""

    def blocks(write: Callable[[pa.Table], None]) -> Iterator[pa.Table]:
        with pq.ParquetFile(inputs.path) as file:
            for batch in file.iter_batches():
                table = pa.Table.from_batches([batch])
                table = table if limit is None else table.filter(pc.greater_equal(table.column("score"), limit))
                write(table)
                yield table

    with tsv_writer(outputs.path("pairs.tsv"), PAIRS_SCHEMA) as write:
        rows = write_parquet(outputs.path("pairs.parquet"), PAIRS_SCHEMA, blocks(write))
    return PairsReport(outputs.artefact("pairs.tsv"), outputs.artefact("pairs.parquet"), rows)


@dataclass(frozen=True)
class SideFacts:
    """What became of the rows of a side; `unused` counts them by reason."""

    rows: int
    distinct: int
    with_vector: int
    in_pairs: int
    unused: dict[str, int]
    replaced: int
    mean_neighbour_cosine: float


@dataclass(frozen=True)
class RunFacts:
    """What ``metrics.json`` holds beside the comparison with gold."""

    margin: str
    strategy: str
    k: int
    matched: int
    pairs: int
    threshold: float | None
    threshold_from: str
    floored_denominators: int
    source: SideFacts
    target: SideFacts


@dataclass(frozen=True)
class GoldResults:
    """Gold and what is compared with it: matched pairs, candidates, and the ledger."""

    gold: Artefact
    matched: Artefact
    candidates: Artefact
    dropped: Artefact


@stage("metrics", "numba", "pyarrow", "unicode")
def metrics(inputs: GoldResults | None, params: RunFacts, outputs: Outputs) -> Artefact:
    """How many rows and pairs, and against gold precision, recall, F1 and what was missed."""
    facts: dict[str, object] = asdict(params)
    if inputs is not None:
        result = evaluate_pairs(
            read_parquet(inputs.matched.path, columns=_EVALUATED),
            _read_gold(inputs.gold),
            dropped=inputs.dropped.path,
            candidates=inputs.candidates.path,
            threshold=params.threshold,
        )
        facts["bucc"] = {**result.to_dict(), "threshold_from": params.threshold_from}
    write_json(outputs.path("metrics.json"), facts)
    return outputs.artefact("metrics.json")


@dataclass(frozen=True)
class Mined:
    """Both sides of a run, and the pairs chosen among their rows."""

    corpora: Sides[Corpus]
    encoded: Sides[EncodedSide]
    searched: Sides[SearchedSide]
    scores: Sides[list[ScoreReport]]
    matched: MatchReport


@dataclass(frozen=True)
class Results:
    """What a run has given: `files` for the user, the number of pairs, and the threshold."""

    files: list[Artefact]
    pairs: int
    threshold: float | None


def _find_threshold(ctx: Context, emitted: Emitted, ledger: Sides[LedgerLists]) -> tuple[float | None, str]:
    """The threshold and where it is from: ``given``, ``tuned`` or ``none``."""
    wanted, given = ctx.config.threshold, ctx.inputs.gold
    if isinstance(wanted, float):
        return wanted, "given"
    if given is None or wanted == "none":
        return None, "none"
    inputs = ThresholdInputs(given.artefact, emitted.matched.table, ledger)
    (report,) = ctx.run([ctx.step(threshold, "threshold", inputs, None)])
    return report.threshold, "tuned"


def _side_facts(encoded: EncodedSide, searched: SearchedSide, unused: dict[str, int]) -> SideFacts:
    corpus = encoded.corpus
    cosines = sum(shard.mean_sum for shard in searched.shards)
    return SideFacts(
        rows=corpus.read.rows,
        distinct=corpus.rows,
        with_vector=encoded.valid_rows,
        in_pairs=corpus.read.rows - sum(unused.values()),
        unused=unused,
        replaced=sum(file.replaced for file in corpus.read.files),
        mean_neighbour_cosine=round(cosines / max(encoded.valid_rows, 1), 6),
    )


def _facts(
    ctx: Context, mined: Mined, pairs: int, unused: Sides[dict[str, int]], limit: tuple[float | None, str]
) -> RunFacts:
    sides = mined.encoded.with_other(mined.searched).with_other(unused).map(lambda item: _side_facts(*item[0], item[1]))
    return RunFacts(
        margin=ctx.config.margin,
        strategy=ctx.config.strategy,
        k=ctx.config.search.k,
        matched=mined.matched.count,
        pairs=pairs,
        threshold=limit[0],
        threshold_from=limit[1],
        floored_denominators=sum(report.undefined for reports in mined.scores for report in reports),
        source=sides.source,
        target=sides.target,
    )


def write_results(ctx: Context, mined: Mined, emitted: Emitted) -> Results:
    """Find the threshold, and write the files for the user."""
    ledger = mined.corpora.map(lambda corpus: LedgerLists.of(ctx, corpus))
    limit = _find_threshold(ctx, emitted, ledger)
    valid = mined.encoded.map(lambda side: side.valid(ctx))
    inputs = DroppedInputs(mined.matched.pairs, ledger, valid)
    pairs, dropped = ctx.run_two(
        ctx.step(write_pairs, "pairs", emitted.matched.table, limit[0], "."),
        ctx.step(write_dropped, "dropped", inputs, limit[0], "."),
    )
    compared = None
    if ctx.inputs.gold is not None and emitted.candidates is not None:
        tables = emitted.matched.table, emitted.candidates.table, dropped.table
        compared = GoldResults(ctx.inputs.gold.artefact, *tables)
    facts = _facts(ctx, mined, pairs.pairs, dropped.reasons, limit)
    (report,) = ctx.run([ctx.step(metrics, "metrics", compared, facts, ".")])
    files = [pairs.tsv, pairs.parquet, dropped.table, report]
    if emitted.candidates is not None:
        files.append(emitted.candidates.table)
    else:
        # An earlier configuration wanted candidates; these would be another run's.
        (ctx.folder / "candidates.parquet").unlink(missing_ok=True)
    return Results(files, pairs.pairs, limit[0])
