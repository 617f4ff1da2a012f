"""Commands whose flags are made from their settings.

A command names the class of its settings. Each key of it that holds a number, a text, a switch or a
list of texts becomes a flag, with the default, the choices and the docstring of the key as its
help; `Flag` and `Flags` at a key say what is otherwise. Values are handed on as they were typed:
the settings alone judge them. Nothing of the settings is imported before a command is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args, get_origin

import click

from mining.errors import UsageError

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

    from mining.config.base import Flags, Settings

OPTIONS = "Options"
"""The panel of settings that name no other."""


@dataclass
class Target:
    """One key that a flag sets: its dotted name, and what makes its value of the flag's."""

    key: str
    read: Callable[[str], object] | None = None
    group: str | None = None
    """key of the group it stands in, where that may be left out"""


@dataclass
class Setting:
    """One flag or argument: what it is called, what it sets, and how it is shown."""

    forms: str
    info: FieldInfo
    panel: str
    targets: list[Target]
    hidden: bool = False
    about: str = ""
    """what the group is, where this setting stands for the group"""

    @property
    def name(self) -> str:
        """The flag that stands for all forms in messages."""
        return self.forms.split()[0].split("/")[0]

    @property
    def is_switch(self) -> bool:
        """Whether it is given without a value."""
        return bool in _members(self.info)

    @property
    def is_list(self) -> bool:
        """Whether the setting is a list, and nothing else."""
        return list in _kinds(self.info) or tuple in _kinds(self.info)

    @property
    def is_repeated(self) -> bool:
        """Whether it is given once for each value: paths may hold commas."""
        return self.is_list and (str in _kinds(self.info) or not self.forms.startswith("-"))

    def parameter(self) -> click.Parameter:
        """The parameter of click."""
        name = self.targets[0].key.replace(".", "__")
        if not self.forms.startswith("-"):
            many = self.is_repeated
            return click.Argument([name], metavar=self.forms + "..." * many, nargs=-1 if many else 1, required=False)
        forms = [self.forms] if self.is_switch else self.forms.split()
        text = None if self.is_switch else str
        return PanelOption(
            self.panel,
            [name, *forms],
            type=text,
            default=None,
            multiple=self.is_repeated,
            hidden=self.hidden,
            metavar=_metavar(self),
            help=_help(self),
        )

    def values(self, given: object) -> Iterator[tuple[Target, object]]:
        """What each key becomes when the flag has the value `given`."""
        if self.is_repeated and isinstance(given, tuple):
            given = list(given)
        elif self.is_list and isinstance(given, str):
            given = [name.strip() for name in given.split(",")]
        for target in self.targets:
            yield target, target.read(given) if target.read is not None and isinstance(given, str) else given


class PanelOption(click.Option):
    """A flag that is shown under the heading `panel`."""

    def __init__(self, panel: str, *arguments: Any, **options: Any) -> None:
        self.panel = panel
        super().__init__(*arguments, **options)


def _kinds(info: FieldInfo) -> set[object]:
    """The kinds of value of a setting: classes, ``list`` and ``tuple``, `Literal`."""
    from types import UnionType
    from typing import Union

    inner = get_args(info.annotation) if get_origin(info.annotation) in (Union, UnionType) else (info.annotation,)
    return {get_origin(one) or one for one in inner} - {type(None)}


def _members(info: FieldInfo) -> set[object]:
    from mining.config.base import members

    return set(members(info.annotation))


def _choices(info: FieldInfo) -> list[str]:
    """The values that a setting may have, where they are few."""
    from mining.config.base import one_of

    names = [name for mark in _marks(info) if isinstance(mark, one_of) for name in mark.names()]
    for kind in sorted(_members(info), key=str):
        if get_origin(kind) is Literal:
            names += map(str, get_args(kind))
    return names


def _marks(info: FieldInfo) -> list[object]:
    """The metadata of a setting, of the members of its list too."""
    inner = [mark for kind in _members(info) for mark in getattr(kind, "__metadata__", ())]
    return [*info.metadata, *inner]


def _metavar(setting: Setting) -> str | None:
    kinds = _members(setting.info)
    if setting.is_switch:
        return None
    if setting.is_list and not setting.is_repeated:
        return "A,B,..."
    checked = any(hasattr(mark, "func") for mark in setting.info.metadata)
    if checked or _choices(setting.info):
        return "TEXT"
    return "INTEGER" if int in kinds else "NUMBER" if float in kinds else "TEXT"


def _help(setting: Setting) -> str:
    """The docstring of the setting, its choices and its default."""
    info = setting.info
    default = info.get_default(call_default_factory=True) if not info.is_required() else None
    notes = []
    if choices := _choices(info):
        notes.append(", ".join(choices))
    if isinstance(default, bool):
        notes += [f"default: {setting.name.lstrip('-')}"] if default else []
    elif isinstance(default, list | tuple):
        notes += [f"default: {','.join(default)}"] if default else []
    elif default not in (None, ""):
        notes.append(f"default: {default:g}" if isinstance(default, float) else f"default: {default}")
    text = " ".join(f"{setting.about} {info.description or ''}".split()).replace("``", "`")
    return f"{text}  [{'; '.join(notes)}]" if notes else text


def settings_of(model: type[Settings]) -> list[Setting]:
    """The flags of a command with the settings `model`, those of earlier versions among them; what
    has to be given comes first."""
    found: dict[str, Setting] = {}
    for one in _walk(model, Place()):
        if one.name in found:
            found[one.name].targets += one.targets
        else:
            found[one.name] = one
    return sorted(found.values(), key=lambda one: not one.info.is_required())


class Place(NamedTuple):
    """Where settings stand in those of a command."""

    prefix: str = ""
    """of their dotted keys"""
    panel: str = OPTIONS
    flags: Flags | None = None
    about: str = ""
    """what the group is"""
    group: str | None = None
    """key of the group, where it may be left out"""


def _walk(model: type[Settings], place: Place) -> Iterator[Setting]:
    from mining.config.base import Flag, Flags

    forms: dict[str, Setting] = {}
    panel = place.panel
    for key, info in model.fields().items():
        mark = next((mark for mark in info.metadata if isinstance(mark, Flag)), Flag())
        if place.flags is not None:
            mark = place.flags.flags.get(key, mark if place.flags.others else Flag(""))
        inner = next((mark for mark in info.metadata if isinstance(mark, Flags)), None)
        panel = mark.panel or (inner.panel if inner is not None else None) or panel
        dotted = place.prefix + key
        if mark.forms == "":
            continue
        if (settings := _settings_in(info, inner is not None)) is not None:
            heading = panel if inner is not None else key.replace("_", " ").capitalize()
            optional = place.group or (dotted if not info.is_required() and info.default is None else None)
            yield from _walk(settings, Place(f"{dotted}.", heading, inner, info.description or "", optional))
        elif _is_plain(info):
            one = Setting("", info, panel, [Target(dotted, mark.read, place.group)])
            one.forms = mark.forms or _default_forms(key, one.is_switch)
            one.about = place.about if key == model.alone else ""
            forms[key] = one
            yield one
    for old, new in model.renamed.items():
        if new in forms:
            targets = [Target(place.prefix + old, forms[new].targets[0].read, place.group)]
            yield Setting(_default_forms(old, forms[new].is_switch), forms[new].info, panel, targets, hidden=True)


def _default_forms(key: str, is_switch: bool) -> str:
    name = key.replace("_", "-")
    return f"--{name}/--no-{name}" if is_switch else f"--{name}"


def _settings_in(info: FieldInfo, in_list: bool) -> type[Settings] | None:
    """The settings that a key holds; those of a list only where flags are named for them."""
    from mining.config.base import Settings

    inside = [one for one in _members(info) if isinstance(one, type) and issubclass(one, Settings)]
    return inside[0] if inside and (in_list or list not in _kinds(info)) else None


def _is_plain(info: FieldInfo) -> bool:
    kinds = {get_origin(kind) if get_origin(kind) is Literal else kind for kind in _members(info)}
    return dict not in _kinds(info) and all(
        kind in (str, int, float, bool, Path, Literal, type(None)) or hasattr(kind, "__metadata__") for kind in kinds
    )


@dataclass
class Call:
    """One call of a command: the file of its settings, and what its flags set, by dotted keys."""

    command: str
    config: str | None = None
    flags: dict[str, object] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    """the flag of every key that has one"""
    extras: dict[str, Any] = field(default_factory=dict)
    """the flags that are no settings, by their names"""

    @property
    def where(self) -> str:
        """What faulty settings are ascribed to."""
        return self.config if self.config is not None else f"bitext {self.command}"


class Command(click.Command):
    """A command of the program: `run` is called with its settings and its `Call`.

    `merge` lays the flags over the settings of a file; `extras` are flags that are no settings;
    `file` is the help of ``--config``, None where there is none; a `small` command needs little
    address space.
    """

    def __init__(
        self,
        run: Callable[..., None],
        settings: str,
        examples: Sequence[str] = (),
        *,
        merge: Callable[[dict[str, Any], Call, type[Settings]], dict[str, Any]] | None = None,
        extras: Iterable[click.Option] = (),
        file: str | None = "YAML file with these settings; flags override it.",
        small: bool = False,
    ) -> None:
        self.__module__ = run.__module__
        self.small, self._file = small, file
        self._run, self._settings, self._examples = run, settings, examples
        self._merge, self._extras = merge or lay_over, list(extras)
        self._made: list[Setting] | None = None
        super().__init__(run.__name__.rstrip("_"), help=run.__doc__, callback=self._called)

    def model(self) -> type[Settings]:
        """The class of the settings, imported when it is needed."""
        module, _, name = self._settings.partition(":")
        found: type[Settings] = getattr(import_module(module), name)
        return found

    def settings(self) -> list[Setting]:
        """The flags and arguments, made from the settings once a call."""
        if self._made is None:
            self._made = settings_of(self.model())
            self.params = [one.parameter() for one in self._made]
            if self._file is not None:
                self.params.append(click.Option(["config_file", "--config", "-c"], metavar="FILE", help=self._file))
            self.params += self._extras
        return self._made

    def make_context(self, *arguments: Any, **options: Any) -> click.Context:
        """The context of one call, for which the flags are made anew."""
        self._made = None
        return super().make_context(*arguments, **options)

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """The parameters, made when the command is asked for."""
        self.settings()
        return super().get_params(ctx)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the flags; what is wrong with them is ascribed to this command."""
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            error.ctx = error.ctx or ctx
            raise

    def _called(self, config_file: str | None = None, **given: Any) -> None:
        from mining.config.base import Named, read_yaml, validate

        data = read_yaml(config_file) if config_file is not None else {}
        ctx = click.get_current_context()
        command = ctx.command_path.partition(" ")[2] or str(self.name)
        call = Call(command, config_file)
        call.extras = {str(option.name): given.pop(str(option.name)) for option in self._extras}
        for one in self.settings():
            call.names |= {target.key: one.name for target in one.targets}
            value = given[one.targets[0].key.replace(".", "__")]
            if value is not None and value != ():
                call.flags |= {target.key: value for target, value in one.values(value)}
        self._refuse_alone(data, call)
        data = self._merge(data, call, self.model())
        named = Named(call.names, call.flags, self._file is not None)
        self._run(validate(self.model(), data, call.where, named), call)

    def _refuse_alone(self, data: Mapping[str, Any], call: Call) -> None:
        """Leave out what flags say of groups that are not there; UsageError for a flag that is of
        none."""
        there = {
            target.group
            for one in self.settings()
            for target in one.targets
            if target.group and (target.group in data or not _is_detail(target, call))
        }
        for one in self.settings():
            kept = [target for target in one.targets if not target.group or target.group in there]
            if not kept and any(target.key in call.flags for target in one.targets):
                groups = [call.names.get(f"{target.group}.path", "") for target in one.targets]
                raise UsageError(
                    f"bitext {call.command}: {one.name} has no meaning without {' or '.join(groups)}: give "
                    f"{' and '.join(groups)}, or leave it out"
                )
            for target in one.targets:
                if target not in kept:
                    call.flags.pop(target.key, None)

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """What the command does, and examples that can be copied."""
        super().format_help_text(ctx, formatter)
        if self._examples:
            with formatter.section("Examples"):
                for example in self._examples:
                    formatter.write(f"{'':{formatter.current_indent}}bitext {example}\n")

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The flags under their headings."""
        panels: dict[str, list[tuple[str, str]]] = {OPTIONS: []}
        for one in self.settings():
            if not one.forms.startswith("-"):
                panels.setdefault("Arguments", []).append((one.forms, _help(one)))
        for parameter in self.get_params(ctx):
            record = None if isinstance(parameter, click.Argument) else parameter.get_help_record(ctx)
            if record is not None:
                panels.setdefault(getattr(parameter, "panel", OPTIONS), []).append(record)
        for panel in sorted(panels, key=lambda name: name != "Arguments"):
            with formatter.section(panel):
                formatter.write_dl(panels[panel], col_max=24)


def _is_detail(target: Target, call: Call) -> bool:
    """Whether a key says something of a group that only the path of the group brings about."""
    return target.key != f"{target.group}.path" or target.key not in call.flags


def lay_over(data: dict[str, Any], call: Call, model: type[Settings]) -> dict[str, Any]:
    """The settings of the file with those of the flags laid over them."""
    from mining.config.base import override

    return override(data, call.flags, model)


def command(settings: str, *examples: str, **options: Any) -> Callable[[Callable[..., None]], Command]:
    """Decorator that makes a function of settings and `Call` a command; `settings` is
    ``module:Class``."""
    return lambda run: Command(run, settings, examples, **options)
