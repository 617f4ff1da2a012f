"""Settings that also read the keys of registered things, flat beside their own.

``filters: {min_tokens: 3, duplicates: false}`` is one mapping for a user; ``min_tokens`` is
declared in the module of its filter, ``duplicates`` in the settings themselves.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from copy import copy
from typing import TYPE_CHECKING, TypeVar

from pydantic import ConfigDict, ModelWrapValidatorHandler, ValidationError, model_validator
from pydantic_core import InitErrorDetails

from mining.config.base import Settings

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

R = TypeVar("R", bound="RegisteredSettings")
P = TypeVar("P", bound=Settings)


def with_entries(field: FieldInfo, entries: Mapping[str, str]) -> FieldInfo:
    """A setting that names an entry of a registry; to its help is added what each entry is."""
    described = copy(field)
    described.description = f"{field.description} {'; '.join(f'{name}: {text}' for name, text in entries.items())}."
    return described


class RegisteredSettings(Settings):
    """Settings whose keys are their own and those of their `parts`."""

    model_config = ConfigDict(extra="allow")

    @classmethod
    def parts(cls) -> dict[str, list[type[Settings]]]:
        """The settings of the registered things, by the own key that theirs come after.

        A key that two of them share is declared alike in both; one that is also an own key is
        declared by that.
        """
        return {}

    @classmethod
    def fields(cls) -> Mapping[str, FieldInfo]:
        """The own keys and those of the parts, in their order."""
        parts = cls.parts()
        found: dict[str, FieldInfo] = {}
        for key, field in cls.model_fields.items():
            found[key] = field
            for part in parts.get(key, []):
                found |= {name: one for name, one in part.fields().items() if name not in cls.model_fields}
        return found

    def part(self, kind: type[P]) -> P:
        """The settings of one of the parts, which are its keys among these."""
        return kind.model_validate({key: getattr(self, key) for key in kind.fields()})

    @model_validator(mode="wrap")
    @classmethod
    def _by_their_owners(cls: type[R], data: object, handler: ModelWrapValidatorHandler[R]) -> R:
        """Let every part check its keys, and report the faults of all."""
        if not isinstance(data, Mapping):
            return handler(data)
        own = {key: data[key] for key in data if key in cls.model_fields or key in cls.renamed}
        others = {str(key): value for key, value in data.items() if key not in own}
        checked: dict[str, object] = {}
        faults: list[InitErrorDetails] = []
        known: set[str] = set()
        for part in itertools.chain.from_iterable(cls.parts().values()):
            keys = {*part.fields(), *part.renamed}
            known |= keys
            try:
                settings = part.model_validate({key: others[key] for key in others if key in keys})
            except ValidationError as error:
                faults += _details(error)
            else:
                checked |= {key: getattr(settings, key) for key in part.fields() if key not in cls.model_fields}
        faults += [
            InitErrorDetails(type="extra_forbidden", loc=(key,), input=others[key])
            for key in others
            if key not in known
        ]
        try:
            result = handler({**own, **checked})
        except ValidationError as error:
            faults += _details(error)
        if faults:
            raise ValidationError.from_exception_data(cls.__name__, faults)
        result.model_fields_set.difference_update(checked.keys() - others.keys())
        return result


def _details(error: ValidationError) -> list[InitErrorDetails]:
    return [
        InitErrorDetails(type=item["type"], loc=item["loc"], input=item["input"], ctx=item.get("ctx", {}))
        for item in error.errors()
    ]
