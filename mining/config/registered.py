"""Settings that also read the keys of registered things, flat beside their own.

``filters: {min_tokens: 3, duplicates: false}`` is one mapping for a user; ``min_tokens`` is
declared in the module of its filter, ``duplicates`` in the settings themselves.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, TypeVar

from pydantic import ConfigDict, ModelWrapValidatorHandler, ValidationError, model_validator
from pydantic_core import InitErrorDetails

from mining.config.base import Settings

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

R = TypeVar("R", bound="RegisteredSettings")
P = TypeVar("P", bound=Settings)


class RegisteredSettings(Settings):
    """Settings whose keys are their own and those of their `parts`."""

    model_config = ConfigDict(extra="allow")

    @classmethod
    def parts(cls) -> Iterator[type[Settings]]:
        """The settings of the registered things. A key that two of them share is declared alike in
        both."""
        return iter(())

    @classmethod
    def fields(cls) -> Mapping[str, FieldInfo]:
        """The own keys, then those of the parts."""
        found = {key: field for part in cls.parts() for key, field in part.fields().items()}
        return {**cls.model_fields, **found}

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
        for part in cls.parts():
            keys = {*part.fields(), *part.renamed}
            known |= keys
            try:
                settings = part.model_validate({key: others[key] for key in others if key in keys})
            except ValidationError as error:
                faults += _details(error)
            else:
                checked |= {key: getattr(settings, key) for key in part.fields()}
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
