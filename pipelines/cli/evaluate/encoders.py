"""The options of commands that evaluate a model, and loading it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pipelines.cli.evaluate.output import writable

if TYPE_CHECKING:
    from mining.encoder import Encoder

_APART = "for a model that keeps its languages apart."

Model = Annotated[
    str | None,
    typer.Option("--model", "-m", help="Model folder made by `bitext train`; default: the bundled model."),
]
Dim = Annotated[int | None, typer.Option(help="Keep only so many of the first dimensions.")]
Dtype = Annotated[str, typer.Option(help="Of the model's tables in memory: float32, float16 or int8.")]
SourceLanguage = Annotated[str | None, typer.Option(help=f"Language of the source, {_APART}")]
TargetLanguage = Annotated[str | None, typer.Option(help=f"Language of the target, {_APART}")]
Language = Annotated[str | None, typer.Option(help=f"Language of the sentences, {_APART}")]
Device = Annotated[str, typer.Option(help="cpu or cuda.")]
Threads = Annotated[int, typer.Option(help="0: all cores.", min=0)]
Json = Annotated[Path | None, typer.Option("--json", callback=writable, help="Write the metrics to this file as well.")]


def load_sides(
    model: str | None, device: str, dim: int | None, dtype: str, languages: tuple[str | None, str | None]
) -> tuple[Encoder, Encoder]:
    """The encoders of the source and the target language: one and the same where no two languages
    are given."""
    from mining.encoder import load_encoder

    loaded = {
        language: load_encoder(model, device, dim=dim, dtype=dtype, language=language)
        for language in dict.fromkeys(languages)
    }
    return loaded[languages[0]], loaded[languages[1]]
