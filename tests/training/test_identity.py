"""A changed file is another training: nothing that is read is taken for what it was."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mining.errors import InputError, UsageError
from mining.training import TrainConfig, is_trained, train
from mining.training import trainer as trainer_module
from mining.training.data import DataConfig, PrepareConfig, is_prepared, open_prepared, prepare
from mining.training.data.prepare import identify
from mining.training.folder import CHECKPOINT_FOLDER, identity

#: The package exports the function of this name.
prepare_module: Any = importlib.import_module("mining.training.data.prepare")


def vectors(folder: Path, value: float = 0.5) -> Path:
    path = folder / "vectors.txt"
    path.write_text("".join(f"{letter} {value} 0 0 0\n" for letter in "abcdefghij"))
    return path


@pytest.fixture
def small(settings: dict[str, Any]) -> dict[str, Any]:
    return {**settings, "dim": 4, "epochs": 1, "units": ["trigrams"], "encoder": "average"}


@pytest.fixture
def development(bitext: Path, tmp_path: Path) -> dict[str, dict[str, Any]]:
    """By metric, a development set of files of its own."""
    lines = [line.split("\t") for line in bitext.read_text().rstrip("\n").split("\n")][:20]
    texts = {
        "source.tsv": [f"s{n}\t{line[0]}" for n, line in enumerate(lines)],
        "target.tsv": [f"t{n}\t{line[1]}" for n, line in enumerate(lines)],
        "gold.tsv": [f"s{n}\tt{n}" for n in range(20)],
        "tatoeba.aaa-bbb.aaa": [line[0] for line in lines],
        "tatoeba.aaa-bbb.bbb": [line[1] for line in lines],
        "sts.tsv": [f"{n % 5}\t{line[0]}\t{line[1]}" for n, line in enumerate(lines)],
    }
    for name, rows in texts.items():
        (tmp_path / name).write_text("".join(f"{row}\n" for row in rows))
    files = {name: str(tmp_path / name) for name in texts}
    return {
        "mining": {"metric": "mining", **{key: files[f"{key}.tsv"] for key in ("source", "target", "gold")}},
        "tatoeba": {"metric": "tatoeba", "paths": [files["tatoeba.aaa-bbb.aaa"]]},
        "sts": {"metric": "sts", "paths": [files["sts.tsv"]]},
    }


READ = {
    "mining": ["source.tsv", "target.tsv", "gold.tsv"],
    "tatoeba": ["tatoeba.aaa-bbb.aaa", "tatoeba.aaa-bbb.bbb"],
    "sts": ["sts.tsv"],
}


@pytest.mark.parametrize(("metric", "name"), [(metric, name) for metric, names in READ.items() for name in names])
def test_every_file_of_a_development_set_counts(
    small: dict[str, Any], development: dict[str, dict[str, Any]], metric: str, name: str, tmp_path: Path
) -> None:
    config = TrainConfig.model_validate({**small, "development": development[metric]})
    before = identity(config)
    text = (tmp_path / name).read_text()
    (tmp_path / name).write_text(text.replace("\n", " \n", 1))
    assert identity(config) != before
    (tmp_path / name).write_text(text)
    assert identity(config) == before
    (tmp_path / name).unlink()
    with pytest.raises(UsageError, match=name.split(".", maxsplit=1)[0]):
        identity(config)


def test_a_finished_training_is_not_taken_for_one_of_other_vectors(small: dict[str, Any], tmp_path: Path) -> None:
    path = vectors(tmp_path)
    config = TrainConfig.model_validate({**small, "units": ["words"], "initial_vectors": str(path)})
    bitext = Path(config.bitext[0].paths[0])
    own = tmp_path / "letters.tsv"
    own.write_text("".join(f"{' '.join(line.split(chr(9))[0][:9])} {line}" for line in bitext.open()))
    config = config.model_copy(update={"bitext": [config.bitext[0].model_copy(update={"path": [str(own)]})]})
    train(config)
    assert is_trained(config)
    moved = path.rename(tmp_path / "elsewhere.txt")
    assert is_trained(config.model_copy(update={"initial_vectors": str(moved)}))
    vectors(tmp_path, 0.25)
    assert not is_trained(config)
    with pytest.raises(UsageError, match="another configuration"):
        train(config)


def test_an_unfinished_training_names_what_changed(
    small: dict[str, Any], development: dict[str, dict[str, Any]], tmp_path: Path
) -> None:
    given = {**small, "checkpoint_minutes": 0, "development": {**development["sts"], "every": 1}}
    config = TrainConfig.model_validate(given)

    def stop(progress: Any) -> None:
        if progress.step == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(config, stop)
    assert (Path(config.model) / CHECKPOINT_FOLDER).is_dir()
    with (tmp_path / "sts.tsv").open("a") as file:
        file.write("1\ta b c\td e f\n")
    with pytest.raises(UsageError, match=r"unfinished training that differs in development;"):
        train(config)


def test_a_development_set_that_changes_meanwhile_ends_the_training(
    small: dict[str, Any], development: dict[str, dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = TrainConfig.model_validate({**small, "development": development["sts"]})
    begin = trainer_module.start_network

    def changed(*given: Any) -> Any:
        (tmp_path / "sts.tsv").write_text("1\ta b\tc d\n")
        return begin(*given)

    monkeypatch.setattr(trainer_module, "start_network", changed)
    with pytest.raises(InputError, match="changed while they were read"):
        train(config)


@pytest.fixture
def prepared(settings: dict[str, Any], tmp_path: Path) -> tuple[PrepareConfig, Path]:
    """Pairs prepared from the bitext, and their folder."""
    folder = tmp_path / "prepared"
    config = PrepareConfig.model_validate({"bitext": settings["bitext"], "vocabulary": 100, "output": str(folder)})
    prepare(config, folder)
    return config, folder


def spoil(path: Path) -> None:
    """Change the last byte."""
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)


def test_spoilt_arrays_are_neither_prepared_nor_learnt_from(
    prepared: tuple[PrepareConfig, Path], tmp_path: Path
) -> None:
    config, folder = prepared
    training = TrainConfig.model_validate(
        {"prepared": str(folder), "model": str(tmp_path / "m"), "epochs": 1, "dim": 4}
    )
    assert is_prepared(config, folder)
    before = identity(training)
    for path in sorted(folder.glob("*.npy")):
        whole = path.read_bytes()
        spoil(path)
        for look in (lambda: is_prepared(config, folder), lambda: prepare(config, folder), lambda: identity(training)):
            with pytest.raises(UsageError, match=f"{path.name}: is not the file that was written"):
                look()
        path.write_bytes(whole)
    assert identity(training) == before


def test_a_training_is_of_the_arrays_and_not_of_what_is_said_of_them(
    prepared: tuple[PrepareConfig, Path], tmp_path: Path
) -> None:
    _, folder = prepared
    training = TrainConfig.model_validate(
        {"prepared": str(folder), "model": str(tmp_path / "m"), "epochs": 1, "dim": 4}
    )
    before = identity(training)
    spoil(folder / "domain.npy")
    facts = json.loads((folder / "prepared.json").read_text())
    from mining.io.arrays import array_facts

    facts["arrays"]["domain.npy"] = array_facts(folder / "domain.npy")
    (folder / "prepared.json").write_text(json.dumps(facts))
    assert identity(training) != before


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("READING", lambda patch: patch.setattr(prepare_module, "READING", 99)),
        ("unicode", lambda patch: patch.setattr(prepare_module.unicodedata, "unidata_version", "1.0")),
        ("packages", lambda patch: patch.setattr(prepare_module.metadata, "version", lambda name: f"{name} 0")),
    ],
)
def test_prepared_pairs_are_of_one_reading_and_its_libraries(
    prepared: tuple[PrepareConfig, Path], name: str, change: Callable[[Any], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    config, folder = prepared
    change(monkeypatch)
    assert not is_prepared(config, folder)
    with pytest.raises(UsageError, match="prepared otherwise" if name == "READING" else "differs in versions"):
        prepare(config, folder)


def test_versions_are_those_of_what_is_used(settings: dict[str, Any]) -> None:
    def versions(**given: Any) -> set[str]:
        config = DataConfig.model_validate({"bitext": {**settings["bitext"], "languages": ["en", "de"]}, **given})
        return set(prepare_module._versions(config))

    assert versions() == {"unicode", "sentencepiece"}
    assert versions(units=["words"]) == {"unicode"}
    assert versions(filters={"language_id": True}) == {"unicode", "sentencepiece", "py3langid"}


def test_a_bitext_that_changes_while_it_is_read_is_not_prepared(
    settings: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bitext = tmp_path / "own.tsv"
    bitext.write_bytes(Path(settings["bitext"]["path"]).read_bytes())
    config = DataConfig.model_validate({"bitext": {**settings["bitext"], "path": str(bitext)}, "vocabulary": 100})
    read = prepare_module.read_pairs

    def changed(*given: Any) -> Any:
        with bitext.open("a") as file:
            file.write("a b c\td e f\tcommon\n")
        return read(*given)

    monkeypatch.setattr(prepare_module, "read_pairs", changed)
    with pytest.raises(InputError, match=r"own\.tsv: changed while it was read"):
        prepare(config, tmp_path / "prepared")
    monkeypatch.undo()
    assert prepare(config, tmp_path / "prepared").rows == 201
    assert open_prepared(tmp_path / "prepared").identity == identify(config)
