"""The commands of the program: each module of this package registers one under its own name."""

from __future__ import annotations

import click

from mining.registry import Registry

COMMANDS: Registry[click.Command] = Registry("command", "pipelines.cli.commands")


class Commands(click.Group):
    """A command of commands, which are those of a registry and are imported when asked for."""

    def __init__(self, registry: Registry[click.Command], module: str, name: str, help_text: str) -> None:
        self.__module__ = module
        self._registry = registry
        super().__init__(name, help=help_text, no_args_is_help=True)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names of all commands."""
        return list(self._registry.names())

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of this name, or None."""
        return self._registry[cmd_name] if cmd_name in self._registry.names() else None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The first paragraph of the help of each command."""
        rows = []
        for name in self.list_commands(ctx):
            command = self._registry[name]
            rows.append((name, " ".join((command.help or "").partition("\n\n")[0].split())))
        with formatter.section("Commands"):
            formatter.write_dl(rows)
