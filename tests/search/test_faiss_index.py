import builtins

import numpy as np
import pytest

from mining.errors import InputError, UsageError
from mining.search.exact import reference_neighbours
from mining.search.faiss_index import (
    add_rows,
    import_faiss,
    new_index,
    open_index,
    save_index,
    search_index,
    set_parameters,
    train_index,
)
from tests.search.test_exact import same, unit_rows


def build(factory: str, vectors: np.ndarray, path) -> object:
    index = train_index(factory, vectors)
    add_rows(index, vectors)
    save_index(index, path)
    return open_index(path, vectors.shape[1], len(vectors))


@pytest.mark.parametrize(
    ("factory", "parameters"), [("Flat", ""), ("IVF8,Flat", "nprobe=8"), ("PCA12,IVF4,Flat", "nprobe=4")]
)
def test_saved_index_finds_what_the_reference_finds(tmp_path, factory, parameters):
    base, queries = unit_rows(400, 16, 1), unit_rows(30, 16, 2)
    index = build(factory, base, tmp_path / "x.faiss")
    if parameters and "PCA" not in factory:
        set_parameters(index, parameters)
    found = search_index(index, queries, base, 4, 16)
    expected = reference_neighbours(queries, base, 4)
    if "PCA" in factory:
        assert (found.cosines <= expected.cosines[:, :1]).all()
    else:
        assert same(found, expected)


def test_long_lists_are_proposed_for_fewer_rows_at_a_time(tmp_path, monkeypatch):
    base, queries = unit_rows(400, 16, 1), unit_rows(30, 16, 2)
    index = build("Flat", base, tmp_path / "x.faiss")
    monkeypatch.setattr("mining.search.faiss_index._PROPOSED", 100)
    asked = []

    class Watched:
        def search(self, rows, count):
            asked.append(rows.shape[0] * count)
            return index.search(rows, count)

    assert same(search_index(Watched(), queries, base, 4, 20), reference_neighbours(queries, base, 4))
    assert asked == [100] * 6


def test_compressed_index_still_gives_exact_cosines(tmp_path):
    base = unit_rows(600, 16, 1)
    found = search_index(build("PQ8x4fs", base, tmp_path / "x.faiss"), base, base, 1, 13)
    assert found.cosines[found.ids[:, 0] == np.arange(600), 0] == pytest.approx(1.0, abs=1e-6)
    assert (found.ids[:, 0] == np.arange(600)).mean() > 0.9


def test_too_few_rows_to_train_on_name_the_mend():
    with pytest.raises(UsageError, match=r"needs at least 64 rows.*has 10.*search.method: exact"):
        train_index("IVF64,Flat", unit_rows(10, 8, 0))


def test_unknown_factory_and_parameters_are_named():
    with pytest.raises(UsageError, match=r"search.index 'IVFx,Flt' does not fit 8 dimensions"):
        new_index("IVFx,Flt", 8)
    with pytest.raises(UsageError, match=r"search.parameters 'nprobes=3' do not fit"):
        set_parameters(train_index("IVF2,Flat", unit_rows(100, 8, 0)), "nprobes=3")


def test_damaged_or_foreign_index_is_refused(tmp_path):
    path = tmp_path / "x.faiss"
    build("Flat", unit_rows(20, 8, 0), path)
    with pytest.raises(InputError, match="8 dimensions and the vectors have 9"):
        open_index(path, 9)
    with pytest.raises(InputError, match="holds 20 rows and its shard 21"):
        open_index(path, 8, 21)
    path.write_bytes(path.read_bytes()[:50])
    faiss = import_faiss()
    save_index(faiss.index_factory(8, "Flat", faiss.METRIC_L2), tmp_path / "l2.faiss")
    with pytest.raises(InputError, match=r"l2\.faiss: the index does not rank by inner product"):
        open_index(tmp_path / "l2.faiss", 8)
    with pytest.raises(InputError, match="not a readable FAISS index"):
        open_index(path, 8)


def test_missing_faiss_says_which_extra(monkeypatch):
    real = builtins.__import__

    def without_faiss(name, *args, **kwargs):
        if name == "faiss":
            raise ImportError("No module named 'faiss'")
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without_faiss)
    with pytest.raises(UsageError, match=r"bitext-miner\[cpu\].*search.backend: torch"):
        import_faiss()
