"""The program ``bitext``: its commands are imported when they are run."""

from __future__ import annotations

import logging
import os
import sys
import traceback

import click

from mining.errors import BitextError
from mining.io.atomic import reason
from mining.shown import safe_lines
from pipelines.cli.begin import INTERRUPTED, INTERRUPTED_CODE
from pipelines.cli.commands import COMMANDS, Commands
from pipelines.cli.say import LogFormatter, say, write_anything
from pipelines.cli.stop import check_address_space, is_shortage, shortage


class Program(Commands):
    """The program, whose own flags stand before the name of a command."""

    def __init__(self) -> None:
        about = "Find the translations hidden in two large piles of sentences."
        super().__init__(COMMANDS, __name__, "bitext", about)
        self.params.append(click.Option(["--verbose", "-v"], is_flag=True, help="Log what each stage does."))
        self.context_settings = {"max_content_width": 100, "help_option_names": ["--help"]}

    def invoke(self, ctx: click.Context) -> object:
        """Set up logging, then run the command."""
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(LogFormatter("%(levelname)s %(name)s: %(message)s"))
        logging.basicConfig(level=logging.INFO if ctx.params["verbose"] else logging.WARNING, handlers=[handler])
        # Half a minute of silence at the first use looks like a fault.
        logging.getLogger("mining.compiled.cache").setLevel(logging.INFO)
        # Beam warns on import, to the root logger, that its Google client is not installed; nothing
        # here uses it.
        logging.getLogger().addFilter(lambda record: "apitools" not in record.getMessage())
        return super().invoke(ctx)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that is asked for, after a look at the limits of the process it runs in."""
        found = super().resolve_command(ctx, args)
        if not getattr(found[1], "small", False):
            check_address_space()
        return found


app = Program()


def main() -> None:
    """Run the program; errors a user can mend end in one line and exit code 2 (usage) or 1 (failed
    run)."""
    # Threads that spin while they wait make a training several times slower on a machine with other
    # work to do. torch and faiss read this when they are loaded.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    write_anything()
    logging.captureWarnings(True)
    try:
        code = app(prog_name="bitext", standalone_mode=False)
        sys.exit(code if isinstance(code, int) else 0)
    except click.exceptions.NoArgsIsHelpError as error:
        sys.stdout.write(f"{error.format_message()}\n")
        sys.exit(error.exit_code)
    except click.ClickException as error:
        say(f"error: {_complaint(error)}", err=True, fg="red")
        sys.exit(error.exit_code)
    except BitextError as error:
        say(f"error: {error}", err=True, fg="red")
        sys.exit(error.exit_code)
    except OSError as error:
        # A full disk, a lost mount: no defect of the program, and what is finished stays.
        say(f"error: {reason(error)}", err=True, fg="red")
        sys.exit(1)
    except (KeyboardInterrupt, click.Abort):
        say(INTERRUPTED, err=True, fg="red")
        sys.exit(INTERRUPTED_CODE)
    except Exception as error:
        if is_shortage(error):
            say(shortage(error), err=True, fg="red")
            sys.exit(1)
        # A defect keeps its traceback, of which names and texts may be a part.
        sys.stderr.write(safe_lines(traceback.format_exc()))
        sys.exit(1)


def _complaint(error: click.ClickException) -> str:
    """What is wrong with the flags, and where they are listed."""
    message = " ".join(error.format_message().split()).rstrip(".")
    command = error.ctx.command_path if isinstance(error, click.UsageError) and error.ctx is not None else "bitext"
    return f"{message}: see {command} --help"
