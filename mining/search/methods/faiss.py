"""Search through FAISS indexes from a factory string, one a shard, trained on a sample of their
side.

Estimates are known for the flat index, inverted files, scalar quantisers, product quantisers, and
HNSW graphs over whole vectors. Transformations, refinement and everything else have none: a number
that was never measured would only mislead.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pydantic import Field, model_validator

from mining.search.methods import (
    FLOAT_PRODUCTS,
    METHODS,
    PROCESS_BYTES,
    START_SECONDS,
    Estimate,
    MethodSettings,
    Runtime,
    SearchMethod,
    Task,
)

if TYPE_CHECKING:
    from mining.search.topk import Neighbours
    from mining.search.vectors import VectorShard

#: Operations a second of one core: of the flat index, of scanning lists of whole vectors (assumed),
#: of scalar codes, and of the vectors that a graph leads to.
FLAT, SCAN, SCALAR_CODES, GRAPH = 80e9, 20e9, 2e9, 10e9
#: Codes of product quantisers a second of one core: of four bits in a fast scan, of eight bits
#: looked up one by one (assumed); and operations a second of learning them (assumed).
FAST_SCAN, LOOKUPS, SMALL_PRODUCTS = 31e9, 1e9, 5e9
#: FAISS's own defaults: rounds of k-means of an inverted file, of a product quantiser; rows a
#: centroid is learnt from.
_COARSE_ROUNDS, _CODE_ROUNDS, _ROWS_PER_CENTROID = 10, 25, 256
#: FAISS's own defaults: lists probed, and candidates of a graph while searching and while building.
_PROBES, _EF_SEARCH, _EF_CONSTRUCTION = 1, 16, 40
_INDEX = re.compile(r"(?:IVF(?P<lists>\d+),)?(?P<code>Flat|SQ8|SQfp16|PQ(?P<codes>\d+)(?P<fast>x4fs)?)")
_GRAPH = re.compile(r"HNSW(?P<links>\d+)(?:,Flat)?")
_PARAMETER = re.compile(r"(?P<name>\w+)=(?P<value>\d+)")
_BYTES = {"Flat": 4.0, "SQ8": 1.0, "SQfp16": 2.0}


class FaissSettings(MethodSettings):
    """Settings of the search through FAISS indexes."""

    index: str = "IVF256,Flat"
    """FAISS factory string, for example IVF256,Flat."""

    parameters: str | None = None
    """FAISS search parameters, for example nprobe=16; by default nprobe=8 for IVF."""

    refine_factor: float = Field(default=4.0, ge=1, le=4097)
    """How many times k an index proposes; the cosines of these are recomputed and decide."""

    training_rows: int = Field(default=100_000, gt=0)
    """Rows of a side that its indexes are trained on."""

    @model_validator(mode="after")
    def _on_the_cpu(self) -> FaissSettings:
        if self.device != "cpu":
            raise ValueError(
                f"method: faiss searches on the CPU, and device is {self.device}: set search.device: cpu, and "
                "encode.device where only the encoder is to use the GPU; or take method: exact, which uses it"
            )
        return self

    @property
    def search_parameters(self) -> str:
        """`parameters`, or their default: an inverted file probes eight of its lists."""
        return self.parameters if self.parameters is not None else "nprobe=8" if "IVF" in self.index else ""

    def proposals(self, k: int) -> int:
        """How many entries an index proposes for lists of k."""
        return max(k, round(k * self.refine_factor))

    def values(self, *known: str) -> dict[str, int] | None:
        """The search parameters by name; None where there are others than the `known` ones."""
        values = {}
        for part in filter(None, re.split(r"[,\s]+", self.search_parameters)):
            found = _PARAMETER.fullmatch(part)
            if found is None or found["name"] not in known:
                return None
            values[found["name"]] = int(found["value"])
        return values


@dataclass(frozen=True)
class _Cost:
    """Core seconds to train one index, to add one row and to search one query in a shard of so many
    rows, and bytes a row; `flat` bytes whatever the rows."""

    training: float
    row: float
    query: float
    bytes_a_row: float
    flat: float = 0.0


def _graph(settings: FaissSettings, task: Task) -> _Cost | None:
    found, values = _GRAPH.fullmatch(settings.index), settings.values("efSearch")
    if found is None or values is None:
        return None
    links = 2 * int(found["links"])
    visited = max(values.get("efSearch", _EF_SEARCH), settings.proposals(task.k)) * links
    distance = 2 * task.dim / GRAPH
    return _Cost(0.0, _EF_CONSTRUCTION * links * distance, visited * distance, 4.0 * task.dim + 4 * links + 24)


def _inverted(settings: FaissSettings, task: Task, rows: int) -> _Cost | None:
    found = _INDEX.fullmatch(settings.index)
    values = None if found is None else settings.values(*(["nprobe"] if found["lists"] else []))
    if found is None or values is None:
        return None
    lists, codes = int(found["lists"] or 0), int(found["codes"] or 0)
    share = min(1.0, values.get("nprobe", _PROBES) / lists) if lists else 1.0
    if codes:
        # Four bits a code in a fast scan, eight otherwise; 16 or 256 centroids of each.
        centroids, size = (16, codes / 2) if found["fast"] else (256, float(codes))
        compare = codes / (FAST_SCAN if found["fast"] else LOOKUPS)
        sample = min(settings.training_rows, _ROWS_PER_CENTROID * centroids)
        learning = 2.0 * sample * centroids * task.dim * _CODE_ROUNDS / SMALL_PRODUCTS
        adding = 2.0 * centroids * task.dim / SMALL_PRODUCTS
    else:
        size, learning, adding = _BYTES[found["code"]] * task.dim, 0.0, 0.0
        compare = 2 * task.dim / {"Flat": SCAN if lists else FLAT}.get(found["code"], SCALAR_CODES)
    # Each row and each query is compared with the centroids of all lists.
    nearest = 2.0 * lists * task.dim / FLOAT_PRODUCTS
    sample = min(settings.training_rows, _ROWS_PER_CENTROID * lists)
    training = learning + sample * _COARSE_ROUNDS * nearest
    return _Cost(
        training, adding + nearest, nearest + rows * share * compare, size + 8 * bool(lists), 4.0 * lists * task.dim
    )


class Faiss(SearchMethod[FaissSettings]):
    help = "searches FAISS indexes"
    settings = FaissSettings
    plan = "indexes"
    libraries = ("faiss",)

    def describe(self, settings: FaissSettings) -> str:
        return f"{settings.index} {settings.search_parameters}".strip()

    def usual(self, task: Task, settings: FaissSettings) -> Sequence[FaissSettings]:
        """An inverted file over whole vectors, and a fast scan of product-quantised codes."""
        # Four times the root of the rows of a shard, as FAISS advises, to a power of two.
        lists = 1 << max(4, round(4 * max(1, *task.largest_shards) ** 0.5).bit_length() - 1)
        found = [FaissSettings(index=f"IVF{lists},Flat", parameters=f"nprobe={max(8, lists // 32)}")]
        return [*found, FaissSettings(index=f"PQ{task.dim // 4}x4fs")] if task.dim >= 4 else found

    def estimate(self, task: Task, settings: FaissSettings) -> Estimate | None:
        """One index a shard: training by one thread, rows added, each query searched in every shard
        of the other side. None for an index or a parameter of which nothing is known."""
        sides = task.source_rows, task.target_rows
        shards = [-(-rows // task.shard_rows) for rows in sides]
        seconds, disk, largest = 0.0, 0.0, 0.0
        for side, own in enumerate(task.largest_shards):
            cost = _graph(settings, task) or _inverted(settings, task, own)
            if cost is None:
                return None
            searched = sides[1 - side] * shards[side] * cost.query
            seconds += cost.training + (sides[side] * cost.row + searched) / task.cores
            disk += sides[side] * cost.bytes_a_row + shards[side] * cost.flat
            largest = max(largest, own * cost.bytes_a_row + cost.flat)
        memory = PROCESS_BYTES + sum(task.largest_shards) * (6 * task.dim + 40 * task.k) + largest
        return Estimate("faiss", self.describe(settings), seconds + START_SECONDS, memory, disk)

    def search(
        self, source: VectorShard, target: VectorShard, k: int, settings: FaissSettings, runtime: Runtime
    ) -> tuple[Neighbours, Neighbours]:
        from mining.search.faiss_index import build_index, faiss_threads

        indexes = [build_index(settings.index, side.vectors, settings.training_rows) for side in (source, target)]
        with faiss_threads(runtime.threads):
            return search_indexes((source, target), indexes, k, settings)


def search_indexes(
    sides: tuple[VectorShard, VectorShard], indexes: Sequence[object], k: int, settings: FaissSettings
) -> tuple[Neighbours, Neighbours]:
    """Neighbours of both directions through the indexes of source and target."""
    from mining.search.faiss_index import search_index, set_parameters
    from mining.search.vectors import spread

    found = []
    for queries, base, index in ((sides[0], sides[1], indexes[1]), (sides[1], sides[0], indexes[0])):
        set_parameters(index, settings.search_parameters)
        lists = search_index(index, queries.vectors, base.vectors, k, settings.proposals(k))
        found.append(spread(lists, queries, base, k))
    return found[0], found[1]


METHODS.register("faiss")(Faiss())
