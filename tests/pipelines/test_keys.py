"""What the key of each stage's steps depends on: settings, the hashes and facts of what it reads,
versions.

The engine is made up: it does nothing and reports the same of every step, so only what a stage
itself depends on shows.
"""

from __future__ import annotations

import copy
import dataclasses
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

import pytest
from pydantic import BaseModel

from mining.config.base import override, validate
from mining.config.mine import MineConfig
from mining.config.search import SearchSettings
from mining.search.cluster_join import Division
from mining.search.methods import METHODS
from pipelines import mine
from pipelines import steps as versions
from pipelines.engine import StageReport
from pipelines.progress import Progress
from pipelines.records import Artefact, Listing, artefacts
from pipelines.steps import Step
from tests.conftest import Task

#: What the made-up reports of a stage hold that is not just 1.
FACTS: dict[str, dict[str, Any]] = {
    "read": {"rows": 90_000, "usable": 80_000, "bytes": 1000},
    "dedup": {"per_chunk": [0, 0, 0]},
    "shard": {"rows": 80_000},
    "encode": {"valid_rows": 79_000},
    "clusters": {"groups": 2},
    "score": {"undefined": 0},
}
STAGES = {
    *("read", "gold", "dedup", "shard", "encode", "train_index", "index", "search", "clusters", "assign", "join"),
    *("merge", "score", "match", "emit", "threshold", "output", "metrics"),
}
Keys = dict[tuple[str, str], list[str]]


def made_up(kind: Any, role: str, facts: dict[str, Any], other: str) -> Any:
    """A record of some type: files are named by their `role`, and `other` is the role of files with
    another hash."""
    if kind is Artefact:
        return Artefact(f"work/{role}", f"{role} {role == other}", 1)
    origin, arguments = get_origin(kind) or kind, get_args(kind)
    if dataclasses.is_dataclass(origin):
        hints = {name: arguments[0] if arguments else hint for name, hint in get_type_hints(origin).items()}
        return origin(
            **{name: facts.get(name, made_up(hint, f"{role}.{name}", facts, other)) for name, hint in hints.items()}
        )
    if origin is list:
        return [made_up(arguments[0], role, facts, other) for _ in range(3)]
    return {int: 1, str: "", dict: {}}.get(origin, 1.5)


class Nothing:
    """An engine that keeps the steps and does not do them."""

    def __init__(self, facts: dict[str, dict[str, Any]], other: str, dim: int) -> None:
        self.facts, self.other, self.dim = facts, other, dim
        self.progress = Progress(quiet=True)
        self.stages: list[StageReport] = []
        self.steps: dict[str, Sequence[Step[Any]]] = {}
        self.roles: set[str] = set()

    def run(self, steps: Sequence[Step[Any]]) -> list[Any]:
        self.steps[steps[0].stage] = steps
        reports = [self._report(step) for step in steps]
        self.roles |= {file.path.removeprefix("work/") for report in reports for file in artefacts(report)}
        return reports

    def _report(self, step: Step[Any]) -> Any:
        facts = dict(self.facts.get(step.stage, {}))
        if step.stage == "encode":
            facts |= {"model": step.params.model, "dim": self.dim}
        return made_up(get_type_hints(step.find_stage().run)["return"], step.stage, facts, self.other)


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
def runs(settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> Callable[..., dict[str, Nothing]]:
    """Engines that have run, by search method."""
    # Nothing need be written: the name of a list is the hash of what would be in it.
    monkeypatch.setattr("pipelines.engine.write_list", lambda _, files, rows=(): Listing(str([*files, *rows])))
    monkeypatch.setattr("pipelines.mine.finish", lambda *_: None)
    monkeypatch.setattr("pipelines.mine.begin", lambda *_: None)

    def run(
        change: dict[str, Any] | None = None,
        other: str = "",
        facts: dict[str, dict[str, Any]] | None = None,
        dim: int = 16,
    ) -> dict[str, Nothing]:
        found = {}
        for method in METHODS:
            if any(not _may_set(method, name) for name in change or {}):
                continue
            given = override(copy.deepcopy(settings), {"search.method": method, **(change or {})})
            config = validate(MineConfig, given, "test")
            Path(config.output).mkdir(exist_ok=True)
            engine = found[method] = Nothing({**FACTS, **(facts or {})}, other, dim)
            monkeypatch.setattr("pipelines.mine.Engine", lambda *_, engine=engine: engine)
            mine.mine(config, engine.progress)
        return found

    return run


@pytest.fixture
def keys(runs: Callable[..., dict[str, Nothing]]) -> Callable[..., Keys]:
    """The keys of all steps by search method and stage."""

    def of_run(*changes: Any, **more: Any) -> Keys:
        found = runs(*changes, **more).items()
        return {
            (method, stage): [step.key for step in steps]
            for method, engine in found
            for stage, steps in engine.steps.items()
        }

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
    from mining.encoder.networks.average import AverageNetwork

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
    assert {stage for _, stage in plain} == STAGES
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
        ("nlist", {"clusters"}),
        ("groups", {"clusters"}),
        ("nprobe", {"clusters", "assign", "join"}),
        ("sample", {"clusters"}),
        ("largest", {"clusters", "join"}),
    ],
)
def test_every_part_of_the_division_is_in_the_keys(
    keys: Callable[..., Keys], monkeypatch: pytest.MonkeyPatch, part: str, stages: set[str]
) -> None:
    division = Division(nlist=100, groups=2, nprobe=10, sample=1000, largest=4000)
    monkeypatch.setattr("pipelines.transforms.clusters.divide", lambda *_: division)
    plain = keys()
    monkeypatch.setattr("pipelines.transforms.clusters.divide", lambda *_: division._replace(**{part: 7}))
    assert changed(plain, keys()) == stages


#: Which stages read the files of a role.
READERS: dict[str, set[str]] = {
    "read.chunks.table": {"gold", "dedup", "shard", "threshold", "output"},
    "read.chunks.texts": {"dedup"},
    "read.chunks.ids": {"dedup"},
    "dedup.duplicates": {"shard", "threshold", "output"},
    "shard.table": {"encode", "emit"},
    "encode.vectors": {"search", "train_index", "index", "clusters", "assign"},
    "encode.valid": {"search", "train_index", "index", "clusters", "assign", "output"},
    "train_index.index": {"index"},
    "index.index": {"search"},
    "search.forward": {"merge"},
    "search.backward": {"merge"},
    "clusters.trained": {"assign"},
    "assign.rows": {"join"},
    "assign.clusters": {"join"},
    "assign.limits": {"join"},
    "assign.vectors": {"join"},
    "join.forward.lists": {"merge"},
    "join.forward.numbers": {"merge"},
    "join.backward.lists": {"merge"},
    "join.backward.numbers": {"merge"},
    "merge.lists": {"score", "emit"},
    "merge.means": {"score", "emit"},
    "score.best": {"match"},
    "match.pairs": {"emit", "output"},
    "emit.table": {"threshold", "output", "metrics"},
    "threshold.dropped": set(),
    "output.tsv": set(),
    "output.parquet": set(),
    "output.table": {"metrics"},
    "metrics": set(),
}


def test_every_file_is_in_the_keys_of_those_who_read_it(
    keys: Callable[..., Keys], runs: Callable[..., dict[str, Nothing]]
) -> None:
    assert set().union(*(engine.roles for engine in runs().values())) == set(READERS)
    plain = keys()
    assert {role: changed(plain, keys(other=role)) for role in READERS} == READERS


def test_row_numbers_are_in_the_keys_of_those_who_use_them(keys: Callable[..., Keys]) -> None:
    plain = keys()
    larger = changed(plain, keys(facts={"shard": {"rows": 80_001}}))
    # The names of rows are not: they are in the files.
    assert larger == {
        *("encode", "search", "train_index", "clusters", "assign", "merge"),
        *("score", "match", "emit", "output", "metrics"),
    }


#: Which stages depend on the version of a library.
LIBRARIES = {
    "bitext_miner": STAGES,
    "numpy": STAGES,
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
