"""Exact search: every pair of rows is compared, on CPU or GPUs; nothing is missed."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field, model_validator

from mining.devices import several_devices
from mining.search.methods import (
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
    from mining.search.tiles import Proposer
    from mining.search.topk import Neighbours
    from mining.search.vectors import VectorShard

#: Operations a second of the pass over tiles, lists and certification included: of a core (in
#: bfloat16; without instructions for it half as many), and, assumed, of a GPU (H100) in float16.
CORE_RATE, GPU_RATE = 130e9, 150e12
#: Entries proposed beyond k, on the average of processors.
_EXTRA = 4


class ExactSettings(MethodSettings):
    """Settings of exact search."""

    execution: ClassVar[frozenset[str]] = frozenset({"device", "backend", "source_tile", "target_tile"})

    backend: Literal["torch", "faiss"] = "torch"
    """What multiplies: torch, or the brute-force search of FAISS, which takes one device."""

    source_tile: int = Field(default=0, ge=0)
    """Source rows of a tile; 0 chooses."""

    target_tile: int = Field(default=0, ge=0)
    """Target rows of a tile; 0 chooses."""

    @model_validator(mode="after")
    def _faiss_has_one_device(self) -> ExactSettings:
        if self.backend == "faiss" and several_devices(self.device):
            raise ValueError(
                f"backend: faiss uses one device, and device is {self.device}: name one, for example cuda:0"
            )
        return self


class Exact(SearchMethod[ExactSettings]):
    help = "compares all pairs"
    settings = ExactSettings
    automatic = True
    uses_gpu = True

    def estimate(self, task: Task, settings: ExactSettings) -> Estimate:
        """Both directions from one product a tile."""
        work = 2.0 * task.pairs * task.dim
        rate = GPU_RATE * task.gpus if task.gpus else CORE_RATE * task.cores
        shards = [-(-side // task.shard_rows) for side in (task.source_rows, task.target_rows)]
        rows = sum(task.largest_shards)
        # Vectors as float32 and as the product takes them, lists, tiles.
        memory = PROCESS_BYTES + rows * (6 * task.dim + 40 * (task.k + _EXTRA)) + 64_000_000
        lists = 12.0 * task.k * (task.source_rows * shards[1] + task.target_rows * shards[0])
        detail = f"{shards[0]:,} x {shards[1]:,} shards"
        return Estimate("exact", detail, START_SECONDS + work / rate, memory, lists, True)

    def search(
        self, source: VectorShard, target: VectorShard, k: int, settings: ExactSettings, runtime: Runtime
    ) -> tuple[Neighbours, Neighbours]:
        from mining.search.exact import search_shards

        if settings.backend == "torch":
            return search_shards(source, target, k, proposer(settings, runtime))
        from mining.search.faiss_index import faiss_threads

        with faiss_threads(runtime.threads):
            return search_shards(source, target, k, proposer(settings, runtime))


def proposer(settings: ExactSettings, runtime: Runtime) -> Proposer:
    """The pass over tiles by these settings; tiles of size 0 are chosen."""
    if settings.backend == "faiss":
        from mining.search.tiles import FaissProposer

        return FaissProposer(settings.device, report=runtime.report)
    if settings.device == "cpu":
        from mining.search.tiles import TileProposer

        return TileProposer(settings.source_tile, settings.target_tile, runtime.report)
    from mining.search.device_tiles import TorchProposer

    return TorchProposer(settings.device, settings.source_tile, settings.target_tile, runtime.report)


METHODS.register("exact")(Exact())
