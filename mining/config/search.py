"""Settings of the search for nearest neighbours: those of every method, flat, as `search` holds
them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Any, ClassVar

from pydantic import ConfigDict, Field, ValidationError, model_validator
from pydantic.fields import FieldInfo
from pydantic_core import InitErrorDetails, PydanticCustomError

from mining.config.base import one_of
from mining.search.methods import METHODS, K, MethodSettings

AUTO = "auto"
Neighbours = Annotated[int, Field(gt=0, le=2048)]
_SHARED = frozenset(MethodSettings.model_fields)


class SearchSettings(MethodSettings):
    """How nearest neighbours are searched; beside these keys, those of the method.

    Keys of a method that is not used are refused. With `auto` all methods that it may choose have
    theirs. `of` gives the settings of one method, with its defaults where nothing was set.
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
        """Check the keys of methods, and add the defaults of those that were not given."""
        assert self.model_extra is not None
        methods = self.methods()
        known = {key for name in methods for key in _own(name)}
        for key, value in self.model_extra.items():
            if key not in known:
                self._refuse(key, value)
        for name in methods:
            self.model_extra.update(self.of(name).model_dump(exclude=set(_SHARED)))
        return self

    def _refuse(self, key: str, value: object) -> None:
        owners = [name for name in METHODS if key in _own(name)]
        kind: PydanticCustomError | str = "extra_forbidden"
        if owners:
            owners += [AUTO] if any(METHODS[name].automatic for name in owners) else []
            message = f"is for method {' or '.join(owners)}, and the method is {self.method}: leave one out"
            kind = PydanticCustomError("other_method", "{message}", {"message": message})
        fault = InitErrorDetails(type=kind, loc=(key,), input=value)
        raise ValidationError.from_exception_data(type(self).__name__, [fault])

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
