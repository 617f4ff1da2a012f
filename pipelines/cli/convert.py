"""``bitext convert``: released models and HDF5 pairs to this program's folders, and models to
smaller ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from mining.errors import UsageError
from pipelines.cli.say import say

MODEL, PREPARED, HDF5 = "model", "prepared", "hdf5"


@dataclass(frozen=True)
class _Asked:
    """The flags of one call."""

    source: Path
    output: Path
    sentencepiece: Path | None
    vocabulary: Path | None
    lowercase: bool | None
    dtype: str | None
    dim: int | None
    languages: list[str] | None
    overwrite: bool

    def refuse(self, *names: str) -> None:
        """Raise UsageError for flags that would not be looked at."""
        for name in names:
            if getattr(self, name) is not None:
                raise UsageError(f"bitext convert: --{name} has no meaning for {self.source}")

    def pieces(self) -> bytes | None:
        """The bytes of the sentencepiece model, if one is named."""
        if self.sentencepiece is None:
            return None
        if not self.sentencepiece.is_file():
            raise UsageError(f"{self.sentencepiece}: no such sentencepiece model")
        return self.sentencepiece.read_bytes()


def convert(
    source: Annotated[
        Path,
        typer.Argument(
            metavar="SOURCE", help="Released model (file or folder), .h5 file, prepared folder or model folder."
        ),
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder to write; .h5 file for prepared pairs.")],
    sentencepiece: Annotated[
        Path | None, typer.Option(help="Sentencepiece model that came with the released model or made the pieces.")
    ] = None,
    vocabulary: Annotated[
        Path | None, typer.Option(help="Lines piece<TAB>id of an .h5 file (the .vocab file beside it).")
    ] = None,
    to: Annotated[
        str | None, typer.Option("--to", help="model, prepared or hdf5: an error where SOURCE makes something else.")
    ] = None,
    lowercase: Annotated[
        bool | None, typer.Option("--lowercase/--keep-case", help="Lower texts (else as the released model says).")
    ] = None,
    dtype: Annotated[str | None, typer.Option(help="Tables of the model in float32, float16 or int8.")] = None,
    dim: Annotated[int | None, typer.Option(help="Keep only the first dimensions of the model.")] = None,
    languages: Annotated[str | None, typer.Option(help="Language codes, comma between.")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Write into a folder that is not empty.")] = False,
) -> None:
    """Convert between the files of others and this program's folders; what SOURCE is, is told by
    its contents.

    Released P-SP models (checkpoints of 2019 to 2022, the older sim.pt, folders of a model hub)
    become model folders and encode as their own code does; nothing in them is run. HDF5 pairs in
    the P-SP layout become a prepared folder, and prepared pairs an .h5 file with its vocabulary
    beside it. A model folder becomes a smaller one.

    **Examples**

    `bitext convert model.para.lc.100.pt --sentencepiece paranmt.model --output model-p-sp`

    `bitext convert paraphrastic_test --output model-hub --dtype float16`

    `bitext convert pairs.h5 --vocabulary pairs.vocab --sentencepiece all.model --output prepared`

    `bitext convert prepared --to hdf5 --output pairs.h5`

    `bitext convert model-en-de --dtype int8 --dim 128 --output model-en-de-small`
    """
    codes = [name.strip() for name in languages.split(",")] if languages is not None else None
    asked = _Asked(source, output, sentencepiece, vocabulary, lowercase, dtype, dim, codes, overwrite)
    kind, run = _ways(source)
    if to is not None and to != kind:
        known = "" if to in (MODEL, PREPARED, HDF5) else f"; --to is {MODEL}, {PREPARED} or {HDF5}"
        raise UsageError(f"{source}: becomes {kind}, not {to}{known}")
    if output.resolve() == source.resolve():
        raise UsageError(f"{output}: is the source as well: name another output")
    say(run(asked))


def _ways(source: Path) -> tuple[str, Callable[[_Asked], str]]:
    """What becomes of `source`, and the function that does it; UsageError when it is nothing
    known."""
    from mining.encoder.model_folder import CONFIG_FILE, TABLE_FILE
    from mining.encoder.psp import is_released
    from mining.training.data.hdf5 import SUFFIXES
    from mining.training.data.vocabularies import PREPARED_FILE

    if not source.exists():
        raise UsageError(f"{source}: no such file or folder")
    if (source / PREPARED_FILE).is_file():
        return HDF5, _prepared_to_hdf5
    if source.suffix in SUFFIXES and source.is_file():
        return PREPARED, _hdf5_to_prepared
    if is_released(source):
        return MODEL, _released_to_model
    if (source / CONFIG_FILE).is_file() or (source / TABLE_FILE).is_file():
        return MODEL, _model_to_model
    raise UsageError(
        f"{source}: neither a released model (.pt, or a folder with spiece.model), an .h5 file, a prepared folder "
        "nor a model folder"
    )


def _released_to_model(asked: _Asked) -> str:
    import sentencepiece
    import torch

    from mining.encoder.model_folder import save_model
    from mining.encoder.psp import read_released
    from mining.encoder.shrink import shortened
    from mining.encoder.stored import check_type

    asked.refuse("vocabulary")
    check_type(asked.dtype or "float32")
    _check_output(asked)
    released = read_released(asked.source, asked.sentencepiece, asked.lowercase)
    network = released.network
    if asked.dim is not None:
        network, _ = shortened(network, [released.unit], asked.dim)
    name = save_model(
        asked.output,
        network,
        [released.unit],
        languages=asked.languages,
        training={"released": released.form, "file": asked.source.name, "arguments": released.arguments},
        versions={"torch": torch.__version__, "sentencepiece": sentencepiece.__version__},
        dtype=asked.dtype or "float32",
    )
    apart = "" if released.shared else ", the languages apart"
    return (
        f"{released.form} model of {released.unit.size:,} rows{apart}; {network.dim} dimensions, model {name} in "
        f"{asked.output}"
    )


def _model_to_model(asked: _Asked) -> str:
    from mining.encoder.shrink import shrink_model
    from mining.encoder.stored import check_type

    asked.refuse("sentencepiece", "vocabulary", "lowercase", "languages")
    if asked.dtype is None and asked.dim is None:
        raise UsageError(f"{asked.source}: is a model folder already: say what to make smaller with --dtype or --dim")
    check_type(asked.dtype or "float32")
    _check_output(asked)
    name = shrink_model(asked.source, asked.output, dim=asked.dim, dtype=asked.dtype)
    size = sum(path.stat().st_size for path in asked.output.iterdir())
    return f"model {name}, {size / 1e6:,.1f} MB, in {asked.output}"


def _hdf5_to_prepared(asked: _Asked) -> str:
    from mining.training.data.hdf5 import pairs_in
    from mining.training.data.hdf5_prepared import prepare_hdf5
    from mining.training.data.prepare import clear

    asked.refuse("dtype", "dim")
    if asked.languages is not None and len(asked.languages) != 2:
        raise UsageError("bitext convert: --languages names two languages here, as in en,de")
    _check_output(asked)
    rows = pairs_in(asked.source)
    if asked.overwrite and asked.output.is_dir():
        clear(asked.output)
    with _shown(rows) as advance:
        pairs = prepare_hdf5(
            asked.source,
            asked.output,
            vocabulary=asked.vocabulary,
            pieces=asked.pieces(),
            lowercase=asked.lowercase is not False,
            languages=(asked.languages[0], asked.languages[1]) if asked.languages else None,
            advance=advance,
        )
    dropped = "".join(f", {count:,} {reason}" for reason, count in pairs.dropped.items())
    return f"{len(pairs):,} pairs of {rows:,} rows{dropped}; {pairs.tokenizers[0].size:,} pieces, in {asked.output}"


def _prepared_to_hdf5(asked: _Asked) -> str:
    from mining.training.data.hdf5 import SUFFIXES
    from mining.training.data.hdf5_prepared import write_prepared_hdf5
    from mining.training.data.prepared import open_prepared

    asked.refuse("sentencepiece", "vocabulary", "lowercase", "dtype", "dim", "languages")
    if asked.output.suffix not in SUFFIXES:
        raise UsageError(
            f"{asked.output}: prepared pairs become an HDF5 file: its name ends in {' or '.join(SUFFIXES)}"
        )
    if not asked.output.parent.is_dir():
        raise UsageError(f"{asked.output}: the folder {asked.output.parent} does not exist; make it first")
    if asked.output.exists() and not asked.overwrite:
        raise UsageError(f"{asked.output}: exists already; name another file, or replace it with --overwrite")
    rows = len(open_prepared(asked.source))
    with _shown(rows) as advance:
        beside = write_prepared_hdf5(asked.source, asked.output, advance)
    return f"{rows:,} pairs in {asked.output}, their pieces in {beside}"


def _check_output(asked: _Asked) -> None:
    """Refuse an output that is a file, or a folder with something in it."""
    if asked.output.exists() and not asked.output.is_dir():
        raise UsageError(f"{asked.output}: is a file; name a folder with --output")
    if not asked.overwrite and asked.output.is_dir() and any(asked.output.iterdir()):
        raise UsageError(f"{asked.output}: is not empty; name another folder, or write into it with --overwrite")


@contextmanager
def _shown(rows: int) -> Iterator[Callable[[int], None]]:
    """Shows the rows done on stderr."""
    from rich.progress import Progress

    from mining.console import SafeConsole

    console = SafeConsole(stderr=True)
    with Progress(console=console, disable=not console.is_terminal) as bar:
        task = bar.add_task("rows", total=rows)
        yield lambda count: bar.update(task, advance=count)
