import numpy as np
import pyarrow as pa
import pytest

from mining.corpus.cells import strings
from mining.text_arrays import LARGEST, table_parts, text_array, whole


def test_lone_surrogates_become_replacements_and_nothing_else() -> None:
    assert whole("a\udce9b\ud800\u2028\U0001f600") == "a\ufffdb\ufffd\u2028\U0001f600"
    assert text_array(["a\udce9", None, ""]).to_pylist() == ["a\ufffd", None, ""]
    assert text_array(["ä", None]).type == text_array(["\ud800"]).type == pa.large_string()


@pytest.mark.parametrize(
    ("limit", "expected"), [(100, [6]), (9, [6]), (8, [5, 1]), (5, [4, 2]), (4, [2, 2, 2]), (3, [1, 1, 2, 1, 1])]
)
def test_no_column_of_a_part_holds_more_than_the_limit(limit: int, expected: list[int]) -> None:
    table = pa.table(
        {
            "a": pa.array(["ab", None, "cde", "", "fä", "x"], pa.large_string()),
            "n": pa.array(range(6)),
            "b": pa.array(["", "wxyz", "", "", "", ""], pa.large_string()),
        }
    )
    parts = table_parts(table, limit)
    assert [len(part) for part in parts] == expected
    assert pa.concat_tables(parts).equals(table)


def test_an_empty_table_is_one_part() -> None:
    assert [len(part) for part in table_parts(pa.table({"a": pa.array([], pa.large_string())}), 1)] == [0]


def test_the_limit_is_that_of_arrow() -> None:
    assert LARGEST == 2**31 - 1


def test_cells_beyond_the_limit_have_wide_offsets(monkeypatch: pytest.MonkeyPatch) -> None:
    data = np.frombuffer(b"abcdef", np.uint8).copy()
    cells = data, np.array([0, 2]), np.array([2, 6])
    assert strings(*cells).type == pa.string()
    monkeypatch.setattr("mining.corpus.cells.LARGEST", 6)
    assert strings(*cells).type == pa.string()
    monkeypatch.setattr("mining.corpus.cells.LARGEST", 5)
    assert strings(*cells).type == pa.large_string()
    assert strings(*cells).to_pylist() == ["ab", "cdef"]
