"""What a FAISS index takes, by its factory string and search parameters; None where nothing is
known of it.

Known are the flat index, inverted files, scalar quantisers, product quantisers, and HNSW graphs
over whole vectors. Transformations, refinement and everything else have no estimate: a number that
was never measured would only mislead.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from mining.search.estimates import Constants, Estimate, Task

_MEASURED = Constants()
#: FAISS's own defaults: rounds of k-means of an inverted file, of a product quantiser; rows a
#: centroid is learnt from.
_COARSE_ROUNDS, _CODE_ROUNDS, _ROWS_PER_CENTROID = 10, 25, 256
#: FAISS's own defaults: lists probed, and candidates of a graph while searching and while building.
_PROBES, _EF_SEARCH, _EF_CONSTRUCTION = 1, 16, 40
_INDEX = re.compile(r"(?:IVF(?P<lists>\d+),)?(?P<code>Flat|SQ8|SQfp16|PQ(?P<codes>\d+)(?P<fast>x4fs)?)")
_GRAPH = re.compile(r"HNSW(?P<links>\d+)(?:,Flat)?")
_PARAMETER = re.compile(r"(?P<name>\w+)=(?P<value>\d+)")
_BYTES = {"Flat": 4.0, "SQ8": 1.0, "SQfp16": 2.0}


@dataclass(frozen=True)
class Index:
    """An index as it is configured: its factory string, search parameters, how many more than k it
    proposes, and the rows that it is trained on."""

    factory: str
    parameters: str = ""
    rescore: int = 12
    training_rows: int = 100_000

    @property
    def detail(self) -> str:
        """For tables."""
        return f"{self.factory} {self.parameters}".strip()

    def values(self, *known: str) -> dict[str, int] | None:
        """The parameters by name; None where there are others than the `known` ones."""
        values = {}
        for part in filter(None, re.split(r"[,\s]+", self.parameters)):
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


def _graph(index: Index, task: Task, constants: Constants) -> _Cost | None:
    found, values = _GRAPH.fullmatch(index.factory), index.values("efSearch")
    if found is None or values is None:
        return None
    links = 2 * int(found["links"])
    visited = max(values.get("efSearch", _EF_SEARCH), task.k + index.rescore) * links
    distance = 2 * task.dim / constants.graph
    return _Cost(0.0, _EF_CONSTRUCTION * links * distance, visited * distance, 4.0 * task.dim + 4 * links + 24)


def _inverted(index: Index, task: Task, rows: int, constants: Constants) -> _Cost | None:
    found = _INDEX.fullmatch(index.factory)
    values = None if found is None else index.values(*(["nprobe"] if found["lists"] else []))
    if found is None or values is None:
        return None
    lists, codes = int(found["lists"] or 0), int(found["codes"] or 0)
    share = min(1.0, values.get("nprobe", _PROBES) / lists) if lists else 1.0
    if codes:
        # Four bits a code in a fast scan, eight otherwise; 16 or 256 centroids of each.
        centroids, size = (16, codes / 2) if found["fast"] else (256, float(codes))
        compare = codes / (constants.fast_scan if found["fast"] else constants.lookups)
        sample = min(index.training_rows, _ROWS_PER_CENTROID * centroids)
        learning = 2.0 * sample * centroids * task.dim * _CODE_ROUNDS / constants.small_products
        adding = 2.0 * centroids * task.dim / constants.small_products
    else:
        size, learning, adding = _BYTES[found["code"]] * task.dim, 0.0, 0.0
        scans = {"Flat": constants.scan if lists else constants.flat}
        compare = 2 * task.dim / scans.get(found["code"], constants.scalar_codes)
    # Each row and each query is compared with the centroids of all lists.
    nearest = 2.0 * lists * task.dim / constants.float_products
    sample = min(index.training_rows, _ROWS_PER_CENTROID * lists)
    training = learning + sample * _COARSE_ROUNDS * nearest
    return _Cost(
        training, adding + nearest, nearest + rows * share * compare, size + 8 * bool(lists), 4.0 * lists * task.dim
    )


def index_estimate(task: Task, index: Index, constants: Constants = _MEASURED) -> Estimate | None:
    """What a search through such indexes, one a shard, takes: training by one thread, rows added,
    each query searched in every shard of the other side. None for an index or a parameter of which
    nothing is known."""
    sides = task.source_rows, task.target_rows
    shards = [-(-rows // task.shard_rows) for rows in sides]
    seconds, disk, largest = 0.0, 0.0, 0.0
    for side, own in enumerate(task.largest_shards):
        cost = _graph(index, task, constants) or _inverted(index, task, own, constants)
        if cost is None:
            return None
        searched = sides[1 - side] * shards[side] * cost.query
        seconds += cost.training + (sides[side] * cost.row + searched) / task.cores
        disk += sides[side] * cost.bytes_a_row + shards[side] * cost.flat
        largest = max(largest, own * cost.bytes_a_row + cost.flat)
    rows = sum(task.largest_shards)
    memory = constants.base + rows * (6 * task.dim + 40 * task.k) + largest
    return Estimate("faiss", index.detail, seconds + constants.start, memory, disk)


def inverted_lists(rows: int) -> int:
    """Lists of an inverted file: four times the root of the rows of a shard, as FAISS advises, to a
    power of two."""
    return 1 << max(4, round(4 * max(1, rows) ** 0.5).bit_length() - 1)


def usual_indexes(task: Task) -> list[Index]:
    """An inverted file over whole vectors, and a fast scan of product-quantised codes."""
    lists = inverted_lists(max(task.largest_shards))
    found = [Index(f"IVF{lists},Flat", f"nprobe={max(8, lists // 32)}")]
    return [*found, Index(f"PQ{task.dim // 4}x4fs")] if task.dim >= 4 else found
