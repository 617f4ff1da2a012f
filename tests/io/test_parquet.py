import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mining.errors import UsageError
from mining.evaluation.tables import table_blocks
from mining.io.atomic import refuse_input
from mining.io.parquet import GROUP_ROWS, read_parquet, read_parquet_schema, write_parquet
from mining.io.tsv import write_tsv
from mining.pairs import read_pairs_file
from mining.schemas import PAIRS_SCHEMA


def table(rows: int, text: str = "a text") -> pa.Table:
    row = {"score": 1.25, "cosine": 0.5, "source_mean": 0.4, "target_mean": 0.4, "rank": 1, "direction": "both"}
    row |= {"source_text": text, "target_text": "Ein Text", "source_occurrences": 1, "target_occurrences": 2}
    return pa.Table.from_pylist(
        [{**row, "source_id": f"s{i}", "target_id": f"t{i}"} for i in range(rows)], schema=PAIRS_SCHEMA
    )


def test_parquet_bytes_do_not_depend_on_the_blocks(tmp_path):
    whole = table(GROUP_ROWS + 500)
    write_parquet(tmp_path / "a.parquet", PAIRS_SCHEMA, [whole])
    write_parquet(tmp_path / "b.parquet", PAIRS_SCHEMA, [whole.slice(i, 999) for i in range(0, len(whole), 999)])
    assert (tmp_path / "a.parquet").read_bytes() == (tmp_path / "b.parquet").read_bytes()
    assert read_pairs_file(tmp_path / "a.parquet").equals(whole)
    cuts = [whole.slice(0, GROUP_ROWS - 1), whole.slice(GROUP_ROWS - 1, 2), whole.slice(GROUP_ROWS + 1)]
    write_parquet(tmp_path / "c.parquet", PAIRS_SCHEMA, cuts)
    assert (tmp_path / "c.parquet").read_bytes() == (tmp_path / "a.parquet").read_bytes()


def test_an_error_leaves_the_old_file_and_no_other(tmp_path):
    path = tmp_path / "a.tsv"
    path.write_text("old", encoding="utf-8")

    def blocks():
        yield table(1)
        raise RuntimeError("stop")

    with pytest.raises(RuntimeError):
        write_tsv(path, PAIRS_SCHEMA, blocks())
    assert path.read_text(encoding="utf-8") == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["a.tsv"]


def test_an_output_in_the_place_of_an_input_is_refused(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "a")
    refuse_input(tmp_path / "a", [tmp_path / "b", "c"])
    for output in (tmp_path / "a", tmp_path / "link", tmp_path / "x" / ".." / "a"):
        with pytest.raises(UsageError, match=r"--json .*: is the input as well: name another output"):
            refuse_input(output, [tmp_path / "b", tmp_path / "a"], "--json ")


def test_full_groups_of_rows_are_followed_by_no_empty_one(tmp_path):
    write_parquet(tmp_path / "a.parquet", PAIRS_SCHEMA, [table(GROUP_ROWS)])
    assert pq.read_metadata(tmp_path / "a.parquet").num_row_groups == 1


def test_a_missing_parquet_file_is_named(tmp_path):
    with pytest.raises(UsageError, match=r"none\.parquet: no such file$"):
        read_parquet(tmp_path / "none.parquet")


def test_a_name_that_is_not_utf8(tmp_path):
    path = tmp_path / "d\udce9.parquet"
    with open(path, "wb") as file:
        pq.write_table(pa.table({"score": [1.0], "rank": [1]}), file)
    assert read_parquet(path, ["score"]).to_pydict() == {"score": [1.0]}
    assert read_parquet_schema(path).names == ["score", "rank"]
    assert [block.to_pydict() for block in table_blocks(path, {"rank": pa.int64()}, "")] == [{"rank": [1]}]
    with pytest.raises(UsageError, match="no such file"):
        read_parquet(tmp_path / "n\udce9.parquet")
