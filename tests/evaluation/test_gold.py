import gzip
import lzma
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mining.errors import InputError, UsageError
from mining.evaluation import Gold, check_known, read_gold


def write(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


def test_reads_pairs_in_order(tmp_path: Path) -> None:
    gold = read_gold(write(tmp_path / "a.gold", b"s2\tt2\ns1\tt1\n"))
    assert (gold.source, gold.target, gold.line) == (["s2", "s1"], ["t2", "t1"], [1, 2])
    assert gold.domain is None
    assert (len(gold), gold.rows, gold.repeated) == (2, 2, 0)


def test_third_column_is_the_domain(tmp_path: Path) -> None:
    gold = read_gold(write(tmp_path / "a.gold-domains", b"s1\tt1\tnews\ns2\tt2\tui"))
    assert gold.domain == ["news", "ui"]


def test_repeated_pairs_count_once(tmp_path: Path) -> None:
    gold = read_gold(write(tmp_path / "a.gold", b"s1\tt1\ns2\tt2\ns1\tt1\ns1\tt2\n"))
    assert (len(gold), gold.rows, gold.repeated) == (3, 4, 1)


def test_byte_order_marks_at_the_start_of_lines_and_ids(tmp_path: Path) -> None:
    joined = b"".join(line.encode("utf-8-sig") for line in ("s1\tt1\n", "\ufeff\n", "s2\tt2\r\n", "s3\t\ufefft3\n"))
    for tail in (b"", b"s4\tt4\n\xef\xbb\xbf\xef\xbb\xbf"):
        gold = read_gold(write(tmp_path / "a.gold", joined + tail))
        assert (gold.source[:3], gold.target[:3]) == (["s1", "s2", "s3"], ["t1", "t2", "t3"])
    rows = "\ufeff\n\ufeff\ufeff\ns1\tt1\n"
    assert read_gold(write(tmp_path / "b.gold", rows.encode())).source == ["s1"]


def test_utf16_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="it looks like UTF-16LE"):
        read_gold(write(tmp_path / "a.gold", "s1\tt1\ns2\tt2\n".encode("utf-16-le")))


def test_line_rules(tmp_path: Path) -> None:
    gold = read_gold(write(tmp_path / "a.gold", "\ufeffs1\tt1\r\n\ns\u20282\tt\x0b2\n".encode()))
    assert gold.source == ["s1", "s\u20282"]
    assert gold.target == ["t1", "t\x0b2"]
    assert gold.line == [1, 3]


@pytest.mark.parametrize(("suffix", "compress"), [(".gz", gzip.compress), (".xz", lzma.compress)])
def test_reads_compressed_files(tmp_path: Path, suffix: str, compress) -> None:
    assert len(read_gold(write(tmp_path / f"a.gold{suffix}", compress(b"s1\tt1\n")))) == 1


def test_truncated_file_is_an_error(tmp_path: Path) -> None:
    content = gzip.compress(b"".join(b"s%d\tt%d\n" % (i, i * 7919) for i in range(5000)))
    path = write(tmp_path / "a.gold.gz", content[: len(content) // 2])
    with pytest.raises(InputError, match=r"a\.gold\.gz.*truncated"):
        read_gold(path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"s1\tt1\ns2 t2\n", r"a\.gold, line 2: 1 column: a gold line holds source id, tab, target id"),
        (b"s1\tt1\ta\tb\n", r"a\.gold, line 1: 4 columns: a gold line holds"),
        (b"s1\tt1\ns2\tt2\tnews\n", r"a\.gold, line 2: 3 columns where the lines before have 2"),
        (b"s1\tt1\n\tt2\n", r"a\.gold, line 2: column 1 is empty"),
        (b"s1\tt1\ns\xff\tt2\n", r"a\.gold, line 2: invalid UTF-8 in a gold file: save it as UTF-8"),
        (b"\n\n", r"a\.gold: holds no gold pairs"),
        (b"", r"a\.gold: holds no gold pairs"),
    ],
)
def test_faulty_content_names_file_and_line(tmp_path: Path, content: bytes, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_gold(write(tmp_path / "a.gold", content))


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"none\.gold: no such gold file"):
        read_gold(tmp_path / "none.gold")


GOLD = Gold.from_pairs([("s1", "t1"), ("s2", "t2"), ("s2", "t3"), ("s4", "t4")], path="x.gold")


@pytest.mark.parametrize(
    "known",
    [
        {"s1", "s2", "s4"},
        ["s1", "s2", "s4"],
        np.array(["s4", "s2", "s1"]),
        pa.array(["s4", "s2", "s1"]),
        pa.chunked_array([["s4"], ["s2", "s1"]]),
        lambda ids: [i.startswith("s") for i in ids],
    ],
)
def test_known_ids_in_any_form(known) -> None:
    check_known(GOLD, known, None)


def test_unknown_gold_ids_are_counted_with_an_example() -> None:
    with pytest.raises(InputError) as caught:
        check_known(GOLD, {"s1"}, {"t1", "t2", "t3", "t4"})
    message = str(caught.value)
    assert message.startswith(
        "x.gold: 2 of 3 source ids (66.7%) are not in the source corpus, for example 's2' (line 2): "
    )
    assert "give the gold file made for these corpora" in message
    assert "\n" not in message


def test_unknown_ids_of_both_sides_in_one_message() -> None:
    with pytest.raises(InputError, match=r"1 of 3 source ids .* and 3 of 4 target ids .*'t1' \(line 1\)"):
        check_known(GOLD, {"s1", "s2"}, {"t2"})


def test_exchanged_columns_are_recognised() -> None:
    with pytest.raises(InputError, match="they are in the other corpus: exchange the two columns"):
        check_known(GOLD, {"t1", "t2", "t3", "t4"}, {"s1", "s2", "s4"})


@pytest.mark.parametrize(
    ("gold", "source", "target"),
    [
        # Of numbered rows the longer side has every number of the other: exchanging columns mends
        # nothing.
        ([("4", "4"), ("1", "1")], {"1", "2", "3"}, {"1", "2", "3", "4"}),
        ([("4", "4"), ("1", "1")], {"1", "2", "3", "4"}, {"1", "2", "3"}),
        ([("4", "4")], {"1", "2"}, {"3", "4"}),
        ([("t1", "x")], {"s1"}, {"t1"}),
        ([("t1", "s1"), ("t1", "s2")], {"s1"}, {"t1"}),
        ([("t1", "s1")], {"s1"}, None),
        ([("t1", "s1")], None, {"t1"}),
    ],
)
def test_an_exchange_is_advised_only_where_it_mends(gold, source, target) -> None:
    def check(pairs) -> None:
        check_known(Gold.from_pairs(pairs, path="x.gold"), source, target)

    with pytest.raises(InputError, match="give the gold file made for these corpora"):
        check(gold)
    other_way = [(right, left) for left, right in gold]
    if source is not None and target is not None:
        with pytest.raises(InputError):
            check(other_way)


def test_following_the_advice_to_exchange_mends() -> None:
    pairs = [("4", "1"), ("2", "2")]
    source, target = {"1", "2", "3"}, {"2", "4"}
    with pytest.raises(InputError, match="exchange the two columns"):
        check_known(Gold.from_pairs(pairs), source, target)
    check_known(Gold.from_pairs([(right, left) for left, right in pairs]), source, target)
    check_known(Gold.from_pairs(pairs), target, source)


def test_what_cannot_be_seen_in_an_id_is_shown() -> None:
    with pytest.raises(InputError, match=r"for example '\\ufeff3' \(line 1\)"):
        check_known(Gold.from_pairs([("\ufeff3", "1")]), ["3"], ["1"])


def test_lone_surrogates_of_ids_become_replacements() -> None:
    gold = Gold.from_pairs([("s\udce9", "t"), ("s\ufffd", "t")])
    assert (gold.source, len(gold), gold.repeated) == (["s\ufffd"], 1, 1)
    assert gold.source_index.find(["s\udce8", "t"]).tolist() == [0, -1]


def test_line_numbers_are_not_ids() -> None:
    with pytest.raises(InputError, match="ids are never line numbers"):
        check_known(Gold.from_pairs([("1", "1")]), ["s1"], ["t1"])


cells = st.sampled_from(["", "s1", "s2", "ä", " ", "t\u2028"])
gold_lines = st.lists(st.lists(cells, max_size=4).map("\t".join) | st.sampled_from(["s1\tt1", "\r", "s2\tt2\r"]))


def row_by_row(lines: list[str]) -> Gold | str:
    """The rules in their plainest form: the gold standard, or how the error begins."""
    rows: list[tuple[int, list[str]]] = []
    for number, line in enumerate(lines, 1):
        fields = line.removesuffix("\r").split("\t")
        if fields == [""]:
            continue
        if len(fields) not in (2, 3) or "" in fields or len(fields) != len((rows or [(0, fields)])[0][1]):
            return f"line {number}: "
        rows.append((number, fields))
    return Gold.from_rows(rows, "x") if rows else "holds no gold pairs"


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(gold_lines)
def test_blocks_of_lines_equal_single_ones(tmp_path: Path, lines: list[str]) -> None:
    expected = row_by_row(lines)
    path = write(tmp_path / "x", "".join(f"{line}\n" for line in lines).encode())
    if isinstance(expected, Gold):
        found = read_gold(path)
        assert replace(found, path="x") == expected
        for side in ("source", "target"):
            index = getattr(found, f"{side}_index")
            assert index.ids.take(pa.array(index.codes)).to_pylist() == getattr(found, side)
    else:
        with pytest.raises(InputError, match=expected):
            read_gold(path)
