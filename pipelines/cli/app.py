"""The program ``bitext``: one Typer application whose commands import their libraries only when
run."""

from __future__ import annotations

import logging
import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import typer
from typer.core import TyperGroup

from mining.errors import BitextError
from mining.io.atomic import reason
from mining.shown import safe, safe_lines
from pipelines.cli import convert, demo, encode, evaluate, mine, plan, prepare, score, train
from pipelines.cli.begin import INTERRUPTED, INTERRUPTED_CODE
from pipelines.cli.say import LogFormatter, say, write_anything
from pipelines.cli.stop import check_address_space, is_shortage, shortage


@contextmanager
def _safe_complaints() -> Iterator[None]:
    """Complaints about flags quote what was given, such as names of files: let them be safe to
    show."""
    try:
        yield
    except Exception as error:
        message = getattr(error, "message", None)
        if hasattr(error, "format_message") and isinstance(message, str):
            error.message = safe(message)  # type: ignore[attr-defined]
        raise


class _Commands(TyperGroup):
    def make_context(self, *arguments: Any, **options: Any) -> Any:
        with _safe_complaints():
            return super().make_context(*arguments, **options)

    def invoke(self, ctx: Any) -> Any:
        with _safe_complaints():
            return super().invoke(ctx)


app = typer.Typer(
    name="bitext",
    cls=_Commands,
    help="Find the translations hidden in two large piles of sentences.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
)
app.command("mine")(mine.mine)
app.command("plan")(plan.plan)
app.command("prepare")(prepare.prepare)
app.command("train")(train.train)
app.command("convert")(convert.convert)
app.command("encode")(encode.encode)
app.command("score")(score.score)
app.add_typer(evaluate.app, name="evaluate")
app.command("demo")(demo.demo)


#: Commands that load no torch.
_SMALL = frozenset({"plan", "prepare"})


@app.callback()
def _options(
    context: typer.Context,
    verbose: bool = typer.Option(False, "--verbose", "-v", help="Log what each stage does."),
) -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(LogFormatter("%(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(level=logging.INFO if verbose else logging.WARNING, handlers=[handler])
    # Half a minute of silence at the first use looks like a fault.
    logging.getLogger("mining.compiled.cache").setLevel(logging.INFO)
    # Beam warns on import, to the root logger, that its Google client is not installed; nothing
    # here uses it.
    logging.getLogger().addFilter(lambda record: "apitools" not in record.getMessage())
    if context.invoked_subcommand not in _SMALL:
        check_address_space()


def main() -> None:
    """Run the program; errors a user can mend end in one line and exit code 2 (usage) or 1 (failed
    run)."""
    # Threads that spin while they wait make a training several times slower on a machine with other
    # work to do. torch and faiss read this when they are loaded.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    write_anything()
    logging.captureWarnings(True)
    try:
        app()
    except BitextError as error:
        say(f"error: {error}", err=True, fg="red")
        sys.exit(error.exit_code)
    except OSError as error:
        # A full disk, a lost mount: no defect of the program, and what is finished stays.
        say(f"error: {reason(error)}", err=True, fg="red")
        sys.exit(1)
    except KeyboardInterrupt:
        say(INTERRUPTED, err=True, fg="red")
        sys.exit(INTERRUPTED_CODE)
    except Exception as error:
        if is_shortage(error):
            say(shortage(error), err=True, fg="red")
            sys.exit(1)
        # A defect keeps its traceback, of which names and texts may be a part.
        sys.stderr.write(safe_lines(traceback.format_exc()))
        sys.exit(1)
