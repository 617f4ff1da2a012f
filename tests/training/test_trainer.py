from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mining.encoder import load_encoder
from mining.errors import InputError, UsageError
from mining.training import Progress, TrainConfig, is_trained, train
from mining.training import trainer as trainer_module
from mining.training.curves import LOG_FILE
from mining.training.folder import CHECKPOINT_FOLDER, CURVES_FOLDER

MODEL_FILES = ["config.json", "model.safetensors", "sentencepiece.model"]


class KilledError(Exception):
    """Stands for the death of the process."""


def kill_at(step: int) -> Any:
    def report(progress: Progress) -> None:
        if progress.step == step:
            raise KilledError

    return report


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir()) if path.is_file()}


def curve(folder: Path) -> list[dict[str, Any]]:
    lines = (folder / CURVES_FOLDER / LOG_FILE).read_text().rstrip("\n").split("\n")
    return [json.loads(line) for line in lines]


def test_it_learns_to_find_translations(settings: dict[str, Any], bitext: Path) -> None:
    seen: list[Progress] = []
    folder = train(TrainConfig.model_validate({**settings, "epochs": 25, "learning_rate": 0.03}), seen.append)
    encoder = load_encoder(folder)
    lines = [line.split("\t") for line in bitext.read_text().rstrip("\n").split("\n")][:100]
    source, _ = encoder.encode([line[0] for line in lines])
    target, _ = encoder.encode([line[1] for line in lines])
    assert np.mean((source @ target.T).argmax(1) == np.arange(100)) > 0.9
    assert seen[-1].loss < 0.5 * next(progress.loss for progress in seen if progress.stage == "vectors")
    stages = [progress.stage for progress in seen]
    assert list(dict.fromkeys(stages)) == ["reading", "vocabulary", "pieces", "vectors"]
    assert seen[-1].fraction == 1
    assert max(progress.mega_batch for progress in seen) == 3


@pytest.mark.parametrize("objective", ["margin", "softmax", "j_bi"])
def test_two_trainings_give_the_same_bytes(settings: dict[str, Any], objective: str, tmp_path: Path) -> None:
    results = []
    for name in ("one", "two"):
        changed = {**settings, "objective": objective, "dropout": 0.2, "model": str(tmp_path / name)}
        results.append(files(train(TrainConfig.model_validate(changed))))
    assert results[0] == results[1]
    assert list(results[0]) == MODEL_FILES


#: What has a state of its own that a checkpoint has to keep.
STATEFUL: dict[str, dict[str, Any]] = {
    "dropout": {"dropout": 0.2},
    "random negatives and weights": {
        "objective": "j_bi",
        "negatives": 2,
        "projection": 8,
        "grad_clip": 0.05,
        "l2": 1e-3,
    },
    "mixed negatives of both sides": {"negative_choice": "mix", "negative_pool": "monolingual", "pull": 0.1},
    "scrambled lstm": {"encoder": "lstm", "hidden": 4, "dim": 6, "scramble": 0.5},
    "weighted domains": {"domains": [{"match": "rare", "weight": 2.5}, {"match": "common", "weight": 0.9}]},
    "constant rate without growth": {"schedule": "constant", "anneal": 0, "objective": "softmax", "negatives": 1},
}


@pytest.fixture
def frequent(monkeypatch: pytest.MonkeyPatch) -> None:
    """A point of the curves every five steps."""
    monkeypatch.setattr(trainer_module, "CURVE_STEPS", 5)


def test_interrupted_again_and_again_equals_undisturbed(
    settings: dict[str, Any], tmp_path: Path, frequent: None
) -> None:
    changed = {**settings, "dropout": 0.2, "checkpoint_minutes": 0}
    whole = train(TrainConfig.model_validate({**changed, "model": str(tmp_path / "whole")}))
    config = TrainConfig.model_validate(changed)
    for step in (1, 7, 14, 15, 20, 27, 39):
        with pytest.raises(KilledError):
            train(config, kill_at(step))
    steps: list[int] = []
    resumed = train(config, lambda progress: steps.append(progress.step))
    assert files(resumed) == files(whole)
    assert curve(resumed) == curve(whole)
    assert min(number for number in steps if number) > 30
    assert [point["step"] for point in curve(whole)] == [5, 10, 15, 20, 25, 30, 35, 39]


@pytest.mark.parametrize("name", STATEFUL)
def test_interrupted_and_resumed_equals_undisturbed(settings: dict[str, Any], name: str, tmp_path: Path) -> None:
    settings["bitext"] = {**settings["bitext"], "domain": "domain"}
    changed = {**settings, "checkpoint_minutes": 0, "epochs": 2, **STATEFUL[name]}
    whole = files(train(TrainConfig.model_validate({**changed, "model": str(tmp_path / "whole")})))
    config = TrainConfig.model_validate(changed)
    with pytest.raises(KilledError):
        train(config, kill_at(17))
    assert files(train(config)) == whole


def test_what_was_noted_after_the_last_checkpoint_comes_once(settings: dict[str, Any], frequent: None) -> None:
    config = TrainConfig.model_validate({**settings, "keep_checkpoint": True})
    with pytest.raises(KilledError):
        train(config, kill_at(23))
    folder = Path(settings["model"])
    assert [point["step"] for point in curve(folder)] == [5, 10, 15, 20]
    assert [point["step"] for point in curve(train(config))] == [5, 10, 15, 20, 25, 30, 35, 39]


def test_killed_without_warning_and_resumed(settings: dict[str, Any], tmp_path: Path) -> None:
    changed = {**settings, "checkpoint_minutes": 0}
    program = f"""
        import os, signal
        from mining.training import TrainConfig, train
        def report(progress):
            if progress.step == 21:
                os.kill(os.getpid(), signal.SIGKILL)
        train(TrainConfig.model_validate({changed!r}), report)
    """
    root = Path(__file__).parents[2]
    environment = {**os.environ, "PYTHONPATH": str(root)}
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], env=environment, cwd=root, check=False)
    assert done.returncode == -signal.SIGKILL
    resumed = files(train(TrainConfig.model_validate(changed)))
    whole = files(train(TrainConfig.model_validate({**changed, "model": str(tmp_path / "whole")})))
    assert resumed == whole


def test_finished_training_is_left_as_it_is(config: TrainConfig) -> None:
    assert not is_trained(config)
    folder = train(config)
    before = {path: path.stat().st_mtime_ns for path in folder.iterdir()}
    assert is_trained(config)
    train(config, kill_at(0))
    assert {path: path.stat().st_mtime_ns for path in folder.iterdir()} == before


def test_other_threads_are_no_other_training(config: TrainConfig) -> None:
    train(config)
    assert is_trained(config.model_copy(update={"threads": 2, "overwrite": True}))


def test_changed_configuration_is_refused_and_overwritten_on_request(settings: dict[str, Any]) -> None:
    first = files(train(TrainConfig.model_validate(settings)))
    changed = {**settings, "dim": 8}
    with pytest.raises(UsageError, match=r"a model of another configuration or bitext; .*--overwrite"):
        train(TrainConfig.model_validate(changed))
    assert files(Path(settings["model"])) == first
    folder = train(TrainConfig.model_validate({**changed, "overwrite": True}))
    assert load_encoder(folder).dim == 8


def test_changed_bitext_is_another_training(settings: dict[str, Any], bitext: Path, tmp_path: Path) -> None:
    copy = tmp_path / "pairs.tsv"
    copy.write_bytes(bitext.read_bytes())
    config = TrainConfig.model_validate({**settings, "bitext": {**settings["bitext"], "path": str(copy)}})
    train(config)
    assert is_trained(config)
    copy.write_bytes(bitext.read_bytes().replace(b"common", b"COMMON"))
    assert not is_trained(config)


def test_unfinished_training_of_another_configuration_is_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(KilledError):
        train(TrainConfig.model_validate(settings), kill_at(3))
    with pytest.raises(UsageError, match="unfinished training that differs in seed, delta"):
        train(TrainConfig.model_validate({**settings, "seed": 2, "delta": 0.5}))


def test_faulty_settings_leave_nothing_in_the_way(settings: dict[str, Any]) -> None:
    faulty = {**settings, "bitext": {**settings["bitext"], "columns": ["source", "target"]}}
    with pytest.raises(InputError, match=r"pairs\.tsv, line 1"):
        train(TrainConfig.model_validate(faulty))
    with pytest.raises(UsageError, match="shared: false keeps two languages apart, and the bitexts name 0"):
        train(TrainConfig.model_validate({**settings, "shared": False, "dim": 8, "overwrite": True}))
    shutil.rmtree(Path(settings["model"]) / CHECKPOINT_FOLDER / "pairs")
    assert load_encoder(train(TrainConfig.model_validate(settings))).dim == 16


def test_missing_bitext_makes_no_folder(settings: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"absent\.tsv"):
        train(TrainConfig.model_validate({**settings, "bitext": {"path": str(tmp_path / "absent.tsv")}}))
    assert not Path(settings["model"]).exists()


@pytest.mark.parametrize("device", ["tpu", "nonsense"])
def test_unknown_device_is_refused(settings: dict[str, Any], device: str) -> None:
    with pytest.raises(UsageError, match=device):
        train(TrainConfig.model_validate({**settings, "device": device}))


def test_overwrite_goes_on_with_the_same_unfinished_training(settings: dict[str, Any]) -> None:
    config = TrainConfig.model_validate({**settings, "checkpoint_minutes": 0, "overwrite": True})
    with pytest.raises(KilledError):
        train(config, kill_at(20))
    steps: list[int] = []
    train(config, lambda progress: steps.append(progress.step))
    assert min(step for step in steps if step) > 10


def test_foreign_folder_is_not_touched(settings: dict[str, Any]) -> None:
    folder = Path(settings["model"])
    folder.mkdir()
    (folder / "thesis.txt").write_text("mine")
    with pytest.raises(UsageError, match=r"not empty \(it holds thesis\.txt\)"):
        train(TrainConfig.model_validate({**settings, "overwrite": True}))
    assert files(folder) == {"thesis.txt": b"mine"}


def test_model_of_another_program_is_not_overwritten(settings: dict[str, Any]) -> None:
    folder = Path(settings["model"])
    folder.mkdir()
    foreign = {"config.json": b'{"architectures": ["Bert"]}', "model.safetensors": b"weights"}
    for name, content in foreign.items():
        (folder / name).write_bytes(content)
    with pytest.raises(UsageError, match="not a model description of this program"):
        train(TrainConfig.model_validate({**settings, "overwrite": True}))
    assert files(folder) == foreign


def test_unwritable_folder_is_refused(settings: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="cannot be made"):
        train(TrainConfig.model_validate({**settings, "model": str(tmp_path / "file" / "model")}))


def test_second_training_in_one_folder_is_stopped(config: TrainConfig) -> None:
    messages = []

    def report(progress: Progress) -> None:
        if progress.step == 1:
            with pytest.raises(UsageError) as caught:
                train(config)
            messages.append(str(caught.value))

    train(config, report)
    assert "another training is at work" in messages[0]


def test_checkpoint_is_kept_on_request(settings: dict[str, Any]) -> None:
    folder = train(TrainConfig.model_validate({**settings, "keep_checkpoint": True}))
    assert (folder / CHECKPOINT_FOLDER / "state.safetensors").is_file()


def test_damaged_checkpoint_is_named(settings: dict[str, Any]) -> None:
    config = TrainConfig.model_validate({**settings, "checkpoint_minutes": 0})
    with pytest.raises(KilledError):
        train(config, kill_at(20))
    state = Path(settings["model"]) / CHECKPOINT_FOLDER / "state.safetensors"
    state.write_bytes(state.read_bytes()[:500])
    with pytest.raises(UsageError, match=r"state\.safetensors: damaged checkpoint"):
        train(config)


def test_budget_of_minutes_ends_it(settings: dict[str, Any]) -> None:
    del settings["epochs"]
    seen: list[Progress] = []
    folder = train(TrainConfig.model_validate({**settings, "minutes": 1e-9}), seen.append)
    assert seen[-1].step == 1
    assert load_encoder(folder).dim == 16
