"""``bitext evaluate``: mined pairs against gold, and models against test sets."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from mining.registry import Registry
from pipelines.cli.commands import COMMANDS, Commands

if TYPE_CHECKING:
    from mining.encoder import Encoder

EVALUATIONS: Registry[click.Command] = Registry("command", __name__)

evaluate = COMMANDS.register("evaluate")(
    Commands(EVALUATIONS, __name__, "evaluate", "Measure mined pairs against gold, and models against test sets.")
)


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
