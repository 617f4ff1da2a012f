"""Settings of the search for nearest neighbours: those of every method, flat, as `search` holds
them."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Any, ClassVar

from pydantic import ConfigDict, Field, ValidationError, model_validator
from pydantic.fields import FieldInfo
from pydantic_core import InitErrorDetails

from mining.config.base import one_of
from mining.search.methods import METHODS, K, MethodSettings

log = logging.getLogger(__name__)

AUTO = "auto"
Neighbours = Annotated[int, Field(gt=0, le=2048)]
_SHARED = frozenset(MethodSettings.model_fields)


class SearchSettings(MethodSettings):
    """How nearest neighbours are searched; beside these keys, those of the method.

    With `auto` all methods that it may choose have their keys. `of` gives the settings of one
    method, with its defaults where nothing was set.
    """

    model_config = ConfigDict(extra="allow")
    renamed: ClassVar[Mapping[str, str]] = MappingProxyType(
        {"clusters": "nlist", "nearest": "nprobe", "rescore": "refine_factor"}
    )

    k: Neighbours = K
    """Nearest neighbours of each sentence, in both directions."""

    method: Annotated[str, one_of(METHODS, AUTO)] = AUTO
    """How they are searched: auto goes by rows, dimensions and device, as `bitext plan` says."""

    @classmethod
    def fields(cls) -> Mapping[str, FieldInfo]:
        """The keys of all methods beside the attributes."""
        brought = {key: field for name in METHODS for key, field in _own(name).items()}
        return {**cls.model_fields, **brought}

    @model_validator(mode="before")
    @classmethod
    def _rescore(cls, data: Any) -> Any:
        """`rescore` was how many more than k an index proposes, `refine_factor` is how many times
        k."""
        if not isinstance(data, Mapping) or "rescore" not in data:
            return data
        k, more = str(data.get("k", K)), str(data["rescore"])
        counts = k.isdecimal() and more.isdecimal() and int(k) > 0
        return {**data, "rescore": (int(k) + int(more)) / int(k)} if counts else data

    @model_validator(mode="after")
    def _keys_of_methods(self) -> SearchSettings:
        """Check the keys of methods, and add the defaults of those that were not given.

        Keys of methods that are not used are left out, with a warning where they say something: the
        settings of earlier runs name those of all methods.
        """
        assert self.model_extra is not None
        methods = self.methods()
        known = {key for name in methods for key in _own(name)}
        for key in [key for key in self.model_extra if key not in known]:
            value, owners = self.model_extra.pop(key), self.owners(key)
            if not owners:
                unknown = InitErrorDetails(type="extra_forbidden", loc=(key,), input=value)
                raise ValidationError.from_exception_data(type(self).__name__, [unknown])
            if value != self.fields()[key].default:
                log.warning(
                    "search.%s is for method %s and is not looked at: the method is %s",
                    *(key, " or ".join(owners), self.method),
                )
        for name in methods:
            self.model_extra.update(self.of(name).model_dump(exclude=set(_SHARED)))
        return self

    @classmethod
    def owners(cls, key: str) -> list[str]:
        """The methods that look at `key`, an old or a new name; none for a key of all methods."""
        now = cls.renamed.get(key, key)
        found = [name for name in METHODS if now in _own(name)]
        return [*found, AUTO] if any(METHODS[name].automatic for name in found) else found

    def methods(self) -> list[str]:
        """The methods that may be used: the one that is set, or those that `auto` chooses from."""
        return [name for name in METHODS if METHODS[name].automatic] if self.method == AUTO else [self.method]

    def of(self, name: str) -> Any:
        """The settings of the method `name`; defaults where that method is not used."""
        given = self.model_extra or {}
        used = {key: given[key] for key in _own(name) if key in given} if name in self.methods() else None
        return METHODS[name].settings() if used is None else METHODS[name].settings(device=self.device, **used)


def _own(name: str) -> dict[str, FieldInfo]:
    """The settings that the method `name` adds to those of all."""
    return {key: field for key, field in METHODS[name].settings.model_fields.items() if key not in _SHARED}
