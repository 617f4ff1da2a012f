"""What the key of each stage's steps depends on: settings, the hashes and facts of what it reads,
versions.

The engine is made up: it does nothing and tells the same of every step, so only what a stage itself
depends on shows.
"""

from __future__ import annotations

import copy
import json
import platform
import re
import shutil
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, get_args, get_origin

import numpy as np
import pytest
from pydantic import BaseModel

from mining.config.base import override, validate
from mining.config.mine import MineConfig
from mining.config.search import SearchSettings
from mining.search.cluster_search import Division
from mining.search.methods import METHODS
from pipelines import versions
from pipelines.artefacts import Marker, Step, read_failure
from pipelines.given import Given
from pipelines.mine import MineResult, MineRun
from pipelines.plan import Plan, Side
from pipelines.progress import Progress
from pipelines.work import do_step
from tests.conftest import Task

#: What the made-up steps of each stage wrote, and what they tell the driver.
SUFFIXES = {
    "read": [f".{chunk:05d}{kind}" for chunk in range(3) for kind in (".parquet", ".texts.npy", ".ids.npy")],
    "gold": [],
    "dedup": [".npy"],
    "shard": [".parquet"],
    "encode": [".vectors.npy", ".valid.npy"],
    "train_index": [".faiss"],
    "index": [".faiss"],
    "search": [".forward.npy", ".backward.npy"],
    "clusters": [".npz"],
    "assign": [".rows.npy", ".clusters.npy", ".limits.npy", ".vectors.npy"],
    "join": [".forward.npy", ".forward.rows.npy", ".backward.npy", ".backward.rows.npy"],
    "merge": [".lists.npy", ".means.npy"],
    "score": [".npy"],
    "match": [".npy"],
    "emit": [".parquet"],
    "threshold": [],
    "output": [".parquet"],
    "metrics": [".json"],
}
INFO: dict[str, dict[str, Any]] = {
    "read": {"chunks": [{"rows": 90_000, "usable": 80_000, "bytes": 1000}] * 3, "reasons": {}, "replaced": 0},
    "dedup": {"duplicates": [0, 0, 0]},
    "shard": {"rows": 80_000},
    "encode": {"valid": 79_000},
    "clusters": {"groups": 2},
    "merge": {"mean_sum": 1.0},
    "score": {"floored": 0},
    "match": {"pairs": 5},
    "threshold": {"threshold": 1.5},
    "output": {"pairs": 4, "reasons": {"source": {}, "target": {}}},
}
Keys = dict[tuple[str, str], list[str]]


class Nothing:
    """An engine that keeps the steps and does not do them."""

    def __init__(self, info: dict[str, dict[str, Any]], other: str, dim: int) -> None:
        self.info, self.other, self.dim = info, other, dim
        self.progress, self.report = Progress(quiet=True), []
        self.steps: dict[str, Sequence[Step]] = {}

    def run(self, stage: str, steps: Sequence[Step]) -> list[Marker]:
        self.steps[stage] = steps
        self.report.append({"stage": stage})
        return [self._marker(stage, step) for step in steps]

    def _marker(self, stage: str, step: Step) -> Marker:
        info = dict(self.info.get(stage, {}))
        if stage == "encode":
            info |= {"model": step.params["model"], "dim": self.dim}
        files = {f"work/{stage}/{step.name}{suffix}": suffix for suffix in SUFFIXES[stage]}
        # Another hash for the files of one kind.
        changed = {p: {"hash": f"{s} {self.other == f'{stage}{s}'}", "bytes": 1} for p, s in files.items()}
        return Marker(step.key, changed, info, {})


@pytest.fixture
def settings(task: Task, tiny_model: Path, tmp_path: Path) -> dict[str, Any]:
    """A run in which every setting plays a part."""
    return {
        "source": {"path": str(task.source), "columns": ["id", "text"]},
        "target": {"path": str(task.target), "columns": ["id", "text"]},
        "model": str(tiny_model),
        "output": str(tmp_path / "run"),
        "gold": str(task.gold),
        "shard": {"rows": 100_000},
    }


@pytest.fixture
def keys(settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Keys]:
    """The keys of all steps by search method and stage."""
    # Nothing need be written: the name of a list is the hash of what would be in it.
    monkeypatch.setattr("pipelines.plan.write_list", lambda _, files, rows=(): str([*files.items(), *rows]))
    monkeypatch.setattr("pipelines.mine.MineRun._end", lambda _, result, *__: result)
    monkeypatch.setattr("pipelines.reports.begin", lambda *_: None)

    def of_run(
        change: dict[str, Any] | None = None, other: str = "", info: dict[str, Any] | None = None, dim: int = 16
    ) -> Keys:
        found = {}
        for method in METHODS:
            if any(not _may_set(method, name) for name in change or {}):
                continue
            given = override(copy.deepcopy(settings), {"search.method": method, **(change or {})})
            config = validate(MineConfig, given, "test")
            Path(config.output).mkdir(exist_ok=True)
            engine = Nothing({**INFO, **(info or {})}, other, dim)
            monkeypatch.setattr("pipelines.mine.Engine", lambda *_, engine=engine: engine)
            MineRun(config, engine.progress).mine()
            found |= {(method, stage): [step.key for step in steps] for stage, steps in engine.steps.items()}
        return found

    return of_run


def _may_set(method: str, name: str) -> bool:
    """Whether a run by `method` may set `name`: FAISS refuses devices, and each method the keys of
    the others."""
    group, _, key = name.partition(".")
    if group != "search" or key in SearchSettings.model_fields:
        return not (method == "faiss" and name == "search.device")
    return key in METHODS[method].settings.model_fields


def changed(before: Keys, after: Keys) -> set[str]:
    """Stages of which some step has another key, or which are there in one run only; of methods
    that are in both."""
    methods = {method for method, _ in before} & {method for method, _ in after}
    places = [place for place in before | after if place[0] in methods]
    return {place[1] for place in places if before.get(place) != after.get(place)}


def leaves(model: type[BaseModel], before: str = "") -> Iterator[str]:
    """The names of all settings."""
    for name, field in model.fields().items():
        kind = field.annotation
        inner = next((a for a in get_args(kind) if isinstance(a, type) and issubclass(a, BaseModel)), kind)
        if get_origin(kind) is None and isinstance(inner, type) and issubclass(inner, BaseModel):
            yield from leaves(inner, f"{before}{name}.")
        else:
            yield f"{before}{name}"


READ_RULES: dict[str, tuple[Any, set[str]]] = {
    "format": ("tsv", {"read"}),
    "columns": (["id", "text", "more"], {"read"}),
    "id": ("id", {"read"}),
    "invalid_utf8": ("skip", {"read"}),
    "on_bad_row": ("skip", {"read"}),
    "max_chars": (50, {"read"}),
    "text": ("id", {"read"}),
}
#: For every setting another value than in `settings`, and the stages whose steps depend on it. What
#: only says where or by what something is done, and cannot change the result, changes no key.
SETTINGS: dict[str, tuple[Any, set[str]]] = {
    **{f"source.{name}": entry for name, entry in READ_RULES.items()},
    **{f"target.{name}": entry for name, entry in READ_RULES.items()},
    "source.path": ("copies/other-name.tsv", {"read"}),
    "target.path": ("copies/other-name.tsv", {"read"}),
    "model": ("copies/other-model", {"encode"}),
    "output": ("copies", set()),
    "gold": ("copies/other-gold.tsv", {"gold", "threshold", "metrics"}),
    "shard.rows": (90_000, {"read"}),
    "shard.bytes": (1500, {"read"}),
    "encode.device": ("cuda", {"encode"}),
    "encode.dim": (8, {"encode", "search", "train_index", "index", "clusters", "assign", "join"}),
    "encode.dtype": ("int8", {"encode"}),
    # They are part of the model's name, where it keeps its languages apart.
    "encode.source_language": ("aa", set()),
    "encode.target_language": ("aa", set()),
    "search.k": (3, {"search", "join", "merge", "score", "emit", "metrics"}),
    "search.nlist": (900, {"clusters", "join"}),
    "search.nprobe": (9, {"clusters", "assign", "join"}),
    "search.backend": ("faiss", set()),
    "search.device": ("cuda", set()),
    "search.source_tile": (64, set()),
    "search.target_tile": (64, set()),
    "search.index": ("IVF128,Flat", {"train_index"}),
    "search.parameters": ("nprobe=3", {"search"}),
    "search.refine_factor": (2.5, {"search"}),
    "search.training_rows": (1000, {"train_index"}),
    "margin": ("distance", {"score", "emit", "metrics"}),
    "strategy": ("forward", {"match", "metrics"}),
    "threshold": (1.25, {"threshold", "output", "metrics"}),
    # With gold they are kept anyway.
    "candidates": (True, set()),
    "runner.name": ("DaskRunner", set()),
    "runner.workers": (2, set()),
    "runner.threads": (3, set()),
    "runner.dask_address": ("localhost:1", set()),
    "runner.options": ({"x": 1}, set()),
    "runner.accelerator": ("type:x;count:1", set()),
}


@pytest.fixture
def copies(task: Task, tiny_model: Path, tmp_path: Path) -> Path:
    """Other files than those of `settings`."""
    from mining.encoder import load_encoder, save_model
    from mining.encoder.networks import AverageNetwork

    folder = tmp_path / "copies"
    folder.mkdir()
    shutil.copy(task.source, folder / "other-name.tsv")
    (folder / "other-gold.tsv").write_text("s-0131\tt-0001\n", encoding="utf-8")
    encoder = load_encoder(tiny_model)
    save_model(
        folder / "other-model", AverageNetwork({"pieces": encoder.network.tables["pieces"] * 2}), encoder.tokenizers
    )
    return tmp_path


def test_every_setting_changes_the_keys_of_what_depends_on_it(keys: Callable[..., Keys], copies: Path) -> None:
    assert {*SETTINGS, "search.method"} == set(leaves(MineConfig))
    plain = keys()
    assert set(SUFFIXES) == {stage for _, stage in plain}
    found = {}
    for name, (value, _) in SETTINGS.items():
        value = str(copies / value) if isinstance(value, str) and value.startswith("copies") else value
        found[name] = changed(plain, keys({name: value}, dim=8 if name == "encode.dim" else 16))
    assert found == {name: stages for name, (_, stages) in SETTINGS.items()}


def test_search_methods_have_keys_of_their_own(keys: Callable[..., Keys]) -> None:
    found = keys()
    assert found["exact", "encode"] == found["faiss", "encode"] == found["clusters", "encode"]
    assert not set(found["exact", "search"]) & set(found["faiss", "search"])
    assert not set(found["exact", "merge"]) & set(found["clusters", "merge"])


@pytest.mark.parametrize(
    ("part", "stages"),
    [
        ("clusters", {"clusters"}),
        ("groups", {"clusters"}),
        ("nearest", {"clusters", "assign", "join"}),
        ("sample", {"clusters"}),
        ("largest", {"clusters", "join"}),
    ],
)
def test_every_part_of_the_division_is_in_the_keys(
    keys: Callable[..., Keys], monkeypatch: pytest.MonkeyPatch, part: str, stages: set[str]
) -> None:
    division = Division(clusters=100, groups=2, nearest=10, sample=1000, largest=4000)
    monkeypatch.setattr("pipelines.mine.divide", lambda *_: division)
    plain = keys()
    monkeypatch.setattr("pipelines.mine.divide", lambda *_: division._replace(**{part: 7}))
    assert changed(plain, keys()) == stages


#: Which stages read the files of a kind.
READERS = {
    "read.00001.parquet": {"gold", "dedup", "shard", "threshold", "output"},
    "read.00001.texts.npy": {"dedup"},
    "read.00001.ids.npy": {"dedup"},
    "dedup.npy": {"shard", "threshold", "output"},
    "shard.parquet": {"encode", "emit"},
    "encode.vectors.npy": {"search", "train_index", "index", "clusters", "assign"},
    "encode.valid.npy": {"search", "train_index", "index", "clusters", "assign", "output"},
    "train_index.faiss": {"index"},
    "index.faiss": {"search"},
    "search.forward.npy": {"merge"},
    "search.backward.npy": {"merge"},
    "clusters.npz": {"assign"},
    "assign.rows.npy": {"join"},
    "assign.clusters.npy": {"join"},
    "assign.limits.npy": {"join"},
    "assign.vectors.npy": {"join"},
    "join.forward.npy": {"merge"},
    "join.forward.rows.npy": {"merge"},
    "join.backward.npy": {"merge"},
    "join.backward.rows.npy": {"merge"},
    "merge.lists.npy": {"score", "emit"},
    "merge.means.npy": {"score", "emit"},
    "score.npy": {"match"},
    "match.npy": {"emit", "output"},
    "emit.parquet": {"threshold", "output", "metrics"},
    "output.parquet": {"metrics"},
}


def test_every_file_is_in_the_keys_of_those_who_read_it(keys: Callable[..., Keys]) -> None:
    plain = keys()
    assert {kind: changed(plain, keys(other=kind)) for kind in READERS} == READERS


def test_row_numbers_are_in_the_keys_of_those_who_use_them(keys: Callable[..., Keys]) -> None:
    plain = keys()
    larger = changed(plain, keys(info={"shard": {"rows": 80_001}}))
    # The names of rows are not: they are in the files.
    assert larger == {
        *("encode", "search", "train_index", "clusters", "assign", "merge"),
        *("score", "match", "emit", "output", "metrics"),
    }


#: Which stages depend on the version of a library.
LIBRARIES = {
    "bitext_miner": set(SUFFIXES),
    "numpy": set(SUFFIXES),
    "pyarrow": {"read", "gold", "dedup", "shard", "encode", "emit", "threshold", "output", "metrics"},
    "numba": {
        *("read", "gold", "encode", "search", "clusters", "assign", "join", "merge"),
        *("score", "match", "emit", "threshold", "output", "metrics"),
    },
    "torch": {"encode", "search", "clusters", "assign", "join"},
    "sentencepiece": {"encode"},
    "safetensors": {"encode"},
    "faiss": {"train_index", "index", "search"},
    "unicode": {"read", "gold", "encode", "threshold", "metrics"},
}


def test_versions_are_in_the_keys_of_what_depends_on_them(
    keys: Callable[..., Keys], monkeypatch: pytest.MonkeyPatch
) -> None:
    plain, right, found = keys(), versions.version, {}
    for library in LIBRARIES:
        with monkeypatch.context() as patch:
            patch.setattr(versions, "version", lambda name, other=library: "0" if name == other else right(name))
            found[library] = changed(plain, keys())
    assert found == LIBRARIES


def test_exact_search_does_not_depend_on_faiss(keys: Callable[..., Keys], monkeypatch: pytest.MonkeyPatch) -> None:
    plain, right = keys(), versions.version
    monkeypatch.setattr(versions, "version", lambda name: "0" if name == "faiss" else right(name))
    other = keys()
    assert other["exact", "search"] == plain["exact", "search"]
    assert other["faiss", "search"] != plain["faiss", "search"]


def test_chunks_fill_shards_up_to_their_limits(tmp_path: Path) -> None:
    def groups(chunks: list[tuple[int, int]], duplicates: list[list[int]]) -> list[int]:
        settings = {"source": "x", "target": "x", "output": "x", "shard": {"rows": 100, "bytes": 1000}}
        plan = Plan(MineConfig.model_validate(settings), Given.__new__(Given), tmp_path, 1)
        facts = [{"rows": usable, "usable": usable, "bytes": size} for usable, size in chunks]
        files = {f"{number}.parquet": {"hash": "", "bytes": 1} for number in range(len(chunks))}
        side = Side("source", read=[Marker("", files, {"chunks": facts}, {})])
        side.dedup = [Marker("", {}, {"duplicates": counts}, {}) for counts in duplicates]
        steps = plan.shard(side)
        assert [Path(p).name for step in steps for p in step.files("chunks").paths] == list(files)
        assert [step.params["first"] for step in steps] == [
            sum(len(before.files("chunks").paths) for before in steps[:number]) for number in range(len(steps))
        ]
        return [len(step.files("chunks").paths) for step in steps]

    assert groups([(60, 1), (40, 1), (1, 1)], [[0, 0, 0]]) == [2, 1]
    assert groups([(60, 1), (41, 1), (1, 1)], [[0, 0, 0]]) == [1, 2]
    # Duplicates, of all buckets, are not kept.
    assert groups([(60, 1), (43, 1), (1, 1)], [[1, 0, 0], [0, 2, 0]]) == [2, 1]
    assert groups([(1, 600), (1, 400), (1, 1)], [[0, 0, 0]]) == [2, 1]
    assert groups([(1, 600), (1, 401), (1, 1)], [[0, 0, 0]]) == [1, 2]
    assert groups([(500, 5000), (0, 0)], [[0, 0]]) == [1, 1]


@pytest.mark.parametrize(("rows", "buckets"), [(0, 1), (1, 1), (4_000_000, 1), (4_000_001, 2), (8_000_001, 3)])
def test_buckets_hold_so_many_keys(tmp_path: Path, rows: int, buckets: int) -> None:
    settings = {"source": "x", "target": "x", "output": "x"}
    plan = Plan(MineConfig.model_validate(settings), Given.__new__(Given), tmp_path, 1)
    side = Side("source", read=[Marker("", {}, {"chunks": [{"rows": rows}]}, {})])
    assert [step.params["bucket"] for step in plan.dedup(side)] == list(range(buckets))
    assert {step.params["buckets"] for step in plan.dedup(side)} == {buckets}


def test_worker_with_other_versions_is_refused_and_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    step = Step(str(tmp_path), "match", "match", {}, {}, versions=versions.versions_of("match"))
    monkeypatch.setattr(versions, "version", lambda name: "0.1" if name == "numba" else "1.0")
    versions.check_versions({"numba": "0.1", "numpy": "1.0"})
    do_step(step)
    failure = read_failure(step)
    assert failure is not None
    wanted = step.versions["bitext_miner"]
    assert failure.known is True
    assert re.match(
        rf"a worker \(.+\) has bitext_miner 1\.0, but the run was started with {wanted}: install", failure.message
    )


def test_versions_of_libraries(monkeypatch: pytest.MonkeyPatch) -> None:
    found = versions.installed()
    assert found["numpy"] == np.__version__
    assert found["unicode"] == unicodedata.unidata_version
    assert found["python"] == platform.python_version()
    assert "none" not in found.values()
    monkeypatch.setitem(versions._DISTRIBUTIONS, "torch", ("no-such-distribution", "numpy"))
    versions.version.cache_clear()
    assert versions.version("torch") == np.__version__
    monkeypatch.setitem(versions._DISTRIBUTIONS, "torch", ("no-such-distribution",))
    versions.version.cache_clear()
    assert versions.version("torch") == "none"
    versions.version.cache_clear()


def test_marker_records_the_versions(finished: MineResult) -> None:
    for stage in versions.STAGES.keys() & {path.name for path in (finished.folder / "work").iterdir()}:
        for path in (finished.folder / "work" / stage).glob("*.json"):
            assert json.loads(path.read_text(encoding="utf-8"))["versions"] == versions.versions_of(stage)
