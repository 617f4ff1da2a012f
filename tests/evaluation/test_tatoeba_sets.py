import gzip
from pathlib import Path

import pytest

from mining.errors import InputError, UsageError
from mining.evaluation.tatoeba import find_aligned, read_aligned


def put(folder: Path, name: str, *lines: str) -> Path:
    path = folder / name
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


@pytest.fixture
def laser(tmp_path: Path) -> Path:
    put(tmp_path, "tatoeba.deu-eng.deu", "Hallo", "Ja")
    put(tmp_path, "tatoeba.deu-eng.eng", "Hello", "Yes")
    put(tmp_path, "tatoeba.fra-eng.fra", "Oui")
    put(tmp_path, "tatoeba.fra-eng.eng", "Yes")
    put(tmp_path, "README", "not a set")
    return tmp_path


def read(paths: list[Path], **options: object) -> dict[str, tuple[list[str], list[str]]]:
    sets = find_aligned([str(path) for path in paths], options)
    aligned = [read_aligned(name, spec) for name, spec in sets.items()]
    return {pairs.name: (pairs.source, pairs.target) for pairs in aligned}


def test_a_folder_stands_for_all_sets_in_it(laser):
    assert read([laser]) == {"deu-eng": (["Hallo", "Ja"], ["Hello", "Yes"]), "fra-eng": (["Oui"], ["Yes"])}


@pytest.mark.parametrize("sides", [["deu"], ["eng"], ["deu", "eng"], ["eng", "deu"]])
def test_a_file_stands_for_its_set(laser, sides):
    found = read([laser / f"tatoeba.deu-eng.{side}" for side in sides])
    assert found == {"deu-eng": (["Hallo", "Ja"], ["Hello", "Yes"])}


def test_files_in_the_working_folder(laser, monkeypatch):
    monkeypatch.chdir(laser)
    assert list(read([Path("tatoeba.fra-eng.eng")])) == ["fra-eng"]


def test_sides_may_be_compressed(laser):
    path = laser / "tatoeba.deu-eng.eng"
    (laser / "tatoeba.deu-eng.eng.gz").write_bytes(gzip.compress(path.read_bytes()))
    path.unlink()
    assert read([laser / "tatoeba.deu-eng.deu"]) == {"deu-eng": (["Hallo", "Ja"], ["Hello", "Yes"])}


def test_longer_names_where_the_languages_say_too_little(laser):
    put(laser / "more", "tatoeba.deu-eng.deu", "Nein")
    put(laser / "more", "tatoeba.deu-eng.eng", "No")
    assert [name.rsplit("/", 2)[1:] for name in read([laser / "tatoeba.deu-eng.deu", laser / "more"])] == [
        [laser.name, "tatoeba.deu-eng"],
        ["more", "tatoeba.deu-eng"],
    ]


def test_two_plain_files_are_one_set(tmp_path):
    paths = [put(tmp_path, "dev.de.txt", "Hallo"), put(tmp_path, "dev.en.txt", "Hello")]
    assert read(paths) == {"dev.de.txt": (["Hallo"], ["Hello"])}
    paths = [put(tmp_path, "dev.de-en.de", "Hallo"), put(tmp_path, "dev.de-en.en", "Hello")]
    assert read(paths, format="text") == {"dev.de-en.de": (["Hallo"], ["Hello"])}


def test_other_formats_are_a_set_a_file(tmp_path):
    paths = [put(tmp_path, "a.tsv", "Hello\tHallo\tx"), put(tmp_path, "b.tsv", "Yes\tJa\tx")]
    options = {"columns": ["target", "source", "domain"]}
    assert read(paths, **options) == {"a.tsv": (["Hallo"], ["Hello"]), "b.tsv": (["Ja"], ["Yes"])}


def test_unusable_rows_keep_their_place(tmp_path):
    put(tmp_path, "t.deu-eng.deu", "a", "", " \u00a0", "x" * 10_001)
    put(tmp_path, "t.deu-eng.eng", "A", "B", "C", "D")
    assert read([tmp_path]) == {"deu-eng": (["a", "", "", ""], ["A", "B", "C", ""])}


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["nowhere"], "nowhere"),
        (["empty"], "empty: holds no files named like tatoeba.deu-eng.deu"),
        (["x.ita-eng.ita"], r"its other side, .*x\.ita-eng\.eng, is not there"),
        (["one.txt"], "exactly two line-aligned files"),
        (["a.tsv"], "declare the columns"),
    ],
)
def test_paths_that_name_no_set(tmp_path, names, message):
    (tmp_path / "empty").mkdir()
    put(tmp_path, "x.ita-eng.ita", "Sì")
    put(tmp_path, "one.txt", "a")
    put(tmp_path, "a.tsv", "a\tb")
    with pytest.raises(UsageError, match=message):
        read([tmp_path / name for name in names])


def test_two_sets_of_one_name(tmp_path):
    paths = [put(tmp_path / folder, "dev.tsv", "a\tb") for folder in ("one", "two")]
    with pytest.raises(UsageError, match=r"dev\.tsv: two of the sets have this name"):
        read(paths, columns=["source", "target"])


def test_faulty_content_is_named(tmp_path):
    put(tmp_path, "t.deu-eng.deu", "a", "b")
    put(tmp_path, "t.deu-eng.eng", "A")
    with pytest.raises(InputError, match=r"t\.deu-eng\.deu has 2 lines but .*t\.deu-eng\.eng has 1"):
        read([tmp_path])
    (tmp_path / "t.deu-eng.eng").write_bytes(b"A\n\xfcber\n")
    with pytest.raises(InputError, match=r"t\.deu-eng\.eng, line 2: invalid UTF-8"):
        read([tmp_path])
    for side in ("deu", "eng"):
        (tmp_path / f"t.deu-eng.{side}").write_bytes(b"")
    with pytest.raises(InputError, match="holds no pairs"):
        read([tmp_path])
