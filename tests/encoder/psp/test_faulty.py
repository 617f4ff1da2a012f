"""Files that are dangerous, cut short or contradictory are refused with a word on why."""

from __future__ import annotations

import argparse
import collections
import copy
import datetime
import os
import sys
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from mining.encoder.psp import load_checkpoint, read_psp
from mining.encoder.tokenizers.psp import PspTokenizer, vocabulary_bytes
from mining.errors import UsageError
from tests.encoder.psp.conftest import checkpoint, lstm_state, older_checkpoint, random_matrix
from tests.encoder.psp.rendering import options

WORDS = {"a": 0, "b": 1, "UUUNKKK": 2}


class Command:
    """What a checkpoint of ill will holds: reading it the plain way runs a command."""

    def __init__(self, command: str) -> None:
        self.command = command

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, (self.command,)


class Evaluated(Command):
    def __reduce__(self) -> tuple[Any, ...]:
        return eval, (f"__import__('os').system({self.command!r})",)


@pytest.mark.parametrize("old", [False, True], ids=["zip", "old"])
@pytest.mark.parametrize(("part", "asked"), [(Command, r"(posix|nt)\.system"), (Evaluated, "eval")])
@pytest.mark.parametrize("place", ["top", "args", "vocab"])
def test_nothing_in_a_file_is_run(
    place: str, part: type[Command], asked: str, old: bool, saved: Callable[..., Path], tmp_path: Path
) -> None:
    proof = tmp_path / "ran"
    data = checkpoint(WORDS)
    evil = part(f"touch {proof}")
    if place == "args":
        data["args"].pool = evil
    elif place == "vocab":
        data["vocab"]["a"] = evil
    else:
        data["more"] = evil
    path = saved(data, old=old)
    with pytest.raises(UsageError, match=f"model.pt: asks for {asked}"):
        read_psp(path)
    assert not proof.exists()
    # The file is no dud: the reader that this program never uses runs the command.
    torch.load(path, weights_only=False)
    assert proof.exists()


@pytest.mark.parametrize("part", [Path("x"), collections.deque([1]), datetime.date(2020, 1, 1), torch.nn.Linear(1, 1)])
def test_other_classes_are_refused_by_name(part: Any, saved: Callable[..., Path]) -> None:
    with pytest.raises(UsageError, match=r"model.pt: asks for [\w.]*(Path|deque|date|Linear)"):
        load_checkpoint(saved({"part": part}))


@pytest.mark.parametrize("old", [False, True], ids=["zip", "old"])
def test_truncated(old: bool, saved: Callable[..., Path]) -> None:
    path = saved(checkpoint(WORDS), old=old)
    whole = path.read_bytes()
    for length in range(0, len(whole) - 1, max(1, len(whole) // 60)):
        path.write_bytes(whole[:length])
        with pytest.raises(UsageError, match=r"model.pt: .*copy it again"):
            read_psp(path)


def test_namespace_is_not_allowed_elsewhere(saved: Callable[..., Path]) -> None:
    path = saved({"args": argparse.Namespace(dim=3)})
    assert load_checkpoint(path)["args"].dim == 3
    with pytest.raises(Exception, match="Namespace"):
        torch.load(path, weights_only=True)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ([1, 2], "holds a list"),
        ({"weights": 1}, "it has the keys weights"),
        ({**checkpoint(WORDS), "vocab_words": WORDS}, "both 'vocab' and 'vocab_words'"),
        ({"vocab": WORDS, "state_dict": 3}, "'state_dict' is a int"),
        ({"vocab": WORDS, "state_dict": {}}, "no key 'args'"),
        ({**checkpoint(WORDS), "args": 3}, "'args' is a int"),
    ],
)
def test_forms(data: Any, message: str, saved: Callable[..., Path]) -> None:
    with pytest.raises(UsageError, match=f"model.pt: .*{message}"):
        read_psp(saved(data))


@pytest.mark.parametrize(
    ("vocabulary", "message"),
    [
        ({"a": 0, "UUUNKKK": 1}, "'vocab' has 2 entries, but the table has 3 rows"),
        ({"a": 0, "b": 1, "c": 2}, "'vocab' has no entry UUUNKKK"),
        ({"a": 0, "b": 0, "UUUNKKK": 2}, "'vocab' maps 'b' to 0"),
        ({"a": 0, "b": 7, "UUUNKKK": 2}, "'vocab' maps 'b' to 7"),
        ({"a": 0, 5: 1, "UUUNKKK": 2}, "'vocab' maps 5 to 1"),
        (["a", "b", "UUUNKKK"], "'vocab' is a list"),
    ],
)
def test_vocabularies(vocabulary: Any, message: str, saved: Callable[..., Path]) -> None:
    with pytest.raises(UsageError, match=f"model.pt: {message}"):
        read_psp(saved({**checkpoint(WORDS, sp_model=""), "vocab": vocabulary}))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"dim": 8}, "'args.dim' is 8, but 'embedding.weight' has 7 columns"),
        ({"dim": None}, "'args' has no 'dim'"),
        ({"zero_unk": None}, "'args' has no 'zero_unk'"),
        ({"lower_case": None}, "'args' has no 'lower_case'"),
        ({"lower_case": "yes"}, "'args.lower_case' is 'yes'"),
        ({"tokenize": 2}, "'args.tokenize' is 2, neither 0 nor 1"),
        ({"model": "cnn"}, "'args.model' is 'cnn'"),
        ({"model": "lstm"}, "no key 'lstm.weight_ih_l0'"),
        ({"pool": "max"}, "'args.pool' is max"),
        ({"share_vocab": 0}, "no key 'embedding_fr.weight'"),
        ({"sp_model": "all.model"}, "name the sentencepiece model"),
    ],
)
def test_arguments(given: dict[str, Any], message: str, saved: Callable[..., Path]) -> None:
    data = checkpoint(WORDS)
    data["args"] = options(**{"sp_model": "", **given})
    for key in [key for key, value in given.items() if value is None]:
        delattr(data["args"], key)
    with pytest.raises(UsageError, match=f"model.pt: .*{message}"):
        read_psp(saved(data))


@pytest.mark.parametrize(
    ("state", "given", "message"),
    [
        ({"embedding.weight": torch.zeros(3)}, {}, "has shape \\(3,\\)"),
        ({"embedding.weight": torch.zeros((3, 7), dtype=torch.int64)}, {}, "is torch.int64"),
        ({"embedding.weight": torch.full((3, 7), float("nan"))}, {}, "not finite"),
        ({"attention.weight": torch.zeros(3)}, {}, "not: attention.weight"),
        ({"embedding_fr.weight": random_matrix(3, 7)}, {}, "share_vocab' is 1, but"),
        (lstm_state(options()), {}, "parameters that a model of this form has not: lstm.weight_ih_l0"),
        (lstm_state(options()), {"model": "lstm", "share_encoder": 0}, "an LSTM for each language"),
        (lstm_state(options(dim=6)), {"model": "lstm"}, "weight_ih_l0' has shape \\(20, 6\\)"),
    ],
)
def test_parameters(state: dict[str, Any], given: dict[str, Any], message: str, saved: Callable[..., Path]) -> None:
    data = checkpoint(WORDS, sp_model="")
    data["args"] = options(sp_model="", **given)
    data["state_dict"].update(state)
    with pytest.raises(UsageError, match=f"model.pt: .*{message}"):
        read_psp(saved(data))


def test_older_form_needs_its_vocabulary(saved: Callable[..., Path]) -> None:
    data = older_checkpoint(WORDS)
    data["state_dict"]["lstm.weight_ih_l0"] = torch.zeros(2)
    with pytest.raises(UsageError, match=r"lstm.weight_ih_l0"):
        read_psp(saved(data))


@pytest.mark.parametrize("package", ["nltk", "sacremoses"])
def test_missing_word_splitter(
    package: str, saved: Callable[..., Path], pieces_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("nltk.tokenize.treebank", "nltk", "sacremoses"):
        monkeypatch.setitem(sys.modules, name, None)
    data = older_checkpoint(WORDS) if package == "nltk" else checkpoint(WORDS, tokenize=1)
    with pytest.raises(UsageError, match=f"pip install {package}"):
        read_psp(saved(data), pieces_file)


def test_sentencepiece_model_is_checked(saved: Callable[..., Path], tmp_path: Path) -> None:
    path = saved(checkpoint(WORDS))
    with pytest.raises(UsageError, match=r"none.model: cannot be read"):
        read_psp(path, tmp_path / "none.model")
    (tmp_path / "bad.model").write_bytes(b"not one")
    with pytest.raises(UsageError, match="truncated or not a sentencepiece model"):
        read_psp(path, tmp_path / "bad.model")


def test_hub_folders(hub_folder: Callable[..., Path]) -> None:
    folder = hub_folder({"vocab_size": 9})
    with pytest.raises(UsageError, match=r"config.json: 'vocab_size' is 9, but the table has"):
        read_psp(folder)
    (folder / "config.json").write_text("[", encoding="utf-8")
    with pytest.raises(UsageError, match=r"config.json: not a readable model description"):
        read_psp(folder)
    (folder / "config.json").write_text("{}", encoding="utf-8")
    torch.save({"word_embeddings.weight": torch.ones(4, 2)}, folder / "pytorch_model.bin")
    with pytest.raises(UsageError, match=r"has 4 rows, but .*spiece.model has \d+ pieces"):
        read_psp(folder)
    (folder / "model.safetensors").write_bytes(b"\x09\x00")
    with pytest.raises(UsageError, match=r"model.safetensors: truncated or not a safetensors file"):
        read_psp(folder)
    (folder / "model.safetensors").unlink()
    (folder / "spiece.model").unlink()
    with pytest.raises(UsageError, match=r"spiece.model: no such file"):
        read_psp(folder)


@pytest.mark.parametrize(
    ("files", "settings", "message"),
    [
        ({}, {}, "vocabulary.json is missing"),
        ({"vocabulary.json": b"["}, {}, "truncated or not JSON"),
        ({"vocabulary.json": b"[1]"}, {}, "not a list of texts"),
        ({"vocabulary.json": vocabulary_bytes(["a", "a", "UUUNKKK"])}, {}, "twice"),
        ({"vocabulary.json": vocabulary_bytes(["a"])}, {}, "no entry UUUNKKK"),
        ({"vocabulary.json": vocabulary_bytes(["UUUNKKK"])}, {"lookup": "ngrams"}, "without a width"),
        ({}, {"lookup": "ids"}, "ids without sentencepiece.model"),
        ({}, {"lookup": "letters"}, "settings of a P-SP model"),
    ],
)
def test_units(files: dict[str, bytes], settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        PspTokenizer(files, settings)


def quiet(make: Callable[[], Any]) -> Any:
    """What `make` makes; torch warns of tensors that are hardly used any more."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return make()


def some_table() -> torch.Tensor:
    return random_matrix(3, 7)


ODD: dict[str, tuple[Callable[[], torch.Tensor], str]] = {
    "one number many times": (lambda: torch.zeros(1).expand(500_000_000, 300), "more than the whole file can hold"),
    "meta": (lambda: torch.empty(3, 7, device="meta"), "has no numbers"),
    "sparse": (lambda: some_table().to_sparse(), r"is of layout torch\.sparse_coo"),
    "compressed": (lambda: some_table().to_sparse_csr(), r"is of layout torch\.sparse_csr"),
    "nested": (lambda: torch.nested.nested_tensor([torch.ones(2, 7), torch.ones(1, 7)]), "nested"),
    "quantized": (lambda: torch.quantize_per_tensor(some_table(), 0.1, 0, torch.qint8), "is torch.qint8"),
    "complex": (lambda: some_table().to(torch.complex64), "is torch.complex64"),
    "bool": (lambda: some_table() > 0, "is torch.bool"),
    "scalar": (lambda: torch.tensor(1.0), "not that of a matrix"),
    "empty": (lambda: torch.zeros(0, 7), "not that of a matrix"),
}


@pytest.mark.parametrize("name", ODD)
def test_odd_tensors_end_in_one_line(name: str, saved: Callable[..., Path]) -> None:
    make, reason = ODD[name]
    data = checkpoint(WORDS)
    data["state_dict"]["embedding.weight"] = quiet(make)
    with pytest.raises(UsageError, match=f"model.pt: 'embedding.weight' .*{reason}"):
        quiet(lambda: read_psp(saved(data)))


TURNED = [lambda t: t.t().contiguous().t(), lambda t: t.double(), lambda t: torch.cat([t, t])[3:]]


@pytest.mark.parametrize("turn", TURNED)
def test_views_and_other_floats_are_read(turn: Callable[..., torch.Tensor], saved: Callable[..., Path]) -> None:
    data = checkpoint(WORDS, sp_model="")
    table = data["state_dict"]["embedding.weight"]
    data["state_dict"]["embedding.weight"] = turn(table)
    found = read_psp(saved(data)).network.tables["released"]
    assert torch.equal(found, table)
    assert found.is_contiguous()


NONE = [float("nan"), float("inf"), -float("inf"), 7.5, -7, 10**500, 1 << 31, [7], "7"]


@pytest.mark.parametrize("value", NONE, ids=range(len(NONE)))
def test_numbers_that_are_none(value: Any, saved: Callable[..., Path]) -> None:
    data = checkpoint(WORDS, sp_model="")
    data["args"].dim = value
    with pytest.raises(UsageError, match=r"'args\.dim' is .*, not a whole number"):
        read_psp(saved(data))


def test_a_whole_number_may_be_a_float(saved: Callable[..., Path]) -> None:
    data = checkpoint(WORDS, sp_model="")
    data["args"].dim = 7.0
    assert read_psp(saved(data)).network.dim == 7


def test_what_is_kept_of_the_arguments_is_short_and_can_be_written(saved: Callable[..., Path], tmp_path: Path) -> None:
    data = checkpoint(WORDS, sp_model="")
    odd = {"nan": float("nan"), "long": "x" * 201, "large": 1 << 63, "list": [1], "k" * 201: 1, "name": "caf\udce9"}
    vars(data["args"]).update(odd, fits="x" * 200, small=-(1 << 63) + 1)
    vars(data["args"]).update({f"z{number:05}": number for number in range(5000)})
    kept = read_psp(saved(data)).arguments
    assert not {"nan", "long", "large", "list", "k" * 201} & set(kept)
    assert {"fits", "small", "name", "dim"} <= set(kept)
    assert len(kept) == 1000


@pytest.mark.parametrize("how", ["compressed", "overlapping"])
def test_more_than_the_file_holds_does_not_come_out_of_it(how: str, saved: Callable[..., Path], tmp_path: Path) -> None:
    whole = saved(checkpoint(WORDS, sp_model=""))
    path = tmp_path / "packed.pt"
    kind = zipfile.ZIP_DEFLATED if how == "compressed" else zipfile.ZIP_STORED
    with zipfile.ZipFile(whole) as old, zipfile.ZipFile(path, "w", kind) as new:
        for one in old.infolist():
            new.writestr(one.filename, old.read(one.filename))
        if how == "overlapping":
            for number in range(100):
                again = copy.copy(max(new.infolist(), key=lambda one: one.file_size))
                again.filename = f"archive/data/again{number}"
                new.filelist.append(again)
    with pytest.raises(UsageError, match="compressed part" if how == "compressed" else "share their place"):
        load_checkpoint(path)


class Zeros:
    """Pickled as a call that makes so many zeros."""

    def __reduce__(self) -> tuple[Any, ...]:
        return bytearray, (1 << 40,)


@pytest.mark.parametrize("old", [False, True], ids=["zip", "old"])
def test_no_memory_is_asked_for_by_a_number(old: bool, saved: Callable[..., Path]) -> None:
    data = checkpoint({**WORDS, "bytearray": 3}, sp_model="")
    assert read_psp(saved(data, old=old)).tokenizer.size == 4
    data["more"] = Zeros()
    with pytest.raises(UsageError, match=r"asks for bytearray"):
        load_checkpoint(saved(data, old=old))


@pytest.mark.parametrize("name", ["config.json", "spiece.model", "pytorch_model.bin"])
def test_pipes_in_a_folder_do_not_wait(name: str, hub_folder: Callable[..., Path]) -> None:
    folder = hub_folder()
    (folder / name).unlink(missing_ok=True)
    os.mkfifo(folder / name)
    with pytest.raises(UsageError):
        read_psp(folder)


def test_a_pipe_is_no_sentencepiece_model(saved: Callable[..., Path], tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UsageError, match="pipe: not a regular file"):
        read_psp(saved(checkpoint(WORDS)), tmp_path / "pipe")
