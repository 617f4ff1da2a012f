"""``bitext evaluate``: mined pairs against gold, and models against test sets."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from mining.registry import Registry
from pipelines.cli.commands import COMMANDS, Commands

if TYPE_CHECKING:
    from mining.config.encode import EncoderSettings
    from mining.encoder import Encoder

EVALUATIONS: Registry[click.Command] = Registry("command", __name__)

evaluate = COMMANDS.register("evaluate")(
    Commands(EVALUATIONS, __name__, "evaluate", "Measure mined pairs against gold, and models against test sets.")
)


def load_sides(settings: EncoderSettings, *languages: str | None) -> list[Encoder]:
    """The encoders of some languages: one and the same where no two languages are given."""
    from mining.encoder import load_encoder

    loaded = {
        language: load_encoder(
            settings.model, settings.device, dim=settings.dim, dtype=settings.dtype, language=language
        )
        for language in dict.fromkeys(languages)
    }
    return [loaded[language] for language in languages]
