"""Search methods, one a module: its settings, what it takes, and its search of two sides.

A method is known by the name of its module, which is what `search.method` and ``--method`` say. A
new module with a `SearchMethod` is all that a new method needs: its settings become keys and flags,
`bitext plan` lists its estimate, and the pipeline and `mining.mine` search by it. Modules import
what is heavy (numba, torch, faiss) inside their functions, so that the command line can list their
settings at once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, NamedTuple, TypeVar

from pydantic import field_validator

from mining.config.base import Settings
from mining.devices import check_devices
from mining.registry import Registry

if TYPE_CHECKING:
    from mining.search.topk import Neighbours
    from mining.search.vectors import VectorShard

#: The machine for which `auto` chooses, whatever the machine at hand.
REFERENCE_CORES = 2
#: Nearest neighbours a side where nothing else is set.
K = 4
#: Rows of a shard where nothing else is set.
SHARD_ROWS = 250_000
#: Seconds that any search takes to start its stages, and bytes of a process with its libraries.
START_SECONDS = 1.5
PROCESS_BYTES = 450_000_000
#: Operations a second of float32 products, of one core of an AMD EPYC with AVX512 (BF16 and VNNI).
FLOAT_PRODUCTS = 50e9


class MethodSettings(Settings):
    """The settings of a search method; a method adds its own."""

    device: str = "cpu"
    """Where the search runs: cpu, cuda, cuda:1, several (cuda:0,cuda:1) or cuda:all."""

    #: Settings that change where and how a search is done, and not what it finds.
    execution: ClassVar[frozenset[str]] = frozenset({"device"})

    @field_validator("device")
    @classmethod
    def _device(cls, value: str) -> str:
        return check_devices(value)


@dataclass(frozen=True)
class Task:
    """Two sides to search: rows with a vector, dimensions, neighbours a row, and the machine."""

    source_rows: int
    target_rows: int
    dim: int
    k: int = K
    device: str = "cpu"
    cores: int = REFERENCE_CORES
    shard_rows: int = SHARD_ROWS

    @property
    def gpus(self) -> int:
        """How many GPUs the device setting names; ``cuda:all`` counts as one, since the machine is
        not looked at."""
        return self.device.count(",") + 1 if self.device.startswith("cuda") else 0

    @property
    def pairs(self) -> float:
        """Similarities of exact search."""
        return float(self.source_rows) * self.target_rows

    @property
    def rows(self) -> int:
        """Rows of both sides."""
        return self.source_rows + self.target_rows

    @property
    def largest_shards(self) -> tuple[int, int]:
        """Rows of the largest shard of each side."""
        return min(self.source_rows, self.shard_rows), min(self.target_rows, self.shard_rows)


@dataclass(frozen=True)
class Estimate:
    """What a method takes: seconds of wall time, bytes of memory of a process and of disk beside
    the vectors."""

    method: str
    detail: str
    seconds: float
    memory: float
    disk: float
    exact: bool = False


def silent(done: float) -> None:
    """Report nothing of the share that is done."""


class Runtime(NamedTuple):
    """How a search runs: `threads` (0: all cores), and `report`, called with the share that is done
    (0.0 to 1.0)."""

    threads: int = 0
    report: Callable[[float], None] = silent


S = TypeVar("S", bound=MethodSettings)


class SearchMethod(ABC, Generic[S]):
    """One search method; a module registers an object of a subclass."""

    #: One line for the help of ``--method``.
    help: ClassVar[str]
    #: Its settings, whose names no other method uses for something else.
    settings: type[S]
    #: The steps of the pipeline: every pair of shards by `search`, the join of clusters, or one
    #: index a shard.
    plan: ClassVar[Literal["pairs", "clusters", "indexes"]] = "pairs"
    #: Whether `auto` may choose it, which goes by `estimate`.
    automatic: ClassVar[bool] = False
    #: Whether it uses the GPUs of `device`.
    uses_gpu: ClassVar[bool] = False
    #: Distributions beside numba and torch whose version its result depends on.
    libraries: ClassVar[tuple[str, ...]] = ()

    def describe(self, settings: S) -> str:
        """What is special about these settings, in a few words; for tables where there is no
        estimate."""
        return ""

    def usual(self, task: Task, settings: S) -> Sequence[S]:
        """Settings that are worth a row in the table of `bitext plan`; `settings` are those of the
        configuration."""
        return [settings]

    def estimate(self, task: Task, settings: S) -> Estimate | None:
        """What the search takes; None where nothing is known."""
        return None

    @abstractmethod
    def search(
        self, source: VectorShard, target: VectorShard, k: int, settings: S, runtime: Runtime
    ) -> tuple[Neighbours, Neighbours]:
        """The k nearest of each row in both directions: forward (n, k) for all source rows,
        backward (m, k) for all target rows; ids are row numbers."""


METHODS: Registry[SearchMethod[Any]] = Registry("search method", "mining.search.methods")
