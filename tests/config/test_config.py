import pytest

from mining.config.base import override, read_yaml, validate
from mining.config.mine import MineConfig, parse_size
from mining.errors import UsageError

BASE = {
    "source": {"path": "a.tsv", "columns": ["id", "text"]},
    "target": {"path": "b.txt"},
    "model": "model",
    "output": "run",
}


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        ("marign", "ratio", "unknown key 'marign': did you mean 'margin'"),
        ("search.kk", 3, "unknown key 'search.kk': did you mean 'k'"),
        ("source.colums", ["id"], "unknown key 'source.colums': did you mean 'columns'"),
        ("runner.zzz", 1, "unknown key 'runner.zzz': known keys: name, workers"),
        ("search.k", 0, "search.k: Input should be greater than 0"),
        ("margin", "rato", "margin: unknown margin 'rato': did you mean 'ratio'?"),
        ("threshold", "high", "'high' is neither a number nor one of tune, none, auto"),
        ("threshold", "tune", "threshold: tune needs gold"),
        ("threshold", "nan", "'nan' is neither a number"),
        ("threshold", float("inf"), "'inf' is neither a number"),
        ("threshold", True, "true is not what belongs here"),
        ("search.k", True, "true is not what belongs here"),
        ("shard.bytes", "many", "'many' is not a size"),
        ("shard.bytes", "1.5GiB", "shard.bytes: Input should be less than or equal to 1073741824"),
    ],
)
def test_faulty_setting_is_named_with_its_file(place, value, message):
    with pytest.raises(UsageError, match=f"^my.yaml: .*{message}"):
        validate(MineConfig, override(BASE, {place: value}), "my.yaml")


def test_flags_lie_over_the_file():
    settings = validate(
        MineConfig, override({**BASE, "search": {"k": 8}}, {"search.method": "faiss", "gold": None}), "x"
    )
    assert (settings.search.k, settings.search.method, settings.gold) == (8, "faiss", None)


def test_a_path_alone_is_a_corpus():
    settings = validate(MineConfig, {**BASE, "source": "a.txt", "target": ["b.txt", "c.txt"]}, "x")
    assert (settings.source.paths, settings.target.paths) == (["a.txt"], ["b.txt", "c.txt"])


@pytest.mark.parametrize(
    ("index", "given", "parameters"),
    [
        ("IVF256,Flat", None, "nprobe=8"),
        ("Flat", None, ""),
        ("HNSW16", None, ""),
        ("IVF256,Flat", "nprobe=3", "nprobe=3"),
    ],
)
def test_only_inverted_files_probe_by_default(index, given, parameters):
    flags = {"search.method": "faiss", "search.index": index, "search.parameters": given}
    settings = validate(MineConfig, override(BASE, flags), "x")
    assert settings.search.of("faiss").search_parameters == parameters


@pytest.mark.parametrize(("text", "size"), [("256MB", 256_000_000), ("1 GiB", 2**30), ("12", 12), ("1.5k", 1500)])
def test_sizes(text, size):
    assert parse_size(text) == size


@pytest.mark.parametrize(
    ("content", "message"),
    [("a: [", "not valid YAML"), ("- a", "expected a mapping"), (None, "no such configuration file")],
)
def test_faulty_yaml_is_one_line(tmp_path, content, message):
    path = tmp_path / "c.yaml"
    if content is not None:
        path.write_text(content, encoding="utf-8")
    with pytest.raises(UsageError, match=message) as caught:
        read_yaml(path)
    assert "\n" not in str(caught.value)


def test_settings_of_runs_of_before_are_read(caplog):
    """The resolved settings of a run named the keys of all search methods."""
    before = {"k": 3, "method": "faiss", "clusters": None, "nearest": 10, "backend": "torch", "device": "cpu"}
    before |= {"source_tile": 0, "target_tile": 0, "index": "IVF16,Flat", "parameters": "nprobe=2", "rescore": 9}
    search = validate(MineConfig, {**BASE, "search": {**before, "training_rows": 100_000}}, "x").search
    assert search.model_dump() == {
        "k": 3,
        "method": "faiss",
        "device": "cpu",
        "index": "IVF16,Flat",
        "parameters": "nprobe=2",
        "refine_factor": 4.0,
        "training_rows": 100_000,
    }
    assert len(caplog.records) == 3


def test_a_key_of_another_method_is_not_looked_at_but_told(caplog):
    search = validate(MineConfig, {**BASE, "search": {"method": "exact", "nlist": 5}}, "x").search
    assert "search.nlist is for method clusters or auto and is not looked at: the method is exact" in caplog.text
    assert "nlist" not in search.model_dump()
