"""``bitext convert``: P-SP models and HDF5 pairs to this program's folders, and models to
smaller ones."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from mining.errors import UsageError
from pipelines.cli.commands import COMMANDS
from pipelines.cli.options import Call, command
from pipelines.cli.say import say
from pipelines.progress import counting

if TYPE_CHECKING:
    from mining.config.convert import ConvertConfig, Target


@COMMANDS.register("convert")
@command(
    "mining.config.convert:ConvertConfig",
    "convert model.para.lc.100.pt --sentencepiece paranmt.model --output model-p-sp",
    "convert paraphrastic_test --output model-hub --dtype float16",
    "convert pairs.h5 --vocabulary pairs.vocab --sentencepiece all.model --output prepared",
    "convert prepared --to hdf5 --output pairs.h5",
    "convert model-en-de --dtype int8 --dim 128 --output model-en-de-small",
    file=None,
)
def convert(settings: ConvertConfig, call: Call) -> None:
    """Convert between the files of others and the folders of this program.

    The contents of SOURCE say what it is. Released P-SP models (checkpoints of 2019 to 2022, the
    older sim.pt, folders of a model hub) become model folders and encode as their own code does;
    nothing in them is run. HDF5 pairs in the P-SP layout become a prepared folder, and prepared
    pairs an .h5 file with its vocabulary beside it. A model folder becomes a smaller one.
    """
    kind, run = _conversion(settings.source)
    if settings.to not in (None, kind):
        raise UsageError(f"{settings.source}: becomes {kind}, not {settings.to}")
    if settings.output.resolve() == settings.source.resolve():
        raise UsageError(f"{settings.output}: is the source as well: name another output")
    say(run(settings))


def _refuse(asked: ConvertConfig, *names: str) -> None:
    """Raise UsageError for flags that would not be looked at."""
    for name in names:
        if getattr(asked, name) is not None:
            raise UsageError(f"bitext convert: --{name} has no meaning for {asked.source}")


def _pieces(asked: ConvertConfig) -> bytes | None:
    """The bytes of the sentencepiece model, if one is named."""
    if asked.sentencepiece is None:
        return None
    if not asked.sentencepiece.is_file():
        raise UsageError(f"{asked.sentencepiece}: no such sentencepiece model")
    return asked.sentencepiece.read_bytes()


def _conversion(source: Path) -> tuple[Target, Callable[[ConvertConfig], str]]:
    """What becomes of `source`, and the function that does it; UsageError when it is nothing
    known."""
    from mining.encoder.model_folder import CONFIG_FILE, TABLE_FILE
    from mining.encoder.psp import is_psp
    from mining.training.data import PREPARED_FILE
    from mining.training.data.hdf5 import SUFFIXES

    if not source.exists():
        raise UsageError(f"{source}: no such file or folder")
    if (source / PREPARED_FILE).is_file():
        return "hdf5", _prepared_to_hdf5
    if source.suffix in SUFFIXES and source.is_file():
        return "prepared", _hdf5_to_prepared
    if is_psp(source):
        return "model", _psp_to_model
    if (source / CONFIG_FILE).is_file() or (source / TABLE_FILE).is_file():
        return "model", _model_to_model
    raise UsageError(
        f"{source}: neither a P-SP model (.pt, or a folder with spiece.model), an .h5 file, a prepared folder "
        "nor a model folder"
    )


def _psp_to_model(asked: ConvertConfig) -> str:
    import sentencepiece
    import torch

    from mining.encoder.load import shortened
    from mining.encoder.model import Model
    from mining.encoder.model_folder import write_model
    from mining.encoder.psp import read_psp

    _refuse(asked, "vocabulary")
    _check_output(asked)
    psp = read_psp(asked.source, asked.sentencepiece, asked.lowercase)
    model = Model.of(psp.network, [psp.tokenizer])
    if asked.dim is not None:
        model = shortened(model, asked.dim)
    name = write_model(
        asked.output,
        model,
        languages=asked.languages,
        training={"released": psp.form, "file": asked.source.name, "arguments": psp.arguments},
        versions={"torch": torch.__version__, "sentencepiece": sentencepiece.__version__},
        dtype=asked.dtype or "float32",
    )
    apart = "" if psp.shared else ", the languages apart"
    return (
        f"{psp.form} model of {psp.tokenizer.size:,} rows{apart}; {model.outline.dim} dimensions, model {name} in "
        f"{asked.output}"
    )


def _model_to_model(asked: ConvertConfig) -> str:
    from mining.encoder.load import shrink_model

    _refuse(asked, "sentencepiece", "vocabulary", "lowercase", "languages")
    if asked.dtype is None and asked.dim is None:
        raise UsageError(f"{asked.source}: is a model folder already: say what to make smaller with --dtype or --dim")
    _check_output(asked)
    name = shrink_model(asked.source, asked.output, dim=asked.dim, dtype=asked.dtype)
    size = sum(path.stat().st_size for path in asked.output.iterdir())
    return f"model {name}, {size / 1e6:,.1f} MB, in {asked.output}"


def _hdf5_to_prepared(asked: ConvertConfig) -> str:
    from mining.training.data import clear
    from mining.training.data.hdf5 import pairs_in
    from mining.training.data.hdf5_prepared import prepare_hdf5

    _refuse(asked, "dtype", "dim")
    if asked.languages is not None and len(asked.languages) != 2:
        raise UsageError("bitext convert: --languages names two languages here, as in en,de")
    _check_output(asked)
    rows = pairs_in(asked.source)
    if asked.overwrite and asked.output.is_dir():
        clear(asked.output)
    with counting("converted", rows) as advance:
        pairs = prepare_hdf5(
            asked.source,
            asked.output,
            vocabulary=asked.vocabulary,
            pieces=_pieces(asked),
            lowercase=asked.lowercase is not False,
            languages=(asked.languages[0], asked.languages[1]) if asked.languages else None,
            advance=advance,
        )
    dropped = "".join(f", {count:,} {reason}" for reason, count in pairs.dropped.items())
    return f"{len(pairs):,} pairs of {rows:,} rows{dropped}; {pairs.tokenizers[0].size:,} pieces, in {asked.output}"


def _prepared_to_hdf5(asked: ConvertConfig) -> str:
    from mining.training.data import open_prepared
    from mining.training.data.hdf5 import SUFFIXES
    from mining.training.data.hdf5_prepared import write_prepared_hdf5

    _refuse(asked, "sentencepiece", "vocabulary", "lowercase", "dtype", "dim", "languages")
    if asked.output.suffix not in SUFFIXES:
        raise UsageError(
            f"{asked.output}: prepared pairs become an HDF5 file: its name ends in {' or '.join(SUFFIXES)}"
        )
    if not asked.output.parent.is_dir():
        raise UsageError(f"{asked.output}: the folder {asked.output.parent} does not exist; make it first")
    if asked.output.exists() and not asked.overwrite:
        raise UsageError(f"{asked.output}: exists already; name another file, or replace it with --overwrite")
    rows = len(open_prepared(asked.source))
    with counting("converted", rows) as advance:
        beside = write_prepared_hdf5(asked.source, asked.output, advance)
    return f"{rows:,} pairs in {asked.output}, their pieces in {beside}"


def _check_output(asked: ConvertConfig) -> None:
    """Refuse an output that is a file, or a folder with something in it."""
    if asked.output.exists() and not asked.output.is_dir():
        raise UsageError(f"{asked.output}: is a file; name a folder with --output")
    if not asked.overwrite and asked.output.is_dir() and any(asked.output.iterdir()):
        raise UsageError(f"{asked.output}: is not empty; name another folder, or write into it with --overwrite")
