"""Settings: frozen, strict, helpful about a mistyped key, and described by their docstrings.

The docstring below an attribute is its description: the command line shows it as the help of its
flag.
"""

from __future__ import annotations

import difflib
import logging
from collections.abc import Callable, Container, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType, UnionType
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, ValidationError, ValidationInfo, field_validator, model_validator
from pydantic_core import core_schema

from mining.errors import UsageError

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler
    from pydantic.fields import FieldInfo

    from mining.registry import Registry

log = logging.getLogger(__name__)


def members(annotation: Any) -> Iterator[Any]:
    """The classes named by an annotation, through unions and containers."""
    if get_origin(annotation) in (Union, UnionType, list, tuple, dict):
        for inner in get_args(annotation):
            yield from members(inner)
    else:
        yield annotation


@dataclass(frozen=True)
class Flag:
    """How the command line shows a setting, where its key does not say it: metadata of a field.

    `forms` are the flag and its short form (``"--output -o"``), the two flags of a switch
    (``"--lowercase/--keep-case"``), a name without dashes for an argument (``"PAIRS"``), or empty
    where only a file sets it. `panel` is the heading in the help above this setting and those that
    follow. `read` makes the value of the setting out of that of the flag.
    """

    forms: str | None = None
    panel: str | None = None
    read: Callable[[str], object] | None = None


class Flags:
    """How the command line shows the settings of a group: metadata of a field that is a `Settings`.

    ``Flags(path="--source", text="--source-text")`` names two of them. The others have their key as
    their flag, or none where `others` is false. A flag that stands for several settings sets all.
    """

    def __init__(self, *, panel: str | None = None, others: bool = True, **forms: str | Flag) -> None:
        self.panel, self.others = panel, others
        self.flags = {key: form if isinstance(form, Flag) else Flag(form) for key, form in forms.items()}


class one_of:  # noqa: N801 - it stands in annotations, as a function would
    """The values of a setting are the names in a registry: ``Annotated[str, one_of(MARGINS)]``.

    `others` are names that are allowed beside those of the registry, such as ``auto``. Only the
    names are looked at, so nothing is imported.
    """

    def __init__(self, registry: Registry[Any], *others: str) -> None:
        self._registry, self._others = registry, others

    def names(self) -> tuple[str, ...]:
        """All names that the setting may have."""
        return (*self._others, *self._registry.names())

    def check(self, name: str) -> str:
        """`name` itself; raises ValueError for a name that is not one of them."""
        return name if name in self._others else self._registry.check(name)

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        return core_schema.no_info_after_validator_function(self.check, handler(source))


def with_new_names(data: Any, renamed: Mapping[str, str]) -> Any:
    """A mapping of settings under the names of today; a key given by both names is left to be
    refused."""
    if not isinstance(data, Mapping):
        return data
    old = {key: renamed[key] for key in data if key in renamed and renamed[key] not in data}
    for before, now in old.items():
        log.warning("'%s' is called '%s' now; the old name will be read by this version only", before, now)
    return {old.get(key, key): value for key, value in data.items()}


class Settings(BaseModel):
    """A frozen group of settings in which an unknown key is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    #: Keys of earlier versions, and what they are called now. They are read for one more version,
    #: with a note.
    renamed: ClassVar[Mapping[str, str]] = MappingProxyType({})
    #: The key that a text or a list stands for where a mapping is expected.
    alone: ClassVar[str | None] = None

    @classmethod
    def fields(cls) -> Mapping[str, FieldInfo]:
        """All keys that a mapping of these settings may have, with type, default, limits and help.

        A class that reads keys beside its attributes (those of registered search methods) gives
        them too.
        """
        return cls.model_fields

    @model_validator(mode="before")
    @classmethod
    def _new_names(cls, data: Any) -> Any:
        if cls.alone is not None and isinstance(data, str | list):
            return {cls.alone: data}
        return with_new_names(data, cls.renamed)

    @field_validator("*", mode="before")
    @classmethod
    def _no_switch_for_a_number(cls, value: Any, info: ValidationInfo) -> Any:
        """YAML reads ``yes`` and ``on`` as true, which would pass for the number 1."""
        field = cls.model_fields[str(info.field_name)]
        if isinstance(value, bool) and bool not in members(field.annotation):
            raise ValueError(f"{str(value).lower()} is not what belongs here; put a text in quotes")
        return value


S = TypeVar("S", bound=Settings)


def settings_at(model: type[Settings], path: tuple[Any, ...]) -> type[Settings] | None:
    """The settings that stand at the key `path` of `model`, such as those at ``("search",)``; None
    where there are none. Indices of lists are skipped."""
    for part in path:
        field = model.fields().get(str(part))
        if field is None:
            continue
        inner = [m for m in members(field.annotation) if isinstance(m, type) and issubclass(m, Settings)]
        if not inner:
            return None
        model = inner[0]
    return model


class Named(NamedTuple):
    """The flags of a command by the dotted keys of its settings, for messages."""

    all: Mapping[str, str]
    given: Container[str] = ()
    """keys that were set by their flag"""
    file: bool = True
    """whether a file may set the keys too"""

    def of(self, path: tuple[int | str, ...]) -> str | None:
        """The flag that was given for the key at `path`, or for what holds it."""
        parts = [str(part) for part in path if isinstance(part, str)]
        keys = [".".join(parts[:end]) for end in range(len(parts), 0, -1)]
        return next((self.all[key] for key in keys if key in self.given), None)

    def missing(self, key: str, alone: str | None) -> str | None:
        """What is said when the setting `key` is not there; None where it has no flag."""
        flag = self.all.get(key) or self.all.get(f"{key}.{alone}")
        name = key.removesuffix(f".{alone}")
        mend = f", or '{name}:' in the file of --config" if self.file else ""
        return flag and f"nothing given for {name}: use {flag}{mend}"


def explain(error: ValidationError, model: type[Settings], where: str, named: Named | None = None) -> UsageError:
    """Turn pydantic's report into one message that names the file, the key or flag, and the
    mend."""
    named = named or Named({})
    lines = []
    for item in error.errors():
        path = item["loc"]
        key = ".".join(str(part) for part in path)
        inner = settings_at(model, path[:-1])
        if item["type"] == "extra_forbidden":
            known = list(inner.fields()) if inner else []
            near = difflib.get_close_matches(str(path[-1]), known, n=1, cutoff=0.5)
            mend = f"did you mean '{near[0]}'?" if near else f"known keys: {', '.join(known)}"
            lines.append(f"unknown key '{key}': {mend}")
            continue
        group = settings_at(model, path) or inner
        if item["type"] == "missing" and (line := named.missing(key, group.alone if group else None)):
            lines.append(line)
            continue
        name = named.of(path) or key
        message = item["msg"].removeprefix("Value error, ")
        lines.append(f"{name}: {message}" if name else message)
    return UsageError(f"{where}: " + "; ".join(dict.fromkeys(lines)))


def validate(model: type[S], data: Mapping[str, Any], where: str, named: Named | None = None) -> S:
    """Build settings from plain data; raises UsageError that names `where` and each faulty key."""
    try:
        return model.model_validate(data)
    except ValidationError as error:
        raise explain(error, model, where, named) from None


def read_yaml(path: str | Path) -> dict[str, Any]:
    """Read a YAML mapping; raises UsageError when it is missing, unreadable or not a mapping."""
    import yaml

    path = Path(path)
    try:
        data = yaml.safe_load(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UsageError(f"{path}: no such configuration file") from None
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: cannot be read: {error}") from None
    except yaml.YAMLError as error:
        raise UsageError(f"{path}: not valid YAML: {' '.join(str(error).split())}") from None
    if data is None:
        return {}
    if not isinstance(data, dict):
        raise UsageError(f"{path}: expected a mapping of keys to values at the top")
    return data


def override(data: Mapping[str, Any], flags: Mapping[str, Any], model: type[Settings] | None = None) -> dict[str, Any]:
    """A copy of `data` with dotted `flags` (``{"search.k": 8}``) laid over it; flags of value None
    are not given.

    With the `model` of the data, a flag replaces the setting under its old name too, and a text
    stays what it stands for (``source: a.tsv`` is ``source: {path: a.tsv}``).
    """
    result: dict[str, Any] = {key: dict(value) if isinstance(value, dict) else value for key, value in data.items()}
    for dotted, value in flags.items():
        if value is None:
            continue
        *parents, last = dotted.split(".")
        target = result
        for depth, parent in enumerate(parents, start=1):
            inner = target.get(parent)
            settings = settings_at(model, tuple(parents[:depth])) if model is not None else None
            if isinstance(inner, str | list) and settings is not None and settings.alone is not None:
                target[parent] = {settings.alone: inner}
            else:
                target[parent] = dict(inner) if isinstance(inner, dict) else {}
            target = target[parent]
        for key in _other_names(model, parents, last):
            target.pop(key, None)
        target[last] = value
    return result


def _other_names(model: type[Settings] | None, parents: list[str], key: str) -> list[str]:
    """The other names, old or new, of the setting `key` at `parents`."""
    inner = settings_at(model, tuple(parents)) if model is not None else None
    if inner is None:
        return []
    now = inner.renamed.get(key, key)
    return [name for name in (now, *(old for old, new in inner.renamed.items() if new == now)) if name != key]
