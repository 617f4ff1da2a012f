"""Pairs in the HDF5 layout of P-SP: read, written, and turned into prepared pairs and back."""

from __future__ import annotations

import os
import random
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mining.encoder import Tokens, load_encoder
from mining.encoder.tokenizers.psp import UNKNOWN
from mining.errors import InputError, RunError, UsageError
from mining.training import TrainConfig, train
from mining.training.data import open_prepared
from mining.training.data.hdf5 import (
    FirstSeen,
    interleave,
    pairs_in,
    read_hdf5,
    read_vocabulary,
    write_hdf5,
    write_vocabulary,
)
from mining.training.data.hdf5_prepared import prepare_hdf5, token_names, write_prepared_hdf5
from pipelines.cli.commands.convert import convert
from tests.cli.runner import runner

h5py = pytest.importorskip("h5py")
SIDE = st.lists(st.integers(0, 30), max_size=4)
PAIRS = st.lists(st.tuples(SIDE, SIDE), max_size=12)
WORDS = [f"{a}{b}" for a in ("ba", "ke", "lo", "mi") for b in ("da", "fe", "gi", "po")]


def packed(lists: Sequence[Sequence[int]]) -> Tokens:
    flat = np.array([value for one in lists for value in one], np.int32)
    return Tokens(flat, np.concatenate(([0], np.cumsum([len(one) for one in lists], dtype=np.int64))))


def unpacked(pieces: Tokens) -> list[list[int]]:
    return [
        pieces.ids[start:stop].tolist() for start, stop in zip(pieces.offsets[:-1], pieces.offsets[1:], strict=True)
    ]


def blocks_of(pairs: Sequence[tuple[list[int], list[int]]], size: int) -> list[tuple[Tokens, Tokens]]:
    parts = [pairs[start : start + size] for start in range(0, len(pairs), size)]
    return [(packed([pair[0] for pair in part]), packed([pair[1] for pair in part])) for part in parts]


def read_all(path: Path, block_rows: int) -> list[tuple[list[int], list[int]]]:
    return [
        pair for block in read_hdf5(path, block_rows) for pair in zip(*(unpacked(side) for side in block), strict=True)
    ]


def save_as_published(path: Path, pairs: Sequence[tuple[Sequence[int], Sequence[int]]]) -> None:
    """The layout, written row by row."""
    with h5py.File(path, "w") as file:
        data = file.create_dataset("data", (len(pairs), 2), dtype=h5py.vlen_dtype(np.dtype("int32")))
        for row, pair in enumerate(pairs):
            for side in (0, 1):
                data[row, side] = np.array(pair[side], np.int32)


@given(pairs=PAIRS, written=st.integers(1, 5), read=st.integers(1, 5))
def test_round_trip(pairs: list[tuple[list[int], list[int]]], written: int, read: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "pairs.h5"
        write_hdf5(path, len(pairs), blocks_of(pairs, written))
        assert read_all(path, read) == pairs
        assert pairs_in(path) == len(pairs)
        with h5py.File(path) as file:
            data = file["data"]
            assert (list(file), data.shape) == (["data"], (len(pairs), 2))
            assert h5py.check_vlen_dtype(data.dtype) == np.int32
            assert [(one.tolist(), other.tolist()) for one, other in data] == pairs


@pytest.mark.parametrize("pairs", [[([1, 2], [3, 4]), ([5, 6], [7, 8])], [([], [1]), ([2], []), ([], [])], []])
def test_reads_what_others_wrote(pairs: list[tuple[list[int], list[int]]], tmp_path: Path) -> None:
    save_as_published(tmp_path / "pairs.h5", pairs)
    assert read_all(tmp_path / "pairs.h5", 2) == pairs


def test_rows_never_written_are_empty(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "pairs.h5", "w") as file:
        file.create_dataset("data", (3, 2), dtype=h5py.vlen_dtype(np.dtype("int32")))
    assert read_all(tmp_path / "pairs.h5", 2) == [([], [])] * 3


def linked(path: Path, link: Any) -> None:
    with h5py.File(path, "w") as file:
        file["data"] = link


def test_links_and_other_files_are_not_followed(tmp_path: Path) -> None:
    kind = h5py.vlen_dtype(np.dtype(np.int32))
    os.mkfifo(tmp_path / "pipe")
    path = tmp_path / "pairs.h5"
    for link in (h5py.ExternalLink(str(tmp_path / "pipe"), "data"), h5py.SoftLink("/x" * 5000)):
        linked(path, link)
        for look in (pairs_in, lambda path: list(read_hdf5(path))):
            with pytest.raises(UsageError, match=r"pairs\.h5: 'data' is a link to") as error:
                look(path)
            assert len(str(error.value)) < 300
    with h5py.File(path, "w") as file:
        file["other"] = h5py.ExternalLink(str(tmp_path / "pipe"), "data")
    with pytest.raises(UsageError, match="has no dataset 'data', but other"):
        pairs_in(path)
    layout = h5py.VirtualLayout((3, 2), kind)
    layout[:] = h5py.VirtualSource(str(tmp_path / "pipe"), "data", (3, 2), kind)
    with h5py.File(path, "w") as file:
        file.create_virtual_dataset("data", layout)
    with pytest.raises(UsageError, match="lies in other files"):
        pairs_in(path)
    with h5py.File(path, "w") as file:
        file.create_dataset("data", (3, 2), np.int32, external=[(str(tmp_path / "pipe"), 0, 24)])
    with pytest.raises(UsageError, match="lies in other files"):
        pairs_in(path)


@pytest.mark.parametrize("options", [{}, {"chunks": (1000, 2), "compression": "gzip"}])
def test_rows_that_are_only_said_are_not_read(options: dict[str, Any], tmp_path: Path) -> None:
    kind = h5py.vlen_dtype(np.dtype(np.int32))
    path = tmp_path / "pairs.h5"
    with h5py.File(path, "w") as file:
        data = file.create_dataset("data", (1 << 40, 2), kind, **options)
        if options:
            data[0, 0] = [1, 2]
    with pytest.raises(UsageError, match="has 1,099,511,627,776 rows, but only"):
        pairs_in(path)


def test_parts_of_a_file_are_of_a_size_that_can_be_read(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "pairs.h5", "w") as file:
        file.create_dataset("data", (1 << 24, 2), h5py.vlen_dtype(np.dtype(np.int32)), chunks=(1 << 24, 2))
    with pytest.raises(UsageError, match="parts of 536,870,912 bytes"):
        pairs_in(tmp_path / "pairs.h5")


def test_a_file_without_a_shape_holds_no_pairs(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "pairs.h5", "w") as file:
        file["data"] = h5py.Empty("i4")
    with pytest.raises(UsageError, match="has shape None"):
        pairs_in(tmp_path / "pairs.h5")


def test_ids_that_many_cells_share_are_no_pairs(tmp_path: Path) -> None:
    path = tmp_path / "pairs.h5"
    write_hdf5(path, 200, blocks_of([([7] * 1000, [8])] + [([9], [9])] * 199, 200))
    assert sum(len(source.ids) for source, _ in read_hdf5(path)) == 1199
    with h5py.File(path, "r") as file:
        start = file["data"].id.get_offset()
    data = bytearray(path.read_bytes())
    data[start : start + 200 * 32] = data[start : start + 16] * 400
    path.write_bytes(data)
    with pytest.raises(InputError, match="more ids than the file has room for"):
        list(read_hdf5(path))


def test_bytes_do_not_depend_on_the_blocks(tmp_path: Path) -> None:
    chance = random.Random(1)
    pairs = [(chance.choices(range(9), k=chance.randrange(5)), chance.choices(range(9), k=3)) for _ in range(50)]
    for name, size in (("one", 50), ("two", 7)):
        write_hdf5(tmp_path / name, len(pairs), blocks_of(pairs, size))
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


@pytest.mark.parametrize("announced", [1, 3])
def test_a_wrong_number_of_rows_leaves_no_file(announced: int, tmp_path: Path) -> None:
    with pytest.raises(RunError, match=f"{announced} rows were to be written, but there are 2"):
        write_hdf5(tmp_path / "pairs.h5", announced, blocks_of([([1], [2]), ([3], [4])], 1))
    assert list(tmp_path.iterdir()) == []


@given(pairs=PAIRS, size=st.integers(1, 5))
def test_numbers_are_given_in_the_order_of_first_sight(pairs: list[tuple[list[int], list[int]]], size: int) -> None:
    wanted: dict[int, int] = {}
    for source, target in pairs:
        for number in [*source, *target]:
            wanted.setdefault(number, len(wanted))
    numbering = FirstSeen(31)
    for block in blocks_of(pairs, size):
        numbering.add(interleave(*block).ids)
    assert numbering.order().tolist() == list(wanted)
    assert {number: int(numbering.numbers[number]) for number in wanted} == wanted


@given(names=st.lists(st.text(st.characters(exclude_characters="\n\r", exclude_categories=["Cs"])), unique=True))
def test_vocabulary_round_trip(names: list[str]) -> None:
    names = [name for name in names if name != UNKNOWN]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "pairs.vocab"
        write_vocabulary(path, names)
        assert read_vocabulary(path) == [*names, UNKNOWN]


def test_vocabulary_lines_in_any_order(tmp_path: Path) -> None:
    path = tmp_path / "pairs.vocab"
    path.write_bytes("▁b\t1\r\na\t0\nUUUNKKK\t2\n".encode())
    assert read_vocabulary(path) == ["a", "▁b", UNKNOWN]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a\t0\nb\n", ":2: expected a piece, a tab and its id"),
        ("a\t-1.5\n", ":1: expected a piece, a tab and its id"),
        ("a\t0\nb\t0\n", ":2: id 0 is of 'a' already"),
        ("a\t0\nb\t2\n", "do not run from 0 to 1: 1 is missing"),
        ("a\t0\na\t1\n", "'a' stands in it twice"),
        ("UUUNKKK\t0\na\t1\n", "UUUNKKK before the end"),
    ],
)
def test_faulty_vocabulary(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "pairs.vocab"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=f"pairs.vocab.*{message}"):
        read_vocabulary(path)


def test_a_piece_with_a_line_feed_is_no_line(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="line feed"):
        write_vocabulary(tmp_path / "pairs.vocab", ["a\nb"])


def test_faulty_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "pairs.h5"
    with pytest.raises(UsageError, match=r"pairs.h5: no such file"):
        pairs_in(path)
    save_as_published(path, [([1], [2])] * 50)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(UsageError, match=r"pairs.h5: truncated or not an HDF5 file"):
        pairs_in(path)
    for shape, kind in (((3,), "int32"), ((3, 2), "int32"), ((3, 2), h5py.vlen_dtype(np.dtype("float32")))):
        with h5py.File(path, "w") as file:
            file.create_dataset("data", shape, dtype=kind)
        with pytest.raises(UsageError, match=r"pairs.h5: 'data' has shape .* not two lists of ids"):
            list(read_hdf5(path))
    with h5py.File(path, "w") as file:
        file.create_dataset("other", (3, 2), dtype="int32")
    with pytest.raises(UsageError, match="has no dataset 'data', but other"):
        pairs_in(path)
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(UsageError, match="pip install h5py"):
        pairs_in(path)


def bitext_rows(count: int) -> list[dict[str, Any]]:
    chance = random.Random(3)
    sources = [" ".join(chance.choices(WORDS, k=chance.randint(2, 6))) for _ in range(count)]
    return [{"source": text, "target": text[::-1]} for text in sources]


@pytest.mark.parametrize("units", ["pieces", "words", "trigrams"])
def test_prepared_pairs_there_and_back(
    units: str, table: Callable[..., dict[str, Any]], prepared: Callable[..., Any], tmp_path: Path
) -> None:
    pairs = prepared(table(bitext_rows(80)), units=[units], types=30)
    beside = write_prepared_hdf5(pairs.folder, tmp_path / "pairs.h5")
    names, written = read_vocabulary(beside), read_all(tmp_path / "pairs.h5", 1000)
    original = token_names(pairs.tokenizers[0])
    original[pairs.tokenizers[0].unknown] = UNKNOWN
    for side, place in (("source", 0), ("target", 1)):
        wanted = [[original[number] for number in one] for one in unpacked(getattr(pairs, side)[0])]
        assert [[names[number] for number in pair[place]] for pair in written] == wanted
    seen = list(dict.fromkeys(number for pair in written for side in pair for number in side))
    known = [number for number in seen if number != len(names) - 1]
    assert known == list(range(len(names) - 1))
    if units == "trigrams":
        return  # a text cannot be cut into them by the vocabulary alone
    model = pairs.tokenizers[0].files().get("sentencepiece.model")
    back = prepare_hdf5(tmp_path / "pairs.h5", tmp_path / "back", pieces=model, languages=("aa", "bb"))
    assert len(back) == len(pairs)
    assert [unpacked(back.source[0]), unpacked(back.target[0])] == [list(side) for side in zip(*written, strict=True)]
    assert (back.domains[0].pairs, back.domains[0].languages) == (len(pairs), ("aa", "bb"))
    again = write_prepared_hdf5(back.folder, tmp_path / "again.h5")
    assert again.read_bytes() == beside.read_bytes()
    assert (tmp_path / "again.h5").read_bytes() == (tmp_path / "pairs.h5").read_bytes()


def test_rows_with_an_empty_side_are_counted(tmp_path: Path) -> None:
    save_as_published(tmp_path / "pairs.h5", [([0, 1], [2]), ([], [1]), ([2], [0, 1]), ([1], []), ([0, 1], [3])])
    write_vocabulary(tmp_path / "pairs.vocab", ["a", "b", "c"])
    pairs = prepare_hdf5(tmp_path / "pairs.h5", tmp_path / "prepared")
    assert (len(pairs), pairs.rows, pairs.dropped) == (3, 5, {"no_units": 2})
    assert unpacked(pairs.source[0]) == [[0, 1], [2], [0, 1]]
    assert pairs.tokenizers[0].unknown == 3
    groups = [*pairs.source_groups.tolist(), *pairs.target_groups.tolist()]
    texts = ["ab", "c", "ab", "c", "ab", "?"]
    assert [groups[i] == groups[j] for i in range(6) for j in range(6)] == [a == b for a in texts for b in texts]
    assert pairs.tokenizers[0](["A c x"]).ids.tolist() == [0, 2]
    assert prepare_hdf5(tmp_path / "pairs.h5", tmp_path / "other").identity == pairs.identity


def test_ids_of_another_vocabulary(tmp_path: Path) -> None:
    save_as_published(tmp_path / "pairs.h5", [([0], [1]), ([2, 1], [0, 5])])
    with pytest.raises(UsageError, match=r"pairs.vocab: no such vocabulary file"):
        prepare_hdf5(tmp_path / "pairs.h5", tmp_path / "prepared")
    write_vocabulary(tmp_path / "pairs.vocab", ["a", "b"])
    with pytest.raises(InputError, match=r"pairs.h5: row 1, target: id 5, but the vocabulary ends at 2"):
        prepare_hdf5(tmp_path / "pairs.h5", tmp_path / "prepared")
    assert list((tmp_path / "prepared").iterdir()) == []
    write_vocabulary(tmp_path / "pairs.vocab", ["▁a", "b", "c", "d", "e", "f"])
    with pytest.raises(UsageError, match="with --sentencepiece"):
        prepare_hdf5(tmp_path / "pairs.h5", tmp_path / "prepared")
    save_as_published(tmp_path / "pairs.h5", [([0], []), ([], [])])
    write_vocabulary(tmp_path / "pairs.vocab", ["a", "b"])
    with pytest.raises(InputError, match="none of its 2 rows has ids on both sides"):
        prepare_hdf5(tmp_path / "pairs.h5", tmp_path / "prepared")


def test_several_units_do_not_fit(
    table: Callable[..., dict[str, Any]], prepared: Callable[..., Any], tmp_path: Path
) -> None:
    pairs = prepared(table(bitext_rows(40)), units=["pieces", "words"])
    with pytest.raises(UsageError, match="has the tokens pieces, words; HDF5 holds one kind"):
        write_prepared_hdf5(pairs.folder, tmp_path / "pairs.h5")


def test_commands(table: Callable[..., dict[str, Any]], prepared: Callable[..., Any], tmp_path: Path) -> None:
    pairs, run = prepared(table(bitext_rows(80))), runner(convert)
    path, folder = tmp_path / "pairs.h5", tmp_path / "from-hdf5"
    shown = run(pairs.folder, "--to", "hdf5", "--output", path).stdout
    assert shown == f"{len(pairs):,} pairs in {path}, their pieces in {tmp_path / 'pairs.vocab'}\n"
    with pytest.raises(UsageError, match="exists already"):
        run(pairs.folder, "--output", path)
    with pytest.raises(UsageError, match=r"ends in .h5 or .hdf5"):
        run(pairs.folder, "--output", tmp_path / "x.txt")
    flags = ["--sentencepiece", pairs.folder / "sentencepiece.model", "--languages", "aa,bb", "--output", folder]
    shown = run(path, "--vocabulary", tmp_path / "pairs.vocab", *flags).stdout
    assert shown.endswith(f" pieces, in {folder}\n")
    with pytest.raises(UsageError, match="is not empty"):
        run(path, *flags)
    assert run(path, *flags, "--overwrite").stdout == shown
    assert open_prepared(folder).domains[0].languages == ("aa", "bb")


def test_hdf5_pairs_can_be_trained_on(
    table: Callable[..., dict[str, Any]], prepared: Callable[..., Any], tmp_path: Path
) -> None:
    pairs = prepared(table(bitext_rows(80)))
    write_prepared_hdf5(pairs.folder, tmp_path / "pairs.h5")
    model = (pairs.folder / "sentencepiece.model").read_bytes()
    prepare_hdf5(tmp_path / "pairs.h5", tmp_path / "back", pieces=model)
    settings = {"prepared": str(tmp_path / "back"), "model": str(tmp_path / "model"), "dim": 8, "epochs": 1}
    train(TrainConfig.model_validate({**settings, "batch": 16, "threads": 1}))
    encoder = load_encoder(tmp_path / "model")
    assert encoder.tokenizers[0].kind == "released"
    _, valid = encoder.encode([*WORDS[:3], ""])
    assert valid.tolist() == [True, True, True, False]
