"""One array over shards."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pipelines.sharded import ShardedArray


@given(st.lists(st.integers(0, 5), min_size=1, max_size=6), st.data())
def test_take_equals_indexing_the_whole(sizes: list[int], data: st.DataObject) -> None:
    whole = np.arange(sum(sizes), dtype=np.int64) * 10
    firsts = [0, *np.cumsum(sizes).tolist()[:-1]]
    parts = [whole[first : first + size] for first, size in zip(firsts, sizes, strict=True)]
    rows = np.array(data.draw(st.lists(st.integers(-1, len(whole) - 1), max_size=12)), dtype=np.int64)
    rows = rows if len(whole) else np.full(len(rows), -1, dtype=np.int64)
    expected = [-7 if row < 0 else whole[row] for row in rows]
    assert ShardedArray(parts, firsts, len(whole)).take(rows, fill=-7).tolist() == expected


def test_take_keeps_the_shape_and_whole_rows() -> None:
    whole = np.arange(12.0).reshape(6, 2)
    array = ShardedArray([whole[:4], whole[4:]], [0, 4], 6)
    assert array.take(np.array([[5, 0], [3, 4]])).tolist() == whole[[[5, 0], [3, 4]]].tolist()
