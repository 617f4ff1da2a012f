import json
import lzma

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mining.errors import InputError, UsageError
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


def test_tsv_replaces_what_would_break_it_and_parquet_keeps_it(tmp_path):
    odd = table(1, "a\tb\nc\rd\u2028e")
    write_tsv(tmp_path / "a.tsv", PAIRS_SCHEMA, [odd])
    lines = (tmp_path / "a.tsv").read_bytes().decode().split("\n")
    assert len(lines) == 3
    assert lines[1].split("\t")[8] == "a b c d\u2028e"
    assert lines[1].split("\t")[0] == "1.250000"
    write_parquet(tmp_path / "a.parquet", PAIRS_SCHEMA, [odd])
    assert read_pairs_file(tmp_path / "a.parquet").column("source_text").to_pylist() == ["a\tb\nc\rd\u2028e"]


def test_files_of_pairs_with_byte_order_marks(tmp_path):
    pairs = table(3)
    write_tsv(tmp_path / "a.tsv", PAIRS_SCHEMA, [pairs])
    lines = (tmp_path / "a.tsv").read_bytes().split(b"\n")
    (tmp_path / "a.tsv").write_bytes(b"\n".join(b"\xef\xbb\xbf" + line for line in lines[:-1]))
    assert read_pairs_file(tmp_path / "a.tsv").equals(pairs)
    rows = [("\ufeff" + json.dumps(row) + "\n").encode() for row in pairs.to_pylist()]
    (tmp_path / "a.jsonl").write_bytes(b"".join(rows))
    assert read_pairs_file(tmp_path / "a.jsonl").equals(pairs)


def test_tsv_and_jsonl_come_back(tmp_path):
    pairs = table(3)
    write_tsv(tmp_path / "a.tsv", PAIRS_SCHEMA, [pairs])
    assert read_pairs_file(tmp_path / "a.tsv").equals(pairs)
    with lzma.open(tmp_path / "a.jsonl.xz", "wt", encoding="utf-8") as out:
        out.writelines(json.dumps(row) + "\n" for row in pairs.to_pylist())
    assert read_pairs_file(tmp_path / "a.jsonl.xz").equals(pairs)


def test_no_pairs_are_a_file_too(tmp_path):
    for path in (tmp_path / "a.tsv", tmp_path / "a.parquet"):
        (write_tsv if path.suffix == ".tsv" else write_parquet)(path, PAIRS_SCHEMA, [])
        assert len(read_pairs_file(path)) == 0


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


def test_faulty_files_are_named(tmp_path):
    with pytest.raises(UsageError, match=r"none.tsv: no such file of pairs"):
        read_pairs_file(tmp_path / "none.tsv")
    (tmp_path / "x.csv").write_text("a", encoding="utf-8")
    with pytest.raises(UsageError, match=r"pairs are read from .parquet, .tsv or .jsonl"):
        read_pairs_file(tmp_path / "x.csv")
    (tmp_path / "x.tsv").write_text("score\tcosine\n1\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"x.tsv:2: 1 columns where the first line names 2"):
        read_pairs_file(tmp_path / "x.tsv")
    (tmp_path / "y.tsv").write_text("score\n1\n", encoding="utf-8")
    with pytest.raises(UsageError, match="column 'cosine' is missing; its columns are score"):
        read_pairs_file(tmp_path / "y.tsv")
    (tmp_path / "x.parquet").write_bytes(b"PAR1")
    with pytest.raises(InputError, match="not a readable Parquet file"):
        read_parquet(tmp_path / "x.parquet")


def pairs_of(path, content):
    path.write_bytes(content.encode("utf-8") if isinstance(content, str) else content)
    return read_pairs_file(path, ["score", "source_id", "target_id"])


def test_columns_that_are_not_asked_for_do_not_matter(tmp_path):
    wanted = {"score": [1.5], "source_id": ["1"], "target_id": ["b"]}
    assert pairs_of(tmp_path / "a.tsv", "x\ttarget_id\tx\tscore\tsource_id\n\tb\t\t1.5\t1\n").to_pydict() == wanted
    lines = '{"score": 1.5, "source_id": 1, "target_id": "b", "x": [1]}\n'
    assert pairs_of(tmp_path / "a.jsonl", lines).to_pydict() == wanted
    table = pa.table({"x": pa.array([[1]]), **wanted, "source_id": [1]})
    pq.write_table(table, tmp_path / "a.parquet")
    assert read_pairs_file(tmp_path / "a.parquet", ["score", "source_id", "target_id"]).to_pydict() == wanted


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.tsv", "score\tscore\tsource_id\ttarget_id\n", "column 'score' stands twice"),
        ("a.tsv", "score\tsource_id\n", "column 'target_id' is missing; its columns are score, source_id"),
        ("a.tsv", "score\tsource_id\ttarget_id\nx\ta\tb\n", "a value does not fit its column: .*'x'"),
        ("a.jsonl", "\n[1]\n", "a.jsonl:1: not JSON lines"),
        ("a.jsonl", "[1]\n", "a.jsonl:1: not a JSON object: each line holds one pair"),
        (
            "a.jsonl",
            '{"score": 1, "source_id": "a", "target_id": "b"}\n{"score": 1}\n',
            "a.jsonl:2: .*'source_id' is missing",
        ),
        ("a.jsonl", '{"score": [1], "source_id": "a", "target_id": "b"}\n', "a value does not fit its column"),
        (
            "a.jsonl",
            '{"score": 1, "source_id": "a", "target_id": 1}\n{"score": 1, "source_id": 1, "target_id": 2}\n',
            "a value does not fit its column",
        ),
        ("a.jsonl", '{"score": 1, "source_id": 1.5, "target_id": 1}\n', "column 'source_id' holds numbers with dec"),
    ],
)
def test_faulty_pairs_are_named(tmp_path, name, content, message):
    with pytest.raises((UsageError, InputError), match=message):
        pairs_of(tmp_path / name, content)


@pytest.mark.parametrize("name", ["a.tsv", "a.jsonl"])
def test_a_line_that_is_no_utf8_is_named(tmp_path, name):
    with pytest.raises(
        InputError, match=rf"{name}:2: invalid UTF-8 in a file of mined pairs: correct or remove the line"
    ):
        pairs_of(tmp_path / name, b'{"score": 1, "source_id": "a", "target_id": "b"}\n\xff\n')


def test_pairs_in_parquet_of_other_columns_are_named(tmp_path):
    whole = {"score": pa.array([1.0]), "source_id": pa.array(["a"]), "target_id": pa.array(["b"])}
    for column, values, message in (
        ("score", pa.array(["x"]), "a value does not fit its column"),
        ("target_id", pa.array([1.0]), "column 'target_id' holds numbers with decimals"),
        ("target_id", pa.array([["b"]]), "a value does not fit its column"),
    ):
        pq.write_table(pa.table({**whole, column: values}), tmp_path / "a.parquet")
        with pytest.raises(InputError, match=rf"a\.parquet: {message}"):
            read_pairs_file(tmp_path / "a.parquet", list(whole))
    pq.write_table(pa.table({"score": whole["score"]}), tmp_path / "a.parquet")
    with pytest.raises(UsageError, match="column 'source_id' is missing; its columns are score"):
        read_pairs_file(tmp_path / "a.parquet", list(whole))


def test_a_lone_surrogate_in_json_becomes_a_replacement(tmp_path):
    lines = '{"score": 1, "source_id": "\\ud800", "target_id": "b"}\n'
    assert pairs_of(tmp_path / "a.jsonl", lines).column("source_id").to_pylist() == ["\ufffd"]


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
