"""The steps of a mining run, stage by stage: which files each step reads and which parameters its key covers."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mining.config import MineConfig
from mining.corpus import CorpusSpec, file_hash, list_inputs
from mining.errors import UsageError
from pipelines.artefacts import Marker, Step
from pipelines.search_plan import joined

SIDES = ("source", "target")
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

    def chunk_files(self, suffix: str) -> dict[str, str]:
        """The chunks' files with this suffix, with hashes, in order."""
        return joined(marker.inputs(suffix) for marker in self.read)

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
        """Files of one kind of marker (``dedup``, ``shards``, ``vectors``, ``lists``, …), with hashes."""
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

    def __init__(self, config: MineConfig, folder: Path, threads: int) -> None:
        self.config, self.folder, self.threads = config, folder, threads

    def step(
        self,
        stage: str,
        name: str,
        params: dict[str, Any],
        inputs: dict[str, str],
        destination: str = "",
        execution: dict[str, Any] | None = None,
    ) -> Step:
        """A step in this run's folder."""
        return Step(str(self.folder), stage, name, params, inputs, execution or {}, destination)

    def read(self, side: str) -> list[Step]:
        """One step an input file."""
        spec: CorpusSpec = getattr(self.config, side)
        files = list_inputs(spec)
        inside = [file.path for file in files if self.folder.resolve() in Path(file.path).resolve().parents]
        if inside:
            raise UsageError(f"{inside[0]}: is input and lies in the run folder {self.folder}: choose another output")
        rules = spec.model_dump(exclude={"path"})
        limits = {"rows": self.config.shard.rows, "bytes": self.config.shard.bytes}
        return [
            self.step(
                "read",
                f"{side}-{number:05d}",
                {"spec": {**rules, "path": [file.name]}, "name": file.name, **limits},
                {str(Path(file.path).absolute()): file_hash(file.path)},
                execution={"path": str(Path(file.path).absolute()), "threads": self.threads},
            )
            for number, file in enumerate(files)
        ]

    def gold(self, sides: Sequence[Side]) -> list[Step]:
        """Does the gold standard belong to these corpora?"""
        gold = str(Path(str(self.config.gold)).absolute())
        chunks = {side.name: list(side.chunk_files(".parquet")) for side in sides}
        inputs = {gold: file_hash(gold), **joined(side.chunk_files(".parquet") for side in sides)}
        return [self.step("gold", "gold", {}, inputs, execution={"gold": gold, **chunks})]

    def dedup(self, side: Side) -> list[Step]:
        """One step a bucket of keys."""
        buckets = max(1, -(-sum(chunk["rows"] for chunk in side.chunks) // BUCKET_ROWS))
        inputs = joined(side.chunk_files(suffix) for suffix in (".parquet", ".texts.npy", ".ids.npy"))
        params = {"side": side.name, "buckets": buckets, "chunks": len(side.chunks)}
        return [
            self.step("dedup", f"{side.name}-{bucket:05d}", {**params, "bucket": bucket}, inputs)
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
        chunks = list(side.chunk_files(".parquet").items())
        duplicates = side.files("dedup", ".npy")
        return [
            self.step(
                "shard",
                f"{side.name}-{number:05d}",
                {"chunks": group},
                {**dict(chunks[i] for i in group), **duplicates},
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
        steps = []
        for side, other in (sides, sides[::-1]):
            means = other.files("lists", ".means.npy")
            for number, rows in enumerate(side.sizes):
                params = {
                    "side": side.name,
                    "margin": self.config.margin,
                    "first": side.firsts[number],
                    "rows": rows,
                    "k": self.config.search.k,
                    "other_firsts": other.firsts,
                    "other_rows": other.rows,
                }
                own = {**side.lists[number].inputs(".lists.npy"), **side.lists[number].inputs(".means.npy")}
                name, execution = f"{side.name}-{number:05d}", {"threads": self.threads}
                steps.append(self.step("score", name, params, {**own, **means}, execution=execution))
        return steps

    def match(self, sides: Sequence[Side]) -> list[Step]:
        """One step: the choice is global."""
        params = {"strategy": self.config.strategy, "rows": [side.rows for side in sides]}
        return [self.step("match", "match", params, joined(side.files("runs", ".npy") for side in sides))]

    def _everything(self, sides: Sequence[Side]) -> tuple[dict[str, Any], dict[str, str], dict[str, Any]]:
        """Params, inputs and execution of the steps that name rows: they read from all shards and chunks."""
        params = {side.name: {"rows": side.rows, "firsts": side.firsts} for side in sides}
        execution: dict[str, Any] = {}
        inputs: dict[str, str] = {}
        for side in sides:
            kinds = {
                "shards": side.files("shards", ".parquet"),
                "means": side.files("lists", ".means.npy"),
                "lists": side.files("lists", ".lists.npy"),
                "valid": side.files("vectors", ".valid.npy"),
                "chunks": side.chunk_files(".parquet"),
                "duplicates": side.files("dedup", ".npy"),
            }
            execution[side.name] = {kind: list(files) for kind, files in kinds.items()}
            inputs |= joined(kinds.values())
        return params, inputs, execution

    def emit(self, sides: Sequence[Side], matched: Marker) -> list[Step]:
        """All matched pairs with their texts, and the candidates if they are wanted."""
        params, inputs, execution = self._everything(sides)
        params |= {"k": self.config.search.k, "margin": self.config.margin}
        inputs |= matched.inputs()
        execution["pairs"] = matched.file(".npy")
        steps = [self.step("emit", "matched", {**params, "what": "matched"}, inputs, execution=execution)]
        if self.config.candidates or self.config.gold:
            params = {**params, "what": "candidates"}
            steps.append(self.step("emit", "candidates", params, inputs, destination=".", execution=execution))
        return steps

    def threshold(self, sides: Sequence[Side], emitted: Marker) -> list[Step]:
        """Tune the threshold on gold."""
        gold = str(Path(str(self.config.gold)).absolute())
        _, inputs, execution = self._everything(sides)
        inputs = {gold: file_hash(gold), **inputs, **emitted.inputs()}
        execution |= {"gold": gold, "matched": emitted.file(".parquet")}
        return [self.step("threshold", "threshold", {}, inputs, execution=execution)]

    def output(self, sides: Sequence[Side], matched: Marker, emitted: Marker, threshold: float | None) -> list[Step]:
        """The files for the user."""
        params, inputs, execution = self._everything(sides)
        params["threshold"] = threshold
        inputs |= {**matched.inputs(), **emitted.inputs()}
        execution |= {"pairs": matched.file(".npy"), "matched": emitted.file(".parquet")}
        return [
            self.step("output", what, {**params, "what": what}, inputs, destination=".", execution=execution)
            for what in ("pairs", "dropped")
        ]

    def metrics(self, emitted: Sequence[Marker], dropped: Marker, threshold: float | None, facts: Any) -> list[Step]:
        """Counts, and the comparison with gold."""
        inputs = joined(marker.inputs() for marker in [*emitted, dropped])
        execution: dict[str, Any] = {"gold": None}
        if self.config.gold:
            gold = str(Path(self.config.gold).absolute())
            inputs[gold] = file_hash(gold)
            execution = {
                "gold": gold,
                "pairs": emitted[0].file(".parquet"),
                "candidates": emitted[1].file(".parquet"),
                "dropped": dropped.file(".parquet"),
            }
        params = {"facts": facts, "threshold": threshold}
        return [self.step("metrics", "metrics", params, inputs, destination=".", execution=execution)]
