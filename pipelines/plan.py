"""The steps of a mining run, stage by stage: which files each step reads and which parameters its
key covers."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mining.config.mine import MineConfig
from mining.corpus import CorpusSpec
from mining.errors import UsageError
from pipelines.artefacts import Marker, Step
from pipelines.given import Given
from pipelines.lists import write_list
from pipelines.search_plan import joined
from pipelines.versions import versions_of

SIDES = ("source", "target")
#: What `shard_lists` can list: kind of marker and suffix of its files; those by shard tell its
#: rows.
KINDS = {
    "chunks": ("read", ".parquet"),
    "duplicates": ("dedup", ".npy"),
    "shards": ("shards", ".parquet"),
    "valid": ("vectors", ".valid.npy"),
    "vectors": ("vectors", ".vectors.npy"),
    "means": ("lists", ".means.npy"),
    "lists": ("lists", ".lists.npy"),
    "members": ("members", ".vectors.npy"),
    "limits": ("members", ".limits.npy"),
    "rows": ("members", ".rows.npy"),
    "clusters": ("members", ".clusters.npy"),
}
BY_SHARD = {"shards", "vectors", "lists"}
#: Keys compared in one bucket of the search for duplicates: 24 bytes each.
BUCKET_ROWS = 4_000_000


@dataclass
class Side:
    """What is known of one side as the stages go by; lists are in order of chunks or shards."""

    name: str
    read: list[Marker] = field(default_factory=list)
    dedup: list[Marker] = field(default_factory=list)
    shards: list[Marker] = field(default_factory=list)
    vectors: list[Marker] = field(default_factory=list)
    indexes: list[Marker] = field(default_factory=list)
    members: list[Marker] = field(default_factory=list)
    lists: list[Marker] = field(default_factory=list)
    runs: list[Marker] = field(default_factory=list)

    @property
    def chunks(self) -> list[dict[str, Any]]:
        """Facts of all chunks: name, rows, usable, bytes."""
        return [chunk for marker in self.read for chunk in marker.info["chunks"]]

    @property
    def sizes(self) -> list[int]:
        """Rows of each shard."""
        return [marker.info["rows"] for marker in self.shards]

    @property
    def firsts(self) -> list[int]:
        """Row number of the first row of each shard."""
        return [0, *itertools.accumulate(self.sizes)][:-1]

    @property
    def rows(self) -> int:
        """Kept rows."""
        return sum(self.sizes)

    @property
    def valid(self) -> int:
        """Rows with a vector."""
        return sum(marker.info["valid"] for marker in self.vectors)

    def files(self, which: str, suffix: str) -> dict[str, str]:
        """Files of one kind of marker (``read``, ``shards``, ``vectors``, ``lists``, …), with
        hashes, in order."""
        return joined(marker.inputs(suffix) for marker in getattr(self, which))

    def reasons(self) -> dict[str, int]:
        """Rows that the reader dropped, by reason."""
        total: dict[str, int] = {}
        for marker in self.read:
            for reason, count in marker.info["reasons"].items():
                total[reason] = total.get(reason, 0) + count
        return dict(sorted(total.items()))


class Plan:
    """Makes the steps. `threads` is what one step may use."""

    def __init__(self, config: MineConfig, given: Given, folder: Path, threads: int) -> None:
        self.config, self.given, self.folder, self.threads = config, given, folder, threads
        #: Hashes of the lists that steps of this run name.
        self.lists: set[str] = set()

    def step(
        self,
        stage: str,
        name: str,
        params: dict[str, Any],
        inputs: dict[str, str] | None = None,
        lists: dict[str, str] | None = None,
        destination: str = "",
        execution: dict[str, Any] | None = None,
        uses: Sequence[str] = (),
    ) -> Step:
        """A step in this run's folder; `uses` names libraries that the stage does not always
        need."""
        more = (lists or {}, versions_of(stage, uses))
        return Step(str(self.folder), stage, name, params, inputs or {}, execution or {}, destination, *more)

    def listed(self, files: dict[str, str], rows: Sequence[int] = ()) -> str:
        """Write a list of files for steps to name; returns its hash."""
        digest = write_list(self.folder, files, rows)
        self.lists.add(digest)
        return digest

    def shard_lists(self, sides: Sequence[Side], *kinds: str) -> dict[str, str]:
        """The lists of these kinds of both sides, by ``side.kind``."""
        lists = {}
        for side in sides:
            for kind in kinds:
                which, suffix = KINDS[kind]
                rows = side.sizes if which in BY_SHARD else ()
                lists[f"{side.name}.{kind}"] = self.listed(side.files(which, suffix), rows)
        return lists

    def read(self, side: str) -> list[Step]:
        """One step an input file."""
        spec: CorpusSpec = getattr(self.config, side)
        files = self.given.sides[side]
        inside = [file.path for file in files if self.folder.resolve() in Path(file.path).resolve().parents]
        if inside:
            raise UsageError(f"{inside[0]}: is input and lies in the run folder {self.folder}: choose another output")
        rules = spec.model_dump()
        limits = {"rows": self.config.shard.rows, "bytes": self.config.shard.bytes}
        return [
            self.step(
                "read",
                f"{side}-{number:05d}",
                {"spec": {**rules, "path": [file.name]}, "name": file.name, **limits},
                {file.path: file.hash},
                execution={"threads": self.threads},
            )
            for number, file in enumerate(files)
        ]

    def _gold(self) -> dict[str, str]:
        """The gold file with the hash that it had when the run began: every step must see the same
        bytes."""
        gold = self.given.gold
        return {} if gold is None else {gold.path: gold.hash}

    def gold(self, sides: Sequence[Side]) -> list[Step]:
        """Does the gold standard belong to these corpora?"""
        return [self.step("gold", "gold", {}, self._gold(), self.shard_lists(sides, "chunks"))]

    def dedup(self, side: Side) -> list[Step]:
        """One step a bucket of keys."""
        buckets = max(1, -(-sum(chunk["rows"] for chunk in side.chunks) // BUCKET_ROWS))
        kinds = {"chunks": ".parquet", "texts": ".texts.npy", "ids": ".ids.npy"}
        lists = {kind: self.listed(side.files("read", suffix)) for kind, suffix in kinds.items()}
        params = {"side": side.name, "buckets": buckets}
        return [
            self.step("dedup", f"{side.name}-{bucket:05d}", {**params, "bucket": bucket}, lists=lists)
            for bucket in range(buckets)
        ]

    def shard(self, side: Side) -> list[Step]:
        """Consecutive chunks, as many as fit together into the limits of a shard."""
        groups: list[list[int]] = []
        kept = [sum(counts) for counts in zip(*(marker.info["duplicates"] for marker in side.dedup), strict=True)]
        rows = bytes_ = 0
        for number, chunk in enumerate(side.chunks):
            usable = chunk["usable"] - kept[number]
            full = rows + usable > self.config.shard.rows or bytes_ + chunk["bytes"] > self.config.shard.bytes
            if not groups or full:
                groups.append([])
                rows = bytes_ = 0
            groups[-1].append(number)
            rows, bytes_ = rows + usable, bytes_ + chunk["bytes"]
        chunks = list(side.files("read", ".parquet").items())
        duplicates = self.listed(side.files("dedup", ".npy"))
        return [
            self.step(
                "shard",
                f"{side.name}-{number:05d}",
                {"first": group[0]},
                lists={"chunks": self.listed(dict(chunks[i] for i in group)), "duplicates": duplicates},
            )
            for number, group in enumerate(groups)
        ]

    def encode(self, side: Side, model: str) -> list[Step]:
        """One step a shard; `model` is the hash that names the side's encoder."""
        path = None if self.config.model is None else str(Path(self.config.model).absolute())
        options = self.config.encode.options(side.name)
        return [
            self.step(
                "encode",
                f"{side.name}-{number:05d}",
                {"model": model, "rows": shard.info["rows"], "device": self.config.encode.device},
                shard.inputs(".parquet"),
                execution={"path": path, "options": options, "threads": self.threads},
            )
            for number, shard in enumerate(side.shards)
        ]

    def score(self, sides: Sequence[Side]) -> list[Step]:
        """One step a shard of either side."""
        means = self.shard_lists(sides, "means")
        params = {"margin": self.config.margin, "k": self.config.search.k}
        return [
            self.step(
                "score",
                f"{side.name}-{number:05d}",
                {**params, "side": side.name, "first": first, "rows": rows},
                {**found.inputs(".lists.npy"), **found.inputs(".means.npy")},
                {"means": means[f"{other.name}.means"]},
                execution={"threads": self.threads},
            )
            for side, other in (sides, sides[::-1])
            for number, (found, first, rows) in enumerate(zip(side.lists, side.firsts, side.sizes, strict=True))
        ]

    def match(self, sides: Sequence[Side]) -> list[Step]:
        """One step: the choice is global."""
        params = {"strategy": self.config.strategy, "rows": [side.rows for side in sides]}
        lists = {side.name: self.listed(side.files("runs", ".npy")) for side in sides}
        return [self.step("match", "match", params, lists=lists)]

    def emit(self, sides: Sequence[Side], matched: Marker) -> list[Step]:
        """All matched pairs with their texts, and the candidates if they are wanted."""
        params: dict[str, Any] = {"k": self.config.search.k, "margin": self.config.margin, "what": "matched"}
        lists, execution = self.shard_lists(sides, "shards", "means"), {"pairs": matched.file(".npy")}
        steps = [self.step("emit", "matched", params, matched.inputs(), lists, execution=execution)]
        if self.config.candidates or self.config.gold:
            lists = {**lists, **self.shard_lists(sides, "lists")}
            params = {**params, "what": "candidates"}
            steps.append(self.step("emit", "candidates", params, None, lists, destination="."))
        return steps

    def threshold(self, sides: Sequence[Side], emitted: Marker) -> list[Step]:
        """Tune the threshold on gold."""
        inputs = {**self._gold(), **emitted.inputs()}
        lists = self.shard_lists(sides, "chunks", "duplicates")
        execution = {"matched": emitted.file(".parquet")}
        return [self.step("threshold", "threshold", {}, inputs, lists, execution=execution)]

    def output(self, sides: Sequence[Side], matched: Marker, emitted: Marker, threshold: float | None) -> list[Step]:
        """The files for the user."""
        pairs = {"pairs": matched.file(".npy"), "matched": emitted.file(".parquet")}
        lists = self.shard_lists(sides, "chunks", "duplicates", "valid")
        needs: dict[str, tuple[dict[str, str], dict[str, str]]] = {
            "pairs": (emitted.inputs(), {}),
            "dropped": (matched.inputs(), lists),
        }
        return [
            self.step("output", what, {"threshold": threshold, "what": what}, inputs, lists, ".", pairs)
            for what, (inputs, lists) in needs.items()
        ]

    def metrics(self, emitted: Sequence[Marker], dropped: Marker, threshold: float | None, facts: Any) -> list[Step]:
        """Counts, and the comparison with gold."""
        inputs = {**self._gold(), **joined(marker.inputs() for marker in [*emitted, dropped])}
        execution: dict[str, Any] = {}
        if self.config.gold:
            execution = {
                "pairs": emitted[0].file(".parquet"),
                "candidates": emitted[1].file(".parquet"),
                "dropped": dropped.file(".parquet"),
            }
        params = {"facts": facts, "threshold": threshold, "gold": self.config.gold is not None}
        return [self.step("metrics", "metrics", params, inputs, destination=".", execution=execution)]
